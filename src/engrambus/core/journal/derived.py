"""The folder of files that are made from the journals: indexes, caches. All of it may be deleted at any time."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

from engrambus.core import files
from engrambus.core.journal.key import JournalKey

_EARLIER = ("index.db", "work.db", "anchors.db", "sam/.written", "sam/.lock", "receipts/.written")
_EARLIER_FOLDERS = ("memory-cache",)


def derived_folder(state: Path, key: JournalKey) -> Path:
    """Return the folder of derived files in a folder of private state; create it on first use."""
    folder = state / key.derived_folder
    try:
        if files.make_folder(folder):
            _remove_earlier(state)
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise  # without room for it what is stored can still be read
    return folder


def _remove_earlier(state: Path) -> None:
    """Delete the indexes of older versions, or of a hostile repository: nothing reads them."""
    import shutil  # slow to import, and needed once in a project's life

    for name in _EARLIER:
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                files.remove(state / f"{name}{ending}")
    for name in _EARLIER_FOLDERS:
        if not (state / name).is_symlink():
            shutil.rmtree(state / name, ignore_errors=True)
