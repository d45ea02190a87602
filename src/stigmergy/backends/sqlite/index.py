"""The index file: opening it, telling whether it can be trusted, and building it anew."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import apsw

from stigmergy.backends.facts import decode_facts
from stigmergy.backends.sqlite.projection import LAYOUT, Applied, Projection
from stigmergy.backends.sqlite.queries import queries, schema
from stigmergy.core.journal import Journal, Place

REPLAY_BATCH = 2000
Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


def connect(path: Path, *, writer: bool = False) -> apsw.Connection:
    """A connection to an existing index."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(10_000)
    # Without this SQLite prepares a join anew whenever a value is bound, in case another plan suits it: 50 µs for 4.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(f"PRAGMA cache_size = {-16_000 if writer else -4_000}")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA temp_store = MEMORY")
    if not writer:
        connection.execute("PRAGMA query_only = ON")
    return connection


def read_applied(connection: apsw.Connection, project: str) -> Applied | None:
    """How far the index has come; none when it is another version's or another project's."""
    try:
        row = connection.execute(queries()["applied"]).fetchone()
    except apsw.SQLError:  # no such table, or not its columns
        return None
    if row is None:
        return None
    layout, owner, position, seq, checksum, at, ordinal, runs, pending, identity = row
    if layout != LAYOUT or owner != project:
        return None
    place = Place(offset=position, seq=seq, sum=checksum, at=at)
    return Applied(place=place, ordinal=ordinal, runs=runs, pending=pending, identity=identity)


def remove_index(path: Path) -> None:
    """Take an index away with all its parts; the parts first, so that none is ever taken for a new index's."""
    for part in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"), path):
        part.unlink(missing_ok=True)


def build_index(path: Path, journal: Journal, progress: Progress | None = None) -> None:
    """Build the index from the journal beside its place, then put it there. The caller holds the project's lock."""
    draft = path.with_name(path.name + ".new")
    remove_index(draft)
    connection = apsw.Connection(str(draft))
    try:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -64000")
        connection.execute(schema())
        start = journal.start
        project = journal.header.project
        connection.execute(queries()["begin_applied"], (LAYOUT, project, start.offset, start.seq, start.sum, start.at))
        replay(connection, Applied(place=start, ordinal=0, runs=0, pending=0, identity=0), journal, progress)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    remove_index(path)
    draft.rename(path)


def replay(
    connection: apsw.Connection, applied: Applied, journal: Journal, progress: Progress | None = None
) -> Applied:
    """Apply the sound lines the index has not seen, in transactions of its own."""
    total = journal.size()
    lines = journal.read(applied.place)
    while True:
        connection.execute("BEGIN IMMEDIATE")
        try:
            projection = Projection(connection, applied)
            place = applied.place
            count = 0
            for line, behind in islice(lines, REPLAY_BATCH):
                for fact in decode_facts(line.facts):
                    projection.apply(fact, line.at)
                place = behind
                count += 1
            projection.save(place)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite may have rolled back by itself
                connection.execute("ROLLBACK")
            raise
        applied = projection.applied
        if progress is not None:
            progress(place.offset, total)
        if count < REPLAY_BATCH:
            return applied
