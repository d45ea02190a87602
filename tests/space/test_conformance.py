"""The conformance suite of tuple spaces, run on every back end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus.space.tuples import SpaceSettings
from engrambus.testing.work import WorkConformance, WorkHarness
from tests.harness.stores import MemoryWorkHarness, SqliteWorkHarness


class TestMemory(WorkConformance):
    """The reference back end."""

    @pytest.fixture
    def harness(self) -> Iterator[WorkHarness]:
        harness = MemoryWorkHarness()
        yield harness
        harness.close()


class TestSqlite(WorkConformance):
    """SQLite, the default back end."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[WorkHarness]:
        harness = SqliteWorkHarness(tmp_path / "catalog")
        yield harness
        harness.close()


class TestSqliteIndexed(WorkConformance):
    """SQLite with indexed fields."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[WorkHarness]:
        # The last three are not part of a tuple's body: they cannot be indexed, and patterns match them all the same.
        settings = SpaceSettings(
            indexed_fields=("map_pos.n", "map_pos.stack", "payload.0.args.n", "id", "run", "state")
        )
        harness = SqliteWorkHarness(tmp_path / "catalog", settings=settings)
        yield harness
        harness.close()
