"""The store of a team: journal and tables in a PostgreSQL database, shared by many projects (decision 122)."""

from engrambus.backends.postgres.opening import check_packages, describe, migrate_database, open_database, shown_url

__all__ = ["check_packages", "describe", "migrate_database", "open_database", "shown_url"]
