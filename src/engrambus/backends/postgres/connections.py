"""Connections to a PostgreSQL database: a pool of them, and transactions in which one project's rows can be seen.

Every transaction says which project it is about (`engrambus.project`), and row-level security shows it no rows of any
other (decision 122). All settings are made for the transaction only, so that connections may be shared by a pooler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import psycopg
from psycopg import RawCursor
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper, NumericBinaryLoader, NumericLoader
from psycopg.types.string import StrDumper

from engrambus.backends.postgres.opening import shown_url
from engrambus.backends.postgres.problems import naming_the_server, server_problem
from engrambus.core.lock import LOCK_SECONDS
from engrambus.errors import StoreRights, StoreUnreachable, StoreUrlInvalid

SCHEMA = "engrambus"
"""The schema of every table of ours."""
MEMBER = "engrambus_member"
"""The role that a login takes which row-level security would not bind."""
MAX_CONNECTIONS = 16
MAX_PREPARED = 500
"""Statements that stay prepared on a connection: more than there are queries."""
CONNECT_SECONDS = 10
POOL_SECONDS = 10.0
"""How long a call waits for a connection while all are in use."""
IDLE_SECONDS = 60.0
"""After that a connection that nobody uses is closed."""
LEAST_VERSION = 140000
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_HIDDEN = "***"
_NO_CHARACTER = "\ufdd0"
"""A code point that is no character and never will be."""


class _Text(StrDumper):
    """Sends a text as such, not as a literal of unknown type. PostgreSQL knows no NUL: one is found nowhere."""

    def dump(self, obj: Any) -> Any:
        return super().dump(obj.replace("\0", _NO_CHARACTER) if "\0" in obj else obj)


class _BoolAsInteger(Int8Dumper):
    """Sends a bool as a number: the index's flags are numbers, as in SQLite."""

    def dump(self, obj: Any) -> bytes:
        return b"1" if obj else b"0"


class _WholeNumber(NumericLoader):
    """Reads a numeric, which sums of integers are, as an int."""

    def load(self, data: Any) -> Any:
        return int(super().load(data))


class _WholeNumberBinary(NumericBinaryLoader):
    def load(self, data: Any) -> Any:
        return int(super().load(data))


def configure(connection: psycopg.Connection[Any]) -> None:
    """Make a connection send and read values as the index's code expects them."""
    adapters = connection.adapters
    adapters.register_dumper(str, _Text)
    adapters.register_dumper(int, Int8Dumper)  # always the same type, so that a statement is prepared once
    adapters.register_dumper(bool, _BoolAsInteger)
    adapters.register_loader("numeric", _WholeNumber)
    adapters.register_loader("numeric", _WholeNumberBinary)


class Rows:
    """The rows that several executions of a query returned."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def fetchone(self) -> Any:
        """Return the next row; None after the last."""
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        """Return the rows that were not read yet."""
        return list(self._rows)


class ProjectSession:
    """One transaction on one project. It is called as a connection of SQLite is, so that both run the same code.

    Parameters are written `$1`, `$2`, …; a bool is sent as 1 or 0. `queries` are the named queries in this dialect.
    """

    def __init__(self, connection: psycopg.Connection[Any], queries: Mapping[str, str]) -> None:
        self.connection = connection
        self.queries = queries
        self._last: Any = None

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Execute a statement; return its rows."""
        cursor = RawCursor(self.connection)
        cursor.execute(query, values, binary=True)
        self._last = cursor
        return cursor

    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> Any:
        """Execute a statement once for each row of values; return all rows of a query."""
        cursor = RawCursor(self.connection)
        cursor.format = psycopg.pq.Format.BINARY
        self._last = cursor
        values = rows if isinstance(rows, list) else list(rows)
        if not query.startswith("SELECT"):
            if values:
                cursor.executemany(query, values)
            return Rows([])
        found: list[Any] = []
        if values:
            cursor.executemany(query, values, returning=True)
            for _ in cursor.results():
                found += cursor.fetchall()
        return Rows(found)

    def changes(self) -> int:
        """Return how many rows the last statement has changed."""
        return int(self._last.rowcount)


