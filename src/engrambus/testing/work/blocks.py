"""Blocked tuples: what they wait for, when they wait no longer, and that the counts of states stay exact."""

from __future__ import annotations

from typing import Any

from engrambus.core import SECOND_US
from engrambus.errors import DependencyCycle, FieldValue, TooManyDependencies, TupleEnded, TupleNotFound
from engrambus.space.tuples import TASK_LANE, Completion, TupleBlock, TupleRecord
from engrambus.testing.work.harness import (
    PERSON,
    RUN,
    WorkHarness,
    completion,
    draft,
    expect_error,
    failure,
    put,
    take,
)


def states(harness: WorkHarness, *ids: str) -> list[str]:
    """Return the states of tuples."""
    return [harness.space.get(tuple_id).state for tuple_id in ids]


def blocked_on(harness: WorkHarness, tuple_id: str) -> list[str | None]:
    """Return the ids of the tuples that block one."""
    with harness.space.store.read() as view:
        return [item.on for item in view.blocks(tuple_id)]


def finish(harness: WorkHarness, lane: str = "build") -> None:
    """Complete the next tuple of a lane."""
    (claim,) = take(harness, lane)
    harness.space.complete([completion(harness, claim)])


def counts(harness: WorkHarness) -> tuple[list[dict[str, int]], list[tuple[str, int, int, int]]]:
    """Return the states of each run, and the counts of each lane."""
    with harness.space.store.read() as view:
        runs = [totals.states for totals in view.run_totals()]
        return runs, [(item.lane, item.waiting, item.claimed, item.blocked) for item in view.lane_counts()]


