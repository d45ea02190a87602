"""Functions of a source file: Python by its syntax tree, other languages by their first lines and indentation."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .commits import Commit

_KEYWORD_FUNCTION = re.compile(
    r"^(?P<indent>[ \t]*)"
    r"(?:(?:export|default|public|private|protected|static|final|pub|async|virtual|inline|override)\s+)*"
    r"(?:def|fn|func|function|fun)\s+(?:\([^)]*\)\s*)?(?P<name>[A-Za-z_]\w{1,40})"
)
_ARROW_FUNCTION = re.compile(
    r"^(?P<indent>[ \t]*)(?:export\s+)?(?:const|let|var)\s+(?P<name>[A-Za-z_]\w{1,40})\s*(?::[^=]+)?="
    r"\s*(?:async\s*)?(?:function\b|\([^()]*\)\s*(?::[^=]+)?=>|\w+\s*=>)"
)
_TYPED_FUNCTION = re.compile(
    r"^(?P<indent>[ \t]*)(?!(?:if|else|for|foreach|while|switch|catch|return|do|try|new|case|throw|with|using|lock|"
    r"synchronized|unless|until)\b)(?:[A-Za-z_][\w<>\[\],.:*&?]*\s+)*[*&]*(?:\w+::)*(?P<name>[A-Za-z_]\w{1,40})"
    r"\s*\([^;{}]*\)\s*(?:const|noexcept|throws\s[\w., ]+|:\s*[\w<>\[\]|. ]+)?\s*(?P<brace>\{)?\s*$"
)
"""A function that begins with its return type (C, Java) or a method that begins with its name (TypeScript)."""
_BROAD_CATCH = re.compile(r"^\s*(?:except\s*:|except\s+(?:Base)?Exception\b|\}?\s*catch\s*[({]|rescue\b)")
_RERAISE = re.compile(r"\b(raise|throw|throws|panic|rethrow|exit)\b")
HANDLER_LINES = 8
"""Lines after a catch that are searched for a re-raise."""


class Function(NamedTuple):
    """A function or method; what is nested in it belongs to it."""

    path: str
    name: str
    """The qualified name: `Office.take_in`."""
    first: int
    """First line, 1-based, with decorators."""
    last: int
    arguments: tuple[str, ...] = ()
    """Names of its parameters; empty if they are not known."""

    @property
    def short(self) -> str:
        """The name without its class."""
        return self.name.rpartition(".")[2]

    @property
    def place(self) -> str:
        return f"{self.path}:{self.first}-{self.last}"

    def at(self, sha: str) -> str:
        """Return the pointer to its lines at a commit."""
        return f"repo:{self.path}#L{self.first}-L{self.last}@{sha}"

    def text(self, files: Mapping[str, str]) -> str:
        return "".join(files[self.path].splitlines(keepends=True)[self.first - 1 : self.last])


def find_functions(path: str, text: str) -> list[Function]:
    """Return the functions of a file in the order of their lines; none if it cannot be parsed.

    Of several with one name, as the stubs of overloads have, the longest is kept.
    """
    if not path.endswith(".py"):
        return list(_by_indentation(path, text.splitlines()))
    tree = parse_python(text)
    longest: dict[str, Function] = {}
    for function in _python(path, tree.body, "") if tree else ():
        other = longest.setdefault(function.name, function)
        if function.last - function.first > other.last - other.first:
            longest[function.name] = function
    return sorted(longest.values(), key=lambda function: function.first)


def parse_python(text: str) -> ast.Module | None:
    """Return the syntax tree of Python source, or None if it has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old code has invalid escapes
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def changed_functions(commit: Commit, files: Mapping[str, str]) -> list[Function]:
    """Return the functions, no tests, in which a commit changes lines; `files` are those at the commit."""
    return [
        function
        for change in commit.sources
        for function in find_functions(change.path, files.get(change.path, ""))
        if any(hunk.touches(function.first, function.last) for hunk in change.hunks)
    ]


def broad_catch(function: Function, files: Mapping[str, str]) -> int | None:
    """Return the line of a handler that catches every error and raises none, or None."""
    lines = function.text(files).splitlines()
    for index, line in enumerate(lines):
        if _BROAD_CATCH.match(line) and not _RERAISE.search(" ".join(lines[index : index + HANDLER_LINES])):
            return function.first + index
    return None


def _python(path: str, body: Sequence[ast.stmt], owner: str) -> Iterator[Function]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _python(path, node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            listed = node.args
            every = [*listed.posonlyargs, *listed.args, listed.vararg, *listed.kwonlyargs, listed.kwarg]
            arguments = tuple(argument.arg for argument in every if argument and argument.arg not in ("self", "cls"))
            yield Function(path, f"{owner}{node.name}", first, node.end_lineno or first, arguments)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            nested = [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)]
            yield from _python(path, nested, owner)


def _by_indentation(path: str, lines: Sequence[str]) -> Iterator[Function]:
    for start in range(len(lines)):
        head = _first_line(lines, start)
        if head is not None:
            last = _last_line(lines, start, len(head["indent"].expandtabs()))
            if last > start:
                yield Function(path, head["name"], start + 1, last + 1)


def _first_line(lines: Sequence[str], index: int) -> re.Match[str] | None:
    match = _KEYWORD_FUNCTION.match(lines[index]) or _ARROW_FUNCTION.match(lines[index])
    if match is not None:
        return match
    typed = _TYPED_FUNCTION.match(lines[index])
    braced = typed is not None and (typed["brace"] or "".join(lines[index + 1 : index + 2]).strip() == "{")
    return typed if braced else None


def _last_line(lines: Sequence[str], start: int, indent: int) -> int:
    """Return the index of the last line of the block that begins at `start`."""
    last = start
    for index in range(start + 1, len(lines)):
        text = lines[index].expandtabs()
        if not text.strip():
            continue
        if len(text) - len(text.lstrip()) <= indent and not text.lstrip().startswith((")", "{")):
            return index if text.lstrip().startswith("}") else last
        last = index
    return last
