"""What a pasted text may have been before it was quoted, numbered, fenced, escaped or made a diff.

A mark is taken off only where every line that says anything bears it; so of each text there are a few readings, the
plainest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from engrambus.evidence.anchoring.lines import fold, is_fence, is_solid

MAX_READINGS = 24
MAX_LAYERS = 4
ELISION = "..."

Lines = tuple[str, ...]

_QUOTE = re.compile(r"\s*[>|│┃] ?")
_NUMBERS = (
    re.compile(r"\s*(?:L?(\d{1,7})(?:[:-]|$)|[^\s:]{1,300}?[:-](\d{1,7})[:-])"),  # grep: `12:`, `12-`, `path:12:`
    re.compile(r"\s*L?(\d{1,7})(?:\s*[|│→]|$)()"),  # a frame: `12 |`, `12→`
    re.compile(r"\s*L?(\d{1,7})(?:\s|$)()"),  # a listing: `12<tab>`, `12  `
)
_MARK = re.compile(r"[+-]")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_DIFF_HEAD = re.compile(
    r"diff --|index [0-9a-f]+\.\.|(?:old|new) mode |(?:new|deleted) file mode |similarity index |rename (?:from|to) "
)
_NO_NEWLINE = "\\ No newline"
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(["\'\\/bfnrt]))')
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def readings(text: str) -> Iterator[Lines]:
    """The text's lines, then what they are without one layer of marks, without two, …"""
    start = _split(text)
    layer, seen = [start], {_folded(start)}
    yield start
    for _ in range(MAX_LAYERS):
        below = []
        for lines in layer:
            for peel in _PEELS:
                for peeled in peel(lines):
                    key = _folded(peeled)
                    if key in seen or not any(map(is_solid, key)):
                        continue
                    seen.add(key)
                    below.append(peeled)
                    yield peeled
                    if len(seen) >= MAX_READINGS:
                        return
        layer = below


def unescape(text: str) -> str:
    """A text with the escapes of JSON and YAML strings undone."""
    plain = _ESCAPE.sub(_unescaped, text)
    # JSON writes a character beyond the first 65,536 as two escapes.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    if code:
        return chr(int(code, 16))
    return _ESCAPED.get(found[3], found[3])


def line_forms(line: str) -> tuple[str, ...]:
    """What one line may have been, folded: as it is, and without its marks. For text of which the rest is unknown."""
    forms = {fold(line): None}
    layer = [line]
    for _ in range(MAX_LAYERS - 1):
        layer = [
            form
            for each in layer
            for form in (*(_without(mark, each) for mark in (_QUOTE, _MARK, *_NUMBERS)), _bare(each))
            if form is not None
        ]
        forms |= dict.fromkeys(map(fold, layer))
    return tuple(forms)


def _without(mark: re.Pattern[str], line: str) -> str | None:
    found = mark.match(line)
    return line[found.end() :] if found else None


def _split(text: str) -> Lines:
    return tuple(text.removeprefix("\ufeff").split("\n"))


def _folded(lines: Lines) -> Lines:
    return tuple(filter(None, map(fold, lines)))


def _peel_escapes(lines: Lines) -> Iterator[Lines]:
    inner = "\n".join(line for line in lines if not is_fence(fold(line)))
    text = inner.strip()
    if text.endswith(('",', "',")):
        text = text[:-1]
    quote = text[:1]
    if len(text) > 1 and quote in ("'", '"') and text.endswith(quote):
        inner = text[1:-1]
        if quote == "'":
            yield _split(inner.replace("''", "'"))
        yield _split(unescape(inner))
    elif "\\" in inner:
        yield _split(unescape(inner))


def _peel_quotes(lines: Lines) -> Iterator[Lines]:
    peeled = [_without(_QUOTE, line) if is_solid(fold(line)) else _QUOTE.sub("", line, count=1) for line in lines]
    if None not in peeled:
        yield tuple(line for line in peeled if line is not None)


def _peel_numbers(lines: Lines) -> Iterator[Lines]:
    for style in _NUMBERS:
        peeled = _without_numbers(lines, style)
        if peeled is not None:
            yield peeled


def _without_numbers(lines: Lines, style: re.Pattern[str]) -> Lines | None:
    peeled, numbers, bare = [], [], False
    for line in lines:
        found = style.match(line)
        if found is not None:
            numbers.append(int(found[1] or found[2]))
            bare = bare or line.strip().isdigit()
            peeled.append(line[found.end() :])
        elif is_solid(fold(line)):
            return None
        else:
            peeled.append(ELISION if line.strip() == "--" else line)  # what grep prints between groups
    # A number alone is that of a blank line only among others that count on; else it is what the line says.
    counts_on = all(after == before + 1 for before, after in pairwise(numbers))
    return tuple(peeled) if counts_on or not bare else None


def _peel_backticks(lines: Lines) -> Iterator[Lines]:
    peeled = [_bare(line) if is_solid(fold(line)) else line for line in lines]
    if None not in peeled:
        yield tuple(line for line in peeled if line is not None)


def _bare(line: str) -> str | None:
    """What stands between backticks."""
    inner = line.strip()
    if len(inner) < 3 or inner[0] != "`" or inner[-1] != "`" or inner.startswith("```"):
        return None
    return inner.strip("`")


def _peel_diff(lines: Lines) -> Iterator[Lines]:
    """The new side of a diff, then the old; what lies between hunks is elided."""
    indents = [len(line) - len(line.lstrip(" ")) for line in lines if is_solid(fold(line))]
    lines = tuple(line[min(indents, default=0) :] for line in lines)
    marked = [line for line in lines if is_solid(fold(line)) and not _DIFF_HEAD.match(line)]
    marked = [line for line in marked if not line.startswith(_NO_NEWLINE)]
    has_hunks = any(map(_HUNK.match, marked))
    if not has_hunks and not (all(line[0] in "+- " for line in marked) and any(line[0] in "+-" for line in marked)):
        return
    for gone in ("-", "+"):
        side = list(_side(lines, gone))
        while side and side[0] == ELISION:
            side.pop(0)
        while side and side[-1] == ELISION:
            side.pop()
        yield tuple(side)


def _side(lines: Lines, gone: str) -> Iterator[str]:
    skipped = False
    for number, line in enumerate(lines):
        head = line.startswith("--- ") and lines[number + 1 : number + 2] and lines[number + 1].startswith("+++ ")
        if head or skipped or _HUNK.match(line) or _DIFF_HEAD.match(line):
            yield ELISION
        elif line[:1] != gone and not line.startswith(_NO_NEWLINE):
            yield line[1:] if line[:1] in ("+", "-", " ") else line
        skipped = bool(head)


_PEELS = (_peel_escapes, _peel_quotes, _peel_backticks, _peel_diff, _peel_numbers)