class BlockConformance:
    """Tuples that wait for other tuples, and tuples that someone blocked."""  # YT-05, YT-06

    def test_a_tuple_waits_until_all_that_it_comes_after_are_done(self, harness: WorkHarness) -> None:
        """It is claimed by no one before, and can be claimed right after the last one is done."""
        first, second = put(harness, draft(), draft())
        (last,) = put(harness, draft("test", after=[first, second]))
        assert states(harness, first, second, last) == ["waiting", "waiting", "blocked"]
        assert take(harness, "test") == []
        assert harness.space.in_({"lane": "test"}, by="me") is None
        finish(harness)
        assert blocked_on(harness, last) == [second]
        finish(harness)
        assert states(harness, last) == ["waiting"]
        (claim,) = take(harness, "test")
        assert (claim.id, claim.attempt) == (last, 1)

    def test_the_same_commit_may_put_a_tuple_and_what_it_comes_after(self, harness: WorkHarness) -> None:
        """One that is done already blocks nothing."""
        (first,) = put(harness)
        finish(harness)
        (after_done,) = put(harness, draft(after=[first]))
        assert states(harness, after_done) == ["waiting"]
        body = harness.space.public_tuple(after_done)
        body["lane"], body["after"] = "own", []
        del body["id"]
        (fresh, dependent) = _with_ids(harness, body)
        assert states(harness, fresh, dependent) == ["waiting", "blocked"]

    def test_counts_of_states_are_exact(self, harness: WorkHarness) -> None:
        """While they are blocked, claimed, done and cancelled; after a restart and without the index."""
        (first,) = put(harness)
        dependents = put(harness, *[draft("test", n, after=[first]) for n in range(3)])
        assert counts(harness) == ([{"blocked": 3, "waiting": 1}], [("build", 1, 0, 0), ("test", 0, 0, 3)])
        harness.space.cancel(dependents[0])
        assert counts(harness) == (
            [{"blocked": 2, "cancelled": 1, "waiting": 1}],
            [("build", 1, 0, 0), ("test", 0, 0, 2)],
        )
        finish(harness)
        expected = ([{"cancelled": 1, "done": 1, "waiting": 2}], [("test", 2, 0, 0)])
        assert counts(harness) == expected
        for reopen in (harness.reopen, harness.delete_index, harness.reopen):
            reopen()
            assert counts(harness) == expected
        assert harness.space.store.verify() == []

    def test_what_was_given_up_or_cancelled_keeps_others_blocked(self, harness: WorkHarness) -> None:
        """Put again, a dead letter takes its dependents along; a cancelled one is unblocked by hand."""
        given_up, cancelled = put(harness, draft("dying", agent_terms={"max_retries": 0}), draft("other"))
        (first,) = put(harness, draft("test", 1, after=[given_up]))
        (second,) = put(harness, draft("test", 2, after=[cancelled]))
        (claim,) = take(harness, "dying")
        harness.space.complete([failure(harness, claim)])
        harness.space.cancel(cancelled)
        assert states(harness, given_up, cancelled, first, second) == ["dead", "cancelled", "blocked", "blocked"]
        replacement = harness.space.put_again(given_up, authority=PERSON).id
        assert blocked_on(harness, first) == [replacement]
        (late,) = put(harness, draft("test", 3, after=[given_up]))
        assert blocked_on(harness, late) == [replacement]
        finish(harness, "dying")
        assert states(harness, first, late, second) == ["waiting", "waiting", "blocked"]
        assert harness.space.unblock(second, by="me").state == "waiting"

    def test_several_reasons_hold_each_for_itself(self, harness: WorkHarness) -> None:
        """Words and tuples; a claim ends when its tuple is blocked."""
        awaited, tuple_id = put(harness, draft("first"), draft("second"))
        (claim,) = take(harness, "second")
        record = harness.space.block(tuple_id, reason="no licence", by="me")
        assert (record.state, record.worker) == ("blocked", None)
        assert harness.space.renew([(claim.id, claim.fence)]) == [tuple_id]
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]
        harness.space.block(tuple_id, on=[awaited], by="other")
        with harness.space.store.read() as view:
            words = TupleBlock(reason="no licence", by="me")
            assert view.blocks(tuple_id) == [TupleBlock(on=awaited, by="other"), words]
        finish(harness, "first")
        assert states(harness, tuple_id) == ["blocked"]
        assert harness.space.unblock(tuple_id, by="me").state == "waiting"
        assert [claim.attempt for claim in take(harness, "second")] == [2]

    def test_a_circle_is_refused_and_changes_nothing(self, harness: WorkHarness) -> None:
        """The refusal names the chain."""
        (first,) = put(harness)
        (second,) = put(harness, draft("test", after=[first]))
        (third,) = put(harness, draft("test", 1, after=[second]))
        journal = harness.journal_bytes()
        refusal = expect_error(DependencyCycle, harness.space.block, first, on=[third], by="me")
        chain = " waits for ".join(tuple_id[7:19] for tuple_id in (first, third, second, first))
        assert chain in refusal.detail
        expect_error(DependencyCycle, harness.space.block, first, on=[first], by="me")
        assert harness.journal_bytes() == journal
        harness.space.block(third, on=[first], by="me")

    def test_what_cannot_be_waited_for_is_refused(self, harness: WorkHarness) -> None:
        """Unknown ids, too many, what another run has; a tuple that has ended is not blocked."""
        (first,) = put(harness)
        journal = harness.journal_bytes()
        unknown = "sha256:" + "0" * 64
        for after, error in (([unknown], TupleNotFound), (["abc"], FieldValue), ([unknown] * 65, TooManyDependencies)):
            refusal = expect_error(error, put, harness, draft(after=after))
            assert str(refusal.field).startswith("after")
        expect_error(TupleNotFound, put, harness, draft(after=[first]), run="other")
        assert harness.journal_bytes() == journal
        finish(harness)
        expect_error(TupleEnded, harness.space.block, first, reason="late", by="me")

    def test_a_chain_ends_one_by_one(self, harness: WorkHarness) -> None:
        """Each becomes claimable when the one before it is done."""
        (awaited,) = put(harness)
        chain = [awaited]
        for n in range(6):
            chain += put(harness, draft("build", n, after=[chain[-1]]))
        for done in range(7):
            assert states(harness, *chain) == ["done"] * done + ["waiting"] + ["blocked"] * (6 - done)
            finish(harness)

    def test_a_delay_outlasts_a_block(self, harness: WorkHarness) -> None:
        """A tuple that is to be retried later and is blocked before then is not claimed before its time."""
        (tuple_id,) = put(harness)
        (claim,) = take(harness)
        harness.space.release([(claim.id, claim.fence)], delay_us=60 * SECOND_US)
        harness.space.block(tuple_id, reason="wait", by="me")
        harness.space.unblock(tuple_id, by="me")
        assert take(harness) == []
        harness.clock.advance(seconds=61)
        assert [claim.id for claim in take(harness)] == [tuple_id]

    def test_tasks_of_agents_are_not_for_workers(self, harness: WorkHarness) -> None:
        """A worker of every lane passes them by, waiting or lost, with any code."""
        fields = {"payload": [{"yool": "agent.task.do", "args": {"title": "think"}}]}
        (task,) = put(harness, draft(TASK_LANE, **fields), trusted=True)
        assert harness.space.claim({}, worker="w", limit=9) == []
        assert harness.space.claim({"id": task}, worker="w") == []
        (claim,) = harness.space.claim({"lane": TASK_LANE}, worker="w")
        harness.clock.advance(seconds=3600)
        journal = harness.journal_bytes()
        assert harness.space.claim({}, worker="w", can_run=lambda name: True) == []
        assert harness.journal_bytes() == journal
        with harness.space.store.read() as view:
            assert [record.id for record in view.live_in(TASK_LANE)] == [task]
        assert claim.id == task

    def test_blocked_tuples_are_listed_by_run(self, harness: WorkHarness) -> None:
        """And a tuple that becomes done with another in one commit frees what waits for both."""
        first, second = put(harness, draft(), draft())
        (both,) = put(harness, draft("test", after=[first, second]))
        with harness.space.store.read() as view:
            listed: list[TupleRecord] = view.list_blocked(RUN, limit=9)
            assert [record.id for record in listed] == [both]
            assert view.list_blocked("other", limit=9) == []
            assert view.dependents(first) == [both]
        ends: list[Completion] = [completion(harness, claim) for claim in take(harness, limit=2)]
        harness.space.complete(ends)
        assert states(harness, both) == ["waiting"]


def _with_ids(harness: WorkHarness, body: dict[str, Any]) -> list[str]:
    """Put a tuple and one that comes after it in one call, both with their ids."""
    from engrambus.space.tuples import tuple_id

    first = {**body, "id": tuple_id(body)}
    dependent = {**body, "after": [first["id"]]}
    return put(harness, first, {**dependent, "id": tuple_id(dependent)})
