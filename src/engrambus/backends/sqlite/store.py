"""The knowledge store of a project on disk: `memory.jsonl` is the truth, `index.db` a projection of it (decision 1)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from engrambus.backends.sqlite.indexed_store import IndexedStore
from engrambus.backends.sqlite.journal_index import OnProgress
from engrambus.backends.sqlite.knowledge_index import KnowledgeIndex
from engrambus.backends.sqlite.lock import WriteLock
from engrambus.backends.sqlite.projection import KnowledgeIndexState, KnowledgeProjection
from engrambus.core import Clock
from engrambus.core.files import is_file
from engrambus.core.journal import Journal, JournalKey, create_journal, derived_folder
from engrambus.gateway.ports import View
from engrambus.policy import JOURNAL

T = TypeVar("T")

INDEX = "index.db"
LOCK = "lock"


def create_store(folder: Path, key: JournalKey, *, project: str, now_us: int) -> None:
    """Create an empty store in a folder; leave an existing one alone."""
    create_journal(folder / JOURNAL, key, kind=KnowledgeIndex.kind, project=project, now_us=now_us)


class SqliteStore(IndexedStore[KnowledgeIndexState, KnowledgeProjection, View]):
    """The knowledge store in one `.catalog` folder."""

    def __init__(self, folder: Path, key: JournalKey, clock: Clock, on_progress: OnProgress | None = None) -> None:
        index = derived_folder(folder, key) / INDEX
        super().__init__(folder / JOURNAL, index, folder / LOCK, key, KnowledgeIndex(), clock, on_progress)


class JournalFile(NamedTuple):
    """A journal in a folder of private state, and the lock of those who write to it."""

    path: Path
    lock: Path
    kind: str


def journals_in(folder: Path) -> list[JournalFile]:
    """Return the journals that a folder of private state holds."""
    # needed only to recover or to adopt; slow to import
    from engrambus.backends.sqlite.work import WORK_JOURNAL, WORK_LOCK
    from engrambus.backends.sqlite.work.index import WorkIndex

    files = (
        JournalFile(folder / JOURNAL, folder / LOCK, KnowledgeIndex.kind),
        JournalFile(folder / WORK_JOURNAL, folder / WORK_LOCK, WorkIndex.kind),
    )
    return [file for file in files if is_file(file.path)]


def over_journals(folder: Path, key: JournalKey, inspect: Callable[[Journal], T]) -> list[T]:
    """Call a function on each journal of a folder of private state while it holds that journal's lock."""
    results: list[T] = []
    for file in journals_in(folder):
        with closing(Journal(file.path, key, file.kind)) as journal, closing(WriteLock(file.lock)) as lock:
            results.append(lock.run(partial(inspect, journal)))
    return results
