"""The journals of a `.catalog` folder, each held alone while it is looked at for damage or mended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from stigmergy.backends.sqlite.lock import WriteLock
from stigmergy.backends.sqlite.store import LOCK
from stigmergy.core.journal import Journal
from stigmergy.policy import JOURNAL


def held_journals(folder: Path) -> Iterator[Journal]:
    """The journal of what is known and that of what was done, if there is one: each while nobody writes to it."""
    from stigmergy.backends.sqlite.work import WORK_JOURNAL, WORK_LOCK  # seldom needed, and every start would wait

    for name, lock in ((JOURNAL, LOCK), (WORK_JOURNAL, WORK_LOCK)):
        if (folder / name).exists():
            with _held(folder / name, folder / lock) as journal:
                yield journal


@contextmanager
def _held(path: Path, lock_path: Path) -> Iterator[Journal]:
    with closing(Journal(path)) as journal, closing(WriteLock(lock_path)) as lock, lock:
        yield journal
