"""The memory and SQLite work stores driven side by side by a state machine. # YT-05 # YT-06 # YT-10 # YT-11"""

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
from tests.machines.full_work_agreement import FullWorkAgreement

EXAMPLES = int(os.environ.get("ENGRAMBUS_MACHINE_EXAMPLES", "50"))
STEPS = int(os.environ.get("ENGRAMBUS_MACHINE_STEPS", "40"))
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # syncing is not what is tested here


class SqliteWorkAgreement(FullWorkAgreement):
    """SQLite with indexed fields, next to the reference."""

    @staticmethod
    def make_candidate(clock: ManualClock, space_settings: SpaceSettings) -> WorkHarness:
        """Create a store in a temporary folder."""
        folder = Path(tempfile.mkdtemp(dir=SCRATCH, prefix="engrambus-")) / "catalog"
        return SqliteWorkHarness(
            folder, clock, msgspec.structs.replace(space_settings, indexed_fields=("map_pos.n", "map_pos.stack"))
        )

    def teardown(self) -> None:
        """Check, then delete the folder."""
        assert isinstance(self.candidate, SqliteWorkHarness)
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.candidate.folder.parent)


TestSqliteWorkAgreement = SqliteWorkAgreement.TestCase
TestSqliteWorkAgreement.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="ENGRAMBUS_MACHINE_EXAMPLES" not in os.environ,
)
