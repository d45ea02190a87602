"""For whoever writes a back end for work: the suite every one passes, and two harnesses.

The state machine that drives two back ends side by side is in `engrambus.testing.work.machine`; it needs hypothesis.
"""

from engrambus.testing.work.conformance import WorkConformance
from engrambus.testing.work.harness import (
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
