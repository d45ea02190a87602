"""For authors of back ends: the conformance suite that every back end passes, and a clock that tests move by hand.

The suite of the work plane is `engrambus.testing.work.WorkConformance`. Nothing here imports pytest or hypothesis.
"""

from engrambus.testing.client import GatewayClient, expect_refusal, without_keys
from engrambus.testing.clock import ManualClock, SeededRandomness
from engrambus.testing.conformance import StoreConformance
from engrambus.testing.harness import Harness, open_gateway

__all__ = [
    "GatewayClient",
    "Harness",
    "ManualClock",
    "SeededRandomness",
    "StoreConformance",
    "expect_refusal",
    "open_gateway",
    "without_keys",
]
