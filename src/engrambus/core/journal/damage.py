"""Damage before the end of a journal: where it is, and how to continue with every line that still checks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from engrambus.core import files
from engrambus.core.clock import print_time
from engrambus.core.files import sync_folder
from engrambus.core.journal.file import Journal, JournalPosition
from engrambus.core.journal.format import Line, encode_facts
from engrambus.core.journal.salvage import Gap, Salvage
from engrambus.core.journal.segments import first_bytes
from engrambus.core.project_clock import Stamp
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
    """Bytes from it to the end of the journal, or once it was recovered, those that were set aside."""
    kept: int = 0
    """Number of commits behind it that were kept, once it was recovered."""
    lost: int = 0
    """Number of commits that were lost."""
    left_out: int = 0
    """Number of facts that were left out because they refer to something that was lost."""
    unmade: tuple[str, ...] = ()
    """Ids that kept lines mentioned and nobody made."""
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


class LineEditor(Protocol):
    """Decides what of each line stays when lines before it were lost, and what follows from that."""

    left_out: int
    unmade: dict[str, None]

    def load(self, lines: Iterable[Line]) -> None:
        """Take in the lines before the damage."""
        ...

    def admit(self, line: Line) -> bytes:
        """Return the facts of a line behind the damage that stay."""
        ...

    def gap(self, gap: Gap, at_us: int) -> list[bytes]:
        """Return the facts of the lines that stand for lost ones."""
        ...

    def final_lines(self, at_us: int) -> list[bytes]:
        """Return the facts of further lines at the end."""
        ...


class KeepLines:
    """Keeps every line as it is, and records gaps."""

    left_out = 0

    def __init__(self) -> None:
        self.unmade: dict[str, None] = {}

    def load(self, lines: Iterable[Line]) -> None:
        """Do nothing."""

    def admit(self, line: Line) -> bytes:
        """Return all facts of a line."""
        return line.facts

    def gap(self, gap: Gap, at_us: int) -> list[bytes]:
        """Return the fact of a gap, and empty lines for the other lost ones."""
        return [encode_facts([gap.fact()]), *([encode_facts([])] * (gap.lines - 1))]

    def final_lines(self, at_us: int) -> list[bytes]:
        """Return nothing."""
        return []


def set_damage_aside(journal: Journal, now_us: int, editor: LineEditor | None = None) -> Damage | None:
    """Rewrite a damaged journal with every line that still checks; keep the original next to it (decision 97).

    Lines keep their numbers. The caller holds the project's lock.
    """
    damage = find_damage(journal)
    if damage is None:
        return None
    timestamp = print_time(now_us).replace("-", "").replace(":", "")
    ending = f".damaged-{timestamp}"
    end = journal.last_sound(journal.start)
    last = journal.header.base
    if end.offset <= last and last:
        last = max(base for base in journal.segments.bases() if base < end.offset)
    draft = journal.path.with_name(f"{journal.path.name}.{os.getpid()}.new")
    rewriting = _Rewriting(journal, end, now_us, editor or KeepLines())
    with files.open_writer(draft, "wb") as target:
        _copy(chain(_beginning(journal, last, end.offset), rewriting.lines()), target)
    later = [base for base in journal.segments.bases() if last <= base < journal.header.base]
    # The open file takes the place of every file from the damaged one on at once: if the process dies before or after
    # this, the journal is the damaged or the recovered one. The originals get their names beside it before and after.
    files.link(journal.path, journal.path.with_name(journal.path.name + ending))
    journal.forget_synced()
    files.rename(draft, journal.path)
    sync_folder(journal.path.parent)
    for base in later:
        _set_aside(journal.segments.file(base), ending)
    sync_folder(journal.path.parent)
    journal.end_failure()
    journal.size()
    return msgspec.structs.replace(
        damage,
        size_bytes=rewriting.set_aside_bytes,
        kept=rewriting.kept,
        lost=rewriting.lost,
        left_out=rewriting.editor.left_out,
        unmade=tuple(rewriting.editor.unmade),
        set_aside=damage.journal.with_name(damage.journal.name + ending),
    )


class _Rewriting:
    """The lines behind the damage, written again so that their checksums follow from those before it."""

    def __init__(self, journal: Journal, end: JournalPosition, now_us: int, editor: LineEditor) -> None:
        self._journal = journal
        self._end = end
        self._position = end
        self._now_us = now_us
        self.editor = editor
        self.kept = 0
        self.lost = 0
        self.set_aside_bytes = 0

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that stay, those that stand for lost ones, and those that follow from the loss."""
        end = self._end
        self.editor.load(line for line, _ in islice(self._journal.read(self._journal.start), end.seq))
        for part in Salvage(self._journal, end).read():
            if isinstance(part, Gap):
                self.set_aside_bytes += part.size_bytes
                self.lost += part.lines
                if part.lines:
                    at_us = self._position.at_us
                    yield from self._encode(self.editor.gap(part, at_us), Stamp(at_us))
            else:
                self.kept += 1
                yield from self._encode([self.editor.admit(part)], part.stamp)
        at_us = max(self._position.at_us, self._now_us) if self._position.at_us else self._now_us
        yield from self._encode(self.editor.final_lines(at_us), Stamp(at_us))

    def _encode(self, facts: Iterable[bytes], stamp: Stamp) -> Iterator[bytes]:
        for text in facts:
            # Everything before the damage is on disk; everything behind it will be before anyone reads it.
            line, self._position = self._journal.encode(self._position, stamp=stamp, facts=text, mark=self._end.offset)
            yield line


def _beginning(journal: Journal, base: int, offset: int) -> Iterator[bytes]:
    """Yield the bytes of the segment at `base` up to an offset."""
    if base == journal.header.base:
        return first_bytes(journal.open_pieces(), offset - base)
    return first_bytes(journal.segments.pieces(base, offset, base), offset - base)


def _copy(pieces: Iterable[bytes], target: BinaryIO) -> None:
    for piece in pieces:
        target.write(piece)
    target.flush()
    os.fsync(target.fileno())


def _set_aside(file: Path, ending: str) -> None:
    with suppress(FileNotFoundError):
        files.rename(file, file.with_name(file.name + ending))
