"""Failures of a PostgreSQL server: a code that says what is wrong with it, instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg

from engrambus.errors import (
    CommitUnknown,
    DiskError,
    DiskPressure,
    EngramBusError,
    StoreBusy,
    StoreReadOnly,
    StoreRights,
    StoreUnreachable,
)

_GONE = (
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.DatabaseDropped,
    pg.IdleInTransactionSessionTimeout,
)
_RIGHTS = (pg.InsufficientPrivilege, pg.InvalidAuthorizationSpecification, pg.InvalidPassword, pg.InvalidCatalogName)
_DAMAGE = (pg.DataCorrupted, pg.IndexCorrupted, pg.IoError)


def server_problem(problem: psycopg.Error, name: str, *, is_commit: bool = False) -> EngramBusError | None:
    """Return the refusal that says what is wrong with the server; None if it is a fault of ours."""
    reason = _reason(problem)
    match problem:
        case pg.DiskFull() | pg.OutOfMemory():
            hint = "Free some space there; nothing was stored, and reading goes on."
            return DiskPressure(f"The database server {name} has no room: {reason}.", hint=hint)
        case pg.LockNotAvailable() | pg.QueryCanceled() | pg.DeadlockDetected():
            return StoreBusy(
                f"Another process is writing to this project in {name} for longer than a write may wait: "
                "nothing was stored.",
                hint="Try again; `SELECT * FROM pg_stat_activity` on the server shows who is writing.",
            )
        case pg.TooManyConnections():
            return StoreUnreachable(f"{name} takes no more connections: {reason}.", hint="Raise max_connections there.")
        case pg.ReadOnlySqlTransaction():
            return StoreReadOnly(f"{name} is read-only: {reason}.", hint="Is it a standby? Name the primary.")
        case _ if isinstance(problem, _RIGHTS):
            return StoreRights(
                f"{name}: {reason}.",
                field="ENGRAMBUS_STORE",
                hint="The login needs the right to use the database and the schema `engrambus`: docs/postgresql.md.",
            )
        case _ if isinstance(problem, _DAMAGE):
            return DiskError(f"{name}: {reason}.", hint="Check the disk of the database server.")
    if isinstance(problem, psycopg.OperationalError) and (isinstance(problem, _GONE) or _is_lost(problem)):
        if is_commit:
            return CommitUnknown(
                f"The connection to {name} was lost while the change was being committed: {reason}.",
                hint="Look whether it is there before you repeat it.",
            )
        return StoreUnreachable(
            f"{name} cannot be reached: {reason}. Nothing was stored.", hint="Is the server running, and the URL right?"
        )
    return None


def _is_lost(problem: psycopg.OperationalError) -> bool:
    """True if there is no connection: there is no code, or one of class 08, of which 08P01 is a fault of ours."""
    return problem.sqlstate is None or (problem.sqlstate.startswith("08") and problem.sqlstate != "08P01")


def _reason(problem: psycopg.Error) -> str:
    """Return the first line of what the server or the driver says; neither names a password."""
    lines = str(problem).strip().splitlines()
    return (lines[0].strip() if lines else type(problem).__name__).rstrip(".")


@contextmanager
def naming_the_server(name: str, *, is_commit: bool = False) -> Iterator[None]:
    """Raise failures of the server inside the block as errors that name it."""
    try:
        yield
    except psycopg.Error as problem:
        refusal = server_problem(problem, name, is_commit=is_commit)
        if refusal is None:
            raise
        raise refusal from problem
