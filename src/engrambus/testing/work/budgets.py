"""Who is told of spending, what stays set aside, and what the last receipt adds up, as every back end has it."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.core import SECOND_US, print_time
from engrambus.errors import DeadlinePast
from engrambus.evidence.receipts import Cost
from engrambus.space.tuples import Completion, Price
from engrambus.testing.work.harness import WorkHarness, completion, draft, expect_error, failure, put, receipt, take


class WorkBudgetConformance:
    """Alarms, money set aside, totals, waits. # YT-06 # YT-11"""

    def test_an_alarm_tells_of_every_tuple_that_has_nearly_spent_its_money(self, harness: WorkHarness) -> None:
        """A part that spends alarms those it is a part of, each at its own threshold."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.02}))
        (middle,) = put(harness, draft("middle", parent_id=top, agent_terms={"budget_usd": 0.01}))
        put(harness, draft("low", parent_id=middle))
        (claim,) = take(harness, "low")
        harness.space.start_step(claim, 0, Price())
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=8_000))
        assert _told(harness, "spent_micros") == [(middle, 8_000)]
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=16_000))
        assert _told(harness, "spent_micros") == [(middle, 8_000), (top, 16_000)]

    def test_an_alarm_tells_of_tokens_as_it_does_of_money(self, harness: WorkHarness) -> None:
        """Neither is alarming because the other is far from it."""
        (one,) = put(harness, draft(agent_terms={"budget_usd": 1, "budget_tokens": 100}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price())
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=1, tokens=79))
        assert _told(harness, "spent_tokens") == []
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=1, tokens=80))
        assert _told(harness, "spent_tokens") == [(one, 80)]
        assert _told(harness, "budget_tokens") == [(one, 100)]

    def test_an_alarm_is_put_for_what_only_the_receipt_tells(self, harness: WorkHarness) -> None:
        """A step may say nothing of its spending before it has ended."""
        ids = put(harness, *(draft("build", 1, agent_terms={"budget_usd": 0.01}) for _ in range(3)))
        for claim, usd in zip(take(harness, limit=3), (0.007_999, 0.008, 0.009), strict=True):
            harness.space.complete([completion(harness, claim, usd=usd)])
        assert _told(harness, "spent_micros") == [(ids[1], 8_000), (ids[2], 9_000)]

    def test_the_threshold_of_an_alarm_may_be_another_or_none(self, harness: WorkHarness) -> None:
        """In percent of the budget; 0 for no alarm at all."""
        for percent, told in ((50, 5_000), (0, None)):
            harness.space.settings = msgspec.structs.replace(harness.space.settings, alarm_pct=percent)
            (one,) = put(harness, draft(f"at{percent}", agent_terms={"budget_usd": 0.01}))
            (claim,) = take(harness, f"at{percent}")
            harness.space.start_step(claim, 0, Price())
            harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=4_999))
            harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=5_000))
            harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=9_000))
            said = [micros for tuple_id, micros in _told(harness, "spent_micros") if tuple_id == one]
            assert said == ([told] if told else [])

    def test_a_step_that_spends_more_than_was_set_aside_frees_only_that(self, harness: WorkHarness) -> None:
        """What is set aside for others stays so, for the tuple and those it is a part of."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 1}))
        (one,) = put(harness, draft("build", 1, 2, parent_id=top))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(micros=1_000, tokens=10))
        harness.space.start_step(claim, 1, Price(micros=4_000, tokens=40))
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=7_000, tokens=70))
        assert [_held(harness, each) for each in (one, top)] == [(4_000, 40)] * 2
        done = receipt(harness, claim, 0, usd=0.007, tokens_in=70)
        harness.space.complete([Completion(id=one, fence=claim.fence, receipts=(done,))])
        assert [_held(harness, each) for each in (one, top)] == [(4_000, 40)] * 2
        harness.space.complete([failure(harness, claim, 1)])
        assert [_held(harness, each) for each in (one, top)] == [(0, 0)] * 2
        assert harness.space.store.verify() == []

    def test_the_last_receipt_of_a_dead_letter_adds_up_what_was_executed_for_it(self, harness: WorkHarness) -> None:
        """From the first step to the last, all of its cost; a step from the cache is named, and costs it nothing."""
        put(harness, draft("before"))
        (before,) = take(harness, "before")
        dear = Cost(usd=3, tokens_in=300, tokens_out=30, wall_ms=30_000, disk_mb=33.0)
        original = receipt(harness, before, key="k", cost=dear)
        harness.space.complete([Completion(id=before.id, fence=before.fence, receipts=(original,))])
        harness.clock.advance(seconds=5)
        begun = print_time(harness.clock.now())
        (one,) = put(harness, draft("build", 1, 2, 3, agent_terms={"max_retries": 0}))
        (claim,) = take(harness)
        first = receipt(harness, claim, 1, cost=Cost(usd=0.25, tokens_in=5, tokens_out=7, wall_ms=11, disk_mb=0.5))
        harness.space.complete([Completion(id=one, fence=claim.fence, receipts=(first,), hits=((0, original.id),))])
        harness.clock.advance(seconds=5)
        second = Cost(usd=0.5, tokens_in=1, tokens_out=2, wall_ms=4, disk_mb=0.25)
        harness.space.complete([failure(harness, claim, 2, cost=second)])
        known = [harness.space.receipt(each) for each in harness.space.public_tuple(one)["receipts"]]
        last = known[-1]
        assert last.cost == Cost(usd=0.75, tokens_in=6, tokens_out=9, wall_ms=15, disk_mb=0.75)
        assert (last.started_at, last.ended_at) == (begun, print_time(harness.clock.now()))
        assert set(last.receipts) == {original.id, first.id, known[-2].id}

    def test_no_wait_is_longer_than_the_longest(self, harness: WorkHarness) -> None:
        """Twice as long each time, but never more than five minutes."""
        (one,) = put(harness, draft(agent_terms={"max_retries": 20}))
        waits = []
        for _ in range(12):
            (claim,) = take(harness)
            harness.space.complete([failure(harness, claim)])
            waits.append((harness.space.get(one).ready_us - harness.clock.now()) // SECOND_US)
            harness.clock.advance(seconds=waits[-1])
        assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]

    def test_what_would_only_be_refused_again_is_not_tried_again(self, harness: WorkHarness) -> None:
        """Whatever its terms allow, and whatever is said besides the code."""
        never = ["BUDGET_EXCEEDED", "DEADLINE_PAST", "YOOL_FORBIDDEN", "YOOL_ARGUMENTS", "MEMORY_QUOTA", "DISK_QUOTA"]
        never += ["ARTIFACT_PATH", "FIELD_VALUE", "DISK_QUOTA: 9 of 8", "YOOL_FORBIDDEN: for agents"]
        again = ["exit 1", "OSError", "YOOL_NOT_FOUND", "the process died", "it said DISK_QUOTA"]
        drafts = [draft("build", at, agent_terms={"max_retries": 3}) for at in range(len(never) + len(again))]
        ids = put(harness, *drafts)
        for claim, why in zip(take(harness, limit=len(ids)), (*never, *again), strict=True):
            harness.space.complete([failure(harness, claim, why=why)])
        states = [harness.space.get(each).state for each in ids]
        assert states == ["dead"] * len(never) + ["waiting"] * len(again)

    def test_no_step_of_a_part_is_begun_past_the_deadline_of_the_whole(self, harness: WorkHarness) -> None:
        """However far up; a moment before, it is."""
        soon = print_time(harness.clock.now() + 10 * SECOND_US)
        (top,) = put(harness, draft("top", agent_terms={"deadline_iso": soon}))
        (middle,) = put(harness, draft("middle", parent_id=top))
        put(harness, draft("build", 1, 2, parent_id=middle))
        (claim,) = take(harness)
        harness.clock.advance(seconds=9, microseconds=999_999)
        harness.space.start_step(claim, 0, Price())
        harness.clock.advance(microseconds=1)
        assert expect_error(DeadlinePast, harness.space.start_step, claim, 1, Price()).used == top


def _told(harness: WorkHarness, field: str) -> list[tuple[str, Any]]:
    """The tuples somebody was told of, and what was said of each."""
    alarms = [each.tuple.payload[0].args for each in harness.space.rd_all({"lane": "alarm"})]
    return [(said["tuple"], said[field]) for said in alarms]


def _held(harness: WorkHarness, tuple_id: str) -> tuple[int, int]:
    """What is set aside for a tuple's steps and those of its parts."""
    one = harness.space.get(tuple_id)
    return one.reserved_micros, one.reserved_tokens
