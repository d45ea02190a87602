"""The index of lines: which files of a commit contain a line.

It is keyed by blob, so a new commit costs only its new blobs, and one file serves every repository and process. The
file can be deleted at any time: a damaged one is discarded and built again from git, and where none can be written,
the index is held in memory.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw

from engrambus.core import LruCache, database, is_hex
from engrambus.evidence.anchoring.pasted_text import FileText, hash_line, hash_lines
from engrambus.evidence.pointers import GitRepository

MAX_BLOB_BYTES = 1024 * 1024
"""Larger files are not searched."""
MAX_COUNT = 64
"""A line that more blobs contain is not rare, and they are not counted further."""
BATCH_LINES = 100_000
MAX_REBUILDS = 4

LAYOUT = 2
BUSY_TIMEOUT_MS = 10_000
MAX_FAILURES = 2
"""Failures of the file after which the index is held in memory."""
IN_MEMORY = ":memory:"

Progress = Callable[[int, int], None]
"""Receives how many files of how many have been read."""
T = TypeVar("T")


class CommitFiles(NamedTuple):
    """The files of a commit."""

    blobs: dict[str, str]
    """Blob ids by path."""
    paths: dict[str, list[str]]
    """Sorted paths by blob id."""


class IndexedCommit:
    """A commit whose files are listed on first use: most searched texts are in none of them."""

    def __init__(
        self,
        repository: GitRepository,
        commit: str,
        listings: LruCache[str, CommitFiles],
        sees: Callable[[str], bool] | None = None,
    ) -> None:
        """With `sees`, files at paths for which it is false are left out."""
        self.id = commit
        self.repository = repository
        self._listings = listings
        self._sees = sees

    @cached_property
    def files(self) -> CommitFiles:
        """Its files; refused if the repository has no such commit."""
        files = self.all_files
        if self._sees is None:
            return files
        blobs = {path: blob for path, blob in files.blobs.items() if self._sees(path)}
        return CommitFiles(
            blobs, {blob: [path for path in paths if path in blobs] for blob, paths in files.paths.items()}
        )

    @cached_property
    def all_files(self) -> CommitFiles:
        """All its files, visible to the caller or not; the index covers these."""
        files = self._listings.get(self.id)
        if files is None:
            files = CommitFiles(self.repository.files(self.id), {})
            for path in sorted(files.blobs):
                files.paths.setdefault(files.blobs[path], []).append(path)
            self._listings.put(self.id, files, weight=len(files.blobs) + 1)
        return files

    def small(self, paths: Iterable[str]) -> list[str]:
        """Return the paths whose files exist and are small enough to be searched."""
        blobs = self.files.blobs
        existing = [path for path in paths if path in blobs]
        sizes = self.repository.sizes({blobs[path] for path in existing}) if existing else {}
        return [path for path in existing if sizes.get(blobs[path], MAX_BLOB_BYTES + 1) <= MAX_BLOB_BYTES]


class LineIndex:
    """The files of a commit by the lines they contain. Safe to share between threads."""

    def __init__(self, cache_path: Path | None, progress: Progress | None = None) -> None:
        self._cache = BlobLineCache(cache_path)
        self._progress = progress
        self._build_lock = threading.Lock()
        self._listings: LruCache[str, CommitFiles] = LruCache(200_000)
        self._complete: LruCache[str, bool] = LruCache(4096)
        self._texts: LruCache[str, FileText] = LruCache(300_000)

    def commit(
        self, repository: GitRepository, revision: str | None, sees: Callable[[str], bool] | None = None
    ) -> IndexedCommit:
        """Return the commit a revision names, HEAD by default; a full id is checked only when its files are listed."""
        revision = revision or "HEAD"
        commit = revision if is_hex(revision, 40, 64) else repository.expand(revision)
        return IndexedCommit(repository, commit, self._listings, sees)

    def using(self, commit: IndexedCommit, work: Callable[[], T]) -> T:
        """Return what `work` returns once the whole commit is indexed; it is repeated if the cache is lost."""
        for _ in range(MAX_REBUILDS):
            try:
                with self._build_lock:
                    self._build(commit)
                return work()
            except CacheLost:
                self._complete = LruCache(4096)
        self._cache.use_memory()
        self._build(commit)
        return work()

    def count(self, line: str) -> int:
        """Return how many of all blobs ever indexed contain a line."""
        return self._cache.count(hash_line(line), MAX_COUNT)

    def indexed_lines(self, lines: Iterable[str]) -> set[str]:
        """Return the lines that any blob ever indexed contains."""
        lines_by_hash = {hash_line(line): line for line in lines}
        return {lines_by_hash[line_hash] for line_hash in self._cache.existing(list(lines_by_hash))}

    def paths_with(self, commit: IndexedCommit, line: str) -> list[str]:
        """Return the sorted paths of a commit whose files contain a line."""
        groups = (commit.files.paths.get(blob, ()) for blob in self._cache.blobs_with(hash_line(line)))
        return sorted(path for paths in groups for path in paths)

    def text(self, commit: IndexedCommit, path: str) -> FileText:
        """Return the file at a path of a commit, ready to be searched."""
        blob = commit.files.blobs[path]
        text = self._texts.get(blob)
        if text is None:
            text = FileText.of(commit.repository.blob(blob))
            self._texts.put(blob, text, weight=len(text.lines))
        return text

    def close(self) -> None:
        self._cache.close()

    def _build(self, commit: IndexedCommit) -> None:
        """Index the blobs of a commit that were never read before."""
        if self._complete.get(commit.id):
            return
        if not self._cache.is_complete(commit.id):
            self._read(commit, self._cache.missing(commit.all_files.paths))
            self._cache.mark_complete(commit.id)
        self._complete.put(commit.id, True)

    def _read(self, commit: IndexedCommit, missing: list[str]) -> None:
        sizes = commit.repository.sizes(missing) if missing else {}
        batch: list[tuple[str, set[int]]] = []
        line_count = 0
        for done, blob in enumerate(missing, 1):
            small = sizes.get(blob, MAX_BLOB_BYTES + 1) <= MAX_BLOB_BYTES
            batch.append((blob, hash_lines(commit.repository.blob(blob)) if small else set()))
            line_count += len(batch[-1][1]) + 1
            if line_count >= BATCH_LINES or done == len(missing):
                self._cache.add(batch)
                batch, line_count = [], 0
                if self._progress is not None:
                    self._progress(done, len(missing))


_COUNT = "UPDATE stamp SET transactions = transactions + 1"
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS blob (id INTEGER PRIMARY KEY, oid BLOB NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS line (hash INTEGER NOT NULL, blob INTEGER NOT NULL, PRIMARY KEY (hash, blob)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS complete (oid BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS stamp (transactions INTEGER NOT NULL);
INSERT INTO stamp SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM stamp);
PRAGMA user_version = {LAYOUT};
"""  # noqa: S608


