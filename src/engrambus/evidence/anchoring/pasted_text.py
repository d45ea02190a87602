"""Pasted text: how its lines are compared with a file's, and what it may have been before it was pasted.

Lines are compared *folded*: white space reduced, Unicode composed. A text may have been quoted, numbered, fenced,
escaped or made into a diff. A mark is removed only where every line that says anything bears it, so each text has only
a few readings.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise

INFORMATIVE = 6
"""Letters and digits a line needs to be worth an entry in the index."""
DISTINCTIVE = 32
"""Letters and digits that make one line on its own unlikely to be written twice by chance."""

# The character classes exclude each other, so a search passes over a line once, whatever a hostile text contains.
_INFORMATIVE = re.compile(rf"(?:[\W_]*[^\W_]){{{INFORMATIVE}}}")
_SOLID = re.compile(r"[^\W_]")
_FENCE = re.compile(r"(?:`{3,}[^`]{0,80}|~{3,}[^~]{0,80})\Z")


def fold(line: str) -> str:
    """Return the line with its ends stripped, each run of white space made one space, and its letters composed."""
    return " ".join((line if line.isascii() else unicodedata.normalize("NFC", line)).split())


def fold_all(text: str) -> list[str]:
    """Return every line of a text, folded. Only a newline ends a line."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text.removeprefix("\ufeff"))
    return [" ".join(line.split()) for line in text.split("\n")]


def is_fence(line: str) -> bool:
    """True if a folded line opens or closes a fenced block."""
    return _FENCE.match(line) is not None


def is_solid(line: str) -> bool:
    """True if a folded line says anything: brackets, rules, fences and blank lines do not."""
    return _SOLID.search(line) is not None and _FENCE.match(line) is None


def is_informative(line: str) -> bool:
    """True if a folded line is worth looking up."""
    return _INFORMATIVE.match(line) is not None and _FENCE.match(line) is None


def count_letters(line: str) -> int:
    """Return how many letters and digits a line has."""
    return sum(map(str.isalnum, line))


def hash_line(line: str) -> int:
    """Return 64 bits of the hash of a folded line, as a signed integer for SQLite."""
    return int.from_bytes(blake2b(line.encode(errors="replace"), digest_size=8).digest(), "big", signed=True)


def hash_lines(data: bytes) -> set[int]:
    """Return the hashes of a file's informative lines; a binary file has none."""
    if b"\0" in data:
        return set()
    return {hash_line(line) for line in set(fold_all(data.decode(errors="replace"))) if is_informative(line)}


class FileText:
    """A file ready to be searched: its solid lines joined, so that consecutive lines are found as one string.

    A newline precedes and follows every line; a search text without its outermost newlines also finds cut lines.
    """

    def __init__(self, text: str) -> None:
        self.lines = fold_all(text)
        """Every line, folded; the first is line 1."""
        self.numbers = [number for number, line in enumerate(self.lines, 1) if is_solid(line)]
        """The line number of each solid line."""
        solid = [self.lines[number - 1] for number in self.numbers]
        self.joined = "\n".join(["", *solid, ""])
        self._starts: list[int] = []
        start = 1
        for line in solid:
            self._starts.append(start)
            start += len(line) + 1

    @classmethod
    def of(cls, data: bytes) -> FileText:
        """Return the text of a file; that of a binary file is empty."""
        return cls("" if b"\0" in data else data.decode(errors="replace"))

    def position_at(self, offset: int) -> int:
        """Return the index of the solid line that an offset into `joined` falls into."""
        return max(0, bisect_right(self._starts, offset) - 1)


class QuotedText:
    """A text in which quoted lines are looked up, whole or cut."""

    def __init__(self, data: bytes) -> None:
        self._joined = FileText.of(data).joined

    def has_line(self, line: str) -> bool:
        """True if a line, apart from white space and marks of quoting, is a line of the text or part of one."""
        return any(is_solid(form) and form in self._joined for form in line_forms(line))


def is_blank(line: str) -> bool:
    """True if a line has neither a letter nor a digit."""
    return not is_solid(fold(line))


