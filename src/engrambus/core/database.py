"""SQLite files of ours, whose pages are checked: a damaged one is noticed, said once and made again (decision 93).

Each page ends with a checksum, which SQLite's checksum VFS writes and checks. What the VFS leaves open is checked when
a file is opened: the header byte that switches checking off, the length, and a `-wal` file that has lost its end. Every
such file is a copy of something else, so it may be deleted at any time.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import apsw

from engrambus.core import files

CHECKED_VFS = "cksmvfs"
CHECKSUM_BYTES = 8
"""Bytes at the end of a page that the checksum VFS needs; another number switches it off."""
BUSY_TIMEOUT_MS = 10_000
CACHE_BUSY_TIMEOUT_MS = 200
"""Short: without a cache an answer is slower, not different."""
_MISREAD = frozenset(
    (apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)
)
_EXTENSIONS = (".so", ".dylib", ".dll")


class FileDamaged(apsw.CorruptError):
    """The file is not as it was written, but SQLite could read it."""


class OtherFormat(FileDamaged):
    """The file was written by another version of Engram Bus."""


def is_damage(problem: BaseException) -> bool:
    """True if SQLite failed because a file is not as it was written, and making it again may help."""
    if isinstance(problem, apsw.IOError):
        return getattr(problem, "extendedresult", 0) in _MISREAD
    return isinstance(problem, (apsw.CorruptError, apsw.NotADBError))


@cache
def checksum_bytes() -> int:
    """Load the checksum VFS once per process; return the bytes it needs per page, 0 where apsw comes without it."""
    folder = Path(apsw.__file__).parent / "sqlite_extra_binaries"  # decision 39: apsw.sqlite_extra takes 4 ms to import
    if not any((folder / f"cksumvfs{extension}").is_file() for extension in _EXTENSIONS):
        return 0
    with closing(apsw.Connection(":memory:")) as connection:
        connection.enable_load_extension(True)
        connection.load_extension(str(folder / "cksumvfs"))
    return CHECKSUM_BYTES


def open_database(path: Path, *, create: bool = False, flags: int = 0) -> apsw.Connection:
    """Open a file of ours with SQLite: neither it nor its `-wal` and `-shm` may be links (decision 65).

    With `create`, an empty file gets room for checksums. A file whose header or length is wrong is refused as damaged.
    """
    name = files.check_database(path, create=create)
    reserved = checksum_bytes()
    flags |= apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(name, flags=flags, vfs=CHECKED_VFS if reserved else None)
    try:
        size = os.stat(name).st_size
        if size == 0 and create:
            connection.reserve_bytes("main", reserved)
        elif size > 0:
            _check_header(connection, reserved)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_header(connection: apsw.Connection, reserved: int) -> None:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    pages = connection.pragma("page_count")  # reads the header, and the end of the WAL
    stored = connection.reserve_bytes("main")
    if stored != reserved and stored in (0, CHECKSUM_BYTES):
        raise OtherFormat("it was written without checksums, or with them")
    if stored != reserved:  # it would switch checking off
        raise FileDamaged("its header is damaged")
    size = os.stat(connection.filename).st_size
    whole = size >= pages * connection.pragma("page_size")
    if pages == 0 or (not whole and not has_wal(Path(connection.filename))):
        raise FileDamaged("it is shorter than it was")


def find_problem(path: Path) -> str | None:
    """Read every page of a database of ours; explain what is wrong with it, None if nothing is."""
    try:
        with closing(open_database(path)) as connection:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            ((result, *_), *_) = connection.execute("PRAGMA integrity_check(1)").fetchall()
    except (OtherFormat, apsw.BusyError, FileNotFoundError):  # made again when it is used, in use, or gone
        return None
    except (apsw.Error, UnicodeDecodeError) as problem:
        return f"it is damaged ({problem})"
    return None if result == "ok" else f"it is damaged ({result})"


def open_main_file(path: Path) -> apsw.Connection:
    """Open a database as it is without its `-wal` file, to read what was moved from there."""
    reserved = checksum_bytes()
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW
    return apsw.Connection(f"{path.as_uri()}?immutable=1", flags=flags, vfs=CHECKED_VFS if reserved else None)


def has_wal(path: Path) -> bool:
    """True if a database has a `-wal` file with content: it is open elsewhere, or its last process was killed."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except OSError:
        return False


