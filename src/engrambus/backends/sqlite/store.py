"""The knowledge store of a project on disk: `memory.jsonl` is the truth, `index.db` a projection of it (decision 1)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from engrambus.backends.sql.knowledge.projection import KnowledgeIndexState, KnowledgeProjection
from engrambus.backends.sqlite.indexed_store import IndexedStore
from engrambus.backends.sqlite.journal_index import OnProgress
from engrambus.backends.sqlite.knowledge_index import KnowledgeIndex
from engrambus.backends.sqlite.lock import WriteLock
from engrambus.backends.sqlite.work_files import WORK_INDEX, WORK_JOURNAL, WORK_LOCK
from engrambus.core import Clock, files, print_time
from engrambus.core.database import remove_database
from engrambus.core.files import is_file
from engrambus.core.journal import Journal, JournalKey, create_journal, derived_folder, is_own_journal
from engrambus.core.journal.segments import Segments
from engrambus.core.lock import LOCK_SECONDS
from engrambus.errors import JournalMissing
from engrambus.gateway.ports import View
from engrambus.policy import JOURNAL

T = TypeVar("T")

INDEX = "index.db"
LOCK = "lock"
_BEGIN_ANEW = "`engrambus recover` sets aside what remains and begins a new journal"
_MOVE_REMAINS = "move everything but `project.yaml` out of the folder and run `engrambus init`"


def create_store(folder: Path, key: JournalKey, *, project: str, now_us: int) -> None:
    """Create an empty store in a folder; leave an existing one alone."""
    create_journal(folder / JOURNAL, key, kind=KnowledgeIndex.kind, project=project, now_us=now_us)


class SqliteStore(IndexedStore[KnowledgeIndexState, KnowledgeProjection, View]):
    """The knowledge store in one `.catalog` folder."""

    def __init__(
        self,
        folder: Path,
        key: JournalKey,
        clock: Clock,
        on_progress: OnProgress | None = None,
        *,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        index, journal, lock = derived_folder(folder, key) / INDEX, folder / JOURNAL, folder / LOCK
        super().__init__(journal, index, lock, key, KnowledgeIndex(), clock, on_progress, lock_seconds)


class JournalFile(NamedTuple):
    """A journal in a folder of private state, and the lock of those who write to it."""

    path: Path
    lock: Path
    kind: str
    index_name: str
    """Name of the index in the folder of derived files."""


def journals_in(folder: Path) -> list[JournalFile]:
    """Return the journals that a folder of private state holds."""
    # needed only to recover or to adopt; slow to import
    from engrambus.backends.sqlite.work.index import WorkIndex

    journals = (
        JournalFile(folder / JOURNAL, folder / LOCK, KnowledgeIndex.kind, INDEX),
        JournalFile(folder / WORK_JOURNAL, folder / WORK_LOCK, WorkIndex.kind, WORK_INDEX),
    )
    return [file for file in journals if is_file(file.path)]


def check_remains(folder: Path, name: str, key: JournalKey | None) -> None:
    """Refuse to begin a new journal in a folder where files remain that were made with it (decision 97).

    `key` is the project's key on this machine; without one no journal of the project was ever written here.
    """
    if key is None or is_file(folder / name) or not folder.is_dir():
        return
    remains = _remains(folder, name, key)
    if remains is not None:
        further = _MOVE_REMAINS if name == JOURNAL else _BEGIN_ANEW
        raise JournalMissing(
            f"{name} is gone from {folder}, but {remains.name} remains.",
            field=str(folder / name),
            hint=f"Restore it from a copy. If there is none, {further}.",
        )


def _remains(folder: Path, name: str, key: JournalKey) -> Path | None:
    """Return a file or folder that was made on this machine together with the journal of this name; None if none is.

    A clone may bring receipts, segments or a journal of another machine: only what carries our key counts.
    """
    # needed only where a journal is not there; slow to import
    from engrambus.evidence.receipts import RECEIPTS, RECEIPTS_POSITION, is_written_by

    derived = folder / key.derived_folder
    made_with = [derived / WORK_INDEX, derived / RECEIPTS_POSITION]
    if name == JOURNAL:
        work = folder / WORK_JOURNAL
        made_with += [derived / INDEX, *([work] if is_own_journal(work, key) else [])]
    segments = Segments(folder / name)
    made_with += [path for path in map(segments.file, segments.bases()) if is_own_journal(path, key)]
    remaining = next(filter(is_file, made_with), None)
    if remaining is None and name != JOURNAL and is_written_by(folder / RECEIPTS, key.derived_folder):
        return folder / RECEIPTS
    return remaining


def begin_anew(folder: Path, name: str, key: JournalKey, now_us: int) -> Path | None:
    """Move what remains of a journal of work that is gone into a folder of its own; return that folder.

    Return None if the journal is there, or nothing remains of it.
    """
    if is_file(folder / name) or _remains(folder, name, key) is None:
        return None
    timestamp = print_time(now_us).replace("-", "").replace(":", "")
    aside = folder / f"lost-{name.removesuffix('.jsonl')}-{timestamp}"
    files.make_folder(aside)
    while (remains := _remains(folder, name, key)) is not None:
        files.rename(remains, aside / remains.name)
    return aside


def over_journals(folder: Path, key: JournalKey, inspect: Callable[[Journal], T]) -> list[T]:
    """Call a function on each journal of a folder of private state while it holds that journal's lock."""
    results: list[T] = []
    for file in journals_in(folder):
        with closing(Journal(file.path, key, file.kind)) as journal, closing(WriteLock(file.lock)) as lock:
            results.append(lock.run(partial(inspect, journal)))
    return results


def renew_journals_in(folder: Path, key: JournalKey) -> None:
    """Write each journal of a folder of which a sync has failed into a new file, and delete its index."""
    for file in journals_in(folder):
        index = derived_folder(folder, key) / file.index_name

        def renew(journal: Journal, index: Path = index) -> None:
            if journal.renew() is not None:
                remove_database(index)  # the disk may have lost pages of it too

        with closing(Journal(file.path, key, file.kind)) as journal, closing(WriteLock(file.lock)) as lock:
            lock.run(partial(renew, journal))
