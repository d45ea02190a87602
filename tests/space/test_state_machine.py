"""Memory and SQLite, driven side by side through everything that can happen to work. # YT-05 # YT-06 # YT-10 # YT-11"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import ClassVar

import msgspec
from hypothesis import HealthCheck, settings

from engrambus.space.tuples import BodyPurged, Fact, SpaceSettings
from engrambus.testing import ManualClock
from engrambus.testing.work import WorkHarness
from tests.harness.stores import SqliteWorkHarness
from tests.machines.work_agreement import WorkAgreement

EXAMPLES = int(os.environ.get("ENGRAMBUS_MACHINE_EXAMPLES", "80"))
STEPS = int(os.environ.get("ENGRAMBUS_MACHINE_STEPS", "40"))
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # syncing is not what is tested here


class SqliteAgrees(WorkAgreement):
    """SQLite beside the reference, with some fields tuples are posted by."""

    happened: ClassVar[Counter[str]] = Counter()

    @staticmethod
    def make_other(clock: ManualClock, given: SpaceSettings) -> WorkHarness:
        """A store in a folder of its own."""
        folder = Path(tempfile.mkdtemp(dir=SCRATCH, prefix="engrambus-")) / "catalog"
        return SqliteWorkHarness(folder, clock, msgspec.structs.replace(given, indexed=("map_pos.n", "map_pos.stack")))

    def teardown(self) -> None:
        """Check, then clear away."""
        assert isinstance(self.other, SqliteWorkHarness)
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.other.folder.parent)


class TestSqliteAgrees(SqliteAgrees.TestCase):  # type: ignore[misc, valid-type]
    """All that can happen, and enough of each."""

    settings = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize="ENGRAMBUS_MACHINE_EXAMPLES" not in os.environ,
    )

    def runTest(self) -> None:
        """An agreement about what never happened would be none."""
        SqliteAgrees.happened.clear()
        super().runTest()
        kinds = {each.__struct_config__.tag for each in Fact.__args__} - {BodyPurged.__struct_config__.tag}
        seldom = {each: SqliteAgrees.happened[each] for each in kinds if SqliteAgrees.happened[each] < EXAMPLES // 8}
        assert seldom == {}
