"""For whoever writes a back end or tests against one: the suite every back end passes, and a clock to turn.

The state machine that drives two back ends side by side is in `engrambus.testing.machine`; it needs hypothesis.
"""

from engrambus.testing.clock import TurningClock
from engrambus.testing.conformance import Conformance
from engrambus.testing.hand import Hand, refused, shown
from engrambus.testing.harness import Harness, MemoryHarness, SqliteHarness, open_gateway
from engrambus.testing.randomness import SeededRandomness

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
