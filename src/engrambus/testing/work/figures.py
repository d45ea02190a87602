"""What steps said they spent counts once, as every back end does it."""

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
    """Money that is spent is counted, and none of it twice. # YT-06 # YT-11"""

    def test_what_is_told_again_counts_once(self, harness: WorkHarness) -> None:
        """Also after a restart and from a journal alone: what a step said in all is held against what was counted."""
        (one,) = put(harness)
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(micros=900))
        assert _spend(harness, claim, 700, 7)
        before = harness.journal_bytes()
        for _ in range(2):
            assert _spend(harness, claim, 700, 7)
            assert _spend(harness, claim, 300, 3), "what is read anew and not to its end takes nothing back"
            harness.reopen()
            harness.delete_index()
        assert harness.journal_bytes() == before
        assert _spend(harness, claim, 701, 3)
        kept = harness.space.get(one)
        assert (kept.spent_micros, kept.spent_tokens, kept.reserved_micros) == (701, 7, 199)
        assert harness.space.store.verify() == []

    def test_a_receipt_counts_what_was_not_said_before_and_what_is_said_after_it_too(
        self, harness: WorkHarness
    ) -> None:
        """Whoever finds what the step said when its receipt is written already."""
        (one,) = put(harness, draft("build", 1, 2))
        (claim,) = take(harness)
        _spend(harness, claim, 100, 1)
        done = receipt(harness, claim, 0, usd=0.000_25, tokens_in=3)
        harness.space.complete([Completion(id=one, fence=claim.fence, receipts=(done,))])
        assert _spend(harness, claim, 250, 3)
        assert harness.space.get(one).own_spent == Price(micros=250, tokens=3)
        assert _spend(harness, claim, 260, 3)
        assert harness.space.get(one).own_spent == Price(micros=260, tokens=3)

    def test_steps_and_claims_are_counted_apart(self, harness: WorkHarness) -> None:
        """What one execution said says nothing about another."""
        (one,) = put(harness, draft("build", 1, 2))
        (claim,) = take(harness)
        for step in (0, 1):
            _spend(harness, claim, 100, 1, step=step)
        harness.space.complete([failure(harness, claim, 0, usd=0.000_1, tokens_in=1)])
        harness.clock.advance(seconds=60)
        (again,) = take(harness)
        _spend(harness, again, 100, 1)
        assert harness.space.get(one).own_spent == Price(micros=300, tokens=3)

    def test_what_comes_late_counts_and_leaves_the_next_attempt_its_own(self, harness: WorkHarness) -> None:
        """For the tuple, those it is a part of and the run; nothing set aside is taken for it."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 1}))
        (one,) = put(harness, draft(parent_id=top))
        (slept,) = take(harness)
        harness.space.start_step(slept, 0, Price(micros=900))
        _spend(harness, slept, 100, 1)
        harness.clock.advance(seconds=31)
        assert not _spend(harness, slept, 150, 1), "nobody has it, but the lease has ended"
        assert harness.space.get(one).reserved_micros == 750
        (again,) = take(harness, worker="w2")
        harness.space.start_step(again, 0, Price(micros=500))
        _spend(harness, again, 40, 4)
        assert not _spend(harness, slept, 300, 3)
        assert not _spend(harness, slept, 300, 3)
        for each in (one, top):
            kept = harness.space.get(each)
            assert (kept.spent_micros, kept.spent_tokens, kept.reserved_micros) == (340, 7, 460)
        _check_run(harness, 340, 7)
        harness.space.complete([completion(harness, again, usd=0.000_05, tokens_in=5)])
        kept = harness.space.get(one)
        last = harness.space.receipt(harness.space.public_tuple(one)["receipts"][-1])
        assert (kept.state, kept.own_spent) == ("done", Price(micros=350, tokens=8))
        assert (last.cost.usd_micros, last.cost.tokens) == (350, 8), "what came after it was claimed stands on it too"
        assert harness.space.store.verify() == []

    def test_what_comes_after_the_end_counts_and_changes_no_receipt(self, harness: WorkHarness) -> None:
        """Whether it was done, cancelled, given up or taken out."""
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
            before = [view.receipt_ids(each) for each in ids]
        for claim in claims:
            assert not _spend(harness, claim, 30, 2)
        harness.reopen()
        with harness.space.store.read() as view:
            assert [view.receipt_ids(each) for each in ids] == before
            found = [view.find(each) for each in ids]
            told = [view.receipt(each[-1]) for each in before[:3]]
        assert [one and one.state for one in found] == ["done", "dead", "cancelled", "taken"]
        assert [one and one.own_spent for one in found] == [Price(micros=30, tokens=2)] * 4
        assert [each and (each.cost.usd_micros, each.cost.tokens) for each in told] == [(10, 1)] * 3
        assert (harness.space.get(top).spent_micros, harness.space.get(top).spent_tokens) == (120, 8)
        _check_run(harness, 120, 8)
        assert harness.space.store.verify() == []

    def test_what_was_spent_before_the_machine_was_started_anew_counts(self, harness: WorkHarness) -> None:
        """Its worker is gone; what its step said is still there."""
        (one,) = put(harness)
        (claim,) = take(harness)
        harness.reboot("second")
        assert not _spend(harness, claim, 10, 1)
        (again,) = take(harness)
        assert again.fence.epoch == claim.fence.epoch + 1
        assert not _spend(harness, claim, 30, 3)
        assert harness.space.get(one).own_spent == Price(micros=30, tokens=3)

    def test_a_claim_that_nobody_made_spends_nothing(self, harness: WorkHarness) -> None:
        """Nor does a tuple that is not there: a journal may have lost them with the machine."""
        put(harness)
        (claim,) = take(harness)
        before = harness.journal_bytes()
        later = Fence(claim.fence.epoch, claim.fence.counter + 1)
        for fence in (later, Fence(claim.fence.epoch + 1, 1)):
            expect_error(StaleFence, harness.space.record_cost, claim.id, fence, 0, Price(micros=1))
        expect_error(TupleNotFound, harness.space.record_cost, "sha256:" + "0" * 64, claim.fence, 0, Price(micros=1))
        assert harness.journal_bytes() == before

    def test_an_alarm_is_put_for_what_comes_late(self, harness: WorkHarness) -> None:
        """Those it is a part of go on spending."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.01}))
        (one,) = put(harness, draft(parent_id=top))
        (claim,) = take(harness)
        harness.space.cancel(one)
        assert not _spend(harness, claim, 8_000, 0)
        (alarm,) = harness.space.rd_all({"lane": "alarm"})
        assert alarm.tuple.payload[0].args["tuple"] == top


def _spend(harness: WorkHarness, claim: Claim, micros: int, tokens: int, step: int = 0) -> bool:
    return harness.space.record_cost(claim.id, claim.fence, step, Price(micros=micros, tokens=tokens))


def _check_run(harness: WorkHarness, micros: int, tokens: int) -> None:
    with harness.space.store.read() as view:
        (figures,) = view.run_totals()
    assert (figures.run, figures.micros, figures.tokens) == (RUN, micros, tokens)
