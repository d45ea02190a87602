"""For whoever writes a back end for work: the suite every one passes, and two harnesses.

The state machine that drives two back ends side by side is in `stigmergy.testing.work.machine`; it needs hypothesis.
"""

from stigmergy.testing.work.conformance import WorkConformance
from stigmergy.testing.work.harness import (
    PERSON,
    RUN,
    MemoryWorkHarness,
    SqliteWorkHarness,
    WorkHarness,
    draft,
    failed,
    finished,
    put,
    receipt,
)

__all__ = [
    "PERSON",
    "RUN",
    "MemoryWorkHarness",
    "SqliteWorkHarness",
    "WorkConformance",
    "WorkHarness",
    "draft",
    "failed",
    "finished",
    "put",
    "receipt",
]
