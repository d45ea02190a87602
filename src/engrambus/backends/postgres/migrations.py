"""Bringing the tables in a database up to this version: numbered files of SQL, each applied once, never undone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg import errors as pg

from engrambus.backends.postgres.connections import MEMBER, SCHEMA, Database
from engrambus.backends.postgres.problems import naming_the_server
from engrambus.errors import StoreRights, StoreSchemaNew, StoreSchemaOld

LOCK_ID = 0x656E6772
"""Number of the advisory lock that whoever migrates holds."""
LOCK_TIMEOUT = "10s"
"""How long a migration waits for a table that others use: meanwhile they would wait behind it."""
_FOLDER = Path(__file__).with_name("migrations")


class Migration(NamedTuple):
    """One step from one version of the tables to the next."""

    version: int
    name: str
    statements: str

    @property
    def digest(self) -> str:
        """The first characters of the hash of its text."""
        return hashlib.sha256(self.statements.encode()).hexdigest()[:32]


class SchemaState(NamedTuple):
    """Which migrations a database has had."""

    applied: Sequence[int]
    exists: bool
    """False if the schema itself is not there yet."""

    @property
    def version(self) -> int:
        """The newest migration; 0 before the first."""
        return max(self.applied, default=0)


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the migrations of this version, oldest first."""
    files = sorted(_FOLDER.glob("[0-9]*.sql"))
    return tuple(
        Migration(int(file.name.partition("_")[0]), file.stem.partition("_")[2], file.read_text("utf-8"))
        for file in files
    )


def prepare(database: Database) -> None:
    """Check that the tables are those of this version; create them in an empty database."""
    with database.connect() as connection:
        state = read_state(connection)
        if not state.version:
            _apply_missing(connection, database)
            state = read_state(connection)
        check(state, database.name)
        _check_role(connection, database)


def migrate(database: Database) -> list[Migration]:
    """Apply the migrations that a database has not had; return them. Several may try at once."""
    with database.connect() as connection:
        state = read_state(connection)
        if state.version > migrations()[-1].version:
            check(state, database.name)
        return _apply_missing(connection, database)


def check(state: SchemaState, name: str) -> None:
    """Refuse tables of another version."""
    newest = migrations()[-1].version
    if state.version < newest:
        raise StoreSchemaOld(
            f"The tables in {name} have version {state.version}; this program needs {newest}.",
            limit=newest,
            used=state.version,
            hint="Bring them up to date, while others go on working: engrambus migrate.",
        )
    if state.version > newest:
        raise StoreSchemaNew(
            f"The tables in {name} have version {state.version}; this program knows {newest}.",
            limit=newest,
            used=state.version,
            hint="Upgrade Engram Bus on this machine.",
        )


def read_state(connection: psycopg.Connection[Any]) -> SchemaState:
    """Return which migrations a database has had."""
    row: Any = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", (SCHEMA,)).fetchone()
    if not row[0]:
        return SchemaState((), exists=False)
    try:
        rows = connection.execute(f"SELECT version FROM {SCHEMA}.migrations ORDER BY version").fetchall()  # noqa: S608
    except pg.UndefinedTable:
        return SchemaState((), exists=True)
    return SchemaState([version for (version,) in rows], exists=True)


def _apply_missing(connection: psycopg.Connection[Any], database: Database) -> list[Migration]:
    """Apply what is missing, one migration in one transaction, under a lock that others who migrate wait for."""
    connection.execute("SELECT pg_advisory_lock(%s)", (LOCK_ID,))
    try:
        state = read_state(connection)
        missing = [migration for migration in migrations() if migration.version not in state.applied]
        if not state.version:
            with connection.transaction():  # as a whole, so that nobody finds the tables of an older version
                _create_schema(connection, database, exists=state.exists)
                for migration in missing:
                    _apply(connection, migration)
        else:
            for migration in missing:
                with connection.transaction():
                    _apply(connection, migration)
        _grant(connection, database)
        return missing
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", (LOCK_ID,))


def _create_schema(connection: psycopg.Connection[Any], database: Database, *, exists: bool) -> None:
    """Create the schema, unless somebody with more rights has done so, and the table of its migrations."""
    try:
        if not exists:
            connection.execute(f"CREATE SCHEMA {SCHEMA}")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {SCHEMA}.migrations (version integer PRIMARY KEY, "
            "name text NOT NULL, digest text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
    except pg.InsufficientPrivilege as problem:
        raise StoreRights(
            f"{database.name} has no tables of Engram Bus yet, and the login {database.facts.login} may not create "
            "them.",
            field="ENGRAMBUS_STORE",
            hint="Run `engrambus migrate` with a login that may create a schema, such as the database's owner.",
        ) from problem


def _apply(connection: psycopg.Connection[Any], migration: Migration) -> None:
    connection.execute(f"SET LOCAL search_path = {SCHEMA}; SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    connection.execute(migration.statements)
    connection.execute(
        f"INSERT INTO {SCHEMA}.migrations (version, name, digest) VALUES (%s, %s, %s)",  # noqa: S608
        (migration.version, migration.name, migration.digest),
    )


def _grant(connection: psycopg.Connection[Any], database: Database) -> None:
    """Let the role that others take use the tables; it is created if this login may."""
    row: Any = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (MEMBER,)).fetchone()
    if row is None:
        try:
            connection.execute(f"CREATE ROLE {MEMBER} NOLOGIN")
        except pg.DuplicateObject:
            pass  # another database of this server was set up at this moment
        except pg.InsufficientPrivilege:
            if database.facts.is_exempt:
                raise
            return  # the owner of the tables works without it
    connection.execute(
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO {MEMBER};"  # noqa: S608  # names of ours
        f"GRANT SELECT ON {SCHEMA}.migrations TO {MEMBER};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA} TO {MEMBER};"
        f"REVOKE INSERT, UPDATE, DELETE ON {SCHEMA}.migrations FROM {MEMBER};"
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {MEMBER}"
    )


def _check_role(connection: psycopg.Connection[Any], database: Database) -> None:
    """Refuse a login that row-level security does not bind and that cannot take the role that it binds."""
    if database.facts.is_exempt:
        with naming_the_server(database.name):
            connection.execute(f"SET ROLE {MEMBER}; RESET ROLE")
