"""The tables of a database: created on first use, brought up to date by `migrate`, refused otherwise. # YT-19"""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from engrambus.backends.postgres import migrations as module
from engrambus.backends.postgres import open_database
from engrambus.backends.postgres.connections import MEMBER, SCHEMA, Database
from engrambus.backends.postgres.migrations import migrate, migrations
from engrambus.errors import StoreRights, StoreSchemaNew, StoreSchemaOld
from engrambus.testing.client import GatewayClient
from tests.harness.postgres_server import ROOT, PostgresServer
from tests.harness.postgres_stores import PostgresHarness

RELEASED = Path(__file__).with_name("released_migrations.txt")


def open_and_close(url: str) -> None:
    """Open a database as a process does when it starts."""
    open_database(url, lock_seconds=5).close()


def versions(url: str) -> list[int]:
    """Return the migrations that a database has had."""
    with closing(Database(url)) as database, database.connect() as connection:
        rows = connection.execute(f"SELECT version FROM {SCHEMA}.migrations ORDER BY version").fetchall()
    return [version for (version,) in rows]


def test_released_migrations_never_change() -> None:
    """Only new ones are added: a database has had the others as they were."""
    present = [f"{step.version:04} {step.name} {step.digest}" for step in migrations()]
    assert RELEASED.read_text("utf-8").splitlines() == present
    assert [step.version for step in migrations()] == list(range(1, len(present) + 1))


def test_an_empty_database_is_set_up_on_first_use_and_stays_as_it_is(empty_url: str) -> None:
    open_and_close(empty_url)
    open_and_close(empty_url)
    assert versions(empty_url) == [step.version for step in migrations()]


def test_many_may_set_up_a_database_at_once(empty_url: str) -> None:
    problems: list[BaseException] = []

    def work() -> None:
        try:
            open_and_close(empty_url)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert versions(empty_url) == [step.version for step in migrations()]


def test_a_login_without_rights_is_told_to_migrate_and_works_afterwards(postgres_server: PostgresServer) -> None:
    name = postgres_server.new_database(owner=ROOT)
    postgres_server.execute("CREATE ROLE guest LOGIN")
    url = postgres_server.url(name, login="guest")
    with pytest.raises(StoreRights, match="may not create") as refusal:
        open_and_close(url)
    assert "engrambus migrate" in str(refusal.value.hint)
    with closing(Database(postgres_server.url(name, login=ROOT))) as database:
        assert [step.version for step in migrate(database)] == [step.version for step in migrations()]
        assert migrate(database) == []
    with pytest.raises(StoreRights):
        open_and_close(url)
    postgres_server.execute(f"GRANT {MEMBER} TO guest")
    with closing(PostgresHarness(url)) as harness:
        client = GatewayClient(harness)
        client.put("The guest's matter")
        assert client.query_claims() == ["The guest's matter"]
        assert harness.gateway.store.verify() == []


@pytest.mark.parametrize("version", range(1, len(migrations())))
def test_an_older_schema_is_refused_until_it_is_migrated(
    empty_url: str, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    every = migrations()
    monkeypatch.setattr(module, "migrations", lambda: every[:version])
    open_and_close(empty_url)
    monkeypatch.setattr(module, "migrations", lambda: every)
    with pytest.raises(StoreSchemaOld) as refusal:
        open_and_close(empty_url)
    assert (refusal.value.used, refusal.value.limit) == (version, every[-1].version)
    assert "engrambus migrate" in str(refusal.value.hint)
    assert versions(empty_url) == [*range(1, version + 1)]
    with closing(Database(empty_url)) as database:
        assert migrate(database) == list(every[version:])
    with closing(PostgresHarness(empty_url)) as harness:
        GatewayClient(harness).put("After the upgrade")
        assert harness.gateway.store.verify() == []


def test_a_newer_schema_is_refused_and_left_alone(empty_url: str) -> None:
    open_and_close(empty_url)
    with closing(Database(empty_url)) as database:
        with database.connect() as connection:
            connection.execute(f"INSERT INTO {SCHEMA}.migrations (version, name, digest) VALUES (9999, 'later', '')")
        with pytest.raises(StoreSchemaNew, match="9999"):
            migrate(database)
    with pytest.raises(StoreSchemaNew) as refusal:
        open_and_close(empty_url)
    assert "Upgrade" in str(refusal.value.hint)


def test_a_migration_that_fails_leaves_nothing(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    every = migrations()
    open_and_close(empty_url)
    broken = module.Migration(every[-1].version + 1, "broken", "CREATE TABLE half (a integer); SELECT 1 / 0;")
    monkeypatch.setattr(module, "migrations", lambda: (*every, broken))
    with closing(Database(empty_url)) as database:
        with pytest.raises(Exception, match="division by zero"):
            migrate(database)
        with database.connect() as connection:
            assert connection.execute(f"SELECT to_regclass('{SCHEMA}.half')").fetchone() == (None,)
    assert versions(empty_url) == [step.version for step in every]


def test_workers_go_on_while_a_migration_is_applied(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    every = migrations()
    with closing(PostgresHarness(empty_url)) as harness:
        client, done = GatewayClient(harness), threading.Event()
        claims: list[str] = []

        def work() -> None:
            while not done.is_set():
                claims.append(client.put(f"Matter {len(claims)}").claim)

        writer = threading.Thread(target=work)
        writer.start()
        later = "ALTER TABLE engrams ADD COLUMN later integer; SELECT pg_sleep(0.2); CREATE TABLE later (a integer);"
        steps = (*every, module.Migration(every[-1].version + 1, "later", later))
        monkeypatch.setattr(module, "migrations", lambda: steps)
        with closing(Database(empty_url)) as database:
            assert [step.name for step in migrate(database)] == ["later"]
        count = len(claims)
        while len(claims) < count + 2 and writer.is_alive():
            pass
        done.set()
        writer.join()
        assert len(claims) >= count + 2
        assert client.counts()["engrams"] == len(claims)
        assert harness.gateway.store.verify() == []
