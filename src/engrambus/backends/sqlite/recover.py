"""The journals of a `.catalog` folder, each held alone while it is looked at for damage or mended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from engrambus.backends.sqlite.lock import WriteLock
from engrambus.backends.sqlite.store import LOCK
from engrambus.core.journal import Journal
from engrambus.policy import JOURNAL

T = TypeVar("T")


def over_journals(folder: Path, look: Callable[[Journal], T]) -> list[T]:
    """What is found in the journal of what is known and in that of what was done, each while nobody writes to it."""
    from engrambus.backends.sqlite.work import WORK_JOURNAL, WORK_LOCK  # seldom needed, and every start would wait

    found: list[T] = []
    for name, lock_name in ((JOURNAL, LOCK), (WORK_JOURNAL, WORK_LOCK)):
        if (folder / name).exists():
            with closing(Journal(folder / name)) as journal, closing(WriteLock(folder / lock_name)) as lock:
                found.append(lock.run(partial(look, journal)))
    return found
