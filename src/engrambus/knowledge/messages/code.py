"""The detector of inline code in a text.

It reads the text once, line by line: fences, then backticks, then diffs, then lines that look like code alone or
together with their neighbours, then code inside a sentence. It is deterministic, and its time grows linearly with the
length of the text. `docs/inline-code.md` is the definition of the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from engrambus.knowledge.messages.code_formulas import is_formula
from engrambus.knowledge.messages.code_lines import (
    CODE_WORDS,
    COMMON,
    MAX_LINE_CHARS,
    count_marks,
    is_plain_prose,
    score,
)
from engrambus.knowledge.messages.code_markup import (
    CodeKind,
    CodeSpan,
    find_backticks,
    find_fences,
    fold,
    is_rule,
    mask_links,
    split_lines,
    table_rows,
)
from engrambus.knowledge.messages.code_statements import find_statement

CODE_POINTS: Final = 14
"""Points that a line, or a group of neighbouring lines, needs to be code."""
MAX_LINE_POINTS: Final = 16
"""Most that a single line adds to its group."""
MIN_LINE_POINTS: Final = -12
"""Most that a single line takes from its group."""
MAX_COMMENT_LINES: Final = 12
"""A comment of at most this many lines between code belongs to the code."""
MIN_PEAK_POINTS: Final = 8
"""Points that the best line of a group needs: many lines that are hardly code are a list, not code."""
SENTENCE_CODE_POINTS: Final = 11
MIN_SENTENCE_MARKS: Final = 4
"""Marks without which the words of a sentence cannot get enough points."""

_MARKUP = re.compile("[`\n]")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_MARKED = re.compile(r"[+-](?:[^ +-]|  )")
_COMMENT = re.compile(r"[ \t]*(?:#|//|/\*|\"\"\"|'''|--|<!--|;;|rem\b)", re.IGNORECASE)
_DIFF_HEAD = re.compile(
    r"diff --git \S+ \S+|index [0-9a-f]{7,64}\.\.[0-9a-f]{7,64}|(?:---|\+\+\+) (?:[ab]/\S|/dev/null)"
)

_QUOTED = re.compile(r"[(\[]?(?:\"[^\"]*\"|'[^']*')[),.;\]]{0,2}")
_MENTION = re.compile(r"(?:\(?(?:#\d+|@[\w-]+)\)?|\[[\w.-]+\]|\([a-z]+\)?|[a-z]+\))[,.;:]{0,2}")
"""An issue, a person, a reference, a plain word in parentheses."""
_STRONG = re.compile(r"[{}]|===?|!==?|&&|\|\||=>|[-+*/|&:]=|\+\+|\w\[[^\]]*\]\.|\w\(.*\)[.;{]|^=$|^\+$|\);|\)\{|\):$")
_MEDIUM = re.compile(
    r"\w\([^)\s]|[\w\]]=[\w\"'({\[]|;$|[\"'][,)\]]|->|^[-*/<>%|&]$|</?\w+|^\(\w|\w\)$|^\$\w|^[\[(]|::\w"
)
_HARD = re.compile(r"[{};\[\]\"'_$@]|\w\(|[=!]=|[=-]>|[-+*:]=|&&|\|\||[A-Za-z]\.[A-Za-z]")
"""Marks of which code inside a sentence has at least one; a calculation has none."""
_WEAK = re.compile(r"\w_\w|[a-z][A-Z]|\w\.\w|^\d+[,)]?$|^\W+$|^\w[,)]?$|^[A-Z_]+$|^[\"']")


class CodeBlock(NamedTuple):
    """A piece of code to cut out of a text: `text[start:end]` with its marks, and the code without them."""

    start: int
    end: int
    code: str


class _Unit(msgspec.Struct):
    """A line, or a piece of a long one."""

    start: int
    end: int
    text: str
    is_blank: bool
    is_row: bool = False
    """A row of a table, whose cells are not scored as a line."""
    points: int = 0
    kind: CodeKind | None = None


def find_code(text: str) -> list[CodeSpan]:
    """Return the code in a text, in order and without overlaps."""
    if text.isascii() and not _MARKUP.search(text) and is_plain_prose(text) and find_statement(text) is None:
        return []  # most claims; spares them everything that follows
    folded, positions = fold(text)
    spans = _find_code(folded)
    if positions is None:
        return spans
    return [CodeSpan(positions[span.start], positions[span.end], span.kind) for span in spans]


def _find_code(text: str) -> list[CodeSpan]:
    lines = list(split_lines(text))
    spans: list[CodeSpan] = []
    fenced = find_fences(text, lines, spans)
    masked = mask_links(find_backticks(text, lines, fenced, spans))
    units = list(_units(masked, lines, fenced))
    _mark_diffs(units)
    _mark_markup(units)
    _score_units(units)
    _mark_groups(units)
    _mark_comments(units)
    spans.extend(_unit_spans(units))
    return _merge(spans)


def count_code(text: str) -> int:
    """Return how many characters of a text are code."""
    return sum(span.end - span.start for span in find_code(text))


def find_code_blocks(text: str) -> list[CodeBlock]:
    """Return the code in a text as blocks that can be cut out, in order and without overlaps.

    A block includes the fence lines or backticks around its code. Pieces without marks are one block if only blank
    lines are between them.
    """
    blocks: list[CodeBlock] = []
    joinable = False
    for span in find_code(text):
        is_marked = span.kind in ("fenced", "inline")
        start, end = _with_marks(text, span) if is_marked else (span.start, span.end)
        is_next = joinable and not is_marked and not text[blocks[-1].end : start].strip()
        if blocks and (is_next or start < blocks[-1].end):  # a mark can be the end of pasted code
            last = blocks.pop()
            start, end = min(start, last.start), max(end, last.end)
            blocks.append(CodeBlock(start, end, text[start:end]))
        else:
            blocks.append(CodeBlock(start, end, text[span.start : span.end]))
        joinable = not is_marked
    return blocks


def _with_marks(text: str, span: CodeSpan) -> tuple[int, int]:
    """Return start and end of a fenced or inline span together with its fence lines or backticks."""
    start, end = span.start, span.end
    if text[start - 1] == "`":
        while start and text[start - 1] == "`":
            start -= 1
        return start, min(end + span.start - start, len(text))
    start = text.rfind("\n", 0, start - 1) + 1
    next_line = text.find("\n", end) + 1
    if next_line:  # a fence that is never closed has no line after it
        line_end = text.find("\n", next_line)
        end = line_end if line_end >= 0 else len(text)
    return start, end


def _units(text: str, lines: list[tuple[int, int]], fenced: list[bool]) -> Iterator[_Unit]:
    for (start, end), is_fenced in zip(lines, fenced, strict=True):
        if is_fenced:
            yield _Unit(start, end, "", True)
            continue
        while end - start > MAX_LINE_CHARS:
            space = text.rfind(" ", start + MAX_LINE_CHARS // 2, start + MAX_LINE_CHARS)
            cut = space + 1 if space >= 0 else start + MAX_LINE_CHARS
            yield _Unit(start, cut, text[start:cut], not text[start:cut].strip())
            start = cut
        yield _Unit(start, end, text[start:end], not text[start:end].strip())


def _mark_diffs(units: list[_Unit]) -> None:
    """Mark the heads and hunks of unified diffs; a hunk lasts as long as its lines begin with a diff mark."""
    in_hunk = False
    for unit in units:
        line = unit.text
        if _HUNK.match(line):
            in_hunk = True
            unit.kind = "diff"
        elif _DIFF_HEAD.match(line) or (in_hunk and line[:1] in {"+", "-", " ", "\\"}):
            unit.kind = "diff"
        elif not (in_hunk and unit.is_blank):
            in_hunk = False


def _mark_markup(units: list[_Unit]) -> None:
    """Leave out rules and the underlines of headings; mark the rows of tables."""
    for unit in units:
        if not unit.is_blank and unit.kind is None and is_rule(unit.text):
            unit.is_blank = True
    for index in table_rows([unit.text for unit in units]):
        units[index].is_row = not units[index].is_blank and units[index].kind is None


def _score_units(units: list[_Unit]) -> None:
    for unit in units:
        if unit.is_blank or unit.is_row or unit.kind == "diff":
            continue
        unit.points = score(unit.text)
        # A line of a diff without its header: also scored without the + or -.
        if _MARKED.match(unit.text):
            unit.points = max(unit.points, score(unit.text[1:]))


def _mark_groups(units: list[_Unit]) -> None:
    """Mark lines that are code alone or together with their neighbours: runs whose points add up to enough."""
    total = best = 0
    start = 0
    peak = -1
    for index, unit in enumerate([*units, None]):
        points = (
            _points_in_context(units, index)
            if unit is not None and unit.kind is None and not unit.is_blank and not unit.is_row
            else None
        )
        if points is None and unit is not None and unit.is_blank:
            continue
        if points is not None and total > 0 and total + points > best - CODE_POINTS and total + points > 0:
            total += points
        else:
            _mark_group(units, start, peak, best)
            total, best, start, peak = 0, 0, index, -1
            if points is None or points <= 0:
                continue
            total = points
        if total >= best:
            best, peak = total, index
    _mark_group(units, start, peak, best)


def _points_in_context(units: list[_Unit], index: int) -> int:
    """Return a line's points, lowered by prose that it continues and raised by code next to it."""
    points = units[index].points
    for neighbour in (index - 1, index + 1):
        if not 0 <= neighbour < len(units) or units[neighbour].is_blank or units[neighbour].kind is not None:
            continue
        nearby = units[neighbour].points
        if nearby > 0:
            points += min(nearby, 6) // 3
        elif neighbour < index and _may_continue(units[neighbour].text):
            points += max(nearby, MIN_LINE_POINTS) * 2 // 3
    return max(MIN_LINE_POINTS, min(MAX_LINE_POINTS, points))


