"""A journal that is damaged before its end: where, and how to go on without losing what is sound."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from stigmergy.core.clock import print_time
from stigmergy.core.journal.disk import sync_folder
from stigmergy.core.journal.file import Journal


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a journal stops being sound."""

    journal: Path
    line: int
    """The first line that does not check."""
    offset: int
    """The byte it begins at."""
    commits: int
    """How many commits before it are sound."""
    size: int
    """How many bytes there are from it to the end."""
    set_aside: Path | None = None
    """The copy of the whole damaged file, once it was made."""


def find_damage(journal: Journal) -> Damage | None:
    """The first damage in a journal."""
    end = journal.last_sound(journal.start)
    behind = journal.size() - end.offset
    if behind == 0:
        return None
    return Damage(journal=journal.path, line=end.seq + 2, offset=end.offset, commits=end.seq, size=behind)


def set_damage_aside(journal: Journal, at: int) -> Damage | None:
    """Copy a damaged journal aside and keep of it what comes before the damage. The caller holds the project's lock."""
    import shutil  # seldom needed, and every start would wait for it

    damage = find_damage(journal)
    if damage is None:
        return None
    moment = print_time(at).replace("-", "").replace(":", "")
    aside = journal.path.with_name(f"{journal.path.name}.damaged-{moment}")
    with journal.path.open("rb") as source, aside.open("xb") as copy:
        shutil.copyfileobj(source, copy)
        copy.flush()
        os.fsync(copy.fileno())
    sync_folder(aside.parent)
    # Cut in place: other processes have the file open, and see by its size that their index is ahead of it.
    journal.cut(damage.offset)
    return msgspec.structs.replace(damage, set_aside=aside)
