"""Spending against budgets, the result cache, and restarts."""

from __future__ import annotations

from typing import Any

from engrambus.errors import (
    BudgetExceeded,
    BudgetReserved,
)
from engrambus.space.tuples import Completion, Fence, Price
from engrambus.testing.work.harness import (
    PERSON,
    RUN,
    WorkHarness,
    completion,
    draft,
    expect_error,
    failure,
    put,
    receipt,
    take,
)


class SpendingConformance:
    """Budgets, the cache, receipts."""  # YT-08, YT-09, YT-11

    def test_a_step_that_exceeds_the_budget_is_not_started(self, harness: WorkHarness) -> None:
        """Its estimated cost is more than is left."""
        put(harness, draft(agent_terms={"budget_usd": 0.01, "budget_tokens": 100}))
        (claim,) = take(harness)
        expect_error(BudgetExceeded, harness.space.start_step, claim, 0, Price(micros=10_001))
        expect_error(BudgetExceeded, harness.space.start_step, claim, 0, Price(tokens=101))
        harness.space.start_step(claim, 0, Price(micros=10_000, tokens=100))

    # steps run in parallel: each must find its estimated cost still there when it ends
    def test_a_reserved_amount_is_not_available_to_other_steps(self, harness: WorkHarness) -> None:
        """Until the step ends; what would not fit even then is refused for good."""
        put(harness, draft("build", 1, 2, agent_terms={"budget_usd": 0.01}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(micros=8_000))
        least = expect_error(BudgetReserved, harness.space.start_step, claim, 1, Price(micros=3_000))
        assert "has $0.002 left; the step is estimated to cost $0.003" in least.detail
        expect_error(BudgetExceeded, harness.space.start_step, claim, 1, Price(micros=10_001))
        done = receipt(harness, claim, 0, usd=0.005)
        harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(done,))])
        harness.space.start_step(claim, 1, Price(micros=5_000))

    def test_an_overspent_budget_is_reported_as_spent(self, harness: WorkHarness) -> None:
        """The message names no remainder and no estimate: the next step is not the cause."""
        put(harness, draft("build", 1, 2, agent_terms={"budget_tokens": 100}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(tokens=20))
        harness.space.record_cost(claim.id, claim.fence, 0, Price(tokens=110))
        error = expect_error(BudgetExceeded, harness.space.start_step, claim, 1, Price(tokens=7))
        assert error.detail == "The tuple has spent 110 tokens of 100."
        assert (error.field, error.limit, error.used) == ("agent_terms.budget_tokens", 100, 117)

    def test_the_error_names_the_reserved_amount_if_it_exceeds_the_remainder(self, harness: WorkHarness) -> None:
        """Two steps reserved the budget and one of them overspent it."""
        (parent,) = put(harness, draft("top", agent_terms={"budget_tokens": 100}))
        put(harness, *(draft("low", number, parent_id=parent) for number in (1, 2, 3)))
        first, second, third = take(harness, "low", limit=3)
        harness.space.start_step(first, 0, Price(tokens=10))
        harness.space.start_step(second, 0, Price(tokens=90))
        harness.space.record_cost(first.id, first.fence, 0, Price(tokens=30))
        short = expect_error(BudgetReserved, harness.space.start_step, third, 0, Price())
        assert short.detail == "A parent tuple has spent 30 tokens of 100, and 90 are reserved for running steps."

    def test_children_spend_their_parents_budget(self, harness: WorkHarness) -> None:
        """Through all generations, exactly."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.01}))
        (middle,) = put(harness, draft("middle", parent_id=top))
        (low,) = put(harness, draft("low", parent_id=middle, agent_terms={"budget_usd": 1}))
        (claim,) = take(harness, "low")
        harness.space.start_step(claim, 0, Price(micros=6_000))
        assert harness.space.get(top).reserved_micros == 6_000
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=2_000, tokens=5))
        assert [harness.space.get(item).spent_micros for item in (top, middle, low)] == [2_000] * 3
        assert harness.space.get(top).reserved_micros == 4_000
        harness.space.complete([completion(harness, claim, usd=0.007, tokens_in=9)])
        for tuple_id in (top, middle, low):
            record = harness.space.get(tuple_id)
            assert (record.spent_micros, record.spent_tokens, record.reserved_micros, record.reserved_tokens) == (
                7_000,
                9,
                0,
                0,
            )
        (parent_claim,) = take(harness, "top")
        expect_error(BudgetExceeded, harness.space.start_step, parent_claim, 0, Price(micros=3_001))

    def test_the_cost_of_a_lost_worker_stays_counted(self, harness: WorkHarness) -> None:
        """Its unspent reservation is released."""
        (tuple_id,) = put(harness, draft(agent_terms={"budget_usd": 0.01}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(micros=9_000))
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=4_000))
        harness.clock.advance(seconds=31)
        (reclaimed,) = take(harness)
        record = harness.space.get(tuple_id)
        assert (record.spent_micros, record.reserved_micros) == (4_000, 0)
        harness.space.start_step(reclaimed, 0, Price(micros=6_000))

    def test_the_final_receipt_reports_everything_a_tuple_spent_itself(self, harness: WorkHarness) -> None:
        """Including attempts without a receipt; its children's costs are on their own receipts."""
        completed, cancelled = put(harness, draft("build", 1, 2), draft("build", 1, 2))
        (child,) = put(harness, draft("low", parent_id=completed))
        first, second = take(harness, limit=2)
        harness.space.complete([completion(harness, take(harness, "low")[0], usd=0.5, tokens_in=50)])
        for claim in (first, second):
            harness.space.start_step(claim, 0, Price())
            harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=1_500, tokens=7))
        harness.space.cancel(cancelled)
        harness.clock.advance(seconds=31)
        (reclaimed,) = take(harness)
        assert harness.space.get(completed).own_spent == Price(micros=1_500, tokens=7)
        harness.space.start_step(reclaimed, 0, Price())
        harness.space.record_cost(reclaimed.id, reclaimed.fence, 0, Price(micros=100, tokens=1))
        done = receipt(harness, reclaimed, 0, usd=0.000_25, tokens_in=2)
        harness.space.complete([Completion(id=completed, fence=reclaimed.fence, receipts=(done,))])
        assert harness.space.release([(completed, reclaimed.fence)]) == [completed]
        (last,) = take(harness)
        harness.space.complete([completion(harness, last, usd=0.000_05, tokens_in=3)])
        costs = {}
        for tuple_id in (completed, cancelled, child):
            final = harness.space.receipt(harness.space.public_tuple(tuple_id)["receipts"][-1])
            costs[tuple_id] = (final.cost.usd_micros, final.cost.tokens)
        assert costs == {completed: (1_800, 12), cancelled: (1_500, 7), child: (500_000, 50)}
        record = harness.space.get(completed)
        assert (record.spent_micros, record.spent_tokens, record.own_spent) == (
            501_800,
            62,
            Price(micros=1_800, tokens=12),
        )

    def test_the_cost_of_failed_attempts_is_on_the_final_receipt(self, harness: WorkHarness) -> None:
        """Reported in one call or several, in an earlier attempt or in the last."""
        (tuple_id,) = put(harness, draft("build", 1, 2, agent_terms={"max_retries": 1}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price())
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=10, tokens=1))
        harness.space.complete([Completion(id=tuple_id, fence=claim.fence, failure="OSError")])
        harness.clock.advance(seconds=60)
        (reclaimed,) = take(harness)
        done = receipt(harness, reclaimed, 0, usd=0.000_1, tokens_in=4)
        harness.space.complete(
            [
                Completion(id=tuple_id, fence=reclaimed.fence, receipts=(done,)),
                failure(harness, reclaimed, 1, usd=0.001, tokens_in=5),
            ]
        )
        record = harness.space.get(tuple_id)
        last = harness.space.receipt(harness.space.public_tuple(tuple_id)["receipts"][-1])
        assert (record.state, last.cost.usd_micros, last.cost.tokens) == ("dead", 1_110, 10)
        assert record.own_spent == Price(micros=1_110, tokens=10)

    def test_children_completed_together_are_charged_one_after_the_other(self, harness: WorkHarness) -> None:
        """One alarm is put for their parent, with the amount that crossed the threshold."""
        for usd, alarm_micros in ((0.004, 8_000), (0.009, 9_000)):
            (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.01}))
            put(harness, draft("low", parent_id=top), draft("low", parent_id=top))
            claims = take(harness, "low", limit=2)
            answers, _ = harness.space.complete([completion(harness, claim, usd=usd) for claim in claims])
            assert answers == [None, None]
            (alarm,) = harness.space.rd_all({"lane": "alarm"})
            args = alarm.tuple.payload[0].args
            assert (args["tuple"], args["spent_micros"]) == (top, alarm_micros)
            assert harness.space.get(top).spent_micros == 2 * round(usd * 1_000_000)
            assert harness.space.in_({"lane": "alarm"}, by="me") is not None
        assert harness.space.store.verify() == []

    # one alarm per tuple, or every later cost would put another
    def test_an_alarm_is_put_once_when_a_budget_is_nearly_spent(self, harness: WorkHarness) -> None:
        """In its own lane, with the amounts."""
        (tuple_id,) = put(harness, draft("build", 1, 2, agent_terms={"budget_usd": 0.01}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price())
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=7_999))
        assert harness.space.rd_all({"lane": "alarm"}) == []
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=8_000))
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=9_000))
        (alarm,) = harness.space.rd_all({"lane": "alarm"})
        args = alarm.tuple.payload[0].args
        assert (args["tuple"], args["spent_micros"], args["budget_micros"]) == (tuple_id, 8_000, 10_000)

    # a failure is no result: it must be possible to try again
    def test_the_cache_returns_the_newest_successful_receipt(self, harness: WorkHarness) -> None:
        """By its key."""
        put(harness, draft(), draft(), draft())
        first, second, third = take(harness, limit=3)
        good = [receipt(harness, claim, key="k", usd=0.001) for claim in (first, second)]
        bad = receipt(harness, third, exit=1, key="k")
        for claim, step_receipt in zip((first, second, third), (*good, bad), strict=True):
            harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(step_receipt,))])
        with harness.space.store.read() as view:
            assert view.cached_receipt("k") == good[1]
            assert view.cached_receipt("other") is None
            assert (view.cost_history(good[0].yool).executions, view.cost_history(good[0].yool).micros) == (2, 2_000)
        harness.space.report_damage(good[1].id, good[1].stdout_sha)
        with harness.space.store.read() as view:
            assert view.cached_receipt("k") == good[0]

    def test_a_cache_hit_names_the_original_receipt(self, harness: WorkHarness) -> None:
        """It costs nothing and makes no receipt."""
        put(harness, draft())
        (claim,) = take(harness)
        original = receipt(harness, claim, key="k", usd=0.5)
        harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(original,))])
        (tuple_id,) = put(harness, draft("second"))
        (second,) = take(harness, "second")
        harness.space.complete([Completion(id=second.id, fence=second.fence, hits=((0, original.id),))])
        assert harness.space.public_tuple(tuple_id)["receipts"] == [original.id]
        assert harness.space.get(tuple_id).spent_micros == 0
        with harness.space.store.read() as view:
            (figures,) = view.run_totals()
            assert (figures.executed, figures.hits, figures.micros) == (1, 1, 500_000)
            assert [listed.id for _, listed in view.list_receipts(RUN, limit=9)] == [original.id]

    def test_receipts_and_their_uses_are_listed_newest_first(self, harness: WorkHarness) -> None:
        """By run or for all, in pages, each use with its tuple, its step and its time."""  # YT-08
        put(harness, draft())
        (claim,) = take(harness)
        original = receipt(harness, claim, key="k")
        harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(original,))])
        (user,) = put(harness, draft("second"), run="another")
        (second,) = take(harness, "second")
        uses = ((0, original.id), (1, original.id))
        harness.space.complete([Completion(id=user, fence=second.fence, hits=uses)])
        own = receipt(harness, second, step=2)
        harness.space.complete([Completion(id=user, fence=second.fence, receipts=(own,))])
        expected = [(own.id, user, 2, False), *((original.id, user, step, True) for step in (1, 0))]
        first = (original.id, claim.id, original.step, False)
        for _ in range(2):
            with harness.space.store.read() as view:
                for run, rows in (("another", expected), (RUN, [first]), (None, [*expected, first]), ("none", [])):
                    listed = view.newest_receipts(run, limit=9)
                    assert [(row.receipt.id, row.tuple_id, row.step, row.is_hit) for row in listed] == rows
                    paged, before = [], None
                    while page := view.newest_receipts(run, limit=1, before=before):
                        paged += page
                        before = page[-1].position
                    assert paged == listed
                    assert all(row.used_us is None or row.used_us <= view.as_of for row in listed)
            harness.delete_index()
            harness.reopen()

    def test_a_dispatch_returns_an_acceptance_receipt(self, harness: WorkHarness) -> None:
        """At once."""
        answer = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True)[0]
        assert answer.receipt_id is not None
        accepted = harness.space.receipt(answer.receipt_id)
        assert (accepted.tuple_id, accepted.exit) == (answer.id, 0)


