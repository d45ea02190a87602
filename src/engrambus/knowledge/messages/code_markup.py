"""The markup around prose and code: characters that hide code, fences, backticks, tables and rules.

What is found here is either code by its mark (a fence), or masked so that the lines are scored without it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from engrambus.knowledge.messages.code_lines import CODE_WORDS, MAX_LINE_CHARS, score
from engrambus.knowledge.messages.code_statements import find_statement

CodeKind = Literal["fenced", "indented", "inline", "diff", "pasted"]

MAX_QUOTED_CHARS: Final = 60
"""Text in backticks of at most this many characters, inside a sentence, is not code."""
MIN_SENTENCE_WORDS: Final = 1
"""Words outside backticks that make a line a sentence."""
MIN_QUOTED_RUN: Final = 3
"""So many pieces of code in backticks, one after another, are code even inside a sentence."""
MIN_LISTED_RUN: Final = 6
"""The same for pieces that a list, commas, `and` or `or` separate: those are mostly examples."""
MAX_CHARS_BETWEEN: Final = 40
MAX_WORDS_BETWEEN: Final = 2
"""Most words between two pieces in backticks that stand one after another."""
BACKTICK_POINTS: Final = 8
"""Points that a text gets for standing in backticks."""
BACKTICK_CODE_POINTS: Final = 16

_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)?(`{3,}|~{3,})([^`]*)$")
_RULE = re.compile(r"[ \t]*(?:([^\w\s()\[\]{}])\1{2,}[ \t]*|[-=+|: \t]*[-=]{2}[-=+|: \t]*)$")
_LINK = re.compile(
    r"(?<![\w)\]])!?\[[^\]\n]{0,120}\]\([^)\s]{0,300}\)|\[#?\d{1,6}\](?:\[\])?|<?\b[a-z]{2,8}://[^\s)>\]\"'`]+>?"
    r"|:[a-z:]{2,12}:(?=x)|\{[ \t]?#[\w-]{1,80}[ \t]?\}(?=[ \t]*(?:\n|$))"
)
"""A link, a reference to an issue or a footnote, a URL, the role of a term, the anchor of a heading."""
_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$")
_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")

# decision 39: these are only compiled for the first text that has backticks.
_BACKTICKS = r"`+"
_IN_STATEMENTS: Final = frozenset(" (;{")
"""Characters of which every piece of a run has one; `type='url'` is a value."""
_SINGLE = (
    r"[^\s\"';{}()=]*(?:\{[\w.*/-]*\}[^\s\"';{}()=]*){0,4}(?:=[\w./:@%+,*~<>-]*)?"  # a name, path, flag, pointer
    r"|[\w.:$@!?*-]*[\w!?>\]]\((?:[\w.*]{0,40}(?:, ?[\w.*]{1,40}){0,3}|\.{3}|…)\)"  # a call by its name
    r"|[\"'][^\"']*[\"']|[^\w\s]{1,3}"  # one string, one operator
)
_PAIR = r"[\w.-]+ [\w.-]+|[^<>]* ?<[^<>\s]+>"  # two words; a text and its target
_COMMAND = r"[a-z][\w.+/-]*(?: [\w./:@=,~<>\[\]*+%^#…-]+){1,7}"
_OPERATION = r"[\w)\]\"'}] (?:[-+*/%|&:]?=|[=!<>]=|[-+*/%<>?]|&&|\|\||=>|:=) [\w(\[\"'{$&*-]"  # a + b
_LISTED = r"[ \n]*(?:,|/|\||,? ?(?:and|or))[ \n]*|.*\n[ \t]*(?:[-*+•]|\d+[.)]) .*"
_WORDS = r"[^\W_]{2,}"

# Invisible characters, which can be put into code so that it looks like code only to its reader.
_INVISIBLE: Final = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
_HIDING = re.compile(f"[{_INVISIBLE}\u00a0\u2000-\u200a\u3000\uff01-\uff5e\u2024\U0001d400-\U0001d7ff]")
_HIDDEN = re.compile(f"[{_INVISIBLE}]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class CodeSpan(NamedTuple):
    """One piece of code, `text[start:end]`, and the form it was detected by."""

    start: int
    end: int
    kind: CodeKind


class FoldedText(NamedTuple):
    """A text without characters that hide code, and the position in the original of each of its characters."""

    text: str
    positions: list[int] | None
    """None if every character is where it was."""


def fold(text: str) -> FoldedText:
    """Replace full-width and styled letters and marks by plain ones, and remove invisible characters."""
    if text.isascii() or not _HIDING.search(text):
        return FoldedText(text, None)
    # In a line with Chinese, Japanese or Korean words, full-width marks are its normal punctuation.
    folded = "\n".join(line if _CJK.search(line) else "".join(map(_plain_char, line)) for line in text.split("\n"))
    if not _HIDDEN.search(folded):
        return FoldedText(folded, None)
    positions = [position for position, char in enumerate(folded) if not _HIDDEN.match(char)]
    return FoldedText("".join(folded[position] for position in positions), [*positions, len(text)])


@lru_cache(maxsize=1024)
def _plain_char(char: str) -> str:
    if not _HIDING.match(char):
        return char
    plain = unicodedata.normalize("NFKC", char)
    return plain if len(plain) == 1 else char


def split_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line, without its line end."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        last = end - 1 if end > start and text[end - 1] == "\r" else end
        yield start, last
        start = end + 1


def find_fences(text: str, lines: list[tuple[int, int]], spans: list[CodeSpan]) -> list[bool]:
    """Add a span for each fenced block; return for each line if it belongs to one."""
    is_fenced = [False] * len(lines)
    if "```" not in text and "~~~" not in text:
        return is_fenced
    fence, first = "", 0
    for index, (start, end) in enumerate(lines):
        mark = _FENCE.match(text, start, end)
        if not fence:
            if mark:
                fence, first = mark.group(1), index + 1
                is_fenced[index] = True
            continue
        is_fenced[index] = True
        if mark and mark.group(1).startswith(fence) and not mark.group(2).strip():
            _add_fenced(text, lines[first:index], spans)
            fence = ""
    if fence:  # a fence that is never closed runs to the end of the text
        _add_fenced(text, lines[first:], spans)
    return is_fenced


def _add_fenced(text: str, lines: list[tuple[int, int]], spans: list[CodeSpan]) -> None:
    if lines and text[lines[0][0] : lines[-1][1]].strip():
        spans.append(CodeSpan(lines[0][0], lines[-1][1], "fenced"))


class _Quote(NamedTuple):
    """A pair of backtick runs with its content."""

    start: int
    end: int
    width: int
    is_code: bool


def find_backticks(text: str, lines: list[tuple[int, int]], fenced: list[bool], spans: list[CodeSpan]) -> str:
    """Add a span for each piece of code in backticks; return the text with everything in backticks masked."""
    if "`" not in text:
        return text  # most texts; spares the split into paragraphs
    parts: list[str] = []
    copied = 0
    for first, last in _paragraphs(text, lines, fenced):
        quotes = [
            _Quote(start, end, width, width >= 3 or is_expression(text[start + width : end - width]))
            for start, end, width in _backtick_pairs(text, first, last)
        ]
        in_runs = _find_runs(text, quotes)
        for position, (start, end, width, is_code) in enumerate(quotes):
            if width >= 3 and text[start + width : end - width].strip():
                spans.append(CodeSpan(start + width, end - width, "fenced"))
            elif is_code and (position in in_runs or not _is_in_sentence(text, quotes[position])):
                spans.append(CodeSpan(start + width, end - width, "inline"))
            parts.append(text[copied:start])
            # One plain word of the same length, so that positions stay and the line is scored without it.
            parts.append("".join("\n" if char == "\n" else "x" for char in text[start:end]))
            copied = end
    parts.append(text[copied:])
    return "".join(parts)


def _is_in_sentence(text: str, quote: _Quote) -> bool:
    """True if a piece in backticks is short, and its line has words outside backticks."""
    if quote.end - quote.start - 2 * quote.width > MAX_QUOTED_CHARS:
        return False
    first = text.rfind("\n", 0, quote.start) + 1
    last = text.find("\n", quote.end)
    line = text[first : last if last >= 0 else len(text)]
    outside = (
        re.sub(r"`+[^`]*`+", " ", line)
        if line.count("`") > 2 * quote.width
        else (text[first : quote.start] + " " + text[quote.end : last if last >= 0 else len(text)])
    )
    words = re.findall(_WORDS, outside[:400])
    # Chinese, Japanese and Korean sentences have no blanks between their words.
    return len(words) >= MIN_SENTENCE_WORDS or any(not word.isascii() and len(word) >= 3 for word in words)


def _find_runs(text: str, quotes: list[_Quote]) -> set[int]:
    """Return the positions of pieces of code in backticks that follow one another with hardly a word between them."""
    runs: set[int] = set()
    run: list[int] = []
    is_list = False
    for position, quote in enumerate(quotes):
        if not quote.is_code or quote.width >= 3 or not _IN_STATEMENTS.intersection(text[quote.start : quote.end]):
            continue
        if run:
            between = text[quotes[run[-1]].end : quote.start]
            if len(between) > MAX_CHARS_BETWEEN or len(between.split()) > MAX_WORDS_BETWEEN:
                run, is_list = [], False
            elif re.fullmatch(_LISTED, between, re.DOTALL):
                is_list = True
        run.append(position)
        if len(run) >= (MIN_LISTED_RUN if is_list else MIN_QUOTED_RUN):
            runs.update(run)
    return runs


def _paragraphs(text: str, lines: list[tuple[int, int]], fenced: list[bool]) -> Iterator[tuple[int, int]]:
    first: int | None = None
    last = 0
    for (start, end), is_fenced in zip(lines, fenced, strict=True):
        if is_fenced or not text[start:end].strip():
            if first is not None:
                yield first, last
            first = None
        else:
            first = start if first is None else first
            last = end
    if first is not None:
        yield first, last


def _backtick_pairs(text: str, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and width of each pair of backtick runs of equal width, the runs included."""
    runs = [(run.start(), run.end() - run.start()) for run in re.compile(_BACKTICKS).finditer(text, first, last)]
    # From the end, so that each run finds its partner in one step however many runs there are.
    next_of_width: dict[int, int] = {}
    closing = [-1] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        width = runs[index][1]
        closing[index] = next_of_width.get(width, -1)
        next_of_width[width] = index
    index = 0
    while index < len(runs):
        partner = closing[index]
        if partner < 0:
            index += 1
            continue
        start, width = runs[index]
        yield start, runs[partner][0] + width, width
        index = partner + 1


