"""Claims of work: leases, fences, retries, dead letters, completion and release."""

from __future__ import annotations

from typing import Any

from engrambus.core import SECOND_US, print_time
from engrambus.core.project_clock import ClockCorrected
from engrambus.errors import (
    ClockAhead,
    DeadlinePast,
    StaleFence,
    TupleEnded,
)
from engrambus.space.catalog import CatalogEntry, Terms
from engrambus.space.tuples import INTERNAL_RUN, Completion, Price, TupleSpace, read_pattern
from engrambus.testing.work.harness import (
    LEASE_US,
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


class ClaimConformance:
    """Claims, leases and fences."""  # YT-06

    # decision 91
    def test_a_clock_that_jumps_ahead_is_refused_and_a_correction_ends_leases(self, harness: WorkHarness) -> None:
        """Leases and delays that a wrong clock made too long do not hold up work after the correction."""
        first, second = put(harness, draft(), draft())
        start_us = harness.clock.now()
        harness.clock.set(start_us + 100 * 365 * 86_400 * SECOND_US)
        expect_error(ClockAhead, put, harness, draft())
        harness.clock.restart()
        harness.clock.set(start_us + 300 * 86_400 * SECOND_US)
        (held,) = take(harness)
        (released,) = take(harness, worker="w2")
        harness.space.release([(released.id, released.fence)], reason="later", delay_us=60 * SECOND_US)
        harness.clock.set(start_us + SECOND_US)
        assert take(harness) == []
        harness.space.store.set_time(ClockCorrected(was_us=harness.space.store.clock_state().last_us))
        assert [claim.id for claim in take(harness)] == [first]
        harness.clock.advance(seconds=61)
        assert {claim.id for _ in range(2) for claim in take(harness, worker="w3")} == {first, second}
        assert held.id == first

    # decision 22: a fence grows with every claim, so that a later one always wins
    def test_each_tuple_is_claimed_once(self, harness: WorkHarness) -> None:
        """A second worker gets the next one."""
        ids = put(harness, draft(), draft())
        (first,) = take(harness)
        (second,) = take(harness, worker="w2")
        assert [first.id, second.id] == ids
        assert take(harness) == []
        assert second.fence > first.fence

    def test_a_tuple_can_be_put_and_claimed_in_one_commit(self, harness: WorkHarness) -> None:
        """There is no moment at which another worker could claim it."""  # YT-05
        put(harness)
        (earlier,) = take(harness)
        line = harness.space.store.last_line()
        answer, claim = harness.space.out_claimed(draft(priority=9), authority=PERSON, run=RUN, worker="w1")
        assert harness.space.store.last_line() == line + 1
        assert claim is not None
        assert (claim.id, claim.attempt, claim.worker, claim.run, claim.finished_steps) == (answer.id, 1, "w1", RUN, {})
        assert claim.fence > earlier.fence
        assert take(harness, worker="w2") == []
        record = harness.space.get(answer.id)
        assert (record.state, record.fence, record.lease_until_us, record.body) == (
            "claimed",
            claim.fence,
            claim.lease_until_us,
            claim.body,
        )
        assert harness.space.complete([completion(harness, claim, usd=0.25)])[0] == [None]
        assert harness.space.get(answer.id).state == "done"
        assert harness.space.store.verify() == []

    def test_a_tuple_put_claimed_is_claimable_after_its_worker_died(self, harness: WorkHarness) -> None:
        """After the lease, or after a reboot; the first claim after a reboot begins an epoch."""
        harness.reboot("second")
        answer, claim = harness.space.out_claimed(draft(), authority=PERSON, run=RUN, worker="w1")
        assert claim is not None
        harness.clock.advance(seconds=31)
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]
        (reclaimed,) = take(harness, worker="w2")
        assert (reclaimed.id, reclaimed.attempt) == (answer.id, 2)
        harness.reboot("third")
        second, second_claim = harness.space.out_claimed(draft("own"), authority=PERSON, run=RUN, worker="w3")
        assert second_claim is not None
        assert second_claim.fence.epoch == reclaimed.fence.epoch + 1
        harness.delete_index()
        assert harness.space.get(second.id).fence == second_claim.fence
        assert [claim.id for claim in take(harness)] == [answer.id]

    def test_putting_an_existing_tuple_claims_nothing(self, harness: WorkHarness) -> None:
        """It stays as it is, and a refused tuple leaves no trace."""
        (tuple_id,) = put(harness)
        journal = harness.journal_bytes()
        answer, claim = harness.space.out_claimed(
            harness.space.public_tuple(tuple_id), authority=PERSON, run=RUN, worker="w1"
        )
        assert (answer.id, answer.new, claim) == (tuple_id, False, None)
        late = draft(agent_terms={"deadline_iso": print_time(harness.clock.now())})
        expect_error(DeadlinePast, harness.space.out_claimed, late, authority=PERSON, run=RUN, worker="w1")
        assert harness.journal_bytes() == journal

    def test_higher_priority_goes_first_then_older(self, harness: WorkHarness) -> None:
        """Order within a lane, and across lanes."""
        ids = put(harness, draft(), draft(priority=5), draft(), draft("other", priority=3), draft(priority=-1))
        claims = harness.space.claim({}, worker="w", limit=10)
        assert [claim.id for claim in claims] == [ids[item] for item in (1, 3, 0, 2, 4)]

    def test_retried_and_lost_tuples_keep_their_order(self, harness: WorkHarness) -> None:
        """Priority, then age, whether they failed or their worker was lost, and however many there are."""
        ids = put(harness, *(draft(priority=n % 3, map_pos={"n": n}) for n in range(210)))
        first = take(harness, limit=140)
        harness.space.complete([failure(harness, claim) for claim in first[:70]])
        harness.clock.advance(seconds=29)
        later = take(harness, limit=35)
        assert {claim.id for claim in later} <= {claim.id for claim in first[:70]}
        harness.space.complete([failure(harness, claim) for claim in later[:5]])
        harness.clock.advance(seconds=1)
        ready = set(ids) - {claim.id for claim in later}
        order = sorted(ready, key=lambda tuple_id: (-(ids.index(tuple_id) % 3), ids.index(tuple_id)))
        assert [claim.id for _ in range(3) for claim in take(harness, limit=1)] == order[:3]
        odd = {"lane": "build", "map_pos.n": {"gt": 100}}
        assert [claim.id for claim in harness.space.claim(odd, worker="w", limit=2)] == [
            candidate for candidate in order[3:] if ids.index(candidate) > 100
        ][:2]
        remaining = [candidate for candidate in order[3:] if harness.space.get(candidate).worker != "w"]
        assert [claim.id for claim in take(harness, limit=500)] == remaining

    # decision 22: a worker that slept past its lease may not write
    def test_a_tuple_is_claimable_when_its_lease_ends(self, harness: WorkHarness) -> None:
        """By any worker, and the previous one can no longer complete it."""
        put(harness)
        (claim,) = take(harness)
        harness.clock.advance(seconds=29)
        assert take(harness) == []
        harness.clock.advance(seconds=1)
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]
        (reclaimed,) = take(harness, worker="w2")
        assert reclaimed.id == claim.id
        assert reclaimed.attempt == 2
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]
        assert harness.space.complete([completion(harness, reclaimed)])[0] == [None]

    def test_leases_and_back_off_end_after_the_wall_clock_was_set_back(self, harness: WorkHarness) -> None:
        """After a commit a year ahead, the project's time continues from there at half speed."""
        put(harness, draft(), draft())
        harness.clock.advance(seconds=365 * 86_400)
        put(harness)
        harness.clock.advance(seconds=-365 * 86_400)
        dead, failed = take(harness, limit=2)
        harness.space.complete([failure(harness, failed)])
        (third,) = take(harness)
        harness.clock.advance(seconds=1)
        assert take(harness) == []
        harness.clock.advance(seconds=1)
        assert [claim.id for claim in take(harness)] == [failed.id]
        harness.clock.advance(seconds=57)
        assert harness.space.renew([(third.id, third.fence)]) == []
        assert take(harness) == []
        harness.clock.advance(seconds=1)
        assert [claim.id for claim in take(harness, worker="w2")] == [dead.id]

    def test_renewing_in_time_keeps_a_claim(self, harness: WorkHarness) -> None:
        """A renewal that comes too late does not."""
        put(harness)
        (claim,) = take(harness)
        for _ in range(5):
            harness.clock.advance(seconds=20)
            assert harness.space.renew([(claim.id, claim.fence)]) == []
        harness.clock.advance(seconds=30)
        assert harness.space.renew([(claim.id, claim.fence)]) == [claim.id]
        expect_error(StaleFence, harness.space.start_step, claim, 0, Price())

    def test_attempts_count_at_the_claim(self, harness: WorkHarness) -> None:
        """A killed worker counts too, so that a tuple which kills its workers becomes a dead letter."""
        (tuple_id,) = put(harness, draft(agent_terms={"max_retries": 1}))
        for attempt in (1, 2):
            (claim,) = take(harness)
            assert claim.attempt == attempt
            harness.clock.advance(seconds=31)
        assert take(harness) == []
        record = harness.space.get(tuple_id)
        assert record.state == "dead"
        last = harness.space.receipt(harness.space.public_tuple(tuple_id)["receipts"][-1])
        assert last.exit != 0
        assert last.error == "the worker was lost"

    # decision 22: claims are not synced; a power cut takes the worker with its claim
    def test_a_reboot_ends_every_claim(self, harness: WorkHarness) -> None:
        """No worker of the old epoch is alive, and fences of the new one are greater."""
        put(harness)
        (claim,) = take(harness)
        harness.reboot("second")
        (reclaimed,) = take(harness)
        assert reclaimed.fence > claim.fence
        assert reclaimed.fence.epoch == claim.fence.epoch + 1
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]

    # decision 22: the epoch, not the lease, says that a claim has ended
    def test_claims_ended_by_a_reboot_are_found_by_any_field(self, harness: WorkHarness) -> None:
        """Even before their leases end."""
        for pattern in ({"map_pos.n": 1}, {"payload.0.args.n": 2}, {"lane": "build"}):
            (tuple_id,) = put(harness, draft("build", 2, map_pos={"n": 1}))
            assert [claim.id for claim in harness.space.claim(pattern, worker="w1")] == [tuple_id]
            assert harness.space.claim(pattern, worker="w2") == []
            harness.reboot(f"after {pattern}")
            (claim,) = harness.space.claim(pattern, worker="w2")
            assert (claim.id, claim.attempt) == (tuple_id, 2)
            harness.space.complete([completion(harness, claim)])

    # decision 33: workers release tuples they cannot start
    def test_a_release_does_not_count_as_an_attempt(self, harness: WorkHarness) -> None:
        """A worker that is stopped costs no attempt."""
        put(harness)
        (claim,) = take(harness)
        assert harness.space.release([(claim.id, claim.fence)]) == [claim.id]
        (reclaimed,) = take(harness)
        assert reclaimed.attempt == 1
        assert harness.space.release([(claim.id, claim.fence)]) == []

    def test_releasing_a_dead_workers_claim_spares_the_next_workers(self, harness: WorkHarness) -> None:
        """Another worker may have claimed the tuple before the dead one's claim is released."""
        put(harness)
        (lost,) = take(harness)
        harness.clock.advance(seconds=30)
        (reclaimed,) = take(harness, worker="w2")
        assert harness.space.release_dead([(lost.id, lost.fence)], reason="its worker is gone") == []
        assert harness.space.get(reclaimed.id).worker == "w2"
        assert harness.space.release_dead([(reclaimed.id, reclaimed.fence)], reason="its worker is gone") == [
            reclaimed.id
        ]
        assert harness.space.get(reclaimed.id).state == "waiting"
        assert harness.space.complete([completion(harness, reclaimed)])[0] == ["STALE_FENCE"]

    def test_a_failure_waits_longer_each_time_then_is_a_dead_letter(self, harness: WorkHarness) -> None:
        """After the configured number of retries, with one final receipt."""
        (tuple_id,) = put(harness)
        for waits in (1, 2):
            (claim,) = take(harness)
            harness.space.complete([failure(harness, claim)])
            assert take(harness) == []
            harness.clock.advance(seconds=waits - 1, microseconds=999_999)
            assert take(harness) == []
            harness.clock.advance(microseconds=1)
        (claim,) = take(harness)
        harness.space.complete([failure(harness, claim)])
        assert harness.space.get(tuple_id).state == "dead"
        receipts = [
            harness.space.receipt(receipt_id) for receipt_id in harness.space.public_tuple(tuple_id)["receipts"]
        ]
        assert [receipt.yool for receipt in receipts].count("tuple.run") == 1
        assert receipts[-1].exit == 1
        assert [record.id for record in harness.space.rd_all({"state": "dead"})] == [tuple_id]

    def test_dead_letters_are_listed_last_ended_first_without_those_put_again(self, harness: WorkHarness) -> None:
        """In pages, by run or lane; other ended tuples are listed in the same order."""  # YT-05
        no_retries = {"max_retries": 0}
        ids = put(harness, *[draft(lane, agent_terms=no_retries) for lane in ("build", "b", "build", "build", "build")])
        claims = {claim.id: claim for lane in ("build", "b") for claim in take(harness, lane, limit=4)}
        for index in (3, 0, 1, 2):
            harness.space.complete([failure(harness, claims[ids[index]])])
        harness.space.complete([completion(harness, claims[ids[4]])])
        replacement = harness.space.put_again(ids[0], authority=PERSON).id
        harness.space.cancel(replacement)
        for _ in range(2):
            with harness.space.store.read() as view:
                (figures,) = view.run_totals()
                assert (figures.states, figures.put_again) == ({"cancelled": 1, "dead": 4, "done": 1}, 1)
                dead = view.list_dead(RUN, limit=9)
                assert [record.id for record in dead] == [ids[2], ids[1], ids[3]]
                assert view.list_dead(None, limit=2) == dead[:2]
                assert view.list_dead(RUN, limit=2, ended_before=dead[1].final_receipt_number) == dead[2:]
                assert [record.id for record in view.list_dead(RUN, lane="build", limit=9)] == [ids[2], ids[3]]
                assert [record.id for record in view.list_dead(RUN, include_put_again=True, limit=9)] == [
                    ids[2],
                    ids[1],
                    ids[0],
                    ids[3],
                ]
                assert view.list_dead("another", limit=9) == []
                assert [record.id for record in view.list_ended(RUN, limit=9)] == [replacement, ids[4], ids[0]]
                assert [record.id for record in view.list_ended(RUN, limit=1)] == [replacement]
                assert view.list_ended("another", limit=9) == []
            harness.delete_index()
            harness.reopen()

    def test_unfinished_tuples_are_listed_in_pages(self, harness: WorkHarness) -> None:
        """Waiting, not due yet, or claimed: all that has neither ended nor been taken."""  # YT-13
        ids = [
            tuple_id for lane in ("build", "facts", "later", "build", "build") for tuple_id in put(harness, draft(lane))
        ]
        claims = take(harness, "build", limit=2)
        harness.space.complete([completion(harness, claims[0])])
        harness.space.in_({"lane": "facts"}, by="me")
        (late,) = take(harness, "later")
        harness.space.release([(late.id, late.fence)], delay_us=3600 * SECOND_US)
        for _ in range(2):
            with harness.space.store.read() as view:
                records = view.list_unfinished(limit=9)
                assert [(record.id, record.state) for record in records] == [
                    (ids[2], "waiting"),
                    (ids[3], "claimed"),
                    (ids[4], "waiting"),
                ]
                assert view.list_unfinished(limit=1, after=records[0].ordinal) == records[1:2]
                assert view.list_unfinished(limit=9, after=records[-1].ordinal) == []
            harness.delete_index()
            harness.reopen()

    def test_ended_and_claimed_tuples_are_listed_for_a_run_or_for_all(self, harness: WorkHarness) -> None:
        """Last ended first across runs, up to a limit."""  # YT-15
        runs: dict[str, str] = {}
        for run in ("one", "two", "one", "none", "two", "one"):
            runs |= dict.fromkeys(put(harness, draft("build"), run=run), run)
        claims = [claim for claim in take(harness, "build", limit=9) if runs[claim.id] != "none"]
        ended: list[str] = []
        for claim in (claims[3], claims[0], claims[2]):
            harness.space.complete([completion(harness, claim)])
            ended.insert(0, claim.id)
        claimed = [item for item in runs if item not in ended]
        for _ in range(2):
            with harness.space.store.read() as view:
                for limit in (1, 2, 9):
                    assert [record.id for record in view.list_ended(None, limit=limit)] == ended[:limit]
                    assert [record.id for record in view.list_claimed(None, limit=limit)] == claimed[:limit]
                for run in ("one", "two", "none", "another"):
                    assert [record.id for record in view.list_ended(run, limit=9)] == [
                        item for item in ended if runs[item] == run
                    ]
                    mine = [item for item in claimed if runs[item] == run]
                    assert [record.id for record in view.list_claimed(run, limit=9)] == mine
                    assert [record.id for record in view.list_claimed(run, limit=1)] == mine[:1]
            harness.delete_index()
            harness.reopen()

    def test_what_the_product_does_itself_is_listed_for_its_own_run_only(self, harness: WorkHarness) -> None:
        """Collections are no part of what users ended."""  # YT-13
        (mine,) = put(harness, draft("build"))
        (internal,) = put(harness, draft("build"), run=INTERNAL_RUN)
        for claim in take(harness, "build", limit=2):
            harness.space.complete([completion(harness, claim)])
        for _ in range(2):
            with harness.space.store.read() as view:
                assert [record.id for record in view.list_ended(None, limit=9)] == [mine]
                assert [record.id for record in view.list_ended(INTERNAL_RUN, limit=9)] == [internal]
                assert [totals.states for totals in view.run_totals()] == [{"done": 1}, {"done": 1}]
            harness.delete_index()
            harness.reopen()

    # decision 24: retries are of the whole tuple
    def test_the_strictest_yool_sets_the_number_of_retries(self, harness: WorkHarness) -> None:
        """The tuple's own terms take precedence, also after a restart."""

        def lookup(name: str) -> CatalogEntry:
            retries = {"agent.lint.ruff": 0, "agent.test.pytest": 3}[name]
            return CatalogEntry(
                name=name, version=1, authority=("user",), lane="build", terms=Terms(max_retries=retries)
            )

        space = TupleSpace(harness.space.store, lookup=lookup, boot="first")
        strict = draft(payload=[{"yool": "agent.test.pytest"}, {"yool": "agent.lint.ruff"}])
        patient = draft(payload=[{"yool": "agent.test.pytest"}])
        explicit = draft(agent_terms={"max_retries": 1})
        ids = [item.id for item in space.out(strict, patient, explicit, authority=PERSON, run=RUN)]
        assert [harness.space.get(tuple_id).retries for tuple_id in ids] == [0, 3, 1]
        harness.delete_index()
        harness.reopen()
        assert [harness.space.get(tuple_id).retries for tuple_id in ids] == [0, 3, 1]
        harness.space.complete([failure(harness, claim) for claim in take(harness, limit=3)])
        assert [harness.space.get(tuple_id).state for tuple_id in ids] == ["dead", "waiting", "waiting"]

    def test_the_next_due_time_considers_only_matching_tuples(self, harness: WorkHarness) -> None:
        """Claimed tuples become due when their lease ends, failed ones after their back-off."""
        claimed, delayed = put(harness, draft(map_pos={"who": "held"}), draft(map_pos={"who": "delayed"}))
        _, second = take(harness, limit=2)
        harness.space.complete([failure(harness, second)])
        with harness.space.store.read() as view:
            now = view.as_of

            def due(**conditions: Any) -> int | None:
                due_us = view.next_due_us(read_pattern(conditions))
                return None if due_us is None else due_us - now

            assert (due(), due(lane="build")) == (SECOND_US, SECOND_US)
            assert (due(id=claimed), due(id=delayed)) == (LEASE_US, SECOND_US)
            assert due(lane="build", **{"map_pos.who": "held"}) == LEASE_US
            assert due(**{"map_pos.who": {"ne": "delayed"}}) == LEASE_US
            assert due(**{"map_pos.who": "nobody"}) is None
            assert due(lane="other") is None

    # decision 24: a new tuple, since each has exactly one final receipt
    def test_a_dead_letter_can_be_put_again_once(self, harness: WorkHarness) -> None:
        """As a new tuple, which the old one names."""
        (tuple_id,) = put(harness, draft(agent_terms={"max_retries": 0}))
        (claim,) = take(harness)
        harness.space.complete([failure(harness, claim)])
        replacement = harness.space.put_again(tuple_id, authority=PERSON)
        assert replacement.id != tuple_id
        assert harness.space.get(tuple_id).put_again_as == replacement.id
        expect_error(TupleEnded, harness.space.put_again, tuple_id, authority=PERSON)
        assert take(harness)[0].id == replacement.id

    def test_a_dead_letter_put_again_keeps_a_future_deadline(self, harness: WorkHarness) -> None:
        """A past deadline is dropped, or no step could start."""
        soon, later = (print_time(harness.clock.now() + seconds * SECOND_US) for seconds in (10, 100))
        ids = put(
            harness, *(draft(agent_terms={"max_retries": 0, "deadline_iso": deadline}) for deadline in (soon, later))
        )
        harness.space.complete([failure(harness, claim) for claim in take(harness, limit=2)])
        harness.clock.advance(seconds=50)
        replacement = [harness.space.put_again(tuple_id, authority=PERSON).id for tuple_id in ids]
        terms = [harness.space.get(item).tuple.agent_terms for item in replacement]
        assert terms == [{"max_retries": 0}, {"max_retries": 0, "deadline_iso": later}]

    def test_a_waiting_or_claimed_tuple_can_be_cancelled(self, harness: WorkHarness) -> None:
        """Its worker can no longer complete it, and it cannot be cancelled twice."""
        waiting, claimed = put(harness, draft("a"), draft("b"))
        (claim,) = take(harness, "b")
        for tuple_id in (waiting, claimed):
            ended = harness.space.cancel(tuple_id)
            assert ended.exit == 130
            assert harness.space.get(tuple_id).state == "cancelled"
            expect_error(TupleEnded, harness.space.cancel, tuple_id)
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]
        assert take(harness, "a") == []

    def test_a_tuple_past_its_deadline_is_not_claimed(self, harness: WorkHarness) -> None:
        """And putting one after its deadline is refused."""
        soon = print_time(harness.clock.now() + 10 * SECOND_US)
        (tuple_id,) = put(harness, draft(agent_terms={"deadline_iso": soon}))
        harness.clock.advance(seconds=10)
        assert take(harness) == []
        assert harness.space.get(tuple_id).state == "dead"
        expect_error(DeadlinePast, put, harness, draft(agent_terms={"deadline_iso": soon}))

    def test_expired_tuples_do_not_hide_claimable_ones(self, harness: WorkHarness) -> None:
        """However many come before it, the next claimable tuple is claimed and the expired ones are ended."""
        soon = print_time(harness.clock.now() + 10 * SECOND_US)
        late = put(harness, *[draft(agent_terms={"deadline_iso": soon})] * 600)
        first, second = put(harness, draft(), draft())
        (elsewhere,) = put(harness, draft("other"))
        harness.clock.advance(seconds=10)
        assert [claim.id for claim in take(harness)] == [first]
        (claim,) = take(harness, "other")
        assert claim.id == elsewhere
        put(harness, *[draft("other", agent_terms={"deadline_iso": print_time(harness.clock.now() + 1)})] * 3)
        (last,) = put(harness, draft("other"))
        harness.clock.advance(seconds=1)
        _, next_claims = harness.space.complete([completion(harness, claim)], claim_more=({"lane": "other"}, "w1", 1))
        assert [item.id for item in next_claims] == [last]
        assert [claim.id for claim in take(harness, limit=2)] == [second]
        assert {harness.space.get(item).state for item in late} == {"dead"}
        assert harness.space.store.verify() == []

    def test_a_receipt_of_another_tuple_is_refused(self, harness: WorkHarness) -> None:
        """As a step's or as the final one; nothing of that completion is written."""
        put(harness, draft(), draft())
        first, second = take(harness, limit=2)
        mine, foreign = completion(harness, first), completion(harness, second)
        assert mine.final_receipt is not None
        journal = harness.journal_bytes()
        for receipts, last in (
            (foreign.receipts, None),
            (mine.receipts, foreign.final_receipt),
            ((mine.final_receipt,), None),
        ):
            wrong = Completion(id=first.id, fence=first.fence, receipts=receipts, final_receipt=last)
            assert harness.space.complete([wrong])[0] == ["RECEIPT_FOREIGN"]
        assert harness.journal_bytes() == journal
        assert harness.space.complete([mine])[0] == [None]

    def test_a_completion_after_the_end_of_a_tuple_is_refused(self, harness: WorkHarness) -> None:
        """Also within the call that ends it."""
        put(harness, draft(), draft())
        first, second = take(harness, limit=2)
        done, not_done = completion(harness, first), failure(harness, second)
        late = [failure(harness, first, usd=0.5), completion(harness, second, usd=0.5)]
        answers, _ = harness.space.complete([done, not_done, *late])
        assert answers == [None, None, "STALE_FENCE", "STALE_FENCE"]
        for result, state in ((done, "done"), (not_done, "waiting")):
            expected = [receipt.id for receipt in (*result.receipts, result.final_receipt) if receipt is not None]
            assert harness.space.public_tuple(result.id)["receipts"] == expected
            record = harness.space.get(result.id)
            assert (record.state, record.spent_micros) == (state, 0)

    def test_a_receipt_repeated_in_one_completion_counts_once(self, harness: WorkHarness) -> None:
        """It is one execution with one cost."""
        put(harness, draft("build", 1, 2))
        (claim,) = take(harness)
        twice = receipt(harness, claim, usd=0.25)
        harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(twice, twice))])
        assert harness.space.public_tuple(claim.id)["receipts"] == [twice.id]
        with harness.space.store.read() as view:
            (figures,) = view.run_totals()
        assert (figures.executed, figures.micros) == (1, 250_000)
        assert harness.space.get(claim.id).spent_micros == 250_000

    # decision 35: a sync takes longer than everything else in a cycle
    def test_completing_and_claiming_is_one_commit(self, harness: WorkHarness) -> None:
        """This halves the commits of a worker."""
        put(harness, draft(), draft())
        (claim,) = take(harness)
        last_line = harness.space.store.last_line()
        answers, next_claims = harness.space.complete(
            [completion(harness, claim)], claim_more=({"lane": "build"}, "w1", 1)
        )
        assert answers == [None]
        assert len(next_claims) == 1
        assert harness.space.store.last_line() == last_line + 1

    def test_finished_steps_survive_a_release(self, harness: WorkHarness) -> None:
        """A stopped worker releases the tuple, and the next one continues where it stopped."""
        (tuple_id,) = put(harness, draft("build", 1, 2))
        (claim,) = take(harness)
        first = receipt(harness, claim)
        harness.space.complete([Completion(id=tuple_id, fence=claim.fence, receipts=(first,))])
        harness.space.release([(tuple_id, claim.fence)])
        harness.reopen()
        (reclaimed,) = take(harness)
        assert (reclaimed.attempt, reclaimed.finished_steps) == (1, {0: first.id})
        harness.space.release([(tuple_id, reclaimed.fence)])
        assert harness.space.cancel(tuple_id).receipts == (first.id,)

    def test_the_next_attempt_knows_the_finished_steps(self, harness: WorkHarness) -> None:
        """It starts at the first missing step."""  # YT-10
        put(harness, draft("build", 1, 2, 3))
        (claim,) = take(harness)
        first = receipt(harness, claim, 0)
        harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(first,))])
        harness.reopen()
        harness.clock.advance(seconds=31)
        (reclaimed,) = take(harness)
        assert reclaimed.finished_steps == {0: first.id}
