"""The default back end: an append-only journal and a SQLite index beside it."""

from engrambus.backends.sqlite.recover import over_journals
from engrambus.backends.sqlite.store import INDEX, SqliteStore, create_store

__all__ = ["INDEX", "SqliteStore", "create_store", "over_journals"]
