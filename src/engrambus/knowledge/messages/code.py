"""The detector of inline code in a text.

It reads the text once, line by line: fences, then backticks, then diffs, then lines that look like code alone or
together with their neighbours, then code inside a sentence. It is deterministic, and its time grows linearly with the
length of the text. `docs/inline-code.md` is the definition of the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import msgspec

from engrambus.knowledge.messages.code_lines import CODE_WORDS, COMMON, MAX_LINE_CHARS, score

CodeKind = Literal["fenced", "indented", "inline", "diff", "pasted"]

CODE_POINTS: Final = 14
"""Points that a line, or a group of neighbouring lines, needs to be code."""
MAX_LINE_POINTS: Final = 16
"""Most that a single line adds to its group."""
MIN_LINE_POINTS: Final = -12
"""Most that a single line takes from its group."""
MAX_COMMENT_LINES: Final = 12
"""A comment of at most this many lines between code belongs to the code."""
BACKTICK_POINTS: Final = 8
"""Points that a text gets for standing in backticks."""
BACKTICK_CODE_POINTS: Final = 16
SENTENCE_CODE_POINTS: Final = 11

_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)?(`{3,}|~{3,})([^`]*)$")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_MARKED = re.compile(r"[+-](?:[^ +-]|  )")
_COMMENT = re.compile(r"[ \t]*(?:#|//|/\*|\"\"\"|'''|--|<!--|;;|rem\b)", re.IGNORECASE)
_DIFF_HEAD = re.compile(
    r"diff --git \S+ \S+|index [0-9a-f]{7,64}\.\.[0-9a-f]{7,64}|(?:---|\+\+\+) (?:[ab]/\S|/dev/null)"
)

# decision 39: these are only compiled for the first text that has backticks.
_BACKTICKS = r"`+"
_SINGLE = (
    r"[^\s\"';{}()=]*(?:\{[\w.*/-]*\}[^\s\"';{}()=]*){0,4}(?:=[\w./:@%+,*~<>-]*)?"  # a name, path, flag, pointer
    r"|[\w.:$@!?*-]*[\w!?>\]]\((?:[\w.*]{0,40}(?:, ?[\w.*]{1,40}){0,3}|\.{3}|…)\)"  # a call by its name
    r"|[\"'][^\"']*[\"']|[^\w\s]{1,3}"  # one string, one operator
)
_PAIR = r"[\w.-]+ [\w.-]+|[^<>]* ?<[^<>\s]+>"  # two words; a text and its target
_COMMAND = r"[a-z][\w.+/-]*(?: [\w./:@=,~<>\[\]*+%^#…-]+){1,7}"
_OPERATION = r"[\w)\]\"'}] (?:[-+*/%|&:]?=|[=!<>]=|[-+*/%<>?]|&&|\|\||=>|:=) [\w(\[\"'{$&*-]"  # a + b

_QUOTED = re.compile(r"[(\[]?(?:\"[^\"]*\"|'[^']*')[),.;\]]{0,2}")
_STRONG = re.compile(r"[{}]|===?|!==?|&&|\|\||=>|[-+*/|&:]=|\+\+|\w\[[^\]]*\]\.|\w\(.*\)[.;{]|^=$|^\+$|\);|\)\{|\):$")
_MEDIUM = re.compile(
    r"\w\([^)\s]|[\w\]]=[\w\"'({\[]|;$|[\"'][,)\]]|->|^[-*/<>%|&]$|</?\w+|^\(\w|\w\)$|^\$\w|^[\[(]|::\w"
)
_WEAK = re.compile(r"\w_\w|[a-z][A-Z]|\w\.\w|^\d+[,)]?$|^\W+$|^\w[,)]?$|^[A-Z_]+$|^[\"']")


class CodeSpan(NamedTuple):
    """One piece of code, `text[start:end]`, and the form it was detected by."""

    start: int
    end: int
    kind: CodeKind


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
    points: int = 0
    kind: CodeKind | None = None


def find_code(text: str) -> list[CodeSpan]:
    """Return the code in a text, in order and without overlaps."""
    lines = list(_lines(text))
    spans: list[CodeSpan] = []
    fenced = _find_fences(text, lines, spans)
    masked = _find_backticks(text, lines, fenced, spans)
    units = list(_units(masked, lines, fenced))
    _mark_diffs(units)
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
        if joinable and not is_marked and not text[blocks[-1].end : start].strip():
            start = blocks.pop().start
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


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        last = end - 1 if end > start and text[end - 1] == "\r" else end
        yield start, last
        start = end + 1


def _find_fences(text: str, lines: list[tuple[int, int]], spans: list[CodeSpan]) -> list[bool]:
    """Add a span for each fenced block; return for each line if it belongs to one."""
    is_fenced = [False] * len(lines)
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


def _find_backticks(text: str, lines: list[tuple[int, int]], fenced: list[bool], spans: list[CodeSpan]) -> str:
    """Add a span for each piece of code in backticks; return the text with everything in backticks masked."""
    if "`" not in text:
        return text  # most texts; spares the split into paragraphs
    parts: list[str] = []
    copied = 0
    for first, last in _paragraphs(text, lines, fenced):
        for start, end, width in _backtick_pairs(text, first, last):
            content = text[start + width : end - width]
            if width >= 3 and content.strip():
                spans.append(CodeSpan(start + width, end - width, "fenced"))
            elif _is_expression(content):
                spans.append(CodeSpan(start + width, end - width, "inline"))
            parts.append(text[copied:start])
            # One plain word of the same length, so that positions stay and the line is scored without it.
            parts.append("".join("\n" if char == "\n" else "x" for char in text[start:end]))
            copied = end
    parts.append(text[copied:])
    return "".join(parts)


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


def _is_expression(content: str) -> bool:
    """True if a text in backticks is more than one name, path, command, version, flag or pointer."""
    content = content.strip()
    if not any(char.isalpha() for char in content):
        return False
    if len(content) > MAX_LINE_CHARS:
        piece = content[:MAX_LINE_CHARS]
        return score(piece) + BACKTICK_POINTS >= BACKTICK_CODE_POINTS or _code_in_sentence(piece) is not None
    if re.fullmatch(_SINGLE, content) or re.fullmatch(_PAIR, content):
        return False
    command = content.partition(" ")[0]
    if re.fullmatch(_COMMAND, content) and command not in CODE_WORDS and " = " not in content:
        return False
    return re.search(_OPERATION, content) is not None or score(content) + BACKTICK_POINTS >= BACKTICK_CODE_POINTS


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


def _score_units(units: list[_Unit]) -> None:
    for unit in units:
        if unit.is_blank or unit.kind == "diff":
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
            _points_in_context(units, index) if unit is not None and unit.kind is None and not unit.is_blank else None
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
            code = _code_in_sentence(unit.text)
            if code is not None:
                yield CodeSpan(unit.start + code[0], unit.start + code[1], "pasted")


def _code_in_sentence(line: str) -> tuple[int, int] | None:
    """Return start and end of the words in a line that look most like code, if their points are enough."""
    total = best = 0
    start = position = 0
    code: tuple[int, int] | None = None
    for word in line.split(" "):
        points = _word_points(word)
        if total <= 0:
            total, start = 0, position
        total += points
        position += len(word) + 1
        if total > best:
            best, code = total, (start, position - 1)
    return code if best >= SENTENCE_CODE_POINTS else None


@lru_cache(maxsize=8192)
def _word_points(word: str) -> int:
    if not word:
        return 0
    if "://" in word or _QUOTED.fullmatch(word):
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
