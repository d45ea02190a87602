"""Moving a project from its files into a database (decision 125).

Most is copied while others go on writing. Then the locks of the files are held: the last lines follow, the journals get
their name, the tables are made, everything is compared, and a note beside each journal ends writing to it for good.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from engrambus.backends.postgres.connections import Database
from engrambus.backends.postgres.moving import ArrivingJournal, forget_arriving
from engrambus.backends.postgres.projects import add_project
from engrambus.backends.postgres.store import PostgresStore
from engrambus.backends.postgres.work.store import PostgresWork
from engrambus.core import SystemClock, print_time
from engrambus.core.journal import JournalKey, Line, MovedNote, note_moved
from engrambus.errors import JournalDamaged
from engrambus.evidence.receipts import BodyStore
from engrambus.gateway.ports import Finding
from engrambus.policy import JOURNAL

_IN_MEMORY_BYTES = 8 << 20
"""A body that is longer is kept in a temporary file while it is copied."""


class MovedStore(Protocol):
    """A store in files."""

    def last_line(self) -> int:
        """Return the number of the last committed line."""
        ...

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """Return the committed lines after line number `seq`."""
        ...

    def commit(self, decide: Callable[[Any], tuple[list[Any], Any]]) -> Any:
        """Change the store and return the change's answer."""
        ...

    def verify(self) -> list[Finding]:
        """Return what is wrong."""
        ...


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What was moved."""

    to: str
    lines: int
    """Commits of knowledge."""
    work_lines: int
    """Commits of work."""
    bodies: int | None
    """None if the bodies stay where they are."""


def move_files(
    sources: Mapping[Path, MovedStore],
    database: Database,
    key: JournalKey,
    *,
    project: str,
    now_us: int,
    bodies: tuple[BodyStore, BodyStore] | None,
    restart: bool,
    progress: Callable[[int, int], None],
) -> Moved:
    """Move the journals of a project, and its bodies from one store to another if both are given."""
    for path, source in sources.items():
        _check_sound(path, source)
    number = add_project(database, project)
    if restart:
        forget_arriving(database, number)
    arriving = [
        (path, source, ArrivingJournal(database, number, key, kind=_kind(path), project=project))
        for path, source in sources.items()
    ]
    total = sum(source.last_line() for source in sources.values()) or 1
    open_ends = [(source, journal) for _, source, journal in arriving if journal.begin(now_us)]
    before = 0
    for source, journal in open_ends:
        before += journal.copy(source, lambda seq, before=before: progress(min(before + seq, total - 1), total))  # type: ignore[misc]
    if bodies is not None:
        _copy_bodies(*bodies)
    copied: list[int] = []

    def finish() -> dict[str, int]:
        if bodies is not None:
            copied.append(_copy_bodies(*bodies))  # those that steps have left since
        for source, journal in open_ends:
            journal.copy(source, lambda seq: None)
        with database.writing(number, {}) as session:
            for _, journal in open_ends:
                journal.arrive(session)
        lines = {journal.kind: journal.check_arrived(source) for _, source, journal in arriving}
        _check_tables(database, key, project, has_work=len(arriving) > 1)
        note = MovedNote(to=database.name, at=print_time(now_us))
        for path, _, _ in arriving:
            note_moved(path, note)
        return lines

    lines = _under_locks([source for _, source, _ in arriving], finish)
    progress(1, 1)
    return Moved(
        to=database.name,
        lines=lines.get("memory", 0),
        work_lines=lines.get("tuples", 0),
        bodies=copied[0] if copied else None,
    )


def _kind(journal: Path) -> str:
    return "memory" if journal.name == JOURNAL else "tuples"


def _check_sound(path: Path, source: MovedStore) -> None:
    damage = [finding for finding in source.verify() if not finding.is_copy]
    if damage:
        raise JournalDamaged(
            f"{path.name} is not sound: {damage[0].what}",
            field=damage[0].where,
            hint="Nothing was moved. See `engrambus verify` and `engrambus recover`.",
        )


def _copy_bodies(local: BodyStore, shared: BodyStore) -> int:
    """Copy every body that is not there; each is checked when it is read."""
    count = 0
    for body in local.stored():
        if not shared.exists(body.sha):
            with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as kept:
                for chunk in local.chunks(body.sha):
                    kept.write(chunk)
                kept.seek(0)
                shared.put(kept)  # type: ignore[arg-type]
        count += 1
    return count


def _check_tables(database: Database, key: JournalKey, project: str, *, has_work: bool) -> None:
    """Make the tables and compare them with the journals."""
    stores: list[Any] = [PostgresStore(database.share(), key, project, SystemClock())]
    if has_work:
        stores.append(PostgresWork(database.share(), key, project))
    for store in stores:
        try:
            findings = store.verify()
        finally:
            store.close()
        if findings:
            raise JournalDamaged(f"What arrived is not sound: {findings[0].what}", field=findings[0].where)


def _under_locks(sources: list[MovedStore], finish: Callable[[], dict[str, int]]) -> dict[str, int]:
    """Call a function while nobody else can write to any of the stores."""
    if not sources:
        return finish()
    first, *others = sources
    answer: dict[str, int] = first.commit(lambda view: ([], _under_locks(others, finish)))
    return answer
