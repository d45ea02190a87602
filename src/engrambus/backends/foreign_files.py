"""Setting the files of another project aside: they are moved to a folder of their own, and nothing is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engrambus.core.files import folder_names, is_file, make_folder, rename, sync_folder
from engrambus.policy import COMMITTED_FILES, JOURNAL

FOREIGN = "foreign"
"""The folder of private state that holds what was set aside."""
UNFINISHED = ".part"
"""Ends the name of a folder whose knowledge is not taken on yet."""


def set_aside(state: Path, journals: Sequence[Path], *, whole: bool, name: str) -> Path:
    """Move journals and all their segments to a folder of their own; with `whole`, all private state.

    The journal of knowledge moves last: until then a second attempt finds it where it was.
    """
    target = state / FOREIGN / f"{name}{UNFINISHED}"
    make_folder(target)
    stems = tuple(f"{journal.stem}." for journal in journals)
    names = [
        entry
        for entry in folder_names(state)
        if (entry not in (FOREIGN, *COMMITTED_FILES) if whole else entry.startswith(stems))
    ]
    for entry in sorted(names, key=JOURNAL.__eq__):
        rename(state / entry, target / entry)
    for folder in (target, state / FOREIGN, state):
        sync_folder(folder)
    return target


def finish(folder: Path) -> Path:
    """Mark a folder as done with; return its new name."""
    if not folder.name.endswith(UNFINISHED):
        return folder
    done = folder.with_name(folder.name.removesuffix(UNFINISHED))
    rename(folder, done)
    sync_folder(done.parent)
    return done


def unfinished(state: Path) -> list[Path]:
    """Return the folders whose knowledge a process that died has not taken on."""
    try:
        names = sorted(folder_names(state / FOREIGN))
    except FileNotFoundError:
        return []
    folders = [state / FOREIGN / name for name in names if name.endswith(UNFINISHED)]
    return [folder for folder in folders if is_file(folder / JOURNAL)]
