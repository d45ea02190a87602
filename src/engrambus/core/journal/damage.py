"""Damage before the end of a journal: where it is, and how to continue with everything before it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from engrambus.core import files
from engrambus.core.clock import print_time
from engrambus.core.files import sync_folder
from engrambus.core.journal.file import Journal
from engrambus.core.journal.segments import CHUNK
from engrambus.errors import JournalDamaged


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """The place where a journal stops being valid, or ours."""

    journal: Path
    """The damaged file: the one that is appended to, or a finished segment."""
    line: int
    """1-based number of the first invalid line in the whole journal, its header counted."""
    offset: int
    """Offset of that line."""
    commits: int
    """Number of valid commits before it."""
    size_bytes: int
    """Bytes from it to the end of the journal."""
    foreign: bool = False
    """True if the lines from there on are whole, but were not written with this machine's key."""
    set_aside: Path | None = None
    """Copy of the damaged file, once it was made; later files lie in the same folder under the same ending."""


def find_damage(journal: Journal) -> Damage | None:
    """Return the first damage in a journal."""
    try:
        end = journal.start
    except JournalDamaged as problem:
        problem.hint = "Restore the file from a copy: its first segment is unreadable, so nothing can be recovered."
        raise
    end = journal.last_sound(end)
    size_bytes = journal.size() - end.offset
    if size_bytes == 0:
        return None
    file = journal.file_at(end.offset)
    foreign = False
    with suppress(JournalDamaged):  # a segment that cannot be read from there on
        foreign = next(journal.read(end), None) is not None
    return Damage(
        journal=file, line=end.seq + 2, offset=end.offset, commits=end.seq, size_bytes=size_bytes, foreign=foreign
    )


def set_damage_aside(journal: Journal, now_us: int) -> Damage | None:
    """Copy a damaged journal aside and keep everything before the damage. The caller holds the project's lock."""
    damage = find_damage(journal)
    if damage is None:
        return None
    timestamp = print_time(now_us).replace("-", "").replace(":", "")
    ending = f".damaged-{timestamp}"
    aside = journal.path.with_name(journal.path.name + ending)
    with files.open_reader(journal.path) as source, files.open_writer(aside, "xb") as copy:
        _copy(iter(lambda: source.read(CHUNK), b""), copy)
    sync_folder(aside.parent)
    if damage.offset > journal.header.base:
        # Cut in place: other processes have the file open, and see by its size that their index is ahead of it.
        journal.cut(damage.offset)
    else:
        _return_to_segment(journal, damage.offset, ending)
    return msgspec.structs.replace(damage, set_aside=damage.journal.with_name(damage.journal.name + ending))


def _return_to_segment(journal: Journal, offset: int, ending: str) -> None:
    """Make the segment with the last valid line the open one again, and set the later ones aside.

    The damaged segment goes last: if the process dies before that, the same damage is found at the same offset.
    """
    bases = journal.segments.bases()
    last = max(base for base in bases if base < offset)
    draft = journal.path.with_name(f"{journal.path.name}.{os.getpid()}.new")
    with files.open_writer(draft, "wb") as target:
        _copy(_first_bytes(journal.segments.pieces(last, offset, last), offset - last), target)
    for base in reversed([base for base in bases if base > last]):
        _set_aside(journal.segments.file(base), ending)
    files.rename(draft, journal.path)
    sync_folder(journal.path.parent)
    _set_aside(journal.segments.file(last), ending)
    journal.size()


def _first_bytes(pieces: Iterator[bytes], length: int) -> Iterator[bytes]:
    while length > 0:
        piece = next(pieces)[:length]
        length -= len(piece)
        yield piece


def _copy(pieces: Iterator[bytes], target: BinaryIO) -> None:
    for piece in pieces:
        target.write(piece)
    target.flush()
    os.fsync(target.fileno())


def _set_aside(file: Path, ending: str) -> None:
    with suppress(FileNotFoundError):
        files.rename(file, file.with_name(file.name + ending))
