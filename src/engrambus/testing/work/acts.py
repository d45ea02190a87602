"""What the tests of the work plane do over and over."""

from __future__ import annotations

from typing import Any

from engrambus.core import SECOND
from engrambus.errors import (
    EngramBusError,
)
from engrambus.space.tuples import Claim
from engrambus.testing.work.harness import WorkHarness

LEASE = 30 * SECOND


def refused(kind: type[EngramBusError], call: Any, *args: Any, **more: Any) -> EngramBusError:
    """The refusal a call must meet."""
    try:
        call(*args, **more)
    except kind as refusal:
        return refusal
    raise AssertionError(f"{kind.__name__} was expected")


def take(harness: WorkHarness, lane: str = "build", limit: int = 1, worker: str = "w1") -> list[Claim]:
    """Claim without waiting."""
    return harness.space.claim({"lane": lane}, worker=worker, limit=limit)
