"""What a retrieval system found, and the claim that stands for it on the bus."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.engrams import count_sentences
from engrambus.knowledge.messages import find_code

MAX_CLAIM = 500
MAX_SENTENCES = 3


class Retrieved(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a retrieval system: a text, and where it stands."""

    text: str
    """The chunk that was found, or what is said about it; only a short statement of it travels."""
    pointer: Pointer | str | None = None
    """Where it stands; or say it with `path`."""
    path: str | None = None
    """The file, from the root of the repository."""
    lines: tuple[int, int] | None = None
    """First and last line of the file, from 1."""
    sha: str | None = None
    """The full commit id the file was indexed at; HEAD unless said."""
    score: float = 0.0
    """How well it fits; excerpts are spent on the best first."""

    def evidence(self) -> dict[str, Any]:
        """Where it stands, as a put takes it."""
        if self.pointer is not None:
            pointer = self.pointer
            if isinstance(pointer, str):
                pointer = Pointer(type=pointer.partition(":")[0], ref=pointer)
            return {"pointers": [msgspec.structs.replace(pointer, digest=None)]}
        if self.path is None:
            return {}
        if self.sha is None:
            return {"at": [self.path + (f":{self.lines[0]}-{self.lines[1]}" if self.lines else "")]}
        span = f"#L{self.lines[0]}-L{self.lines[1]}" if self.lines else ""
        return {"pointers": [Pointer(type="repo", ref=f"repo:{self.path}{span}@{self.sha}")]}

    def claim(self) -> str:
        """What the engram says: the text where it is a statement, and otherwise only that something was found there."""
        text = " ".join(self.text.split())
        short = 0 < len(text) <= MAX_CLAIM and count_sentences(text) <= MAX_SENTENCES
        if short and not find_code(self.text):
            return text
        return f"Retrieval found something relevant in {self._place()}."[:MAX_CLAIM]

    def _place(self) -> str:
        if self.path is None:
            ref = self.pointer if isinstance(self.pointer, str) else self.pointer.ref if self.pointer else ""
            return ref.partition("@")[0]
        return self.path + (f", lines {self.lines[0]} to {self.lines[1]}" if self.lines else "")