def _may_continue(line: str) -> bool:
    """True if the next line may continue this line's sentence."""
    return line.rstrip()[-1:] not in ":." and not _COMMENT.match(line)


def _mark_group(units: list[_Unit], start: int, peak: int, best: int) -> None:
    if best < CODE_POINTS or peak < start:
        return
    group = [unit for unit in units[start : peak + 1] if not unit.is_blank]
    if max(unit.points for unit in group) < MIN_PEAK_POINTS:
        return
    marked = sum(unit.text[0] in "+-" for unit in group)
    kind: CodeKind = "pasted"
    if marked * 2 > len(group):
        kind = "diff"
    elif all(unit.text.startswith(("    ", "\t")) for unit in group):
        kind = "indented"
    for unit in group:
        unit.kind = kind


def _mark_comments(units: list[_Unit]) -> None:
    """Mark comments between two pieces of code: they are part of the file that was pasted."""
    last = -1
    for index, unit in enumerate(units):
        if unit.kind is None:
            continue
        gap = units[last + 1 : index] if last >= 0 and index - last <= MAX_COMMENT_LINES + 1 else []
        filled = [gap_unit for gap_unit in gap if not gap_unit.is_blank]
        if filled and _COMMENT.match(filled[0].text):
            for gap_unit in filled:
                gap_unit.kind = unit.kind
        last = index


