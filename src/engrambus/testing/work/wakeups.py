"""Waiting, as every back end lets one: asleep until somebody rings, and not a moment of asking in between."""

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

PATIENCE = 60.0
"""Seconds somebody waits: longer than any test takes, so that whoever is not woken is noticed."""


class Sleeper:
    """Somebody who waits, in a thread of its own."""

    def __init__(self) -> None:
        self.sleeps = threading.Event()
        self.waits: list[float] = []
        """For how many seconds it lay down, each time."""
        self.got: list[Any] = []

    def wait(self, bell: Waiter, seconds: float) -> None:
        """Wait for a bell, and have it known."""
        self.waits.append(seconds)
        self.sleeps.set()
        bell.wait(seconds)


class _Heard(msgspec.Struct):
    bell: Waiter
    sleeper: Sleeper

    def wait(self, seconds: float) -> None:
        self.sleeper.wait(self.bell, seconds)


@contextmanager
def asleep(harness: WorkHarness, call: Callable[[], Any]) -> Iterator[Sleeper]:
    """Somebody who sleeps until a bell is rung, which must be by the end of this; nobody looks by itself meanwhile."""
    sleeper, store = Sleeper(), harness.space.store
    hang = store.wait_on

    @contextmanager
    def heard(kind: WaitKind) -> Iterator[Waiter]:
        with hang(kind) as bell:
            yield _Heard(bell, sleeper)

    waiter = threading.Thread(target=lambda: sleeper.got.append(call()), daemon=True)
    with patch.object(space, "POLL_SECONDS", PATIENCE), patch.object(store, "wait_on", heard):
        waiter.start()
        assert sleeper.sleeps.wait(20), "it never slept"
        yield sleeper
        waiter.join(20)
    assert len(sleeper.got) == 1, "it was not woken"
    assert len(sleeper.waits) <= 2, "it looked again and again"


class WakeupConformance:
    """Blocked calls end when what they wait for happens. # YT-05 # YT-06"""

    def test_whoever_waits_to_take_is_woken_by_what_is_put(self, harness: WorkHarness) -> None:
        """A blocked `in` gets the tuple that comes, without asking again and again."""
        with asleep(harness, lambda: harness.space.in_({"lane": "late"}, by="me", timeout=PATIENCE)) as sleeper:
            (one,) = put(harness, draft("late"))
        assert sleeper.got[0].id == one
        assert min(sleeper.waits) > PATIENCE / 2

    def test_whoever_waits_to_read_is_woken_by_what_is_put_and_by_what_ends(self, harness: WorkHarness) -> None:
        """A blocked `rd` waits for whatever becomes of a tuple."""
        with asleep(harness, lambda: harness.space.rd({"lane": "late"}, timeout=PATIENCE)) as sleeper:
            (one,) = put(harness, draft("late"))
        assert sleeper.got[0].id == one
        (claim,) = take(harness, "late")
        with asleep(harness, lambda: harness.space.rd({"state": "done"}, timeout=PATIENCE)) as sleeper:
            harness.space.complete([completion(harness, claim)])
        assert sleeper.got[0].id == one

    def test_a_worker_that_waits_is_woken_by_what_is_given_back(self, harness: WorkHarness) -> None:
        """It sleeps no longer than until the tuple would be anybody's."""
        (one,) = put(harness)
        (claim,) = take(harness)
        wanted = {"lane": "build"}
        with asleep(harness, lambda: harness.space.claim(wanted, worker="w2", timeout=PATIENCE)) as sleeper:
            harness.space.release([(claim.id, claim.fence)])
        assert [each.id for each in sleeper.got[0]] == [one]
        assert LEASE_US / 2_000_000 < sleeper.waits[0] <= LEASE_US / 1_000_000

    def test_whoever_waits_for_room_is_woken_by_whatever_makes_some(self, harness: WorkHarness) -> None:
        """Backpressure by the depth of the queue: something is claimed, taken out or cancelled. # YT-06"""
        harness.space.settings = msgspec.structs.replace(harness.space.settings, queue_maxsize=1)
        (first,) = put(harness)
        expect_error(LaneFull, put, harness)
        for make_room in (
            lambda: take(harness),
            lambda: harness.space.in_({"lane": "build"}, by="me"),
            lambda: harness.space.cancel(harness.space.rd_all({"state": "waiting"})[0].id),
        ):
            with asleep(harness, lambda: put(harness, block=PATIENCE)) as sleeper:
                make_room()
            ((put_last,),) = sleeper.got
            assert [each.id for each in harness.space.rd_all({"state": "waiting"})] == [put_last]
            assert min(sleeper.waits) > PATIENCE / 2
        assert harness.space.get(first).state == "claimed"
