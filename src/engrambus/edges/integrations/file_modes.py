"""Private files that other accounts can open: found and closed by `engrambus doctor` (decision 66)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from engrambus.core import files
from engrambus.policy import COMMITTED_FILES, Project
from engrambus.settings import Settings


def private_places(project: Project, settings: Settings) -> list[Path]:
    """Return the folders whose content is private: state, keys and the stores that projects share."""
    shared = settings.data_home / "engrambus"
    keys = settings.key_folder(project.project_id).parent
    return [project.state, *(folder.resolve() for folder in (keys, shared) if folder.is_dir())]


def find_open(places: list[Path], committed: Path) -> list[Path]:
    """Return every file and folder that other accounts can open, except what is committed. No link is followed."""
    exceptions = {committed / name for name in COMMITTED_FILES}
    return [path for place in places for path in _walk(place) if path not in exceptions]


def close_to_others(paths: list[Path]) -> int:
    """Take the rights of other accounts away; return how many files and folders belong to someone else."""
    failed = 0
    for path in paths:
        try:
            if stat.S_ISDIR(files.status_of(path).st_mode):
                descriptor = files.open_folder(path)
            else:
                descriptor = files.open_file(path, os.O_RDONLY)
            try:
                os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o700)
            finally:
                os.close(descriptor)
        except OSError:
            failed += 1
    return failed


def _walk(folder: Path) -> Iterator[Path]:
    """Yield what is open to others in a folder, and the folder itself."""
    if _is_open(folder.lstat()):
        yield folder
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path))
        elif entry.is_file(follow_symlinks=False) and _is_open(entry.stat(follow_symlinks=False)):
            yield Path(entry.path)


def _is_open(status: os.stat_result) -> bool:
    return bool(status.st_mode & 0o077)
