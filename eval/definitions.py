"""Functions and classes of a source file: Python by its syntax tree, other languages by the form of first lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MAX_NAMES = 12
"""Most arguments, and most called names, that are listed."""


class Definition(NamedTuple):
    """A function or a class; what is nested in a function belongs to the function."""

    path: str
    name: str
    """The qualified name: `Session.request`."""
    kind: str
    """`function`, `method` or `class`."""
    first: int
    """First line, 1-based, with decorators."""
    last: int
    docstring: str = ""
    docstring_lines: tuple[int, int] | None = None
    arguments: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Path and qualified name, which identify a definition in one version of a repository."""
        return self.path, self.name


# The first line of a definition, with its name as a group; a definition ends before the next line that is indented no
# deeper, apart from closing brackets.
_FIRST_LINES = {
    (".js", ".jsx", ".mjs", ".ts", ".tsx"): re.compile(
        r"\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?(?:function\s*\*?\s*|class\s+|(?:const|let|var)\s+(?=\w+\s*=\s*(?:async\s*)?(?:\(|function)))(\w+)"
    ),
    (".go",): re.compile(r"(?:func\s+(?:\([^)]*\)\s*)?|type\s+)(\w+)"),
    (".rs",): re.compile(
        r"\s*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|unsafe\s+|const\s+)*(?:fn|struct|enum|trait|impl)\s+(\w+)"
    ),
    (".rb",): re.compile(r"\s*(?:def|class|module)\s+([\w.?!]+)"),
    (".java", ".kt", ".cs"): re.compile(
        r"\s*(?:@\w+\s+)*(?:(?:public|private|protected|internal|static|final|abstract|override|async)\s+)+"
        r"(?:(?:class|interface|enum|fun)\s+(\w+)|[\w<>\[\], ?]+\s+(\w+)\s*\()"
    ),
    (".c", ".cc", ".cpp", ".h", ".hpp"): re.compile(
        r"(?!\s|#|//|/\*|typedef|return|else|\})[\w:*&<>,~ ]+?[\s*&]+([\w:~]+)\s*\("
    ),
    (".php",): re.compile(
        r"\s*(?:(?:public|private|protected|static|final|abstract)\s+)*(?:function|class|trait|interface)\s+(\w+)"
    ),
}
SUFFIXES = (".py", *(suffix for suffixes in _FIRST_LINES for suffix in suffixes))
"""Endings of the files whose definitions can be found."""

_CLOSING = re.compile(r"\s*[)\]}]")


def find_definitions(path: str, text: str) -> list[Definition]:
    """Return the definitions of a file in the order of their first lines; none if it cannot be parsed."""
    if path.endswith(".py"):
        return list(_python(path, text))
    for suffixes, first_line in _FIRST_LINES.items():
        if path.endswith(suffixes):
            return list(_by_first_lines(path, text.splitlines(), first_line))
    return []


def enclosing(definitions: Sequence[Definition], first: int, last: int) -> list[Definition]:
    """Return the innermost definition around each of these lines.

    For an insertion (`last` < `first`) that is the one around its place.
    """
    found: dict[tuple[str, str], Definition] = {}
    lines = range(first, last + 1) if last >= first else range(last, last + 1)
    inserted = last < first
    for line in lines:
        around = [
            definition
            for definition in definitions
            if definition.first <= line and (line < definition.last if inserted else line <= definition.last)
        ]
        if around:
            innermost = min(around, key=lambda definition: definition.last - definition.first)
            found[innermost.key] = innermost
    return list(found.values())


def distinct(definitions: Iterable[Definition]) -> list[Definition]:
    """Keep the longest definition of each name: stubs of overloads and conditional definitions repeat it."""
    longest: dict[tuple[str, str], Definition] = {}
    for definition in definitions:
        other = longest.setdefault(definition.key, definition)
        if definition.last - definition.first > other.last - other.first:
            longest[definition.key] = definition
    return list(longest.values())


def _python(path: str, text: str) -> Iterator[Definition]:
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old code has invalid escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    yield from _python_body(path, tree.body, "")


def _python_body(path: str, body: Sequence[ast.stmt], owner: str) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            name = f"{owner}{node.name}"
            yield _python_definition(path, name, "class", node)
            yield from _python_body(path, node.body, f"{name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield _python_definition(path, f"{owner}{node.name}", "method" if owner else "function", node)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _python_body(path, _nested(node), owner)


def _nested(node: ast.If | ast.Try | ast.With) -> list[ast.stmt]:
    """Return the statements below a condition, which define names of the level around it."""
    statements = list(node.body)
    if isinstance(node, ast.If | ast.Try):
        statements += node.orelse
    if isinstance(node, ast.Try):
        statements += [statement for handler in node.handlers for statement in handler.body]
        statements += node.finalbody
    return statements


def _python_definition(
    path: str, name: str, kind: str, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Definition:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    docstring = ast.get_docstring(node) or ""
    lines = (node.body[0].lineno, node.body[0].end_lineno or node.body[0].lineno) if docstring else None
    arguments: list[str] = []
    if isinstance(node, ast.ClassDef):
        arguments = [name for base in node.bases if (name := _called_name(base))]
    else:
        listed = node.args
        every = [*listed.posonlyargs, *listed.args, *listed.kwonlyargs, *filter(None, (listed.vararg, listed.kwarg))]
        arguments = [argument.arg for argument in every if argument.arg not in ("self", "cls")]
    calls = dict.fromkeys(
        called for inner in ast.walk(node) if isinstance(inner, ast.Call) and (called := _called_name(inner.func))
    )
    return Definition(
        path, name, kind, first, node.end_lineno or first, docstring, lines,
        tuple(arguments[:MAX_NAMES]), tuple(list(calls)[:MAX_NAMES]),
    )  # fmt: skip


def _called_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _by_first_lines(path: str, lines: Sequence[str], first_line: re.Pattern[str]) -> Iterator[Definition]:
    for index, line in enumerate(lines):
        match = first_line.match(line)
        if match is None:
            continue
        name = next(group for group in match.groups() if group)
        last = _last_line(lines, index)
        yield Definition(path, name, "function", index + 1, last + 1)


def _last_line(lines: Sequence[str], start: int) -> int:
    """Return the index of the last line of the block that begins at `start`."""
    depth = _indent(lines[start])
    last = start
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if not line.strip():
            continue
        if _indent(line) <= depth and line.strip() != "{":  # C's brace may stand on a line of its own
            return index if _CLOSING.match(line) or line.strip() == "end" else last
        last = index
    return last


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
