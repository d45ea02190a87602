"""One suite, unchanged, on every back end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus.testing import Conformance, Harness, MemoryHarness, SqliteHarness


class TestMemory(Conformance):
    """The reference."""

    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        harness = MemoryHarness()
        yield harness
        harness.close()


class TestSqlite(Conformance):
    """The store on disk."""

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness]:
        harness = SqliteHarness(tmp_path / "catalog")
        yield harness
        harness.close()
