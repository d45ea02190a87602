"""The work of a project on disk: the journal of tuples and its index."""

from engrambus.backends.sqlite.work.store import WORK_INDEX, WORK_JOURNAL, WORK_LOCK, SqliteWork, create_work

__all__ = ["WORK_INDEX", "WORK_JOURNAL", "WORK_LOCK", "SqliteWork", "create_work"]
