"""What a text quotes: passages that are not its author's words, and pieces that may stand in the repository.

Passages, fenced blocks, block quotes, code and text that stands in the repository, are skipped where claims are looked
for: a mark in them is not the author's (decision 82).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from engrambus.knowledge.messages.code_markup import find_fences, split_lines

if TYPE_CHECKING:
    from engrambus.evidence.anchoring import Recognised
    from engrambus.knowledge.messages.pastes import CodeCounter

MAX_QUOTES = 32
"""Quotes of one text that are looked for in the repository."""
MAX_SEARCHED_PARTS = 4
"""Quotes that are no whole line of a file: each costs a search of the whole commit."""
MIN_PIECE_LETTERS = 24
"""Letters and digits of a quote inside a sentence; a shorter one is mostly a name or a command."""
MAX_PIECE_CHARS = 400

_BLOCK_QUOTE = re.compile(r"[ \t]{0,3}>")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_IN_BACKTICKS = re.compile(rf"(?<!`)`(?!`)([^`\n]{{1,{MAX_PIECE_CHARS}}})`(?!`)")
_IN_QUOTES = re.compile(
    rf"(?<!\w)(?:\"(?=\S)([^\"\n]{{1,{MAX_PIECE_CHARS}}})\"|“([^“”\n]{{1,{MAX_PIECE_CHARS}}})”"
    rf"|«([^«»\n]{{1,{MAX_PIECE_CHARS}}})»)(?!\w)"
)
_OPEN_QUOTE = re.compile(r"(?<!\w)[\"“«](?=\S)")
_CLOSING = {'"': '"', "“": "”", "«": "»"}
_PARAGRAPH_END = re.compile(r"\n[ \t]*(?:\n|\Z)")


class Quote(NamedTuple):
    """A quoted part of a text, `text[start:end]`, and what it quotes."""

    start: int
    end: int
    quoted: str
    is_passage: bool
    """True for whole lines; False for a piece inside a sentence."""


def find_passages(text: str, counter: CodeCounter, pastes: Sequence[Recognised]) -> list[tuple[int, int]]:
    """Return the parts of a text that are not its author's words, in order; they may overlap.

    `pastes` are those that `counter` found in it.
    """
    found = [(quote.start, quote.end) for quote in _blocks(text)]
    found += [(block.start, block.end) for block in counter.find_blocks(text)]
    found += [(paste.start, paste.end) for paste in pastes]
    found += [match.span() for match in _COMMENT.finditer(text)]
    return sorted([*found, *_long_quotes(text)])


def find_quotes(text: str) -> list[Quote]:
    """Return what a text quotes: blocks, and pieces in backticks or quotation marks that are more than a name."""
    blocks = list(_blocks(text))
    quotes = [*blocks]
    for pattern in (_IN_BACKTICKS, _IN_QUOTES):
        for match in pattern.finditer(text):
            piece = next(filter(None, match.groups()))
            if sum(map(str.isalnum, piece)) >= MIN_PIECE_LETTERS and len(piece.split()) > 1:
                quotes.append(Quote(match.start(), match.end(), piece, False))
    spans = [(block.start, block.end) for block in blocks]
    return sorted(quote for quote in quotes if quote.is_passage or not is_inside(quote.start, spans))[:MAX_QUOTES]


def locate_quotes(text: str, counter: CodeCounter, pastes: Sequence[Recognised]) -> list[str]:
    """Return the refs of the lines that a text quotes, each in the only place of the repository that has it."""
    refs = {paste.start: paste.pointer.ref for paste in pastes}
    searches_left = MAX_SEARCHED_PARTS
    for quote in find_quotes(text):
        if any(quote.start <= start < quote.end for start in refs):
            continue
        if counter.is_absent(quote.quoted):  # no whole line of a file
            if quote.is_passage or not searches_left:
                continue
            searches_left -= 1
        pointer = counter.locate_only(quote.quoted)
        if pointer is not None:
            refs[quote.start] = pointer.ref
    return list(dict.fromkeys(refs[start] for start in sorted(refs)))


def is_inside(position: int, spans: Iterable[tuple[int, int]]) -> bool:
    """True if a position of a text is inside one of these parts of it."""
    return any(start <= position < end for start, end in spans)


def _blocks(text: str) -> Iterator[Quote]:
    """Yield fenced blocks and block quotes."""
    lines = list(split_lines(text))
    is_fenced = find_fences(text, lines, [])
    first: int | None = None
    kind = ""
    for index, (start, end) in enumerate([*lines, (len(text), len(text))]):
        line_kind = ""
        if index < len(lines):
            line_kind = "fence" if is_fenced[index] else "quote" if _BLOCK_QUOTE.match(text, start, end) else ""
        if first is not None and line_kind != kind:
            begin, stop = lines[first][0], lines[index - 1][1]
            yield Quote(begin, stop, text[begin:stop], True)
            first = None
        if line_kind and first is None:
            first, kind = index, line_kind


def _long_quotes(text: str) -> Iterator[tuple[int, int]]:
    """Yield quotations of more than one line inside a paragraph."""
    begin = 0
    for paragraph in _PARAGRAPH_END.finditer(f"{text}\n\n"):
        stop, end, unclosed = paragraph.start(), begin, set[str]()
        for match in _OPEN_QUOTE.finditer(text, begin, stop) if "\n" in text[begin:stop] else ():
            mark = _CLOSING[match[0]]
            if match.start() < end or mark in unclosed:
                continue
            close = text.find(mark, match.end(), stop)
            if close < 0:
                unclosed.add(mark)
                continue
            end = close + 1
            if "\n" in text[match.start() : end]:
                yield match.start(), end
        begin = paragraph.end()
