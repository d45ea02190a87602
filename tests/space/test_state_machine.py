"""Memory and SQLite, driven side by side through everything that can happen to work. # YT-05 # YT-06 # YT-10 # YT-11"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, settings

from engrambus.space.tuples import SpaceSettings
from engrambus.testing import ManualClock
from engrambus.testing.work import WorkHarness
from tests.harness.stores import SqliteWorkHarness
from tests.machines.work_agreement import WorkAgreement

EXAMPLES = int(os.environ.get("ENGRAMBUS_MACHINE_EXAMPLES", "80"))
STEPS = int(os.environ.get("ENGRAMBUS_MACHINE_STEPS", "40"))
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # syncing is not what is tested here


class SqliteAgrees(WorkAgreement):
    """SQLite beside the reference, with some fields tuples are posted by."""

    @staticmethod
    def make_candidate(clock: ManualClock, given: SpaceSettings) -> WorkHarness:
        """A store in a folder of its own."""
        folder = Path(tempfile.mkdtemp(dir=SCRATCH, prefix="engrambus-")) / "catalog"
        return SqliteWorkHarness(
            folder, clock, msgspec.structs.replace(given, indexed_fields=("map_pos.n", "map_pos.stack"))
        )

    def teardown(self) -> None:
        """Check, then clear away."""
        assert isinstance(self.candidate, SqliteWorkHarness)
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
