"""Batches under random actions: folded as if flat, on disk as in memory, and folded again without loss. # YT-16"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

from engrambus.testing.work import WorkHarness
from tests.harness.stores import MemoryWorkHarness, SqliteWorkHarness
from tests.machines.batch_agreement import ONE_PARENT, SETTINGS, SHAPES, BatchAgreement, manual_clocks

EXAMPLES = int(os.environ.get("ENGRAMBUS_MACHINE_EXAMPLES", "15"))
STEPS = int(os.environ.get("ENGRAMBUS_MACHINE_STEPS", "30"))
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # syncing is not what is tested here


class FoldedLikeFlat(BatchAgreement):
    """A batch of which nothing is folded, beside the same batch folded: their leaves are claimed in the same order."""

    is_flat = True
    shapes = ONE_PARENT

    def make_spaces(self) -> list[WorkHarness]:
        return [MemoryWorkHarness(clock, SETTINGS) for clock in manual_clocks(2)]


class DeepFoldedLikeFlat(FoldedLikeFlat):
    """The same with several parents, whose leaves take turns only as far as they are unfolded (decision 112)."""

    shapes = SHAPES
    takes_all = True


class SqliteLikeMemory(BatchAgreement):
    """Folded batches in memory and on disk."""

    def make_spaces(self) -> list[WorkHarness]:
        first, second = manual_clocks(2)
        self.folder = Path(tempfile.mkdtemp(dir=SCRATCH, prefix="engrambus-"))
        return [MemoryWorkHarness(first, SETTINGS), SqliteWorkHarness(self.folder / "catalog", second, SETTINGS)]

    def teardown(self) -> None:
        """Check, then delete the folder."""
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.folder)


_SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="ENGRAMBUS_MACHINE_EXAMPLES" not in os.environ,
)
TestFoldedLikeFlat = FoldedLikeFlat.TestCase
TestFoldedLikeFlat.settings = _SETTINGS
TestDeepFoldedLikeFlat = DeepFoldedLikeFlat.TestCase
TestDeepFoldedLikeFlat.settings = _SETTINGS
TestSqliteLikeMemory = SqliteLikeMemory.TestCase
TestSqliteLikeMemory.settings = _SETTINGS
