"""The work of a project on PostgreSQL: its journal of tuples and their state, in one transaction."""

from engrambus.backends.postgres.work.store import PostgresWork, create_work_in, has_work

__all__ = ["PostgresWork", "create_work_in", "has_work"]
