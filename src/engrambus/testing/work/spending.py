"""Budgets, and what lasts, as every back end has it."""

from __future__ import annotations

from typing import Any

from engrambus.errors import (
    BudgetExceeded,
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
    """Budgets, the cache, receipts. # YT-08 # YT-09 # YT-11"""

    def test_a_step_that_is_too_dear_is_not_begun(self, harness: WorkHarness) -> None:
        """What it will probably cost is more than is left."""
        put(harness, draft(agent_terms={"budget_usd": 0.01, "budget_tokens": 100}))
        (claim,) = take(harness)
        expect_error(BudgetExceeded, harness.space.start_step, claim, 0, Price(micros=10_001))
        expect_error(BudgetExceeded, harness.space.start_step, claim, 0, Price(tokens=101))
        harness.space.start_step(claim, 0, Price(micros=10_000, tokens=100))

    def test_what_is_set_aside_is_not_there_for_others(self, harness: WorkHarness) -> None:
        """Until the step has ended."""
        put(harness, draft("build", 1, 2, agent_terms={"budget_usd": 0.01}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(micros=8_000))
        least = expect_error(BudgetExceeded, harness.space.start_step, claim, 1, Price(micros=3_000))
        assert "has 2000 micro-dollars left; the step is estimated to cost 3000" in least.detail
        done = receipt(harness, claim, 0, usd=0.005)
        harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(done,))])
        harness.space.start_step(claim, 1, Price(micros=5_000))

    def test_what_is_overspent_is_told_as_spent(self, harness: WorkHarness) -> None:
        """Nothing is said to be left, nor what another step would take: it is not the next step's fault."""
        put(harness, draft("build", 1, 2, agent_terms={"budget_tokens": 100}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(tokens=20))
        harness.space.record_cost(claim.id, claim.fence, 0, Price(tokens=110))
        over = expect_error(BudgetExceeded, harness.space.start_step, claim, 1, Price(tokens=7))
        assert over.detail == "The tuple has spent 110 tokens of 100."
        assert (over.field, over.limit, over.used) == ("agent_terms.budget_tokens", 100, 117)

    def test_what_is_set_aside_is_told_where_it_is_more_than_is_left(self, harness: WorkHarness) -> None:
        """What two steps set aside, and one of them then overspent, belongs to nobody else."""
        (whole,) = put(harness, draft("top", agent_terms={"budget_tokens": 100}))
        put(harness, *(draft("low", number, parent_id=whole) for number in (1, 2, 3)))
        first, second, third = take(harness, "low", limit=3)
        harness.space.start_step(first, 0, Price(tokens=10))
        harness.space.start_step(second, 0, Price(tokens=90))
        harness.space.record_cost(first.id, first.fence, 0, Price(tokens=30))
        short = expect_error(BudgetExceeded, harness.space.start_step, third, 0, Price())
        assert short.detail == "A parent tuple has spent 30 tokens of 100, and 90 are reserved for running steps."

    def test_children_spend_what_their_parent_has(self, harness: WorkHarness) -> None:
        """All the way up, exactly."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.01}))
        (middle,) = put(harness, draft("middle", parent_id=top))
        (low,) = put(harness, draft("low", parent_id=middle, agent_terms={"budget_usd": 1}))
        (claim,) = take(harness, "low")
        harness.space.start_step(claim, 0, Price(micros=6_000))
        assert harness.space.get(top).reserved_micros == 6_000
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=2_000, tokens=5))
        assert [harness.space.get(one).spent_micros for one in (top, middle, low)] == [2_000] * 3
        assert harness.space.get(top).reserved_micros == 4_000
        harness.space.complete([completion(harness, claim, usd=0.007, tokens_in=9)])
        for one in (top, middle, low):
            kept = harness.space.get(one)
            assert (kept.spent_micros, kept.spent_tokens, kept.reserved_micros, kept.reserved_tokens) == (
                7_000,
                9,
                0,
                0,
            )
        (own,) = take(harness, "top")
        expect_error(BudgetExceeded, harness.space.start_step, own, 0, Price(micros=3_001))

    def test_what_a_lost_worker_had_spent_stays_spent(self, harness: WorkHarness) -> None:
        """What was set aside beyond that is free again."""
        (one,) = put(harness, draft(agent_terms={"budget_usd": 0.01}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(micros=9_000))
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=4_000))
        harness.clock.advance(seconds=31)
        (again,) = take(harness)
        kept = harness.space.get(one)
        assert (kept.spent_micros, kept.reserved_micros) == (4_000, 0)
        harness.space.start_step(again, 0, Price(micros=6_000))

    def test_the_last_receipt_tells_all_a_tuple_spent_itself(self, harness: WorkHarness) -> None:
        """Also what an attempt spent that left no receipt; what its children spent is on theirs."""
        one, other = put(harness, draft("build", 1, 2), draft("build", 1, 2))
        (child,) = put(harness, draft("low", parent_id=one))
        first, second = take(harness, limit=2)
        harness.space.complete([completion(harness, take(harness, "low")[0], usd=0.5, tokens_in=50)])
        for claim in (first, second):
            harness.space.start_step(claim, 0, Price())
            harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=1_500, tokens=7))
        harness.space.cancel(other)
        harness.clock.advance(seconds=31)
        (again,) = take(harness)
        assert harness.space.get(one).own_spent == Price(micros=1_500, tokens=7)
        harness.space.start_step(again, 0, Price())
        harness.space.record_cost(again.id, again.fence, 0, Price(micros=100, tokens=1))
        done = receipt(harness, again, 0, usd=0.000_25, tokens_in=2)
        harness.space.complete([Completion(id=one, fence=again.fence, receipts=(done,))])
        assert harness.space.release([(one, again.fence)]) == [one]
        (last,) = take(harness)
        harness.space.complete([completion(harness, last, usd=0.000_05, tokens_in=3)])
        said = {}
        for each in (one, other, child):
            whole = harness.space.receipt(harness.space.public_tuple(each)["receipts"][-1])
            said[each] = (whole.cost.usd_micros, whole.cost.tokens)
        assert said == {one: (1_800, 12), other: (1_500, 7), child: (500_000, 50)}
        kept = harness.space.get(one)
        assert (kept.spent_micros, kept.spent_tokens, kept.own_spent) == (501_800, 62, Price(micros=1_800, tokens=12))

    def test_what_a_failed_attempt_spent_is_on_the_last_receipt(self, harness: WorkHarness) -> None:
        """Told in one call or in several, in an attempt before or in the last."""
        (one,) = put(harness, draft("build", 1, 2, agent_terms={"max_retries": 1}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price())
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=10, tokens=1))
        harness.space.complete([Completion(id=one, fence=claim.fence, failure="OSError")])
        harness.clock.advance(seconds=60)
        (again,) = take(harness)
        done = receipt(harness, again, 0, usd=0.000_1, tokens_in=4)
        harness.space.complete(
            [
                Completion(id=one, fence=again.fence, receipts=(done,)),
                failure(harness, again, 1, usd=0.001, tokens_in=5),
            ]
        )
        kept = harness.space.get(one)
        last = harness.space.receipt(harness.space.public_tuple(one)["receipts"][-1])
        assert (kept.state, last.cost.usd_micros, last.cost.tokens) == ("dead", 1_110, 10)
        assert kept.own_spent == Price(micros=1_110, tokens=10)

    def test_children_settled_at_once_spend_one_after_the_other(self, harness: WorkHarness) -> None:
        """Their parent is told of once, and of what both spent when that is what it takes."""
        for usd, said in ((0.004, 8_000), (0.009, 9_000)):
            (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.01}))
            put(harness, draft("low", parent_id=top), draft("low", parent_id=top))
            claims = take(harness, "low", limit=2)
            answers, _ = harness.space.complete([completion(harness, claim, usd=usd) for claim in claims])
            assert answers == [None, None]
            (alarm,) = harness.space.rd_all({"lane": "alarm"})
            args = alarm.tuple.payload[0].args
            assert (args["tuple"], args["spent_micros"]) == (top, said)
            assert harness.space.get(top).spent_micros == 2 * round(usd * 1_000_000)
            assert harness.space.in_({"lane": "alarm"}, by="me") is not None
        assert harness.space.store.verify() == []

    def test_an_alarm_is_put_once_when_a_budget_is_nearly_spent(self, harness: WorkHarness) -> None:
        """In a lane of its own, saying how much of what."""
        (one,) = put(harness, draft("build", 1, 2, agent_terms={"budget_usd": 0.01}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price())
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=7_999))
        assert harness.space.rd_all({"lane": "alarm"}) == []
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=8_000))
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=9_000))
        (alarm,) = harness.space.rd_all({"lane": "alarm"})
        said = alarm.tuple.payload[0].args
        assert (said["tuple"], said["spent_micros"], said["budget_micros"]) == (one, 8_000, 10_000)

    def test_only_success_is_found_again_and_the_newest_first(self, harness: WorkHarness) -> None:
        """By its key."""
        put(harness, draft(), draft(), draft())
        first, second, third = take(harness, limit=3)
        good = [receipt(harness, claim, key="k", usd=0.001) for claim in (first, second)]
        bad = receipt(harness, third, exit=1, key="k")
        for claim, each in zip((first, second, third), (*good, bad), strict=True):
            harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(each,))])
        with harness.space.store.read() as view:
            assert view.cached_receipt("k") == good[1]
            assert view.cached_receipt("other") is None
            assert (view.cost_history(good[0].yool).executions, view.cost_history(good[0].yool).micros) == (2, 2_000)
        harness.space.report_damage(good[1].id, good[1].stdout_sha)
        with harness.space.store.read() as view:
            assert view.cached_receipt("k") == good[0]

    def test_a_hit_is_a_line_that_names_the_original(self, harness: WorkHarness) -> None:
        """It costs nothing and makes no receipt."""
        put(harness, draft())
        (claim,) = take(harness)
        original = receipt(harness, claim, key="k", usd=0.5)
        harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(original,))])
        (one,) = put(harness, draft("second"))
        (other,) = take(harness, "second")
        harness.space.complete([Completion(id=other.id, fence=other.fence, hits=((0, original.id),))])
        assert harness.space.public_tuple(one)["receipts"] == [original.id]
        assert harness.space.get(one).spent_micros == 0
        with harness.space.store.read() as view:
            (figures,) = view.run_totals()
            assert (figures.executed, figures.hits, figures.micros) == (1, 1, 500_000)
            assert [each.id for _, each in view.list_receipts(RUN, limit=9)] == [original.id]

    def test_dispatch_gives_a_receipt_at_once(self, harness: WorkHarness) -> None:
        """For taking it in."""
        answer = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True)[0]
        assert answer.receipt_id is not None
        accepted = harness.space.receipt(answer.receipt_id)
        assert (accepted.tuple_id, accepted.exit) == (answer.id, 0)


class RestartConformance:
    """The journal is the truth. # YT-10"""

    def test_everything_is_the_same_after_a_restart_and_without_the_index(self, harness: WorkHarness) -> None:
        """Whatever happened."""
        ids = put(harness, draft(), draft(priority=3), draft("b"), draft("c", agent_terms={"budget_usd": 1}))
        first, second = take(harness, limit=2)
        harness.space.complete([completion(harness, first, usd=0.25), failure(harness, second)])
        (held,) = take(harness, "c")
        harness.space.start_step(held, 0, Price(micros=5))
        harness.space.record_cost(held.id, held.fence, 0, Price(micros=2))
        harness.space.cancel(ids[2])
        before = _everything(harness, ids)
        harness.reopen()
        assert _everything(harness, ids) == before
        harness.delete_index()
        assert _everything(harness, ids) == before
        assert harness.space.store.verify() == []


def _everything(harness: WorkHarness, ids: list[str]) -> Any:
    with harness.space.store.read() as view:
        fences = [Fence(1, counter) for counter in range(5)]
        return (
            [view.find(one) for one in ids],
            [view.receipt_ids(one) for one in ids],
            [view.finished_steps(one) for one in ids],
            [view.counted_cost(one, fence, 0) for one in ids for fence in fences],
            view.run_totals(),
            view.lane_counts(),
            view.current_epoch(),
            view.list_receipts(RUN, limit=100),
        )
