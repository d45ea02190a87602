"""Budgets of work: alarms, reserved amounts, the totals of final receipts, and retries."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.core import SECOND_US, print_time
from engrambus.errors import BudgetExceeded, BudgetReserved, DeadlinePast
from engrambus.evidence.receipts import Cost
from engrambus.space.tuples import Completion, CostHistory, Price
from engrambus.testing.work.harness import (
    YOOL,
    WorkHarness,
    completion,
    draft,
    expect_error,
    failure,
    put,
    receipt,
    take,
)


class WorkBudgetConformance:
    """Alarms, reservations, totals and back-off."""  # YT-06, YT-11

    def test_an_alarm_is_put_for_every_ancestor_whose_money_is_nearly_spent(self, harness: WorkHarness) -> None:
        """Each ancestor has its own threshold."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.02}))
        (middle,) = put(harness, draft("middle", parent_id=top, agent_terms={"budget_usd": 0.01}))
        put(harness, draft("low", parent_id=middle))
        (claim,) = take(harness, "low")
        harness.space.start_step(claim, 0, Price())
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=8_000))
        assert _alarm_fields(harness, "spent_micros") == [(middle, 8_000)]
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=16_000))
        assert _alarm_fields(harness, "spent_micros") == [(middle, 8_000), (top, 16_000)]

    def test_an_alarm_is_put_for_tokens_as_for_money(self, harness: WorkHarness) -> None:
        """Either budget is enough to raise it."""
        (tuple_id,) = put(harness, draft(agent_terms={"budget_usd": 1, "budget_tokens": 100}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price())
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=1, tokens=79))
        assert _alarm_fields(harness, "spent_tokens") == []
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=1, tokens=80))
        assert _alarm_fields(harness, "spent_tokens") == [(tuple_id, 80)]
        assert _alarm_fields(harness, "budget_tokens") == [(tuple_id, 100)]

    def test_an_alarm_is_put_for_a_cost_that_only_the_receipt_reports(self, harness: WorkHarness) -> None:
        """A step may report no cost before it ends."""
        ids = put(harness, *(draft("build", 1, agent_terms={"budget_usd": 0.01}) for _ in range(3)))
        for claim, usd in zip(take(harness, limit=3), (0.007_999, 0.008, 0.009), strict=True):
            harness.space.complete([completion(harness, claim, usd=usd)])
        assert _alarm_fields(harness, "spent_micros") == [(ids[1], 8_000), (ids[2], 9_000)]

    def test_the_alarm_threshold_is_configurable(self, harness: WorkHarness) -> None:
        """In percent of the budget; 0 for no alarm at all."""
        for percent, expected in ((50, 5_000), (0, None)):
            harness.space.settings = msgspec.structs.replace(harness.space.settings, alarm_pct=percent)
            (budgeted,) = put(harness, draft(f"at{percent}", agent_terms={"budget_usd": 0.01}))
            (claim,) = take(harness, f"at{percent}")
            harness.space.start_step(claim, 0, Price())
            harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=4_999))
            harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=5_000))
            harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=9_000))
            alarms = [micros for tuple_id, micros in _alarm_fields(harness, "spent_micros") if tuple_id == budgeted]
            assert alarms == ([expected] if expected else [])

    # decision 75: one step at a time may cost more than anybody foresaw
    def test_a_yool_that_never_ran_waits_for_others_under_its_budget(self, harness: WorkHarness) -> None:
        """One that kept to its price runs together with as many others as it did so before."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 1}))
        put(harness, *(draft("low", number, parent_id=top) for number in range(4)), draft("free"))
        first, second, third, fourth = take(harness, "low", limit=4)
        (free,) = take(harness, "free")
        start, price = harness.space.start_step, Price(micros=10)
        start(first, 0, price, YOOL)
        start(free, 0, price, YOOL)  # under no budget
        expect_error(BudgetReserved, start, second, 0, price, YOOL)
        assert harness.space.waits_for_budget(second, 0, price, YOOL)
        harness.space.complete([completion(harness, first, usd=0.000_01)])
        assert not harness.space.waits_for_budget(second, 0, price, YOOL)
        start(second, 0, price, YOOL)
        start(third, 0, price, YOOL)  # one kept its price, so one may run beside
        expect_error(BudgetReserved, start, fourth, 0, price, YOOL)
        harness.space.complete([completion(harness, second, usd=0.000_01)])
        start(fourth, 0, price, YOOL)
        assert _history(harness).kept_micros == 2

    def test_a_step_beside_others_needs_the_most_its_yool_ever_cost(self, harness: WorkHarness) -> None:
        """Alone it may start with less, and gets all that is left."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.001}))
        put(harness, *(draft("low", number, parent_id=top) for number in range(4)))
        first, second, third, fourth = take(harness, "low", limit=4)
        harness.space.start_step(first, 0, Price(micros=10), YOOL)
        harness.space.complete([completion(harness, first, usd=0.000_4)])  # 40 times as much
        assert (_history(harness).most, _history(harness).kept_micros) == (Price(micros=400), 0)
        harness.space.start_step(second, 0, Price(micros=10), YOOL)
        assert _reserved(harness, top) == (400, 0)
        harness.space.complete([completion(harness, second, usd=0.000_4)])
        harness.space.start_step(third, 0, Price(micros=10), YOOL)
        assert _reserved(harness, top) == (200, 0)
        expect_error(BudgetReserved, harness.space.start_step, fourth, 0, Price(micros=10), YOOL)
        harness.space.complete([completion(harness, third, usd=0.000_19)])
        harness.space.start_step(fourth, 0, Price(micros=10), YOOL)
        assert _reserved(harness, top) == (10, 0)

    def test_a_step_that_overspends_loses_its_yools_record_at_once(self, harness: WorkHarness) -> None:
        """Even if its worker is killed before it ends."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 1, "budget_tokens": 1_000}))
        put(harness, *(draft("low", number, parent_id=top) for number in range(4)))
        first, second, third, fourth = take(harness, "low", limit=4)
        harness.space.start_step(first, 0, Price(micros=10), YOOL)
        harness.space.complete([completion(harness, first, usd=0.000_01)])
        harness.space.start_step(second, 0, Price(micros=10), YOOL)
        harness.space.record_cost(second.id, second.fence, 0, Price(micros=11))
        history = _history(harness)
        assert (history.most, history.kept_micros, history.kept_tokens) == (Price(micros=11), 0, 1)
        expect_error(BudgetReserved, harness.space.start_step, third, 0, Price(micros=10), "agent.other.one.v1")
        harness.space.release_dead([(second.id, second.fence)], reason="killed")
        harness.space.start_step(third, 0, Price(micros=10), YOOL)
        expect_error(BudgetReserved, harness.space.start_step, fourth, 0, Price(micros=10), YOOL)
        harness.delete_index()
        assert _history(harness) == history

    def test_children_do_not_wait_for_the_step_that_put_them(self, harness: WorkHarness) -> None:
        """A step of the parent runs until they are done."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.001}))
        put(harness, draft("low", parent_id=top))
        (parent,), (child,) = take(harness, "top"), take(harness, "low")
        harness.space.start_step(parent, 0, Price(micros=600), YOOL)
        expect_error(BudgetExceeded, harness.space.start_step, child, 0, Price(micros=401), YOOL)
        harness.space.start_step(child, 0, Price(micros=400), YOOL)

    def test_a_step_that_overspends_releases_only_its_own_reservation(self, harness: WorkHarness) -> None:
        """Reservations of other steps stay, for the tuple and its ancestors."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 1}))
        (tuple_id,) = put(harness, draft("build", 1, 2, parent_id=top))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(micros=1_000, tokens=10))
        harness.space.start_step(claim, 1, Price(micros=4_000, tokens=40))
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=7_000, tokens=70))
        assert [_reserved(harness, item) for item in (tuple_id, top)] == [(4_000, 40)] * 2
        done = receipt(harness, claim, 0, usd=0.007, tokens_in=70)
        harness.space.complete([Completion(id=tuple_id, fence=claim.fence, receipts=(done,))])
        assert [_reserved(harness, item) for item in (tuple_id, top)] == [(4_000, 40)] * 2
        harness.space.complete([failure(harness, claim, 1)])
        assert [_reserved(harness, item) for item in (tuple_id, top)] == [(0, 0)] * 2
        assert harness.space.store.verify() == []

    def test_the_final_receipt_of_a_dead_letter_adds_up_all_its_executions(self, harness: WorkHarness) -> None:
        """A step answered from the cache is listed and costs nothing."""
        put(harness, draft("before"))
        (unrelated,) = take(harness, "before")
        dear = Cost(usd=3, tokens_in=300, tokens_out=30, wall_ms=30_000, disk_mb=33.0)
        original = receipt(harness, unrelated, key="k", cost=dear)
        harness.space.complete([Completion(id=unrelated.id, fence=unrelated.fence, receipts=(original,))])
        harness.clock.advance(seconds=5)
        begun = print_time(harness.clock.now())
        (tuple_id,) = put(harness, draft("build", 1, 2, 3, agent_terms={"max_retries": 0}))
        (claim,) = take(harness)
        first = receipt(harness, claim, 1, cost=Cost(usd=0.25, tokens_in=5, tokens_out=7, wall_ms=11, disk_mb=0.5))
        harness.space.complete(
            [Completion(id=tuple_id, fence=claim.fence, receipts=(first,), hits=((0, original.id),))]
        )
        harness.clock.advance(seconds=5)
        second = Cost(usd=0.5, tokens_in=1, tokens_out=2, wall_ms=4, disk_mb=0.25)
        harness.space.complete([failure(harness, claim, 2, cost=second)])
        receipts = [
            harness.space.receipt(receipt_id) for receipt_id in harness.space.public_tuple(tuple_id)["receipts"]
        ]
        last = receipts[-1]
        assert last.cost == Cost(usd=0.75, tokens_in=6, tokens_out=9, wall_ms=15, disk_mb=0.75)
        assert (last.started_at, last.ended_at) == (begun, print_time(harness.clock.now()))
        assert set(last.receipts) == {original.id, first.id, receipts[-2].id}

    def test_back_off_has_a_maximum(self, harness: WorkHarness) -> None:
        """It doubles each time, up to five minutes."""
        (tuple_id,) = put(harness, draft(agent_terms={"max_retries": 20}))
        waits = []
        for _ in range(12):
            (claim,) = take(harness)
            harness.space.complete([failure(harness, claim)])
            waits.append((harness.space.get(tuple_id).ready_us - harness.clock.now()) // SECOND_US)
            harness.clock.advance(seconds=waits[-1])
        assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]

    # a second attempt would only repeat the refusal and its cost
    def test_a_permanent_failure_is_not_retried(self, harness: WorkHarness) -> None:
        """The error code decides, not the tuple's terms or the rest of the message."""
        never = ["BUDGET_EXCEEDED", "DEADLINE_PAST", "YOOL_FORBIDDEN", "YOOL_ARGUMENTS", "MEMORY_QUOTA", "DISK_QUOTA"]
        never += ["ARTIFACT_PATH", "FIELD_VALUE", "DISK_QUOTA: 9 of 8", "YOOL_FORBIDDEN: for agents"]
        retried = ["exit 1", "OSError", "YOOL_NOT_FOUND", "the process died", "it said DISK_QUOTA"]
        drafts = [draft("build", number, agent_terms={"max_retries": 3}) for number in range(len(never) + len(retried))]
        ids = put(harness, *drafts)
        for claim, why in zip(take(harness, limit=len(ids)), (*never, *retried), strict=True):
            harness.space.complete([failure(harness, claim, why=why)])
        states = [harness.space.get(tuple_id).state for tuple_id in ids]
        assert states == ["dead"] * len(never) + ["waiting"] * len(retried)

    # YT-06
    def test_an_exit_status_of_the_step_itself_is_a_result(self, harness: WorkHarness) -> None:
        """It is retried only if the terms name a number of retries; a signal and EX_TEMPFAIL are no results."""
        results, faults = ["exit 1", "exit 2", "exit 127", "exit 255"], ["exit 75", "exit 137", "the process died"]
        drafts = [draft("build", number) for number in range(len(results) + len(faults))]
        ids = put(harness, *drafts, draft("build", 100, agent_terms={"max_retries": 1}))
        for claim, why in zip(take(harness, limit=len(ids)), (*results, *faults, "exit 1"), strict=True):
            harness.space.complete([failure(harness, claim, why=why)])
        states = [harness.space.get(tuple_id).state for tuple_id in ids]
        assert states == ["dead"] * len(results) + ["waiting"] * (len(faults) + 1)

    def test_no_step_starts_after_the_deadline_of_an_ancestor(self, harness: WorkHarness) -> None:
        """A microsecond earlier it does."""
        soon = print_time(harness.clock.now() + 10 * SECOND_US)
        (top,) = put(harness, draft("top", agent_terms={"deadline_iso": soon}))
        (middle,) = put(harness, draft("middle", parent_id=top))
        put(harness, draft("build", 1, 2, parent_id=middle))
        (claim,) = take(harness)
        harness.clock.advance(seconds=9, microseconds=999_999)
        harness.space.start_step(claim, 0, Price())
        harness.clock.advance(microseconds=1)
        assert expect_error(DeadlinePast, harness.space.start_step, claim, 1, Price()).used == top


def _alarm_fields(harness: WorkHarness, field: str) -> list[tuple[str, Any]]:
    """Return the tuple that each alarm names, and one field of the alarm."""
    alarms = [record.tuple.payload[0].args for record in harness.space.rd_all({"lane": "alarm"})]
    return [(alarm["tuple"], alarm[field]) for alarm in alarms]


def _history(harness: WorkHarness) -> CostHistory:
    with harness.space.store.read() as view:
        return view.cost_history(YOOL)


def _reserved(harness: WorkHarness, tuple_id: str) -> tuple[int, int]:
    """Return the amounts reserved by a tuple and its children."""
    record = harness.space.get(tuple_id)
    return record.reserved_micros, record.reserved_tokens