class CacheLost(Exception):
    """The content of the cache is gone; the commit must be indexed again."""


class BlobLineCache:
    """Line hashes by blob in a file. Safe across threads and processes; a forked child opens its own connection."""

    def __init__(self, path: Path | None) -> None:
        self._path = path or Path(IN_MEMORY)
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._failures = 0 if path else MAX_FAILURES
        _caches.add(self)

    def is_complete(self, commit: str) -> bool:
        """True if every blob of a commit is in the cache."""
        query = "SELECT 1 FROM complete WHERE oid = ?"
        return self._do(lambda db: db.execute(query, (bytes.fromhex(commit),)).fetchone()) is not None

    def mark_complete(self, commit: str) -> None:
        """Record that every blob of a commit is in the cache."""

        def mark(db: apsw.Connection) -> None:
            with db:
                db.execute("INSERT OR IGNORE INTO complete VALUES (?)", (bytes.fromhex(commit),))
                db.execute(_COUNT)

        self._do(mark)

    def missing(self, blob_ids: Iterable[str]) -> list[str]:
        """Return the blobs that are not in the cache."""
        query = "SELECT 1 FROM blob WHERE oid = ?"
        return self._do(
            lambda db: [
                blob_id for blob_id in blob_ids if db.execute(query, (bytes.fromhex(blob_id),)).fetchone() is None
            ]
        )

    def add(self, blobs: Sequence[tuple[str, Iterable[int]]]) -> None:
        """Add blobs with the hashes of their lines; those another process has added are left as they are."""
        self._do(lambda db: _add(db, blobs))

    def count(self, line_hash: int, limit: int) -> int:
        """Return how many blobs contain a line, at most `limit`."""
        query = "SELECT count(*) FROM (SELECT 1 FROM line WHERE hash = ? LIMIT ?)"
        return int(self._do(lambda db: db.execute(query, (line_hash, limit)).get))

    def existing(self, line_hashes: Sequence[int]) -> set[int]:
        """Return the lines that any blob contains."""
        query = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM line WHERE hash = value)"
        values = f"[{','.join(map(str, line_hashes))}]"
        return self._do(lambda db: {value for (value,) in db.execute(query, (values,))})

    def blobs_with(self, line_hash: int) -> list[str]:
        """Return the blobs that contain a line."""
        query = "SELECT oid FROM line JOIN blob ON blob.id = line.blob WHERE hash = ?"
        return self._do(lambda db: [oid.hex() for (oid,) in db.execute(query, (line_hash,))])

    def use_memory(self) -> None:
        """Stop using the file."""
        with self._lock:
            self._failures = MAX_FAILURES
            self._drop()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _do(self, work: Callable[[apsw.Connection], T]) -> T:
        with self._lock:
            previous = self._connection
            try:
                connection = self._open_connection()
                if previous is not None and connection is not previous:
                    raise CacheLost  # the file was deleted or replaced, and with it what this process has added
                return work(connection)
            except apsw.BusyError:
                self.use_memory()
                raise CacheLost from None
            except (apsw.Error, OSError, UnicodeDecodeError, ValueError) as problem:
                self._discard_file(problem)
                raise CacheLost from None

    def _open_connection(self) -> apsw.Connection:
        if self._connection is not None and self._file in (None, _file_identity(self._path)):
            return self._connection
        self.close()
        in_memory = self._failures >= MAX_FAILURES
        self._connection = _open(IN_MEMORY if in_memory else str(self._path))
        self._file = None if in_memory else _file_identity(self._path)
        return self._connection

    def _discard_file(self, problem: Exception) -> None:
        """Delete the file, unless another process has already replaced it; after the second failure, use none."""
        self._failures += 1
        self._drop()
        if self._file in (None, _file_identity(self._path)):
            with suppress(OSError):
                database.remove_database(self._path)
            if self._failures <= MAX_FAILURES and not isinstance(problem, OSError):
                database.report_damage(self._path, "git", problem)
        self._file = None

    def _drop(self) -> None:
        with suppress(apsw.Error):
            self.close()
        self._connection = None

    def _after_fork(self) -> None:
        # In a forked child the connection belongs to the parent, and the lock may be held by one of its threads.
        # Closing the connection would release the parent's file locks, so it is only put aside.
        self._lock = threading.RLock()
        if self._connection is not None:
            _parent_connections.append(self._connection)
        self._connection = None


