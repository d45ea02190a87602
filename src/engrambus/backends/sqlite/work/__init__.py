"""The work of a project on disk: the journal of tuples and its index."""

from engrambus.backends.sqlite.work.store import SqliteWork, create_work
from engrambus.backends.sqlite.work_files import WORK_INDEX, WORK_JOURNAL, WORK_LOCK

__all__ = ["WORK_INDEX", "WORK_JOURNAL", "WORK_LOCK", "SqliteWork", "create_work"]
