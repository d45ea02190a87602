"""For whoever writes a back end or tests against one: the suite every back end passes, and a clock to turn.

The state machine that drives two back ends side by side is in `stigmergy.testing.machine`; it needs hypothesis.
"""

from stigmergy.testing.clock import TurningClock
from stigmergy.testing.conformance import Conformance
from stigmergy.testing.hand import Hand, refused, shown
from stigmergy.testing.harness import Harness, MemoryHarness, SqliteHarness, open_gateway
from stigmergy.testing.randomness import SeededRandomness

__all__ = [
    "Conformance",
    "Hand",
    "Harness",
    "MemoryHarness",
    "SeededRandomness",
    "SqliteHarness",
    "TurningClock",
    "open_gateway",
    "refused",
    "shown",
]
