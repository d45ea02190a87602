"""The memory and SQLite stores driven side by side by a state machine. # EB-13 # BX-03"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from engrambus.backends.sql.knowledge import postings
from engrambus.testing import Harness, ManualClock
from tests.harness.stores import SqliteHarness
from tests.machines.store_agreement import StoreAgreement

EXAMPLES = int(os.environ.get("ENGRAMBUS_MACHINE_EXAMPLES", "25"))
STEPS = int(os.environ.get("ENGRAMBUS_MACHINE_STEPS", "40"))
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # syncing is not what is tested here


class SqliteStoreAgreement(StoreAgreement):
    """SQLite next to the reference."""

    @staticmethod
    def make_candidate(clock: ManualClock) -> Harness:
        """Create a store in a temporary folder."""
        return SqliteHarness(Path(tempfile.mkdtemp(dir=SCRATCH, prefix="engrambus-")) / "catalog", clock)

    def teardown(self) -> None:
        """Check, then delete the folder."""
        assert isinstance(self.candidate, SqliteHarness)
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.candidate.folder.parent)


class SqliteBlocksAgreement(SqliteStoreAgreement):
    """The same with posting lists that move into blocks after a few engrams, as they do after thousands."""

    def __init__(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(postings, "MAX_PENDING", 2)
        self.patch.setattr(postings, "MAX_TAIL", 3)
        super().__init__()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.patch.undo()


TestSqliteBlocksAgreement = SqliteBlocksAgreement.TestCase
TestSqliteStoreAgreement = SqliteStoreAgreement.TestCase
TestSqliteBlocksAgreement.settings = TestSqliteStoreAgreement.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="ENGRAMBUS_MACHINE_EXAMPLES" not in os.environ,
)
