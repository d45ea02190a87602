"""A journal that is damaged before its end: where, and how to go on without losing what is sound."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from engrambus.core.clock import print_time
from engrambus.core.journal.disk import sync_folder
from engrambus.core.journal.file import CHUNK, Journal
from engrambus.errors import JournalDamaged


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a journal stops being sound."""

    journal: Path
    """The file that is damaged: the one that is appended to, or a segment it left behind."""
    line: int
    """The first line that does not check."""
    offset: int
    """The byte it begins at."""
    commits: int
    """How many commits before it are sound."""
    size: int
    """How many bytes there are from it to the end."""
    set_aside: Path | None = None
    """The copy of the whole damaged file, once it was made; files behind it lie beside it under the same ending."""


def find_damage(journal: Journal) -> Damage | None:
    """The first damage in a journal."""
    try:
        end = journal.start
    except JournalDamaged as problem:
        problem.hint = "Restore the file from a copy: nothing before it is sound."
        raise
    with suppress(JournalDamaged):  # a segment that can be read no further
        for _, behind in journal.read(end):
            end = behind
    end = journal.into_segment(end)
    behind_it = journal.size() - end.offset
    if behind_it == 0:
        return None
    file = journal.file_at(end.offset)
    return Damage(journal=file, line=end.seq + 2, offset=end.offset, commits=end.seq, size=behind_it)


def set_damage_aside(journal: Journal, at: int) -> Damage | None:
    """Copy a damaged journal aside and keep of it what comes before the damage. The caller holds the project's lock."""
    damage = find_damage(journal)
    if damage is None:
        return None
    moment = print_time(at).replace("-", "").replace(":", "")
    ending = f".damaged-{moment}"
    aside = journal.path.with_name(journal.path.name + ending)
    with journal.path.open("rb") as source, aside.open("xb") as copy:
        _copy(iter(lambda: source.read(CHUNK), b""), copy)
    sync_folder(aside.parent)
    if damage.offset > journal.header.base:
        # Cut in place: other processes have the file open, and see by its size that their index is ahead of it.
        journal.cut(damage.offset)
    else:
        _go_back(journal, damage.offset, ending)
    return msgspec.structs.replace(damage, set_aside=damage.journal.with_name(damage.journal.name + ending))


def _go_back(journal: Journal, offset: int, ending: str) -> None:
    """Go on in the segment that holds the last sound line; those behind it are set aside.

    It is the last to go: whoever dies over this leaves a journal whose damage is found at the same place.
    """
    bases = journal.segments.bases()
    last = max(base for base in bases if base < offset)
    draft = journal.path.with_name(f"{journal.path.name}.{os.getpid()}.new")
    with draft.open("wb") as target:
        _copy(_up_to(journal.segments.pieces(last, offset, last), offset - last), target)
    for base in reversed([each for each in bases if each > last]):
        _set_aside(journal.segments.file(base), ending)
    draft.rename(journal.path)
    sync_folder(journal.path.parent)
    _set_aside(journal.segments.file(last), ending)
    journal.size()


def _up_to(pieces: Iterator[bytes], length: int) -> Iterator[bytes]:
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
        file.rename(file.with_name(file.name + ending))
