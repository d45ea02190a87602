"""Chooses what the demo's reviewers point at. The choice follows rules, so the same commit gives the same spans."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

SUFFIXES = (".py", ".js", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".rb", ".php", ".c", ".cc", ".cpp", ".h", ".cs")
MIN_FUNCTION_LINES, MAX_FUNCTION_LINES = 6, 70
"""Long enough to discuss, short enough to read in one dereference."""
HANDLER_LINES = 8
"""Lines after a catch that are searched for a re-raise."""
CONTEXT_LINES = 3
"""Lines on either side of a line that is pointed at."""

_SIMPLE_PATH = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_NOT_REVIEWED = re.compile(r"(^|/)(node_modules|vendor|third_party|dist|build|\.[^/]+)/|\.min\.|_pb2|generated", re.I)
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
_BRANCH = re.compile(r"^\s*(?:\}?\s*else\b|if|elif|for|while|switch|match|case|when|unless)\b")
_BROAD_CATCH = re.compile(r"^\s*(?:except\s*:|except\s+(?:Base)?Exception\b|\}?\s*catch\s*[({]|rescue\b)")
_RERAISE = re.compile(r"\b(raise|throw|throws|panic|rethrow|exit)\b")
_TODO_COMMENT = re.compile(r"(?:#|//|/\*|\*|--|;)\s*.*\b(TODO|FIXME|XXX|HACK)\b")
_TEST = re.compile(r"(^|/)(tests?|spec|__tests__)(/|$)|(^|/)test_|_test\.|\.spec\.|\.test\.", re.I)


class Span(NamedTuple):
    """Lines of a file, first and last included."""

    path: str
    first: int
    last: int

    def ref(self, sha: str) -> str:
        """Return the pointer to these lines at a commit."""
        return f"repo:{self.path}#L{self.first}-L{self.last}@{sha}"

    def __str__(self) -> str:
        return f"{self.path}:{self.first}-{self.last}"


class ReviewFinding(NamedTuple):
    """A claim about a span."""

    kind: str
    claim: str
    span: Span


class Function(NamedTuple):
    """A function and the part of it that branches."""

    name: str
    span: Span
    branches: int
    branching: Span


class Survey(NamedTuple):
    """Everything the review is about."""

    function: Function
    """The longest function that can be read at once; the reviewers will disagree about it."""
    error_handling: ReviewFinding
    """A catch-all handler, else the next longest function."""
    todo: ReviewFinding
    """A TODO comment, else the longest line."""
    untested: ReviewFinding
    """A file that no test names, else the largest file."""

    @property
    def spans(self) -> list[Span]:
        """Every span that the review points at."""
        findings = (self.error_handling, self.todo, self.untested)
        return [self.function.span, self.function.branching, *(finding.span for finding in findings)]


def reviewable(path: str) -> bool:
    """True if a path looks like source code written in this repository."""
    return bool(path.endswith(SUFFIXES) and _SIMPLE_PATH.fullmatch(path) and not _NOT_REVIEWED.search(path))


def survey(files: Mapping[str, str], may_quote: Callable[[str], bool] = lambda text: True) -> Survey | None:
    """Choose the review's spans from files by path, or return None if there is no function to discuss.

    A function whose text `may_quote` refuses (it holds a secret) is skipped.
    """
    reviewed = {path: files[path].splitlines() for path in sorted(files) if reviewable(path)}
    source = {path: lines for path, lines in reviewed.items() if not _TEST.search(path)} or reviewed
    functions = sorted(
        (function for path, lines in source.items() for function in _functions(path, lines)),
        key=lambda function: (function.span.first - function.span.last, function.span),
    )
    # A function that branches gives the reviewers something to disagree about.
    preferred = sorted(functions, key=lambda function: function.branches < 2)
    function = next((item for item in preferred if may_quote("\n".join(_lines_of(source, item.span)))), None)
    if function is None:
        return None
    remaining = [item for item in functions if item != function] or [function]
    return Survey(
        function=function,
        error_handling=_broad_catch(source) or _next_longest(remaining[0]),
        todo=_todo(source) or _longest_line(source),
        untested=_untested(source, reviewed) or _largest(source),
    )


def _function_start(lines: list[str], index: int) -> re.Match[str] | None:
    """Match the head of a function that begins in a line."""
    match = _KEYWORD_FUNCTION.match(lines[index]) or _ARROW_FUNCTION.match(lines[index])
    if match is not None:
        return match
    typed = _TYPED_FUNCTION.match(lines[index])
    braced = typed is not None and (typed["brace"] or "".join(lines[index + 1 : index + 2]).strip() == "{")
    return typed if braced else None


def _functions(path: str, lines: list[str]) -> Iterator[Function]:
    """Yield every function whose end shows in its indentation."""
    for start in range(len(lines)):
        head = _function_start(lines, start)
        if head is None:
            continue
        end = _function_end(lines, start, len(head["indent"].expandtabs()))
        if MIN_FUNCTION_LINES <= end - start + 1 <= MAX_FUNCTION_LINES:
            branches = [index for index in range(start + 1, end + 1) if _BRANCH.match(lines[index])]
            first, last = (branches[0] + 1, branches[-1] + 1) if branches else (start + 2, end + 1)
            if (first, last) == (start + 1, end + 1):
                first = start + 2
            span = Span(path, start + 1, end + 1)
            yield Function(head["name"], span, len(branches), Span(path, first, last))


def _function_end(lines: list[str], start: int, indent: int) -> int:
    end = start
    for index in range(start + 1, min(len(lines), start + MAX_FUNCTION_LINES + 40)):
        text = lines[index].expandtabs()
        if not text.strip():
            continue
        if len(text) - len(text.lstrip()) <= indent and not text.lstrip().startswith((")", "{")):
            return index if text.lstrip().startswith("}") else end
        end = index
    return end


def _lines_of(source: Mapping[str, list[str]], span: Span) -> list[str]:
    return source[span.path][span.first - 1 : span.last]


def _with_context(path: str, lines: list[str], index: int) -> Span:
    return Span(path, max(1, index + 1 - CONTEXT_LINES), min(len(lines), index + 1 + CONTEXT_LINES))


def _broad_catch(source: Mapping[str, list[str]]) -> ReviewFinding | None:
    for path, lines in source.items():
        for index, line in enumerate(lines):
            if _BROAD_CATCH.match(line) and not _RERAISE.search(" ".join(lines[index : index + HANDLER_LINES])):
                claim = f"Line {index + 1} of {path} catches every error, so a bug is hidden like an expected failure."
                return ReviewFinding("risk", claim, _with_context(path, lines, index))
    return None


def _next_longest(function: Function) -> ReviewFinding:
    size = function.span.last - function.span.first + 1
    claim = f"{function.name} is {size} lines long and has {function.branches} branches."
    return ReviewFinding("fact", claim, function.span)


def _todo(source: Mapping[str, list[str]]) -> ReviewFinding | None:
    for path, lines in source.items():
        for index, line in enumerate(lines):
            comment = _TODO_COMMENT.search(line)
            if comment is not None:
                claim = f"Line {index + 1} of {path} still has a {comment[1]}."
                return ReviewFinding("todo", claim, _with_context(path, lines, index))
    return None


def _longest_line(source: Mapping[str, list[str]]) -> ReviewFinding:
    path, index, line = max(
        ((path, index, line) for path, lines in source.items() for index, line in enumerate(lines)),
        key=lambda row: (len(row[2]), row[0]),
    )
    claim = f"Line {index + 1} of {path} is the longest line, with {len(line)} characters."
    return ReviewFinding("todo", claim, _with_context(path, source[path], index))


def _untested(source: Mapping[str, list[str]], reviewed: Mapping[str, list[str]]) -> ReviewFinding | None:
    """Return the largest file whose name appears in no test."""
    tests = "\n".join(line for path, lines in reviewed.items() if _TEST.search(path) for line in lines)
    unnamed = [path for path in source if path.rpartition("/")[2].partition(".")[0] not in tests]
    path = max(unnamed, key=lambda candidate: (len(source[candidate]), candidate), default=None)
    if path is None or not tests:
        return None
    claim = f"No test names {path}, which has {len(source[path])} lines."
    return ReviewFinding("test", claim, Span(path, 1, min(len(source[path]), 12)))


def _largest(source: Mapping[str, list[str]]) -> ReviewFinding:
    path = max(source, key=lambda candidate: (len(source[candidate]), candidate))
    claim = f"{path} is the largest file, with {len(source[path])} lines."
    return ReviewFinding("fact", claim, Span(path, 1, min(len(source[path]), 12)))
