"""The projects of a database: each has a small number, which its rows begin with."""

from __future__ import annotations

from engrambus.backends.postgres.connections import Database

NO_PROJECT = 0
"""A number that no project has: its transactions see no rows of any."""


def find_project(database: Database, project_id: str) -> int | None:
    """Return the number of a project; None if the database does not have it."""
    with database.reading(NO_PROJECT, {}) as session:
        row = session.execute("SELECT project FROM projects WHERE project_id = $1", (project_id,)).fetchone()
    return None if row is None else int(row[0])


def add_project(database: Database, project_id: str) -> int:
    """Return the number of a project, which is added if the database does not have it."""
    number = find_project(database, project_id)
    if number is not None:
        return number
    with database.writing(NO_PROJECT, {}) as session:
        session.execute("INSERT INTO projects (project_id) VALUES ($1) ON CONFLICT DO NOTHING", (project_id,))
        row = session.execute("SELECT project FROM projects WHERE project_id = $1", (project_id,)).fetchone()
    return int(row[0])
