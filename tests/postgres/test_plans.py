"""No statement reads a whole table, except those that are meant to. # YT-19"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from engrambus.backends.postgres import open_database
from engrambus.backends.postgres.connections import SCHEMA, Database
from engrambus.backends.postgres.projects import add_project
from engrambus.backends.postgres.queries import queries
from tests.harness.postgres_server import PostgresServer

ROWS = 150
MANY = {"postings": 3000, "posting_blocks": 1000}
"""Rows of tables that have many for each engram."""
PROJECTS = [f"01KDVP9R00STGMERGYTEST{number:04}" for number in range(25)]
VALUES = {"text": "'v' || n", "bigint": "n", "integer": "n", "double precision": "n", "bytea": "'\\x00'"}
FEW = {"space": 3, "kind": 4, "scope": 3, "run": 5}
"""Columns with few different values."""
ONE_ROW = {"applied", "learned_from"}
"""Tables with one row for each project: 25 rows are read faster without an index."""
ALL_ROWS_OF_THE_PROJECT = {
    *("pending", "delete_all_pending"),  # at most 32 rows
    *("delete_tail", "tail_terms"),  # when some thousand postings move on into blocks
    "all_posting_blocks",  # verify
    *("revoke_all_tokens", "revoke_all_old_tokens", "revoke_all_grants", "end_all_reservations", "drop_later_puts"),
    *("correct_turns", "correct_agents", "expiring_after"),  # a person has set the project's clock right
    *(
        "live_counts",
        "count_agents",
        "tallies_of_project",
        "kind_counts_of_project",
        "denial_counts_of_project",
    ),  # stats
    *("first_run_at", "current_run", "runs", "session_runs", "newest_agents", "tokens"),  # lists, newest first
    *("policy", "applied_policies", "promotions", "contributions", "contradictions", "newest_gate_overrides"),
    *("last_ordinal_at", "last_past_ordinal_at", "ended_since"),  # questions about the past
    *(
        "unwanted_keys",
        "learned_engrams",
        "learned_ordinals",
        "pinned_engrams",
        "grants_left",
    ),  # few of them: learned, forgotten, pinned
    *("reservations", "drop_expired_reservations", "end_reservations_of_run", "end_reservations_of"),  # few are open
    *(
        "open_requests",
        "pinned_episodes",
        "important_episodes",
        "mark_superseded",
        "waiting_contradictions",
    ),  # partial indexes hold few rows
    *("mail_of_people", "mail_before_of_people", "mail_items_of_people", "count_mail_of_people"),
}
"""Statements that may read all rows that an index has of their project, and why."""


def fill(database: Database) -> None:
    """Write rows into every table, for two projects."""
    numbers = [add_project(database, project) for project in PROJECTS]
    with database.connect() as connection:
        columns = connection.execute(
            "SELECT table_name, string_agg(column_name, ', '), string_agg(data_type, ',') "
            "FROM information_schema.columns WHERE table_schema = %s AND is_identity = 'NO' "
            "AND column_name <> 'project' AND table_name NOT IN ('projects', 'migrations', 'applied') "
            "AND table_name NOT LIKE 'work%%' "  # those of work: test_work_plans.py
            "GROUP BY table_name",
            (SCHEMA,),
        ).fetchall()
    for number in numbers:
        with database.writing(number, {}) as session:
            for table, names, types in columns:
                pairs = zip(names.split(", "), types.split(","), strict=True)
                values = [
                    VALUES[kind].replace("n", f"(n % {FEW[name]})") if name in FEW else VALUES[kind]
                    for name, kind in pairs
                ]
                listed = ", ".join(
                    "1" if name == "one" else value for name, value in zip(names.split(", "), values, strict=True)
                )
                rows = f"SELECT {listed} FROM generate_series(1, {MANY.get(table, ROWS)}) AS n"
                session.execute(f"INSERT INTO {table} ({names}) {rows} ON CONFLICT DO NOTHING")
    with database.connect() as connection:
        connection.execute("ANALYZE")


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    """A database with 4,000 rows of each of two projects in every table."""
    with closing(open_database(postgres_server.url(postgres_server.new_database()), lock_seconds=5)) as database:
        fill(database)
        yield database


@pytest.fixture(scope="module")
def plans(database: Database) -> dict[str, str]:
    """The plan of each statement, whatever its parameters."""
    number = add_project(database, PROJECTS[0])
    with database.reading(number, {}) as session:
        return {
            name: "\n".join(line for (line,) in session.connection.execute(f"EXPLAIN (GENERIC_PLAN) {query}"))
            for name, query in queries().items()
        }


def test_no_statement_reads_a_table_without_an_index(plans: dict[str, str]) -> None:
    scans = {(name, table) for name, plan in plans.items() for table in re.findall(r"Seq Scan on (\w+)", plan)}
    assert {table for _, table in scans} <= ONE_ROW, scans


def test_every_other_statement_asks_an_index_for_more_than_the_project(plans: dict[str, str]) -> None:
    conditions = {name: re.findall(r"Index Cond: (.*)", plan) for name, plan in plans.items()}
    only_project = {
        name
        for name, found in conditions.items()
        if any(
            re.fullmatch(r"\(project = \(NULLIF\(current_setting\([^()]*\), ''::text\)\)::integer\)", one)
            for one in found
        )
    }
    assert only_project <= ALL_ROWS_OF_THE_PROJECT, {
        name: plans[name] for name in only_project - ALL_ROWS_OF_THE_PROJECT
    }
    assert {"find_engram", "posting_lists", "traits", "body", "mail", "agent", "turn", "twins"}.isdisjoint(only_project)