def remove_database(path: Path) -> None:
    """Delete a database with its `-wal` and `-shm` files; those first, or a new database would adopt them."""
    for part in (*files.DATABASE_PARTS[1:], ""):
        files.remove(f"{path}{part}")


def report_damage(path: Path | str, source: str, problem: BaseException | None = None) -> None:
    """Say once that a file was damaged and is made again: in the log where there is one, else on stderr."""
    if isinstance(problem, OtherFormat):
        return
    reason = f" ({problem})" if problem is not None and str(problem) else ""
    print_note(f"{path} was damaged{reason}; it is made again from {source}.")


def print_note(text: str) -> None:
    """Say something that a person should know: in the log where there is one, else on stderr."""
    logging = sys.modules.get("logging")  # decision 39: a command does not load it for this
    logger = logging.getLogger("engrambus.damage") if logging is not None else None
    if logger is not None and logger.hasHandlers():
        logger.warning(text)
    elif sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(f"note: {text}", file=sys.stderr)


class CacheFile:
    """A cache in a database of its own. Safe across threads and processes; what is damaged is deleted and made again.

    Without a path, or where the file cannot be used, nothing is stored and nothing found.
    """

    def __init__(self, path: Path | None, schema: str, layout: int, *, secure_delete: bool = False) -> None:
        """`schema` creates the tables; a file with another `layout` is deleted. `secure_delete` overwrites rows."""
        self._path = path
        self._schema = f"{schema} PRAGMA user_version = {layout};"
        self._layout = layout
        self._secure_delete = secure_delete
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        _caches.add(self)

    def run(self, query: str, rows: Sequence[tuple[object, ...]]) -> list[tuple[object, ...]]:
        """Run a statement once for each row of values, in one transaction, and return what it yields."""
        if self._path is None:
            return []
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open(self._path)
                with self._connection:
                    values = self._connection.executemany(query, rows).fetchall()
            except (apsw.BusyError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.FullError, OSError):
                return []
            except (apsw.Error, UnicodeDecodeError) as problem:
                self._discard(self._path, problem)
                return []
            return values

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                with suppress(apsw.Error):
                    self._connection.close()
            self._connection = None

    def _open(self, path: Path) -> apsw.Connection:
        connection = open_database(path, create=True)
        try:
            connection.set_busy_timeout(CACHE_BUSY_TIMEOUT_MS)
            connection.execute("PRAGMA synchronous = OFF")
            if self._secure_delete:
                connection.execute("PRAGMA secure_delete = ON")
            version = connection.pragma("user_version")
            if version == 0:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"BEGIN IMMEDIATE; {self._schema} COMMIT")
            elif version != self._layout:
                raise OtherFormat("it has another layout")
        except BaseException:
            connection.close()
            raise
        return connection

    def _discard(self, path: Path, problem: Exception) -> None:
        if self._connection is not None:
            with suppress(apsw.Error):
                self._connection.close()
        self._connection = None
        with suppress(OSError):
            remove_database(path)
        report_damage(path, "git and the journal", problem)

    def _after_fork(self) -> None:
        # Closing the parent's connection would release the parent's file locks, so it is only put aside.
        self._lock = threading.Lock()
        if self._connection is not None:
            _parent_connections.append(self._connection)
        self._connection = None


_caches: weakref.WeakSet[CacheFile] = weakref.WeakSet()
_parent_connections: list[object] = []


def _after_fork() -> None:
    for cached in list(_caches):
        cached._after_fork()


os.register_at_fork(after_in_child=_after_fork)

StampOf = Callable[[apsw.Connection], int]
"""Reads a number that every transaction on a database raises."""


def check_wal(path: Path, connection: apsw.Connection, stamp_of: StampOf) -> None:
    """Refuse a database whose `-wal` file lost its end after the end was moved into the main file.

    SQLite would show old pages of the one among new pages of the other, each with a right checksum.
    """
    if not has_wal(path):
        return
    with suppress(apsw.BusyError, apsw.CantOpenError), closing(open_main_file(path)) as main:
        try:
            moved = stamp_of(main)
        except apsw.SQLError:  # its tables are still in the WAL only
            return
        if moved > stamp_of(connection):
            raise FileDamaged("its -wal file has lost its end")
