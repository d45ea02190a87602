"""Costs that steps report are counted exactly once."""

from __future__ import annotations

from engrambus.errors import StaleFence, TupleNotFound
from engrambus.space.tuples import Claim, Completion, Fence, Price
from engrambus.testing.work.harness import (
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


class WorkFigureConformance:
    """Reported costs, late costs and the totals of runs."""  # YT-06, YT-11

    # a worker may die between reading a step's report and recording it
    def test_a_repeated_cost_report_counts_once(self, harness: WorkHarness) -> None:
        """Also after a restart and a rebuild: a report is a total, compared with what was counted so far."""
        (tuple_id,) = put(harness)
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(micros=900))
        assert _spend(harness, claim, 700, 7)
        journal = harness.journal_bytes()
        for _ in range(2):
            assert _spend(harness, claim, 700, 7)
            assert _spend(harness, claim, 300, 3), "a smaller total subtracts nothing"
            harness.reopen()
            harness.delete_index()
        assert harness.journal_bytes() == journal
        assert _spend(harness, claim, 701, 3)
        record = harness.space.get(tuple_id)
        assert (record.spent_micros, record.spent_tokens, record.reserved_micros) == (701, 7, 199)
        assert harness.space.store.verify() == []

    def test_a_receipt_adds_only_the_cost_not_reported_before(self, harness: WorkHarness) -> None:
        """And a report that arrives after the receipt adds what exceeds it."""
        (tuple_id,) = put(harness, draft("build", 1, 2))
        (claim,) = take(harness)
        _spend(harness, claim, 100, 1)
        done = receipt(harness, claim, 0, usd=0.000_25, tokens_in=3)
        harness.space.complete([Completion(id=tuple_id, fence=claim.fence, receipts=(done,))])
        assert _spend(harness, claim, 250, 3)
        assert harness.space.get(tuple_id).own_spent == Price(micros=250, tokens=3)
        assert _spend(harness, claim, 260, 3)
        assert harness.space.get(tuple_id).own_spent == Price(micros=260, tokens=3)

    def test_steps_and_claims_are_counted_separately(self, harness: WorkHarness) -> None:
        """A report of one execution does not affect another."""
        (tuple_id,) = put(harness, draft("build", 1, 2))
        (claim,) = take(harness)
        for step in (0, 1):
            _spend(harness, claim, 100, 1, step=step)
        harness.space.complete([failure(harness, claim, 0, usd=0.000_1, tokens_in=1)])
        harness.clock.advance(seconds=60)
        (reclaimed,) = take(harness)
        _spend(harness, reclaimed, 100, 1)
        assert harness.space.get(tuple_id).own_spent == Price(micros=300, tokens=3)

    # decision 24: money that was spent counts, even if the claim is lost
    def test_a_late_cost_counts_and_leaves_the_next_attempts_reservation(self, harness: WorkHarness) -> None:
        """It counts for the tuple, its ancestors and the run."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 1}))
        (tuple_id,) = put(harness, draft(parent_id=top))
        (slept,) = take(harness)
        harness.space.start_step(slept, 0, Price(micros=900))
        _spend(harness, slept, 100, 1)
        harness.clock.advance(seconds=31)
        assert not _spend(harness, slept, 150, 1), "not claimed again yet, but the lease has ended"
        assert harness.space.get(tuple_id).reserved_micros == 750
        (reclaimed,) = take(harness, worker="w2")
        harness.space.start_step(reclaimed, 0, Price(micros=500))
        _spend(harness, reclaimed, 40, 4)
        assert not _spend(harness, slept, 300, 3)
        assert not _spend(harness, slept, 300, 3)
        for charged in (tuple_id, top):
            record = harness.space.get(charged)
            assert (record.spent_micros, record.spent_tokens, record.reserved_micros) == (340, 7, 460)
        _check_run(harness, 340, 7)
        harness.space.complete([completion(harness, reclaimed, usd=0.000_05, tokens_in=5)])
        record = harness.space.get(tuple_id)
        last = harness.space.receipt(harness.space.public_tuple(tuple_id)["receipts"][-1])
        assert (record.state, record.own_spent) == ("done", Price(micros=350, tokens=8))
        assert (last.cost.usd_micros, last.cost.tokens) == (350, 8), "what came after it was claimed stands on it too"
        assert harness.space.store.verify() == []

    def test_a_cost_after_the_end_counts_and_changes_no_receipt(self, harness: WorkHarness) -> None:
        """For done, cancelled, dead and taken tuples."""
        (top,) = put(harness, draft("top"))
        ids = put(harness, *(draft(parent_id=top, agent_terms={"max_retries": 0}) for _ in range(4)))
        claims = take(harness, limit=4)
        for claim in claims:
            _spend(harness, claim, 10, 1)
        harness.space.complete([completion(harness, claims[0]), failure(harness, claims[1])])
        harness.space.cancel(ids[2])
        harness.clock.advance(seconds=31)
        assert harness.space.in_({"lane": "build"}, by="me") is not None
        with harness.space.store.read() as view:
            receipt_ids = [view.receipt_ids(tuple_id) for tuple_id in ids]
        for claim in claims:
            assert not _spend(harness, claim, 30, 2)
        harness.reopen()
        with harness.space.store.read() as view:
            assert [view.receipt_ids(tuple_id) for tuple_id in ids] == receipt_ids
            records = [view.find(tuple_id) for tuple_id in ids]
            final_receipts = [view.receipt(item[-1]) for item in receipt_ids[:3]]
        assert [item and item.state for item in records] == ["done", "dead", "cancelled", "taken"]
        assert [item and item.own_spent for item in records] == [Price(micros=30, tokens=2)] * 4
        assert [item and (item.cost.usd_micros, item.cost.tokens) for item in final_receipts] == [(10, 1)] * 3
        assert (harness.space.get(top).spent_micros, harness.space.get(top).spent_tokens) == (120, 8)
        _check_run(harness, 120, 8)
        assert harness.space.store.verify() == []

    def test_costs_from_before_a_reboot_count(self, harness: WorkHarness) -> None:
        """The worker is gone, but its step's report is still there."""
        (tuple_id,) = put(harness)
        (claim,) = take(harness)
        harness.reboot("second")
        assert not _spend(harness, claim, 10, 1)
        (reclaimed,) = take(harness)
        assert reclaimed.fence.epoch == claim.fence.epoch + 1
        assert not _spend(harness, claim, 30, 3)
        assert harness.space.get(tuple_id).own_spent == Price(micros=30, tokens=3)

    def test_a_cost_under_an_unknown_claim_counts_nothing(self, harness: WorkHarness) -> None:
        """Nor does one of an unknown tuple: a power cut may have lost either from the journal."""
        put(harness)
        (claim,) = take(harness)
        journal = harness.journal_bytes()
        later = Fence(claim.fence.epoch, claim.fence.counter + 1)
        for fence in (later, Fence(claim.fence.epoch + 1, 1)):
            expect_error(StaleFence, harness.space.record_cost, claim.id, fence, 0, Price(micros=1))
        expect_error(TupleNotFound, harness.space.record_cost, "sha256:" + "0" * 64, claim.fence, 0, Price(micros=1))
        assert harness.journal_bytes() == journal

    def test_a_late_cost_can_raise_an_alarm(self, harness: WorkHarness) -> None:
        """Its ancestors are still spending."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.01}))
        (tuple_id,) = put(harness, draft(parent_id=top))
        (claim,) = take(harness)
        harness.space.cancel(tuple_id)
        assert not _spend(harness, claim, 8_000, 0)
        (alarm,) = harness.space.rd_all({"lane": "alarm"})
        assert alarm.tuple.payload[0].args["tuple"] == top


def _spend(harness: WorkHarness, claim: Claim, micros: int, tokens: int, step: int = 0) -> bool:
    return harness.space.record_cost(claim.id, claim.fence, step, Price(micros=micros, tokens=tokens))


def _check_run(harness: WorkHarness, micros: int, tokens: int) -> None:
    with harness.space.store.read() as view:
        (figures,) = view.run_totals()
    assert (figures.run, figures.micros, figures.tokens) == (RUN, micros, tokens)
