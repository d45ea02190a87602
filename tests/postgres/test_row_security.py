"""Rows of other projects cannot be seen, whatever a statement leaves out (decision 122). # YT-19"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from psycopg import errors as pg

from engrambus.backends.postgres import open_database
from engrambus.backends.postgres.connections import MEMBER, SCHEMA, Database
from engrambus.backends.postgres.migrations import migrate
from engrambus.backends.postgres.projects import NO_PROJECT, add_project, find_project
from engrambus.errors import StoreRights
from engrambus.testing.client import GatewayClient
from engrambus.testing.harness import PROJECT
from tests.harness.postgres_server import ROOT, PostgresServer
from tests.harness.postgres_stores import PostgresHarness, shared_database

OTHER = "01KDVP9R00STGMERGYTEST0009"
WITHOUT_PROJECT = {"migrations", "projects"}


@pytest.fixture(params=["owner", "superuser"])
def database(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> Iterator[Database]:
    """A database of a login that owns it, and of one that row-level security would not bind."""
    url = postgres_server.url(postgres_server.new_database(), login=ROOT)
    if request.param == "owner":
        url = postgres_server.url(postgres_server.new_database())
    with closing(open_database(url, lock_seconds=5)) as database:
        yield database


@pytest.fixture
def two(database: Database) -> tuple[int, int]:
    """Two projects, each with a line in its journal."""
    numbers = add_project(database, PROJECT), add_project(database, OTHER)
    for number in numbers:
        with database.writing(number, {}) as session:
            session.execute("INSERT INTO journal (kind, seq, line) VALUES ('memory', 0, $1)", (b"%d" % number,))
    return numbers


def test_a_statement_without_a_filter_sees_its_own_project_only(database: Database, two: tuple[int, int]) -> None:
    for number in two:
        with database.reading(number, {}) as session:
            assert session.execute("SELECT project, line FROM journal").fetchall() == [(number, b"%d" % number)]
            rows = session.execute("SELECT count(*) FROM journal WHERE project = $1", (sum(two) - number,)).fetchone()
            assert rows == (0,)


def test_a_change_without_a_filter_leaves_other_projects_alone(database: Database, two: tuple[int, int]) -> None:
    first, second = two
    with database.writing(first, {}) as session:
        session.execute("UPDATE journal SET line = $1", (b"changed",))
    with database.writing(first, {}) as session:
        session.execute("DELETE FROM journal")
        assert session.changes() == 1
    with database.reading(second, {}) as session:
        assert session.execute("SELECT line FROM journal").fetchall() == [(b"%d" % second,)]


def test_a_row_cannot_be_put_into_another_project(database: Database, two: tuple[int, int]) -> None:
    first, second = two
    with pytest.raises(StoreRights), database.writing(first, {}) as session:
        session.execute("INSERT INTO journal (project, kind, seq, line) VALUES ($1, 'memory', 1, '')", (second,))
    with pytest.raises(StoreRights), database.writing(first, {}) as session:
        session.execute("UPDATE journal SET project = $1", (second,))


def test_a_transaction_without_a_project_sees_and_writes_nothing(database: Database, two: tuple[int, int]) -> None:
    with database.reading(NO_PROJECT, {}) as session:
        assert session.execute("SELECT count(*) FROM journal").fetchone() == (0,)
    with database.connect() as connection, connection.transaction():
        connection.execute(f"SET LOCAL search_path = {SCHEMA}")
        if database.facts.is_exempt:
            connection.execute(f"SET LOCAL ROLE {MEMBER}")
        assert connection.execute("SELECT count(*) FROM journal").fetchone() == (0,)
        with pytest.raises((pg.InsufficientPrivilege, pg.NotNullViolation)), connection.transaction():
            connection.execute("INSERT INTO journal (kind, seq, line) VALUES ('memory', 5, '')")


def test_no_setting_of_a_transaction_outlives_it(database: Database, two: tuple[int, int]) -> None:
    """A pooler hands the connection to somebody else after the transaction."""
    with database.reading(two[0], {}) as session:
        connection = session.connection
    role, project, path = connection.execute(
        "SELECT current_user, current_setting('engrambus.project', true), current_setting('search_path')"
    ).fetchone() or ("", "", "")
    assert role == database.facts.login
    assert not project
    assert SCHEMA not in path


def test_every_table_is_protected_and_begins_its_keys_with_the_project(postgres_url: str) -> None:
    with closing(shared_database(postgres_url)) as database, database.connect() as connection:
        tables = connection.execute(
            "SELECT relname, relrowsecurity AND relforcerowsecurity, "
            "(SELECT count(*) FROM pg_policy WHERE polrelid = c.oid) "
            "FROM pg_class c WHERE relkind = 'r' AND relnamespace = to_regnamespace(%s)",
            (SCHEMA,),
        ).fetchall()
        indexes = connection.execute(
            "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = %s", (SCHEMA,)
        ).fetchall()
    protected = {name for name, forced, policies in tables if forced and policies == 1}
    assert {name for name, *_ in tables} - protected == WITHOUT_PROJECT
    assert len(protected) > 40
    for table, index, definition in indexes:
        assert table in WITHOUT_PROJECT or "(project" in definition, index


def test_a_login_with_bypassrls_takes_the_role_or_is_refused(postgres_server: PostgresServer) -> None:
    database = postgres_server.new_database()
    postgres_server.execute("CREATE ROLE exempt LOGIN BYPASSRLS")
    with closing(open_database(postgres_server.url(database), lock_seconds=5)) as owned:
        add_project(owned, PROJECT)
    with closing(Database(postgres_server.url(database, login=ROOT))) as as_root:
        assert migrate(as_root) == []  # and lets the role of members use the tables
    url = postgres_server.url(database, login="exempt")
    with pytest.raises(StoreRights):
        open_database(url, lock_seconds=5)
    postgres_server.execute(f"GRANT {MEMBER} TO exempt")
    with closing(open_database(url, lock_seconds=5)) as opened:
        assert find_project(opened, PROJECT) is not None
        with opened.reading(NO_PROJECT, {}) as session:
            assert session.execute("SELECT current_user").fetchone() == (MEMBER,)


def test_two_projects_in_one_database_know_nothing_of_each_other(harness: PostgresHarness, postgres_url: str) -> None:
    GatewayClient(harness).put("The common matter")
    with closing(PostgresHarness(postgres_url)) as other:  # the project gets another number
        client = GatewayClient(other)
        assert client.query_claims("common") == []
        client.put("The common matter of another")
        assert client.query_claims("common") == ["The common matter of another"]
        assert other.gateway.store.verify() == []
    assert GatewayClient(harness).query_claims("common") == ["The common matter"]
