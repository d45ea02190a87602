"""One suite, unchanged, on every back end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus.testing import Harness, StoreConformance
from tests.harness.stores import MemoryHarness, SqliteHarness


class TestMemory(StoreConformance):
    """The reference."""

    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        harness = MemoryHarness()
        yield harness
        harness.close()


class TestSqlite(StoreConformance):
    """The store on disk."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness]:
        harness = SqliteHarness(tmp_path / "catalog")
        yield harness
        harness.close()
