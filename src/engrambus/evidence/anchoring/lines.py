"""Lines as they are compared: white space folded, Unicode composed; and how much a line says."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from hashlib import blake2b

INFORMATIVE = 6
"""Letters and digits a line needs to be worth an entry in the index."""
DISTINCTIVE = 32
"""Letters and digits that make one line on its own unlikely to be written twice by chance."""

# The classes exclude each other, so these run through a line once, whatever it holds.
_INFORMATIVE = re.compile(rf"(?:[\W_]*[^\W_]){{{INFORMATIVE}}}")
_SOLID = re.compile(r"[^\W_]")
_FENCE = re.compile(r"(?:`{3,}[^`]{0,80}|~{3,}[^~]{0,80})\Z")


def fold(line: str) -> str:
    """The line with its ends stripped, every run of white space made one space, and its letters composed."""
    return " ".join((line if line.isascii() else unicodedata.normalize("NFC", line)).split())


def fold_all(text: str) -> list[str]:
    """Every line of a text, folded. Only a newline ends a line."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text.removeprefix("\ufeff"))
    return [" ".join(line.split()) for line in text.split("\n")]


def is_fence(line: str) -> bool:
    """Whether a folded line opens or closes a fenced block."""
    return _FENCE.match(line) is not None


def is_solid(line: str) -> bool:
    """Whether a folded line says anything: brackets, rules, fences and blank lines do not."""
    return _SOLID.search(line) is not None and _FENCE.match(line) is None


def is_informative(line: str) -> bool:
    """Whether a folded line is worth looking up."""
    return _INFORMATIVE.match(line) is not None and _FENCE.match(line) is None


def count_letters(line: str) -> int:
    """How many letters and digits a line has."""
    return sum(map(str.isalnum, line))


def hash_line(line: str) -> int:
    """64 bits of a folded line, as SQLite holds them."""
    return int.from_bytes(blake2b(line.encode(errors="replace"), digest_size=8).digest(), "big", signed=True)


def hash_lines(data: bytes) -> set[int]:
    """What the index keeps of a file: the hash of every informative line. Nothing of a binary file."""
    if b"\0" in data:
        return set()
    return {hash_line(line) for line in set(fold_all(data.decode(errors="replace"))) if is_informative(line)}


class Text:
    """A text ready to be searched: its solid lines joined, so that lines in a row are found as one string.

    A newline stands before and after every line; a search that leaves the outermost ones off also finds lines that
    were cut.
    """

    def __init__(self, text: str) -> None:
        self.lines = fold_all(text)
        """Every line, folded; the first is line 1."""
        self.numbers = [number for number, line in enumerate(self.lines, 1) if is_solid(line)]
        """The line number of each solid line."""
        solid = [self.lines[number - 1] for number in self.numbers]
        self.joined = "\n".join(["", *solid, ""])
        self._starts: list[int] = []
        at = 1
        for line in solid:
            self._starts.append(at)
            at += len(line) + 1

    @classmethod
    def of(cls, data: bytes) -> Text:
        """A file's text; a binary file has none."""
        return cls("" if b"\0" in data else data.decode(errors="replace"))

    def position_at(self, offset: int) -> int:
        """Which of the solid lines an offset into `joined` falls into."""
        return max(0, bisect_right(self._starts, offset) - 1)
