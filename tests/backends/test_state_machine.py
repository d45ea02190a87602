"""Memory and SQLite, driven side by side through everything that can happen. # EB-13 # BX-03"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

from engrambus.testing import Harness, ManualClock
from tests.harness.stores import SqliteHarness
from tests.machines.store_agreement import StoreAgreement

EXAMPLES = int(os.environ.get("ENGRAMBUS_MACHINE_EXAMPLES", "80"))
STEPS = int(os.environ.get("ENGRAMBUS_MACHINE_STEPS", "40"))
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # syncing is not what is tested here


class SqliteAgrees(StoreAgreement):
    """SQLite beside the reference."""

    @staticmethod
    def make_candidate(clock: ManualClock) -> Harness:
        """A store in a folder of its own."""
        return SqliteHarness(Path(tempfile.mkdtemp(dir=SCRATCH, prefix="engrambus-")) / "catalog", clock)

    def teardown(self) -> None:
        """Check, then clear away."""
        assert isinstance(self.candidate, SqliteHarness)
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.candidate.folder.parent)


TestSqliteAgrees = SqliteAgrees.TestCase
TestSqliteAgrees.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="ENGRAMBUS_MACHINE_EXAMPLES" not in os.environ,
)
