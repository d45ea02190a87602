"""The work store of one project on disk: `tuples.jsonl` is the truth, `work.db` a projection of it (decision 22)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from engrambus.backends.sql.work.projection import WorkProjection
from engrambus.backends.sql.work.state import WorkIndexState
from engrambus.backends.sql.work.waiters import kinds_concerned
from engrambus.backends.sqlite.indexed_store import IndexedStore
from engrambus.backends.sqlite.journal_index import OnProgress
from engrambus.backends.sqlite.work.index import WorkIndex
from engrambus.backends.sqlite.work.wakeups import Wakeups
from engrambus.backends.sqlite.work.worker_files import WorkerFiles
from engrambus.backends.sqlite.work_files import WORK_INDEX, WORK_JOURNAL, WORK_LOCK
from engrambus.core import Clock
from engrambus.core.journal import JournalKey, create_journal, derived_folder
from engrambus.core.lock import LOCK_SECONDS
from engrambus.space.schedules import (
    ScheduleDecide,
    ScheduleView,
)
from engrambus.space.tuples import (
    RunningWorker,
    Waiter,
    WaitKind,
)

T = TypeVar("T")

WAKEUP_FOLDER = "wakeups"
WORKER_FOLDER = "workers"


def create_work(folder: Path, key: JournalKey, *, project: str, now_us: int) -> None:
    """Create an empty work journal in a folder; leave an existing one alone."""
    create_journal(folder / WORK_JOURNAL, key, kind=WorkIndex.kind, project=project, now_us=now_us)


class SqliteWork(IndexedStore[WorkIndexState, WorkProjection, ScheduleView]):
    """The work store in one `.catalog` folder."""

    def __init__(
        self,
        folder: Path,
        key: JournalKey,
        clock: Clock,
        *,
        indexed: tuple[str, ...] = (),
        on_progress: OnProgress | None = None,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        journal, lock = folder / WORK_JOURNAL, folder / WORK_LOCK
        index = derived_folder(folder, key) / WORK_INDEX
        super().__init__(journal, index, lock, key, WorkIndex(indexed), clock, on_progress, lock_seconds)
        self._wakeups = Wakeups(folder / WAKEUP_FOLDER)
        # In the folder named by the key: a repository cannot bring workers along that nobody runs.
        self._workers = WorkerFiles(derived_folder(folder, key) / WORKER_FOLDER)
        self._concerned: set[str] = set()
        """Kinds of waiters that the batch being committed may concern."""
        self.watch(self._notify)

    def commit(self, decide: ScheduleDecide[T], *, synced: bool = True) -> T:
        """Change the space and return the change's answer.

        When it returns the change is on disk, or with `synced=False` at least in the journal. Waiters are woken after.
        """

        def decide_and_note(view: ScheduleView) -> tuple[Sequence[Any], T]:
            facts, answer = decide(view)
            self._concerned |= kinds_concerned(facts, view)
            return facts, answer

        return super().commit(decide_and_note, synced=synced)

    @contextmanager
    def wait_on(self, kind: WaitKind) -> Iterator[Waiter]:
        """Open a waiter that commits of any process wake."""
        with self._wakeups.wait_on(kind) as waiter:
            yield waiter

    def announce(self, worker: RunningWorker) -> None:
        """Note a running worker for all processes."""
        self._workers.announce(worker)

    def withdraw(self, worker_id: str) -> None:
        """Forget a worker."""
        self._workers.withdraw(worker_id)

    def announced(self) -> list[RunningWorker]:
        """Return the workers of all processes, by id; some may have ended."""
        return self._workers.announced()

    def close(self) -> None:
        """Close every file."""
        super().close()
        self._wakeups.close()

    def _notify(self) -> None:
        kinds, self._concerned = self._concerned, set()
        self._wakeups.notify(kinds)