class ConnectionPool:
    """Idle connections to one database, the last one used on top.

    A new one is opened by the caller that needs it, so that it is told at once, and in the server's words, why that
    fails (decision 122).
    """

    def __init__(self, conninfo: str, name: str, max_connections: int) -> None:
        self._conninfo = conninfo
        self._name = name
        self._max_connections = max_connections
        self._free = threading.Semaphore(max_connections)
        self._idle: list[tuple[float, psycopg.Connection[Any]]] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def take(self) -> tuple[psycopg.Connection[Any], bool]:
        """Return a connection, and True if it was opened for this call."""
        if not self._free.acquire(timeout=POOL_SECONDS):
            raise StoreUnreachable(
                f"All {self._max_connections} connections to {self._name} are in use. Nothing was stored.",
                limit=self._max_connections,
                hint="Try again.",
            )
        try:
            with self._lock:
                if self._idle:
                    return self._idle.pop()[1], False
            return connect(self._conninfo), True
        except BaseException:
            self._free.release()
            raise

    def give_back(self, connection: psycopg.Connection[Any]) -> None:
        """Return a connection to the pool, unless it is closed; close those that nobody has used for long."""
        now = time.monotonic()
        with self._lock:
            surplus = [idle for since, idle in self._idle if now - since > IDLE_SECONDS]
            self._idle = self._idle[len(surplus) :]
            if self._is_closed:
                surplus.append(connection)
            elif not connection.closed:
                self._idle.append((now, connection))
        for idle in surplus:
            idle.close()
        self._free.release()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they come back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()


def connect(conninfo: str) -> psycopg.Connection[Any]:
    """Open a connection whose transactions are begun and ended by statements."""
    connection = psycopg.connect(
        conninfo, connect_timeout=CONNECT_SECONDS, application_name="engrambus", autocommit=True
    )
    connection.prepared_max = MAX_PREPARED
    configure(connection)
    return connection


class ServerFacts(NamedTuple):
    """The server and the login, as they were when the database was opened."""

    version: int
    """Version of the server, as PostgreSQL numbers it: 180004 is 18.4."""
    login: str
    is_exempt: bool
    """True if row-level security does not bind this login, so that it takes another role."""


