"""Blocked calls sleep until a commit wakes them, without polling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from engrambus.errors import LaneFull
from engrambus.space.tuples import Waiter, WaitKind, space
from engrambus.testing.work.harness import LEASE_US, WorkHarness, completion, draft, expect_error, put, take

PATIENCE_SECONDS = 60.0
"""Longer than any test takes, so that a call that is not woken is noticed."""


class BlockedCall:
    """A blocked call in a thread of its own."""

    def __init__(self) -> None:
        self.asleep = threading.Event()
        self.waits: list[float] = []
        """Timeout of each sleep, in seconds."""
        self.results: list[Any] = []

    def wait(self, waiter: Waiter, seconds: float) -> None:
        """Wait on a waiter, and record that the call sleeps."""
        self.waits.append(seconds)
        self.asleep.set()
        waiter.wait(seconds)


class _RecordedWaiter(msgspec.Struct):
    waiter: Waiter
    sleeper: BlockedCall

    def wait(self, seconds: float) -> None:
        self.sleeper.wait(self.waiter, seconds)


@contextmanager
def blocked(harness: WorkHarness, call: Callable[[], Any]) -> Iterator[BlockedCall]:
    """Run a call that blocks, and require that it is woken by the end of the block. Polling is switched off."""
    sleeper, store = BlockedCall(), harness.space.store
    wait_on = store.wait_on

    @contextmanager
    def recorded(kind: WaitKind) -> Iterator[Waiter]:
        with wait_on(kind) as waiter:
            yield _RecordedWaiter(waiter, sleeper)

    thread = threading.Thread(target=lambda: sleeper.results.append(call()), daemon=True)
    with patch.object(space, "POLL_SECONDS", PATIENCE_SECONDS), patch.object(store, "wait_on", recorded):
        thread.start()
        assert sleeper.asleep.wait(20), "it never slept"
        yield sleeper
        thread.join(20)
    assert len(sleeper.results) == 1, "it was not woken"
    assert len(sleeper.waits) <= 2, "it polled"


class WakeupConformance:
    """Blocked calls end when what they wait for happens."""  # YT-05, YT-06

    # decision 23: a byte through a FIFO, no polling
    def test_a_put_wakes_a_blocked_in(self, harness: WorkHarness) -> None:
        """It returns the tuple."""
        with blocked(
            harness, lambda: harness.space.in_({"lane": "late"}, by="me", timeout=PATIENCE_SECONDS)
        ) as sleeper:
            (tuple_id,) = put(harness, draft("late"))
        assert sleeper.results[0].id == tuple_id
        assert min(sleeper.waits) > PATIENCE_SECONDS / 2

    def test_a_put_or_an_end_wakes_a_blocked_rd(self, harness: WorkHarness) -> None:
        """Any change of a tuple may match its pattern."""
        with blocked(harness, lambda: harness.space.rd({"lane": "late"}, timeout=PATIENCE_SECONDS)) as sleeper:
            (tuple_id,) = put(harness, draft("late"))
        assert sleeper.results[0].id == tuple_id
        (claim,) = take(harness, "late")
        with blocked(harness, lambda: harness.space.rd({"state": "done"}, timeout=PATIENCE_SECONDS)) as sleeper:
            harness.space.complete([completion(harness, claim)])
        assert sleeper.results[0].id == tuple_id

    def test_a_release_wakes_a_waiting_worker(self, harness: WorkHarness) -> None:
        """It would sleep at most until the lease ends."""
        (tuple_id,) = put(harness)
        (claim,) = take(harness)
        pattern = {"lane": "build"}
        with blocked(harness, lambda: harness.space.claim(pattern, worker="w2", timeout=PATIENCE_SECONDS)) as sleeper:
            harness.space.release([(claim.id, claim.fence)])
        assert [item.id for item in sleeper.results[0]] == [tuple_id]
        assert LEASE_US / 2_000_000 < sleeper.waits[0] <= LEASE_US / 1_000_000

    # decision 23: waiters are woken by kind, so that a claim wakes only those who wait for room
    def test_anything_that_makes_room_in_a_lane_wakes_a_blocked_put(self, harness: WorkHarness) -> None:
        """A claim, an `in` or a cancellation."""  # YT-06
        harness.space.settings = msgspec.structs.replace(harness.space.settings, queue_maxsize=1)
        (first,) = put(harness)
        expect_error(LaneFull, put, harness)
        for make_room in (
            lambda: take(harness),
            lambda: harness.space.in_({"lane": "build"}, by="me"),
            lambda: harness.space.cancel(harness.space.rd_all({"state": "waiting"})[0].id),
        ):
            with blocked(harness, lambda: put(harness, block=PATIENCE_SECONDS)) as sleeper:
                make_room()
            ((put_last,),) = sleeper.results
            assert [record.id for record in harness.space.rd_all({"state": "waiting"})] == [put_last]
            assert min(sleeper.waits) > PATIENCE_SECONDS / 2
        assert harness.space.get(first).state == "claimed"
