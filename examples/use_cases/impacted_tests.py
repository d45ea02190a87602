"""Which tests a changed function can break: Python tests that call it, directly or through a few other functions.

Names are followed as the source imports them, and a method by its name in files that the caller can reach by its
imports. A test is missed if it reaches the function without naming what leads to it (a registry, `getattr`, a command
line) or through more than `MAX_BETWEEN` functions; a test may be listed that calls another method with an equal name.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from .commits import is_test
from .functions import Function, find_functions, parse_python

MAX_BETWEEN = 2
"""Most functions between a test and the changed function."""
_COMMON = frozenset(
    "get set add pop run call close open read write flush items keys values append extend update send start stop copy "  # noqa: SIM905
    "encode decode format strip split join index count sort replace find match search group clear remove insert".split()
)
"""Methods that many classes have: followed only into files that the caller's file imports itself."""
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>[\w.]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n#;]+)"
    r"|import[ \t]+(?P<modules>[^\n#;]+))",
    re.MULTILINE,
)


class ImpactedTest(NamedTuple):
    """A test that reaches a changed function."""

    path: str
    name: str
    first: int
    last: int
    through: tuple[str, ...]
    """Names of the functions in between; none if the test calls it itself."""

    @property
    def node(self) -> str:
        """The test as pytest names it."""
        return f"{self.path}::{self.name.replace('.', '::')}"

    def at(self, sha: str) -> str:
        """Return the pointer to its lines at a commit."""
        return f"repo:{self.path}#L{self.first}-L{self.last}@{sha}"


class _Use(NamedTuple):
    """A name in the body of a function."""

    user: Function
    owner: str | None
    """The expression before the dot, if it is a dotted name; None if there is no dot."""