MAX_READINGS = 24
MAX_LAYERS = 4
"""Marks that are removed one below the other: a quoted, numbered diff has three."""
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
_CONTROL_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def readings(text: str) -> Iterator[Lines]:
    """Yield the text's lines, then what they are without one layer of marks, without two, and so on."""
    first = _split(text)
    layer, seen = [first], {_folded(first)}
    yield first
    for _ in range(MAX_LAYERS):
        next_layer = []
        for lines in layer:
            for peel in _PEELS:
                for peeled in peel(lines):
                    key = _folded(peeled)
                    if key in seen or not any(map(is_solid, key)):
                        continue
                    seen.add(key)
                    next_layer.append(peeled)
                    yield peeled
                    if len(seen) >= MAX_READINGS:
                        return
        layer = next_layer


def line_forms(line: str) -> tuple[str, ...]:
    """Return what one line may have been, folded: as it is, and without its marks.

    For a line of a message, where the neighbours cannot tell which marks belong to the paste.
    """
    forms = {fold(line): None}
    layer = [line]
    for _ in range(MAX_LAYERS - 1):
        layer = [
            form
            for text in layer
            for form in (*(_without(mark, text) for mark in (_QUOTE, _MARK, *_NUMBERS)), _inside_backticks(text))
            if form is not None
        ]
        forms |= dict.fromkeys(map(fold, layer))
    return tuple(forms)


def unescape(text: str) -> str:
    """Return a text with the escapes of JSON and YAML strings undone."""
    plain = _ESCAPE.sub(_unescape_match, text)
    # JSON writes a character beyond the first 65,536 as two escapes, a surrogate pair.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape_match(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code:
        return chr(int(code, 16))
    return _CONTROL_ESCAPES.get(match[3], match[3])


def _without(mark: re.Pattern[str], line: str) -> str | None:
    match = mark.match(line)
    return line[match.end() :] if match else None


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
    peeled, numbers, has_lone_number = [], [], False
    for line in lines:
        match = style.match(line)
        if match is not None:
            numbers.append(int(match[1] or match[2]))
            has_lone_number = has_lone_number or line.strip().isdigit()
            peeled.append(line[match.end() :])
        elif is_solid(fold(line)):
            return None
        else:
            peeled.append(ELISION if line.strip() == "--" else line)  # grep prints -- between groups
    # A number alone on its line numbers a blank line only if all numbers are consecutive; otherwise it is the text.
    consecutive = all(number == previous + 1 for previous, number in pairwise(numbers))
    return tuple(peeled) if consecutive or not has_lone_number else None


def _peel_backticks(lines: Lines) -> Iterator[Lines]:
    peeled = [_inside_backticks(line) if is_solid(fold(line)) else line for line in lines]
    if None not in peeled:
        yield tuple(line for line in peeled if line is not None)


def _inside_backticks(line: str) -> str | None:
    inner = line.strip()
    if len(inner) < 3 or inner[0] != "`" or inner[-1] != "`" or inner.startswith("```"):
        return None
    return inner.strip("`")


def _peel_diff(lines: Lines) -> Iterator[Lines]:
    """Yield the new side of a diff, then the old; between hunks stands an elision."""
    indents = [len(line) - len(line.lstrip(" ")) for line in lines if is_solid(fold(line))]
    lines = tuple(line[min(indents, default=0) :] for line in lines)
    marked = [line for line in lines if is_solid(fold(line)) and not _DIFF_HEAD.match(line)]
    marked = [line for line in marked if not line.startswith(_NO_NEWLINE)]
    has_hunks = any(map(_HUNK.match, marked))
    if not has_hunks and not (all(line[0] in "+- " for line in marked) and any(line[0] in "+-" for line in marked)):
        return
    for omitted_sign in ("-", "+"):
        side = list(_diff_side(lines, omitted_sign))
        while side and side[0] == ELISION:
            side.pop(0)
        while side and side[-1] == ELISION:
            side.pop()
        yield tuple(side)


def _diff_side(lines: Lines, omitted_sign: str) -> Iterator[str]:
    after_header = False
    for number, line in enumerate(lines):
        header = line.startswith("--- ") and lines[number + 1 : number + 2] and lines[number + 1].startswith("+++ ")
        if header or after_header or _HUNK.match(line) or _DIFF_HEAD.match(line):
            yield ELISION
        elif line[:1] != omitted_sign and not line.startswith(_NO_NEWLINE):
            yield line[1:] if line[:1] in ("+", "-", " ") else line
        after_header = bool(header)


_PEELS = (_peel_escapes, _peel_quotes, _peel_backticks, _peel_diff, _peel_numbers)
