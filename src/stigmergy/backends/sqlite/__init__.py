"""The default back end: an append-only journal and a SQLite index beside it."""

from stigmergy.backends.sqlite.recover import over_journals
from stigmergy.backends.sqlite.store import INDEX, SqliteStore, create_store

__all__ = ["INDEX", "SqliteStore", "create_store", "over_journals"]