def _open(path: str) -> apsw.Connection:
    connection = apsw.Connection(path) if path == IN_MEMORY else database.open_database(Path(path), create=True)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -32000")
    version = connection.execute("PRAGMA user_version").get
    if version not in (0, LAYOUT):
        connection.close()
        raise database.OtherFormat("another layout")
    try:
        if version == 0:
            _create_tables(connection)
        elif path != IN_MEMORY:
            database.check_wal(Path(path), connection, _stamp)
    except BaseException:
        connection.close()
        raise
    return connection


def _stamp(db: apsw.Connection) -> int:
    return int(db.execute("SELECT transactions FROM stamp").get)


def _create_tables(connection: apsw.Connection) -> None:
    # When several processes switch to WAL at the same time, SQLite fails at once instead of waiting.
    for last_try in (*[False] * 100, True):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT")
        except apsw.BusyError:
            if last_try:
                raise
            time.sleep(0.02)
        else:
            return


def _add(db: apsw.Connection, blobs: Sequence[tuple[str, Iterable[int]]]) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        rows = []
        for blob_id, hashes in blobs:
            db.execute("INSERT OR IGNORE INTO blob (oid) VALUES (?)", (bytes.fromhex(blob_id),))
            if db.changes():
                number = db.last_insert_rowid()
                rows += [(line_hash, number) for line_hash in hashes]
        rows.sort()  # neighbours in the B-tree are written together
        db.executemany("INSERT OR IGNORE INTO line VALUES (?, ?)", rows)
        db.execute(_COUNT)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            with suppress(apsw.Error):
                db.execute("ROLLBACK")
        raise


def _file_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_caches: weakref.WeakSet[BlobLineCache] = weakref.WeakSet()
_parent_connections: list[apsw.Connection] = []


def _after_fork() -> None:
    for cache in list(_caches):
        cache._after_fork()


os.register_at_fork(after_in_child=_after_fork)
