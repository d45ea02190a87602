"""Opening a database by its URL. The driver is an extra: nothing here imports it before a database is opened."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from engrambus.errors import StoreDriverMissing

if TYPE_CHECKING:
    from engrambus.backends.postgres.connections import Database
    from engrambus.backends.postgres.migrations import Migration


def open_database(url: str, *, lock_seconds: float) -> Database:
    """Connect to the database at a URL, whose tables are created if it is empty and checked otherwise."""
    check_packages()
    from engrambus.backends.postgres.connections import Database
    from engrambus.backends.postgres.migrations import prepare

    database = Database(url, lock_seconds=lock_seconds)
    try:
        prepare(database)
    except BaseException:
        database.close()
        raise
    return database


def migrate_database(url: str, *, lock_seconds: float) -> list[Migration]:
    """Apply the migrations that the database at a URL has not had; return them."""
    check_packages()
    from engrambus.backends.postgres.connections import Database
    from engrambus.backends.postgres.migrations import migrate

    database = Database(url, lock_seconds=lock_seconds)
    try:
        return migrate(database)
    finally:
        database.close()


def describe(database: Database) -> str:
    """Describe a database for a person: where it is, its version, and how rows of other projects are kept apart."""
    from engrambus.backends.postgres.connections import MEMBER
    from engrambus.backends.postgres.migrations import migrations

    major, minor = divmod(database.facts.version, 10_000)
    role = f"login {database.facts.login}" + (f" as {MEMBER}" if database.facts.is_exempt else "")
    return f"{database.name}, PostgreSQL {major}.{minor}, tables {migrations()[-1].version}, {role}"


def shown_url(url: str) -> str:
    """Return a URL without its password and without its parameters, as messages show it."""
    scheme, _, rest = url.partition("://")
    credentials, separator, place = rest.partition("?")[0].rpartition("@")
    return f"{scheme}://{credentials.partition(':')[0]}{separator}{place}"


def check_packages() -> None:
    """Refuse if the driver is not installed."""
    if find_spec("psycopg") is None:
        raise StoreDriverMissing(
            "ENGRAMBUS_STORE is set, but the package psycopg is not installed.",
            field="ENGRAMBUS_STORE",
            hint="Install the extra engrambus[postgres], or unset ENGRAMBUS_STORE.",
        )