def mask_links(text: str) -> str:
    """Return the text with each link and each reference replaced by a word of its length."""
    if "[" in text or "://" in text or "#" in text or ":x" in text:
        text = _LINK.sub(_word_of_same_length, text)
        if "](" in text:  # a picture inside a link
            text = _LINK.sub(_word_of_same_length, text)
    return text


def _word_of_same_length(match: re.Match[str]) -> str:
    return "x" * len(match[0])


def is_expression(content: str) -> bool:
    """True if a text in backticks is more than one name, path, command, version, flag or pointer."""
    content = content.strip()
    if not any(char.isalpha() for char in content):
        return False
    if len(content) > MAX_LINE_CHARS:
        piece = content[:MAX_LINE_CHARS]
        return score(piece) + BACKTICK_POINTS >= BACKTICK_CODE_POINTS or find_statement(piece) is not None
    if re.fullmatch(_SINGLE, content) or re.fullmatch(_PAIR, content):
        return False
    command = content.partition(" ")[0]
    if re.fullmatch(_COMMAND, content) and command not in CODE_WORDS and " = " not in content:
        return False
    return re.search(_OPERATION, content) is not None or score(content) + BACKTICK_POINTS >= BACKTICK_CODE_POINTS


def is_rule(line: str) -> bool:
    """True if a line only underlines a heading, separates two parts or borders a table."""
    return _RULE.match(line) is not None


def table_rows(lines: list[str]) -> set[int]:
    """Return the positions of the lines that are rows of a table of pipes."""
    rows: set[int] = set()
    for index, line in enumerate(lines):
        if "|" not in line:
            continue
        if _ROW.match(line):
            rows.add(index)
        elif _DELIMITER.match(line):
            rows.add(index)
            for step in (-1, 1):
                neighbour = index + step
                while 0 <= neighbour < len(lines) and "|" in lines[neighbour]:
                    rows.add(neighbour)
                    neighbour += step
    return rows
