"""A small file next to a journal that says how much of it was on disk: a damaged last line is not taken for a torn one.

The marks in a journal's lines say that everything before a line was on disk; no later line vouches for the last one. So
the offset behind it is noted here after its sync, by one small write that is not synced itself: a power cut may leave
an older note, which says less, never more (decision 97). The note is bound to the journal's key and header. It may be
deleted: then only the marks and the index say what was on disk.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from engrambus.core import files
from engrambus.core.journal.key import LineKey
from engrambus.errors import EngramBusError

ENDING = ".synced"
_NOTE_BYTES = 128
_NOTE = re.compile(rb"([0-9]{1,18} [0-9]{1,18}) ([0-9a-f]{32})\s*")


class Synced(NamedTuple):
    """How far a journal was on disk at some moment."""

    offset: int
    seq: int
    """Number of the line before the offset."""


class SyncedNote:
    """The note of one journal."""

    def __init__(self, journal: Path) -> None:
        self._path = journal.with_name(journal.name + ENDING)
        self._name = str(self._path)
        self._file: tuple[int, int, int] | None = None
        """Descriptor, device and inode of the open file."""

    def write(self, line_key: LineKey, header_checksum: str, synced: Synced) -> None:
        """Note how far the journal is on disk, as far as the disk allows: without a note a check says less."""
        text = b"%d %d" % synced
        note = b"%b %b" % (text, line_key.mac(header_checksum, text))
        with suppress(OSError, EngramBusError):
            os.pwrite(self._descriptor(), note.ljust(_NOTE_BYTES - 1) + b"\n", 0)

    def read(self, line_key: LineKey, header_checksum: str) -> Synced:
        """Return what the note says; zeros if there is none, or it is another journal's."""
        with suppress(OSError, EngramBusError), files.open_reader(self._path) as file:
            match = _NOTE.fullmatch(file.read(_NOTE_BYTES))
            if match and match.group(2) == line_key.mac(header_checksum, match.group(1)):
                offset, seq = match.group(1).split()
                return Synced(int(offset), int(seq))
        return Synced(0, 0)

    def remove(self) -> None:
        """Delete the note, because the journal was rewritten."""
        files.remove(self._path)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file[0])
            self._file = None

    def _descriptor(self) -> int:
        if self._file is not None:
            with suppress(FileNotFoundError):
                status = os.stat(self._name)
                if (status.st_dev, status.st_ino) == self._file[1:]:
                    return self._file[0]
            self.close()
        descriptor = files.open_file(self._path, os.O_RDWR | os.O_CREAT)
        status = os.fstat(descriptor)
        self._file = descriptor, status.st_dev, status.st_ino
        return descriptor
