"""Stores in databases of their own, for tests that change the database, its logins or its server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.postgres_server import PostgresServer
from tests.harness.postgres_stores import PostgresHarness


@pytest.fixture
def empty_url(postgres_server: PostgresServer) -> str:
    """The URL of an empty database, which a login without other rights owns."""
    return postgres_server.url(postgres_server.new_database())


@pytest.fixture
def harness(postgres_url: str) -> Iterator[PostgresHarness]:
    """A fresh project in the database that the tests share."""
    harness = PostgresHarness(postgres_url)
    yield harness
    harness.close()


@pytest.fixture
def own_server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """A server that the test may stop; where none can be started, `postgres_server` skips."""
    server = PostgresServer()
    yield server
    server.close()
