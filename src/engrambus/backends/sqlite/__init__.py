"""The default back end: an append-only journal and a SQLite index of it."""

from engrambus.backends.sqlite.store import SqliteStore, check_remains, create_store, over_journals

__all__ = ["SqliteStore", "check_remains", "create_store", "over_journals"]
