"""Paragraphs and list items of a document in Markdown or reStructuredText, with their lines and headings.

Code blocks, tables, comments and front matter are left out. Marks of emphasis, links and roles are removed from the
text; the words stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engrambus.knowledge.engrams import split_sentences

MAX_BLOCK_CHARS = 2000

_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)[\s#]*$")
_UNDERLINE = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}\s*$")
_ITEM = re.compile(r"(\s*)(?:[-*+•]|\d{1,3}[.)]|#\.)\s+")
_DIRECTIVE = re.compile(r"(\s*)\.\.\s+(?:([\w-]+)::\s*(.*)|.*)$")
_SPOKEN = frozenset(
    ("note", "warning", "important", "caution", "attention", "tip", "versionchanged", "versionadded", "deprecated")
)
"""Directives whose body is prose."""
_ADMONITION = re.compile(r"\s*(?:(?:!!!|\?\?\?\+?)\s+\w.*|>\s*\[!\w+\]\s*|:{3,}\s*(?:\{?\w+\}?.*)?)$")
"""Lines that open or close an admonition in the dialects of Markdown."""
_SKIPPED = re.compile(r"\s*(?:\||\+[-=]|<!--|<[/a-zA-Z][^>]*>\s*$|\[[^\]]+\]:\s|:[\w-]+:(?:\s|$)|>>> |\$ |!\[)")

_ROLE = re.compile(r":[\w:+-]+:`~?!?([^`<]*?)\s*(?:<[^`>]*>)?`")
_RST_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`__?")
_DOUBLE = re.compile(r"``([^`]+)``")
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]\[]+)\]\((?:[^()]|\([^()]*\))*\)")
_REFERENCE = re.compile(r"\[([^\]\[]+)\]\[[^\]]*\]")
_MYST = re.compile(r"\{[\w:-]+\}`~?([^`<]*?)\s*(?:<[^`>]*>)?`")
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")  # not `__`, which begins names of Python
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


class Block(NamedTuple):
    """A paragraph or an item of a list."""

    headings: tuple[str, ...]
    """The headings it stands under, from the title of the document to the nearest."""
    text: str
    first: int
    last: int


def plain(text: str) -> str:
    """Return a text on one line without marks of emphasis, links and roles."""
    for pattern, replacement in (
        (_IMAGE, ""),
        (_ROLE, r"\1"),
        (_MYST, r"\1"),
        (_RST_LINK, r"\1"),
        (_DOUBLE, r"`\1`"),
        (_LINK, r"\1"),
        (_REFERENCE, r"\1"),
        (_BOLD, r"\1"),
        (_TAG, ""),
    ):
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def sentences_of(text: str, limit: int = 8) -> tuple[str, ...]:
    """Return the first sentences of a text."""
    texts = []
    for sentence in split_sentences(text):
        texts.append(sentence)
        if len(texts) == limit:
            break
    return tuple(texts)


def blocks_of(lines: Sequence[str]) -> Iterator[Block]:
    """Yield the paragraphs and list items of a document."""
    reader = _Reader(lines)
    yield from reader.blocks()


class _Reader:
    """Goes through the lines of a document once."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._headings: list[tuple[int, str]] = []
        """Level and text of the headings above the present line."""
        self._underlines: list[str] = []
        """Characters that underline headings, in the order of their levels."""

    def blocks(self) -> Iterator[Block]:
        lines, position = self._lines, _after_front_matter(self._lines)
        gathered: list[str] = []
        first = position
        after_blank, in_list = True, False
        while position < len(lines):
            line = lines[position]
            ends = not line.strip()
            jump = self._jump(position, after_blank and not in_list and not gathered)
            item = _ITEM.match(line)
            if gathered and (ends or jump is not None or item):
                yield from self._block(gathered, first, position)
                gathered = []
            if jump is not None:
                position = jump
                # The body of an admonition is indented, and no code.
                after_blank, in_list = True, self._opens_prose(line)
                continue
            if not ends and not _SKIPPED.match(line):
                if not gathered:
                    first = position
                gathered.append(line[item.end() :] if item else line.strip().removeprefix(">").lstrip())
                in_list = bool(item) or (in_list and line[:1].isspace())
            after_blank = ends
            position += 1
        yield from self._block(gathered, first, position)

    def _block(self, gathered: list[str], first: int, end: int) -> Iterator[Block]:
        text = plain(" ".join(gathered)[:MAX_BLOCK_CHARS])
        if text:
            yield Block(tuple(name for _, name in self._headings), text, first + 1, end)

    def _jump(self, position: int, may_be_code: bool) -> int | None:
        """Return the line after a heading, a code block, a directive or a comment; None where prose stands."""
        lines = self._lines
        line = lines[position]
        if fence := _FENCE.match(line):
            return _after_fence(lines, position, fence[1])
        if heading := _HEADING.match(line):
            self._set_heading(len(heading[1]), heading[2])
            return position + 1
        following = lines[position + 1] if position + 1 < len(lines) else ""
        is_title = line.strip() and not line[:1].isspace() and not _ITEM.match(line) and not _UNDERLINE.match(line)
        if is_title and _UNDERLINE.match(following):
            mark = following.strip()[0]
            if mark not in self._underlines:
                self._underlines.append(mark)
            self._set_heading(self._underlines.index(mark) + 1, line.strip())
            return position + 2
        if _UNDERLINE.match(line):
            return position + 1
        if directive := _DIRECTIVE.match(line):
            if (directive[2] or "").lower() in _SPOKEN:
                return position + 1
            return _after_indented(lines, position, len(directive[1]))
        if _ADMONITION.match(line):
            return position + 1
        if may_be_code and line.startswith(("    ", "\t")):
            return _after_indented(lines, position, 0)
        if line.lstrip().startswith("<!--"):
            return _after_comment(lines, position)
        return None

    @staticmethod
    def _opens_prose(line: str) -> bool:
        directive = _DIRECTIVE.match(line)
        is_spoken = directive is not None and (directive[2] or "").lower() in _SPOKEN
        return is_spoken or _ADMONITION.match(line) is not None

    def _set_heading(self, level: int, text: str) -> None:
        self._headings = [heading for heading in self._headings if heading[0] < level]
        if text := plain(text):
            self._headings.append((level, text))


def _after_front_matter(lines: Sequence[str]) -> int:
    if not lines or lines[0].strip() != "---":
        return 0
    for position in range(1, min(len(lines), 100)):
        if lines[position].strip() == "---":
            return position + 1
    return 0


def _after_fence(lines: Sequence[str], position: int, mark: str) -> int:
    for end in range(position + 1, len(lines)):
        if lines[end].strip().startswith(mark) and not lines[end].strip().strip(mark[0]):
            return end + 1
    return len(lines)


def _after_indented(lines: Sequence[str], position: int, indent: int) -> int:
    end = position + 1
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
        end += 1
    return end


def _after_comment(lines: Sequence[str], position: int) -> int:
    for end in range(position, len(lines)):
        if "-->" in lines[end]:
            return end + 1
    return len(lines)
