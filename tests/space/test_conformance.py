"""One suite, unchanged, on every back end of the work plane."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus.space.tuples import SpaceSettings
from engrambus.testing.work import WorkConformance, WorkHarness
from tests.harness.stores import MemoryWorkHarness, SqliteWorkHarness


class TestMemory(WorkConformance):
    """The reference."""

    @pytest.fixture
    def harness(self) -> Iterator[WorkHarness]:
        harness = MemoryWorkHarness()
        yield harness
        harness.close()


class TestSqlite(WorkConformance):
    """The work on disk."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[WorkHarness]:
        harness = SqliteWorkHarness(tmp_path / "catalog")
        yield harness
        harness.close()


class TestSqliteIndexed(WorkConformance):
    """The same with fields that tuples are posted by."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[WorkHarness]:
        # The last three say what became of a tuple: it is not posted by them, and found by them all the same.
        settings = SpaceSettings(
            indexed_fields=("map_pos.n", "map_pos.stack", "payload.0.args.n", "id", "run", "state")
        )
        harness = SqliteWorkHarness(tmp_path / "catalog", settings=settings)
        yield harness
        harness.close()
