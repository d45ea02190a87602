"""The conformance suite of tuple spaces on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engrambus.space.tuples import SpaceSettings
from engrambus.testing.work import WorkConformance, WorkHarness
from tests.harness.postgres_work import PostgresWorkHarness


class TestPostgres(WorkConformance):
    """PostgreSQL, for a team on many hosts."""  # YT-19

    @pytest.fixture
    def harness(self, postgres_url: str) -> Iterator[WorkHarness]:
        harness = PostgresWorkHarness(postgres_url)
        yield harness
        harness.close()


class TestPostgresIndexed(WorkConformance):
    """PostgreSQL with indexed fields."""

    @pytest.fixture
    def harness(self, postgres_url: str) -> Iterator[WorkHarness]:
        # The last three are not part of a tuple's body: they cannot be indexed, and patterns match them all the same.
        settings = SpaceSettings(
            indexed_fields=("map_pos.n", "map_pos.stack", "payload.0.args.n", "id", "run", "state")
        )
        harness = PostgresWorkHarness(postgres_url, settings=settings)
        yield harness
        harness.close()