class CallGraph:
    """Which functions of a project name which others; a file is parsed only when a name that is followed is in it."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {path: text for path, text in files.items() if path.endswith(".py")}
        self._path_of_module = {name: path for path in self._files for name in _module_names(path)}
        self._imports: dict[str, dict[str, tuple[str, str]]] = {}
        self._reachable: dict[str, set[str]] = {}
        self._functions: dict[str, list[Function]] = {}
        self._uses: dict[str, dict[str, list[_Use]]] = {}

    def callers(self, function: Function, *, certain: bool = False) -> list[Function]:
        """Return the functions that name a function, tests too, in the order of their places.

        With `certain`, a method counts only where it is named on `self`, and not on an object of an unknown class.
        """
        owner, _, short = function.name.rpartition(".")
        called = owner.rpartition(".")[2] if short == "__init__" else short
        word = re.compile(rf"\b{re.escape(called)}\b")
        found: set[Function] = set()
        for path, text in self._files.items():
            if called in text and word.search(text):
                aliases = [name for name, (_, original) in self._imports_of(path).items() if original == called]
                for name in {called, *aliases}:
                    uses = self._uses_in(path).get(name, ())
                    found |= {use.user for use in uses if self._means(path, name, use, function, certain=certain)}
        return sorted(found - {function})

    def tests(self, function: Function) -> list[ImpactedTest]:
        """Return the tests that reach a function, those with the shortest way first."""
        ways: dict[Function, tuple[str, ...]] = {function: ()}
        frontier = [function]
        for _ in range(MAX_BETWEEN + 1):
            reached = []
            for callee in frontier:
                for caller in self.callers(callee):
                    if caller not in ways:
                        ways[caller] = (() if callee == function else (callee.name,)) + ways[callee]
                        reached.append(caller)
            frontier = [caller for caller in reached if not _is_test_function(caller)]
        found = [
            ImpactedTest(caller.path, caller.name, caller.first, caller.last, through)
            for caller, through in ways.items()
            if _is_test_function(caller)
        ]
        return sorted(found, key=lambda test: (len(test.through), test))

    def _means(self, path: str, name: str, use: _Use, function: Function, *, certain: bool) -> bool:
        """True if a name in a file can mean a function, or `certain`ly does."""
        if use.owner is None:
            fixture = is_test(path) and is_test(function.path) and name == function.name
            return fixture or function in self._defined(path, name)
        file, original = self._imports_of(path).get(use.owner, ("", ""))
        if file and not original:
            return function in self._defined(file, name)
        if certain:
            return use.owner == "self" and path == function.path and _class_of(use.user) == _class_of(function)
        near = {path, *(target for target, _ in self._imports_of(path).values())}
        return "." in function.name and function.path in (near if name in _COMMON else self._reachable_from(path))

    def _defined(self, path: str, name: str, depth: int = 0) -> list[Function]:
        """Return the functions that a name of a module means; of a class its `__init__`."""
        if path not in self._functions:
            self._functions[path] = find_functions(path, self._files[path])
        own = [item for item in self._functions[path] if item.name in (name, f"{name}.__init__")]
        file, original = self._imports_of(path).get(name, ("", ""))
        return own or (self._defined(file, original, depth + 1) if original and depth < 8 else [])

    def _imports_of(self, path: str) -> dict[str, tuple[str, str]]:
        """Return, by local name, the file something is imported from and its name there; no name for a module."""
        if path not in self._imports:
            found = self._imports[path] = {}
            for match in _IMPORT.finditer(self._files[path]):
                base = _absolute(path, match["base"]) if match["base"] else ""
                for item in re.sub(r"#[^\n]*", "", match["names"] or match["modules"]).strip("()").split(","):
                    name, _, alias = item.strip().partition(" as ")
                    module = self._path_of_module.get(f"{base}.{name}".strip("."))
                    file = module or self._path_of_module.get(base)
                    if name and file:
                        found[alias.strip() or name] = (file, "" if module else name)
        return self._imports[path]

    def _reachable_from(self, path: str) -> set[str]:
        """Return the files that a file can reach by imports, itself among them."""
        if path not in self._reachable:
            seen, frontier = {path}, [path]
            while frontier:
                new = {file for file, _ in self._imports_of(frontier.pop()).values()} - seen
                seen |= new
                frontier += new
            self._reachable[path] = seen
        return self._reachable[path]

    def _uses_in(self, path: str) -> dict[str, list[_Use]]:
        if path not in self._uses:
            uses = self._uses[path] = defaultdict(list)
            text = self._files[path]
            tree = parse_python(text)
            places = {item.first: item for item in find_functions(path, text)}
            if tree is not None:
                _collect(tree, None, places, uses)
        return self._uses[path]


def _collect(node: ast.AST, user: Function | None, places: Mapping[int, Function], uses: dict[str, list[_Use]]) -> None:
    """Collect the names in the functions below a node; what is nested in a function belongs to it."""
    if user is None and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        user = places.get(min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]))
    elif user is not None:
        if isinstance(node, ast.Name):
            uses[node.id].append(_Use(user, None))
        elif isinstance(node, ast.arg):  # pytest passes a fixture by the name of an argument
            uses[node.arg].append(_Use(user, None))
        elif isinstance(node, ast.Attribute):
            uses[node.attr].append(_Use(user, _dotted(node.value)))
    for inner in ast.iter_child_nodes(node):
        _collect(inner, user, places, uses)


def _class_of(function: Function) -> str:
    return function.name.rpartition(".")[0]


def _is_test_function(function: Function) -> bool:
    return is_test(function.path) and function.short.startswith("test")


def _dotted(node: ast.expr) -> str:
    """Return `a.b` for the expression `a.b`; empty for any other."""
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return node.id if isinstance(node, ast.Name) else ""


def _module_names(path: str) -> list[str]:
    """Return the dotted names a file may be imported by; a folder such as `src` may be the top."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    tops = (0, 1) if parts[0] in ("src", "lib", "python", "examples", "tools") and len(parts) > 1 else (0,)
    return [".".join(parts[top:]) for top in tops]


def _absolute(path: str, base: str) -> str:
    """Return the dotted name of a module that may be given relative to a file."""
    name = base.lstrip(".")
    if name == base:
        return base
    folder = path.split("/")[: -(len(base) - len(name))]
    return ".".join([*folder, *([name] if name else [])])
