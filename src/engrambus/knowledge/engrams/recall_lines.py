"""The lines in which engrams are shown unasked, and the lines of files that they are compared with."""

from __future__ import annotations

from typing import NamedTuple

from engrambus.evidence.pointers import compact_ref
from engrambus.knowledge.engrams.values import Engram, is_learned, is_memory

MAX_SHOWN_CHARS = 240
"""Characters of a claim in a line; a longer one is cut."""
STALE_CLAIM_WORDS = 8
SHORT_ID_CHARS = 13

_MAX_LINE = 1 << 30
_MAX_LINES_CHARS = 15


class PathLines(NamedTuple):
    """Lines of a file, named in a text or about to be edited."""

    path: str
    """From the repository's root, or the end of such a path."""
    first: int = 1
    last: int = _MAX_LINE

    @property
    def has_lines(self) -> bool:
        """True if it names lines and not only the file."""
        return (self.first, self.last) != (1, _MAX_LINE)


def parse_path_lines(text: str) -> PathLines:
    """Return the file and lines of `src/a.py:10-20`, `src/a.py:10` or `src/a.py`."""
    path, colon, lines = text.rpartition(":")
    first, _, last = lines.partition("-")
    if not colon or not first.isdigit() or not (last or first).isdigit() or len(lines) > 15:
        return PathLines(text.removeprefix("./"))
    return PathLines(path.removeprefix("./"), int(first), int(last or first))


def recall_line(engram: Engram, state: str) -> str:
    """Return an engram on one line: short id, kind, the state of its evidence if it is not the same, claim, pointer."""
    claim = " ".join(engram.claim.split())
    if len(claim) > MAX_SHOWN_CHARS:
        claim = claim[: MAX_SHOWN_CHARS - 1].rstrip() + "…"
    pointer = next(pointer for pointer in engram.pointers if pointer.digest is not None)
    described = f", {state}" if state else ""
    learned = "learned " if is_learned(engram) else ""  # decision 83: a quotation of the repository says so
    return f"- {_short_id(engram)} {learned}{engram.kind}{described}: {claim} ({compact_ref(pointer.ref)})"


def _short_id(engram: Engram) -> str:
    """Return the beginning of an id, by which an engram is found; a memory is found by its pointer."""
    return "memory" if is_memory(engram.id) else engram.id[:SHORT_ID_CHARS]


def stale_line(engram: Engram, state: str) -> str:
    """Return a line about an engram that was shown before, and whose evidence has changed since."""
    words = " ".join(engram.claim.split()[:STALE_CLAIM_WORDS])
    return f"- {_short_id(engram)} ({words} …), shown to you before: its evidence is {state}"