class RestartConformance:
    """The journal is enough to restore everything."""  # YT-10

    # decision 1: the journal alone is the truth
    def test_everything_is_the_same_after_a_restart_and_without_the_index(self, harness: WorkHarness) -> None:
        """Views, receipts and figures."""
        ids = put(harness, draft(), draft(priority=3), draft("b"), draft("c", agent_terms={"budget_usd": 1}))
        first, second = take(harness, limit=2)
        harness.space.complete([completion(harness, first, usd=0.25), failure(harness, second)])
        (running,) = take(harness, "c")
        harness.space.start_step(running, 0, Price(micros=5))
        harness.space.record_cost(running.id, running.fence, 0, Price(micros=2))
        harness.space.cancel(ids[2])
        expected = _everything(harness, ids)
        harness.reopen()
        assert _everything(harness, ids) == expected
        harness.delete_index()
        assert _everything(harness, ids) == expected
        assert harness.space.store.verify() == []


def _everything(harness: WorkHarness, ids: list[str]) -> Any:
    with harness.space.store.read() as view:
        fences = [Fence(1, counter) for counter in range(5)]
        return (
            [view.find(tuple_id) for tuple_id in ids],
            [view.receipt_ids(tuple_id) for tuple_id in ids],
            [view.finished_steps(tuple_id) for tuple_id in ids],
            [view.counted_cost(tuple_id, fence, 0) for tuple_id in ids for fence in fences],
            view.run_totals(),
            view.lane_counts(),
            view.current_epoch(),
            view.list_receipts(RUN, limit=100),
        )
