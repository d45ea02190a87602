"""The knowledge store of a project on disk: `memory.jsonl` is the truth, `index.db` a projection of it (decision 1)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from engrambus.backends.sqlite.indexed_store import IndexedStore
from engrambus.backends.sqlite.journal_index import OnProgress
from engrambus.backends.sqlite.knowledge_index import KnowledgeIndex
from engrambus.backends.sqlite.lock import WriteLock
from engrambus.backends.sqlite.projection import KnowledgeIndexState, KnowledgeProjection
from engrambus.core import Clock
from engrambus.core.journal import Journal, create_journal
from engrambus.gateway.ports import View
from engrambus.policy import JOURNAL

T = TypeVar("T")

INDEX = "index.db"
LOCK = "lock"


def create_store(folder: Path, *, project: str, now_us: int) -> None:
    """Create an empty store in a folder; leave an existing one alone."""
    create_journal(folder / JOURNAL, kind="memory", project=project, now_us=now_us)


class SqliteStore(IndexedStore[KnowledgeIndexState, KnowledgeProjection, View]):
    """The knowledge store in one `.catalog` folder."""

    def __init__(self, folder: Path, clock: Clock, on_progress: OnProgress | None = None) -> None:
        super().__init__(folder / JOURNAL, folder / INDEX, folder / LOCK, KnowledgeIndex(), clock, on_progress)


def over_journals(folder: Path, inspect: Callable[[Journal], T]) -> list[T]:
    """Call a function on each journal of a `.catalog` folder while it holds that journal's lock."""
    from engrambus.backends.sqlite.work import WORK_JOURNAL, WORK_LOCK  # needed only to recover; slow to import

    results: list[T] = []
    for name, lock_name in ((JOURNAL, LOCK), (WORK_JOURNAL, WORK_LOCK)):
        if (folder / name).exists():
            with closing(Journal(folder / name)) as journal, closing(WriteLock(folder / lock_name)) as lock:
                results.append(lock.run(partial(inspect, journal)))
    return results