class Database:
    """One PostgreSQL database, shared by the stores of a process. `close` it as often as it was opened or shared."""

    def __init__(self, url: str, *, lock_seconds: float = LOCK_SECONDS, max_connections: int = MAX_CONNECTIONS) -> None:
        self._conninfo = check_url(url)
        self.name = shown_url(url)
        """The URL without a password."""
        self.lock_seconds = lock_seconds
        self._users = 1
        self._users_lock = threading.Lock()
        with self.connect() as connection:
            self.facts = _facts(connection)
        self._pool = ConnectionPool(self._conninfo, self.name, max_connections)

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a connection of one's own, outside of the pool; close it after the block."""
        with naming_the_server(self.name):
            connection = connect(self._conninfo)
            try:
                yield connection
            finally:
                connection.close()

    def share(self) -> Database:
        """Return this database for one more user, who closes it."""
        with self._users_lock:
            self._users += 1
        return self

    def close(self) -> None:
        """Close the connections when the last user has closed."""
        with self._users_lock:
            self._users -= 1
            is_last = self._users == 0
        if is_last:
            self._pool.close()

    @contextmanager
    def reading(self, project: int, queries: Mapping[str, str]) -> Iterator[ProjectSession]:
        """Open a snapshot of a project: everything read in the block is as of one moment."""
        begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {self._settings(project)}"
        connection = self._begin(begin)
        try:
            with naming_the_server(self.name):
                yield ProjectSession(connection, queries)
        except BaseException:
            self._abandon(connection)
            raise
        try:
            connection.execute(
                "ROLLBACK", prepare=False
            )  # nothing was written; a connection that is lost here has served
        except psycopg.Error:
            self._abandon(connection)
        else:
            self._pool.give_back(connection)

    @contextmanager
    def writing(self, project: int, queries: Mapping[str, str]) -> Iterator[ProjectSession]:
        """Open a transaction on a project and commit it after the block; undo it if the block raises.

        Raise CommitUnknown if the connection is lost while the server commits.
        """
        milliseconds = max(1, round(self.lock_seconds * 1000))
        connection = self._begin(f"BEGIN; {self._settings(project)}; SET LOCAL lock_timeout = {milliseconds}")
        try:
            with naming_the_server(self.name):
                yield ProjectSession(connection, queries)
        except BaseException:
            self._abandon(connection)
            raise
        try:
            with naming_the_server(self.name, is_commit=True):
                connection.execute("COMMIT", prepare=False)
        except BaseException:
            self._abandon(connection)
            raise
        self._pool.give_back(connection)

    @contextmanager
    def pipelined(
        self, project: int, queries: Mapping[str, str], settings: Mapping[str, str], *, read_only: bool = False
    ) -> Iterator[ProjectSession]:
        """Open a transaction as `writing` or `reading` do, without waiting for answers that nobody reads.

        Statements are sent as they come, and so is COMMIT: one exchange for all that follow the last read. `settings`
        hold for the transaction, besides those of every transaction.
        """
        with naming_the_server(self.name):
            connection, _ = self._pool.take()
        is_commit = False
        try:
            with connection.pipeline():
                connection.execute(_BEGIN_READING if read_only else "BEGIN", prepare=False)
                self._configure(connection, project, settings)
                yield ProjectSession(connection, queries)
                is_commit = not read_only
                connection.execute("ROLLBACK" if read_only else "COMMIT", prepare=False)
        except psycopg.Error as problem:
            self._abandon(connection)
            refusal = server_problem(problem, self.name, is_commit=is_commit)
            if refusal is None:
                raise
            raise refusal from problem
        except BaseException:
            self._abandon(connection)
            raise
        self._pool.give_back(connection)

    def _configure(self, connection: psycopg.Connection[Any], project: int, settings: Mapping[str, str]) -> None:
        """Make all settings of a transaction by one statement."""
        values = {
            "search_path": SCHEMA,
            "engrambus.project": str(project),
            "lock_timeout": str(max(1, round(self.lock_seconds * 1000))),
            **settings,
        }
        if self.facts.is_exempt:
            values["role"] = MEMBER
        calls = ", ".join(f"set_config('{name}', ${place + 1}, true)" for place, name in enumerate(values))
        RawCursor(connection).execute(f"SELECT {calls}", [*values.values()])  # our own names

    def _settings(self, project: int) -> str:
        role = f"SET LOCAL ROLE {MEMBER}; " if self.facts.is_exempt else ""
        return f"{role}SET LOCAL search_path = {SCHEMA}; SET LOCAL engrambus.project = '{project:d}'"

    def _begin(self, statement: str) -> psycopg.Connection[Any]:
        """Take a connection and begin a transaction; one that the server has closed is replaced."""
        with naming_the_server(self.name):
            while True:
                connection, is_new = self._pool.take()
                try:
                    connection.execute(statement)
                    return connection
                except psycopg.OperationalError:
                    self._abandon(connection)
                    if is_new or not connection.closed:
                        raise
                    # Nothing was asked on it yet, so another connection may be tried.
                except BaseException:
                    self._abandon(connection)
                    raise

    def _abandon(self, connection: psycopg.Connection[Any]) -> None:
        """Undo a transaction and give its connection back; a connection that is lost or busy is closed."""
        with suppress(psycopg.Error):
            if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                connection.execute("ROLLBACK", prepare=False)
            if connection.info.transaction_status != TransactionStatus.IDLE:
                connection.close()
        self._pool.give_back(connection)


def check_url(url: str) -> str:
    """Return a URL of a database that can be connected to, or refuse it; nothing is connected."""
    try:
        if not url.startswith(("postgresql://", "postgres://")):
            raise psycopg.ProgrammingError("it does not begin with postgresql://")
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as problem:
        reason = str(problem).strip().splitlines()[0]
        if (password := _password(url)) is not None:
            reason = reason.replace(password, _HIDDEN)
        raise StoreUrlInvalid(
            f"ENGRAMBUS_STORE is not the URL of a database: {reason}.",
            field="ENGRAMBUS_STORE",
            hint="postgresql://user@host:5432/database",
        ) from None
    return url


def _password(url: str) -> str | None:
    credentials = url.partition("://")[2].rpartition("@")[0]
    return credentials.partition(":")[2] or None


def _facts(connection: psycopg.Connection[Any]) -> ServerFacts:
    row: Any = connection.execute(
        "SELECT session_user::text, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    facts = ServerFacts(connection.info.server_version, *row)
    if facts.version < LEAST_VERSION:
        raise StoreRights(
            f"The server is PostgreSQL {facts.version // 10000}; {LEAST_VERSION // 10000} is the oldest that works.",
            limit=LEAST_VERSION // 10000,
        )
    return facts
