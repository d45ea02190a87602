"""The suite that every back end passes, unchanged, on PostgreSQL. # YT-19"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engrambus.testing import Harness, StoreConformance
from tests.harness.postgres_stores import PostgresHarness


class TestPostgres(StoreConformance):
    """The store in a database."""

    @pytest.fixture
    def harness(self, postgres_url: str) -> Iterator[Harness]:
        harness = PostgresHarness(postgres_url)
        yield harness
        harness.close()
