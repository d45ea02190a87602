"""The plans of the work store's queries, in a database with many tuples of two projects: what they read. # YT-19

The statistics of a growing table are often old, so plans must not depend on them: see `PLANS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from engrambus.backends.postgres import open_database
from engrambus.backends.postgres.connections import Database
from engrambus.backends.postgres.projects import add_project
from engrambus.backends.postgres.work.database import work_queries
from engrambus.backends.postgres.work.store import PLANS
from engrambus.core import new_ulid
from tests.harness.postgres_server import PostgresServer

TUPLES = 20_000
FILL = f"""
INSERT INTO work_runs (number, run) VALUES (1, 'run');
INSERT INTO work_needs (number, yools) VALUES (1, '[]');
INSERT INTO work_lane_runs (number, lane, needs, rank, run, authority, served) VALUES (1, 'build', 1, 1, 1, 'user', 0);
INSERT INTO work_siblings (number, lane_run, parent, served) VALUES (1, 1, 0, 0);
INSERT INTO work_groups (number, siblings, key, head) SELECT n, 1, 'k' || n, 1 FROM generate_series(1, 500) AS n;
INSERT INTO work_tuples (ordinal, id, state, lane, rank, run, needs, grp, due, epoch, counter, until)
SELECT n, sha256(n::text::bytea), CASE n % 20 WHEN 0 THEN 'waiting' WHEN 1 THEN 'claimed' ELSE 'done' END, 'build',
    1, 1, 1, 1 + n % 500, 1, 1, n, n
FROM generate_series(1, {TUPLES}) AS n;
INSERT INTO work_bodies (ordinal, body) SELECT n, '{{}}' FROM generate_series(1, {TUPLES}) AS n;
INSERT INTO work_receipts (number, id, run, body) SELECT n, sha256(n::text::bytea), 1, '{{}}'
FROM generate_series(1, {TUPLES}) AS n;
INSERT INTO work_links (ordinal, number, receipt) SELECT n, n, sha256(n::text::bytea)
FROM generate_series(1, {TUPLES}) AS n;
"""
WHOLE = frozenset(
    {
        *("all_delayed", "end_later_leases", "everything", "unfinished", "claimed_groups", "clear_slots", "rules"),
        *(
            "correct_starts",
            "served_runs",
            "served_parents",
            "yool_names",
            "waiting_groups",
            "run_totals",
            "lane_counts",
        ),
        *("delayed_counts", "announced_workers", "schedule_count", "all_running", "claimed", "blocked"),
    }
)
"""Queries that read all of a project's rows of some kind: for figures, or because a clock or a rule has changed."""
IN_ORDER = (
    *(
        "waiting",
        "runs_in_turn",
        "siblings_in_turn",
        "groups_in_turn",
        "posted_live",
        "in_lane",
        "last_in_lane",
        "dead",
    ),
    *("dead_letters", "everything", "receipts", "newest_receipts", "schedules", "folded_batches"),
)
"""Queries that must not sort: a caller reads the first rows of many."""
HOT = {
    "waiting": "work_waiting",
    "promote": "work_delayed",
    "late": "work_claimed",
    "lost": "work_claimed",
    "runs_in_turn": "work_open_lane_runs",
    "siblings_in_turn": "work_open_siblings",
    "groups_in_turn": "work_open_groups",
    "claim": "work_tuples_pkey",
    "end_tuple": "work_tuples_pkey",
    "tuples": "work_tuple_ids",
    "tuple": "work_tuple_ids",
    "finished": "work_tuple_ids",
}
"""The indexes by which claims and completions find their rows."""


@pytest.fixture(scope="module", params=["known", "new"])
def filled(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[tuple[Database, int]]:
    """A database with the tuples of two projects, and the number of one: of a new one, statistics say nothing."""
    database = open_database(postgres_server.url(postgres_server.new_database()), lock_seconds=20.0)
    for first in "abc" if request.param == "new" else "ab":
        if first == "c":
            _analyze(database)
        number = add_project(database, new_ulid(0, lambda size, first=first: first.encode() * size))  # type: ignore[misc]
        with database.writing(number, {}) as session:
            for statement in FILL.split(";\n"):
                if statement.strip():
                    session.execute(statement)
    if request.param == "known":
        _analyze(database)
    yield database, number
    database.close()


def _analyze(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("ANALYZE")


def plan(database: Database, project: int, query: str) -> dict[str, Any]:
    """Return the generic plan of a query, as a transaction of the store has it."""
    with database.reading(project, {}) as session:
        for setting, value in PLANS.items():
            session.execute("SELECT set_config($1, $2, true)", (setting, value))
        # By the protocol without parameters, which alone takes a query whose parameters have no values.
        row: Any = session.connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {query}").fetchone()
    found: dict[str, Any] = row[0][0]["Plan"]
    return found


def nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a node and all below it."""
    yield tree
    for child in tree.get("Plans", ()):
        yield from nodes(child)


def planned() -> list[str]:
    """Return the names of the queries that have a plan with tables of work in it."""
    return [
        name
        for name, text in work_queries().items()
        if "work_" in text and "(?)" not in text and not text.startswith("INSERT INTO journal")
    ]


@pytest.mark.parametrize("name", planned())
def test_a_query_finds_its_rows_by_an_index_that_begins_with_the_project(
    filled: tuple[Database, int], name: str
) -> None:
    """Neither a sequential scan, nor the rows of another project."""
    tree = plan(*filled, work_queries()[name])
    for node in nodes(tree):
        table = node.get("Relation Name", "")
        if table.startswith("work_"):
            assert node["Node Type"] != "Seq Scan", f"{name} reads all of {table}"
        if "Index Name" in node and node["Node Type"] != "Bitmap Heap Scan":
            assert re.search(r"\bproject = ", node.get("Index Cond", "")), f"{name}: {node}"
            if name not in WHOLE and table in ("work_tuples", "work_bodies", "work_receipts", "work_links"):
                is_bound = node["Index Cond"].count("AND") or " WHERE " not in work_queries()[name]
                is_partial = node["Index Name"] in ("work_dead", "work_given_up")
                is_in_order = name in ("receipts", "newest_receipts")
                assert is_bound or is_partial or is_in_order, f"{name}: {node}"


@pytest.mark.parametrize("name", IN_ORDER)
def test_a_query_of_many_rows_reads_them_in_the_order_of_an_index(filled: tuple[Database, int], name: str) -> None:
    """So the first of them cost nothing more."""
    tree = plan(*filled, work_queries()[name])
    assert not any(node["Node Type"] in ("Sort", "Incremental Sort") for node in nodes(tree))


@pytest.mark.parametrize(("name", "index"), HOT.items())
def test_claims_and_completions_use_their_index(filled: tuple[Database, int], name: str, index: str) -> None:
    """The partial ones hold only what waits, or is claimed."""
    tree = plan(*filled, work_queries()[name])
    assert index in [node.get("Index Name") for node in nodes(tree)]