def _unit_spans(units: list[_Unit]) -> Iterator[CodeSpan]:
    for unit in units:
        if unit.kind is not None:
            yield CodeSpan(unit.start, unit.end, unit.kind)
        elif not unit.is_blank:
            code = _code_in_sentence(unit.text, is_row=unit.is_row)
            if code is not None:
                yield CodeSpan(unit.start + code[0], unit.start + code[1], "pasted")


def _code_in_sentence(line: str, *, is_row: bool) -> tuple[int, int] | None:
    """Return start and end of a statement in a line, or of the words that look most like code if they are enough."""
    statement = find_statement(line.strip())
    if statement is not None:
        indent = len(line) - len(line.lstrip())
        start, end = statement[0] + indent, statement[1] + indent
        following = _best_words(line[end:])
        return start, end + following[1] if following[2] > 0 else end
    if is_row or count_marks(line) < MIN_SENTENCE_MARKS or is_formula(line):
        return None
    first, last, points = _best_words(line)
    is_code = points >= SENTENCE_CODE_POINTS and _HARD.search(line, first, last)
    return (first, last) if is_code else None


def _best_words(line: str) -> tuple[int, int, int]:
    """Return start, end and points of the words in a row that look most like code."""
    total = best = 0
    start = position = 0
    code = (0, 0)
    for word in line.split(" "):
        points = _word_points(word)
        if total <= 0:
            total, start = 0, position
        total += points
        position += len(word) + 1
        if total > best:
            best, code = total, (start, position - 1)
    return *code, best


@lru_cache(maxsize=8192)
def _word_points(word: str) -> int:
    if not word:
        return 0
    if "://" in word or _QUOTED.fullmatch(word) or _MENTION.fullmatch(word):
        return -1
    if _STRONG.search(word[:80]):
        return 3
    if _MEDIUM.search(word[:80]):
        return 2
    core = word.strip(",.;:!?\"'()*_’“”")
    if core in CODE_WORDS and word[-1] not in ".,":
        return 0
    if core.lower() in COMMON:
        return -4
    if word[-1] in ".!?" and core.isalpha():
        return -5
    if _WEAK.search(word[:80]):
        return 1
    return -2


def _merge(spans: list[CodeSpan]) -> list[CodeSpan]:
    """Sort spans, drop those inside another, and join neighbours of one kind across a line end."""
    merged: list[CodeSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= span.end:
            continue
        last = merged[-1] if merged else None
        if last is None or span.start > last.end + 2 or (span.kind != last.kind and span.start >= last.end):
            merged.append(span)
        elif span.end > last.end:
            merged[-1] = CodeSpan(last.start, span.end, last.kind)
    return merged
