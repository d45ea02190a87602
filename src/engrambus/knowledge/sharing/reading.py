"""Exported files, read as hostile input: each line is checked by itself, and one that is refused costs no other."""

from __future__ import annotations

import msgspec

from engrambus.errors import EngramBusError, EventInvalid, EventSignature, ExportTooLarge
from engrambus.knowledge.sharing.events import SharedEvent, check_event, engram_of_file, read_event
from engrambus.policy import SignatureChecker

MAX_FILES = 100_000
MAX_FILE_BYTES = 1 << 20
MAX_REFUSALS = 10_000
"""Refusals that are remembered one by one; further ones are counted."""


class RefusedLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line, or a whole file, that was not read."""

    file: str
    line: int = 0
    """Its number, from 1; 0 if the whole file was refused."""
    code: str
    detail: str


class ExportedFiles:
    """The events in the files of an export."""

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us
        self._signatures = SignatureChecker()
        self._seen: set[bytes] = set()
        self.events: list[SharedEvent] = []
        self.refused: list[RefusedLine] = []
        self.refused_count = 0
        self.files = 0

    def take(self, name: str, content: bytes) -> None:
        """Read a file of this name; what is refused in it is remembered by its line."""
        self.files += 1
        if self.files > MAX_FILES:
            raise ExportTooLarge("There are too many files.", limit=MAX_FILES)
        engram_id = engram_of_file(name)
        if engram_id is None:
            self.refuse(name, EventInvalid("The file is not named by an engram."))
            return
        if len(content) > MAX_FILE_BYTES:
            self.refuse(name, ExportTooLarge("The file is too large.", limit=MAX_FILE_BYTES, used=len(content)))
            return
        for number, line in enumerate(content.split(b"\n"), 1):
            line = line.removesuffix(b"\r")
            if not line or line in self._seen:
                continue
            try:
                self.events.append(self._read(line, engram_id))
            except EngramBusError as refusal:
                self.refuse(name, refusal, number)
            else:
                self._seen.add(line)

    def refuse(self, name: str, refusal: EngramBusError, line: int = 0) -> None:
        """Remember that a line, or a file, was not read."""
        self.refused_count += 1
        if len(self.refused) < MAX_REFUSALS:
            self.refused.append(RefusedLine(file=name, line=line, code=refusal.code, detail=refusal.detail))

    def _read(self, line: bytes, engram_id: str) -> SharedEvent:
        event = read_event(line)
        check_event(event, engram_id, self._now_us)
        if not self._signatures.is_signed(event.signed_bytes(), event.key, event.signature):
            raise EventSignature(field="signature", used=event.key[:64])
        return event


def added_lines(content: bytes, lines: list[bytes]) -> bytes:
    """Return a file's content with those of these lines added that it does not have; nothing in it is changed."""
    present = {line.removesuffix(b"\r") for line in content.split(b"\n")}
    new = [line for line in dict.fromkeys(lines) if line not in present]
    if not new:
        return content
    return content + (b"\n" if content and not content.endswith(b"\n") else b"") + b"\n".join(new) + b"\n"
