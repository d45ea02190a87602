"""Citations in prose: places of a repository as agents and people write them in a sentence.

`src/a.py:10-20`, `src/a.py#L10-L20`, `src/a.py lines 10–20`, `line 12 of src/a.py`, the ref of a pointer, a permalink,
a Markdown link to any of them, and the path of a file alone. What is found here only looks like a citation;
`cited_places.py` keeps those that lead to something.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAX_PATH_CHARS = 300
MAX_SPANS = 8
"""Spans of lines in one citation: `a.py:10,20-25`."""

_PART = r"(?:@[\w+~][\w+.~-]*|[\w+~.][\w+.~-]*)"
_PATH = rf"(?:/|\.{{1,2}}/)?{_PART}(?:/{_PART}){{0,30}}"
_DASH = r"[-\u2010-\u2015\u2212]"
_SPAN = rf"\d{{1,7}}(?:\s?(?:{_DASH}|\.\.|to|through)\s?L?\d{{1,7}})?"
_SPANS = rf"{_SPAN}(?:(?:,\s?(?:and\s)?|\s(?:and|&)\s)L?{_SPAN}){{0,{MAX_SPANS - 1}}}"
_TIGHT = rf"\d{{1,7}}(?:(?:{_DASH}|\.\.)L?\d{{1,7}})?(?:,\d{{1,7}}(?:{_DASH}\d{{1,7}})?){{0,{MAX_SPANS - 1}}}"
_AFTER_PATH = rf"""
    (?::L?(?P<colon>{_TIGHT})(?::\d{{1,5}})?(?!\w)                    # a.py:10-20, a.py:10:5
    |\#L(?P<hash>\d{{1,7}}(?:C\d{{1,5}})?(?:-L?\d{{1,7}}(?:C\d{{1,5}})?)?)(?!\w)   # a.py#L10-L20
    |[`"'*\])]{{0,3}},?[ \t\n]{{1,2}}[(\[]?(?:at[ ]|on[ ]|in[ ])?
      (?:[Ll]ines?[ \t\n]{{1,2}}L?|[Ll]l?\.[ ]?|L)(?P<words>{_SPANS})(?![\w.]\d|\w)   # a.py, lines 10 to 20
    )?(?P<revision>@[0-9a-f]{{7,64}}(?!\w))?"""
_CITED = re.compile(
    rf"""(?:\b[Ll]ines?[ \t\n]{{1,2}}(?P<before>{_SPANS})[ \t\n]{{1,2}}(?:of|in)[ \t\n]{{1,2}}(?:the[ ]file[ ])?[`"'\[]?
    (?P<later>{_PATH})
    |(?<![\w/.~+@%$\\\])}}-])(?<!::)(?P<path>{_PATH}){_AFTER_PATH})""",
    re.VERBOSE,
)
_REF = re.compile(r"(?<![\w/])(?:repo|artifact|diff):[^\s`\"'<>()\[\]]{3,1000}")
_LINK = re.compile(r"https://github\.com/[\w.-]{1,80}/[\w.-]{1,100}/(?:blob|blame|raw)/[^\s`\"'<>()\[\]]{3,1000}")
_URL = re.compile(r"(?<![\w/])[a-z][a-z0-9+.-]{1,15}://[^\s`\"'<>]{1,2000}")
_NUMBER = re.compile(r"\d+")
_COLUMN = re.compile(r"C\d+")
_ALSO = re.compile(r",(?:\s?and\b)?|\band\b|&")
_NOT_A_NAME = re.compile(r"[\d.,+~-]*|\.{1,2}")
_END_MARKS = ".,;:!?*_"


class Citation(NamedTuple):
    """A part of a text, `text[start:end]`, that may name lines of a file, or a file."""

    start: int
    end: int
    place: str
    """As a pointer is written: `path:10-20@3a4c4fe`, a ref, or a link."""
    has_lines: bool
    """True if it names lines, or if it is a ref or a link; a path alone may be any word with a dot."""


def find_citations(text: str) -> list[Citation]:
    """Return what looks like a citation in a text, in order; one of several spans is there for each of them."""
    found = [*_find_refs(text)]
    masked = _blank(text, (citation[:2] for citation in found))
    found += _find_paths(_URL.sub(lambda match: " " * len(match[0]), masked))
    return sorted(found, key=lambda citation: (citation.start, -citation.end))


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text with spaces in these places."""
    parts: list[str] = []
    copied = 0
    for start, end in sorted(spans):
        parts += (text[copied:start], " " * (end - max(start, copied)))
        copied = max(copied, end)
    return "".join((*parts, text[copied:]))


def _find_refs(text: str) -> Iterator[Citation]:
    for pattern in (_REF, _LINK):
        for match in pattern.finditer(text):
            place = match[0].rstrip(_END_MARKS)
            yield Citation(match.start(), match.start() + len(place), place, True)


def _find_paths(text: str) -> Iterator[Citation]:
    for match in _CITED.finditer(text):
        path = match["later"] or match["path"]
        spans = match["before"] or match["colon"] or match["hash"] or match["words"]
        revision = match["revision"] or ""
        end = match.end()
        if not spans and not revision:
            bare = path.rstrip(_END_MARKS)
            end, path = end - (len(path) - len(bare)), bare
        if len(path) > MAX_PATH_CHARS or _NOT_A_NAME.fullmatch(path) or _is_word(path, by_colon=match["colon"]):
            continue
        for lines in _spans(spans) if spans else ("",):
            yield Citation(match.start(), end, f"{path}{lines}{revision}", bool(spans) or bool(revision))


def _is_word(path: str, *, by_colon: str | None) -> bool:
    """True for a name that is no file's: without a dot or a slash, only `Makefile:12` names one."""
    if "/" in path or "." in path.strip("."):
        return False
    return by_colon is None or not path[0].isupper()


def _spans(text: str) -> Iterator[str]:
    """Yield the spans of `10, 20-25` as `:10` and `:20-25`; one whose end is before its beginning is left as it is."""
    for part in _ALSO.split(_COLUMN.sub("", text)):
        numbers = [str(int(number)) for number in _NUMBER.findall(part)]
        if numbers:
            yield f":{'-'.join(numbers[:2])}"
