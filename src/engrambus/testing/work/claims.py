"""Claiming, keeping and giving back, as every back end does it."""

from __future__ import annotations

from typing import Any

from engrambus.core import SECOND_US, print_time
from engrambus.errors import (
    DeadlinePast,
    StaleFence,
    TupleEnded,
)
from engrambus.space.catalog import CatalogEntry, Terms
from engrambus.space.tuples import Completion, Price, TupleSpace, read_pattern
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
    """Claims, leases and fences. # YT-06"""

    def test_each_tuple_is_somebodys_once(self, harness: WorkHarness) -> None:
        """A second worker gets the next one."""
        ids = put(harness, draft(), draft())
        (first,) = take(harness)
        (second,) = take(harness, worker="w2")
        assert [first.id, second.id] == ids
        assert take(harness) == []
        assert second.fence > first.fence

    def test_a_tuple_may_come_in_somebodys_hands(self, harness: WorkHarness) -> None:
        """Put and held in one line: there is no moment at which another could have it. # YT-05"""
        put(harness)
        (before,) = take(harness)
        line = harness.space.store.last_line()
        one, claim = harness.space.out_claimed(draft(priority=9), authority=PERSON, run=RUN, worker="w1")
        assert harness.space.store.last_line() == line + 1
        assert claim is not None
        assert (claim.id, claim.attempt, claim.worker, claim.run, claim.finished_steps) == (one.id, 1, "w1", RUN, {})
        assert claim.fence > before.fence
        assert take(harness, worker="w2") == []
        kept = harness.space.get(one.id)
        assert (kept.state, kept.fence, kept.lease_until_us, kept.body) == (
            "claimed",
            claim.fence,
            claim.lease_until_us,
            claim.body,
        )
        assert harness.space.complete([completion(harness, claim, usd=0.25)])[0] == [None]
        assert harness.space.get(one.id).state == "done"
        assert harness.space.store.verify() == []

    def test_a_tuple_in_somebodys_hands_is_anybodys_when_they_die(self, harness: WorkHarness) -> None:
        """When the lease has ended, or the machine was started anew; the first claim of a start begins an epoch."""
        harness.reboot("second")
        one, claim = harness.space.out_claimed(draft(), authority=PERSON, run=RUN, worker="w1")
        assert claim is not None
        harness.clock.advance(seconds=31)
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]
        (again,) = take(harness, worker="w2")
        assert (again.id, again.attempt) == (one.id, 2)
        harness.reboot("third")
        other, held = harness.space.out_claimed(draft("own"), authority=PERSON, run=RUN, worker="w3")
        assert held is not None
        assert held.fence.epoch == again.fence.epoch + 1
        harness.delete_index()
        assert harness.space.get(other.id).fence == held.fence
        assert [each.id for each in take(harness)] == [one.id]

    def test_a_tuple_that_was_there_comes_in_nobodys_hands(self, harness: WorkHarness) -> None:
        """It is left as it is; and what is refused leaves nothing behind."""
        (one,) = put(harness)
        before = harness.journal_bytes()
        again, claim = harness.space.out_claimed(
            harness.space.public_tuple(one), authority=PERSON, run=RUN, worker="w1"
        )
        assert (again.id, again.new, claim) == (one, False, None)
        late = draft(agent_terms={"deadline_iso": print_time(harness.clock.now())})
        expect_error(DeadlinePast, harness.space.out_claimed, late, authority=PERSON, run=RUN, worker="w1")
        assert harness.journal_bytes() == before

    def test_higher_priority_goes_first_then_older(self, harness: WorkHarness) -> None:
        """Order within a lane, and across lanes."""
        ids = put(harness, draft(), draft(priority=5), draft(), draft("other", priority=3), draft(priority=-1))
        claims = harness.space.claim({}, worker="w", limit=10)
        assert [claim.id for claim in claims] == [ids[at] for at in (1, 3, 0, 2, 4)]

    def test_what_comes_late_keeps_its_place(self, harness: WorkHarness) -> None:
        """Whether it failed before, or its worker was lost, and however many did: priority, then age."""
        ids = put(harness, *(draft(priority=n % 3, map_pos={"n": n}) for n in range(210)))
        first = take(harness, limit=140)
        harness.space.complete([failure(harness, each) for each in first[:70]])
        harness.clock.advance(seconds=29)
        later = take(harness, limit=35)
        assert {each.id for each in later} <= {each.id for each in first[:70]}
        harness.space.complete([failure(harness, each) for each in later[:5]])
        harness.clock.advance(seconds=1)
        ready = set(ids) - {each.id for each in later}
        order = sorted(ready, key=lambda one: (-(ids.index(one) % 3), ids.index(one)))
        assert [each.id for _ in range(3) for each in take(harness, limit=1)] == order[:3]
        odd = {"lane": "build", "map_pos.n": {"gt": 100}}
        assert [each.id for each in harness.space.claim(odd, worker="w", limit=2)] == [
            each for each in order[3:] if ids.index(each) > 100
        ][:2]
        left = [each for each in order[3:] if harness.space.get(each).worker != "w"]
        assert [each.id for each in take(harness, limit=500)] == left

    def test_a_lease_that_ends_gives_the_tuple_back(self, harness: WorkHarness) -> None:
        """To anyone, at once, and the old holder may write nothing."""
        put(harness)
        (claim,) = take(harness)
        harness.clock.advance(seconds=29)
        assert take(harness) == []
        harness.clock.advance(seconds=1)
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]
        (again,) = take(harness, worker="w2")
        assert again.id == claim.id
        assert again.attempt == 2
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]
        assert harness.space.complete([completion(harness, again)])[0] == [None]

    def test_leases_and_waits_end_though_the_wall_clock_was_set_back(self, harness: WorkHarness) -> None:
        """It had been a year ahead when something was committed: time goes on from there, at half its pace."""
        put(harness, draft(), draft())
        harness.clock.advance(seconds=365 * 86_400)
        put(harness)
        harness.clock.advance(seconds=-365 * 86_400)
        dead, again = take(harness, limit=2)
        harness.space.complete([failure(harness, again)])
        (third,) = take(harness)
        harness.clock.advance(seconds=1)
        assert take(harness) == []
        harness.clock.advance(seconds=1)
        assert [each.id for each in take(harness)] == [again.id]
        harness.clock.advance(seconds=57)
        assert harness.space.renew([(third.id, third.fence)]) == []
        assert take(harness) == []
        harness.clock.advance(seconds=1)
        assert [each.id for each in take(harness, worker="w2")] == [dead.id]

    def test_a_heartbeat_keeps_it(self, harness: WorkHarness) -> None:
        """As long as it comes in time."""
        put(harness)
        (claim,) = take(harness)
        for _ in range(5):
            harness.clock.advance(seconds=20)
            assert harness.space.renew([(claim.id, claim.fence)]) == []
        harness.clock.advance(seconds=30)
        assert harness.space.renew([(claim.id, claim.fence)]) == [claim.id]
        expect_error(StaleFence, harness.space.start_step, claim, 0, Price())

    def test_attempts_count_at_the_claim(self, harness: WorkHarness) -> None:
        """So a worker that is killed counts, and what kills its workers ends as a dead letter."""
        (one,) = put(harness, draft(agent_terms={"max_retries": 1}))
        for attempt in (1, 2):
            (claim,) = take(harness)
            assert claim.attempt == attempt
            harness.clock.advance(seconds=31)
        assert take(harness) == []
        kept = harness.space.get(one)
        assert kept.state == "dead"
        last = harness.space.receipt(harness.space.public_tuple(one)["receipts"][-1])
        assert last.exit != 0
        assert last.error == "the worker was lost"

    def test_a_new_start_of_the_machine_frees_everything(self, harness: WorkHarness) -> None:
        """Nobody who held anything is alive; fences of the new epoch are greater."""
        put(harness)
        (claim,) = take(harness)
        harness.reboot("second")
        (again,) = take(harness)
        assert again.fence > claim.fence
        assert again.fence.epoch == claim.fence.epoch + 1
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]

    def test_what_a_new_start_freed_is_found_by_any_field(self, harness: WorkHarness) -> None:
        """Though its lease has not run out: nobody is left who could hold it."""
        for pattern in ({"map_pos.n": 1}, {"payload.0.args.n": 2}, {"lane": "build"}):
            (one,) = put(harness, draft("build", 2, map_pos={"n": 1}))
            assert [claim.id for claim in harness.space.claim(pattern, worker="w1")] == [one]
            assert harness.space.claim(pattern, worker="w2") == []
            harness.reboot(f"after {pattern}")
            (claim,) = harness.space.claim(pattern, worker="w2")
            assert (claim.id, claim.attempt) == (one, 2)
            harness.space.complete([completion(harness, claim)])

    def test_what_is_given_back_does_not_count(self, harness: WorkHarness) -> None:
        """A worker that was told to stop costs no attempt."""
        put(harness)
        (claim,) = take(harness)
        assert harness.space.release([(claim.id, claim.fence)]) == [claim.id]
        (again,) = take(harness)
        assert again.attempt == 1
        assert harness.space.release([(claim.id, claim.fence)]) == []

    def test_what_a_dead_holder_has_lost_is_not_taken_from_the_next(self, harness: WorkHarness) -> None:
        """Between looking who is dead and taking what they hold, somebody else may have claimed it."""
        put(harness)
        (lost,) = take(harness)
        harness.clock.advance(seconds=30)
        (held,) = take(harness, worker="w2")
        assert harness.space.release_dead([(lost.id, lost.fence)], reason="its worker is gone") == []
        assert harness.space.get(held.id).worker == "w2"
        assert harness.space.release_dead([(held.id, held.fence)], reason="its worker is gone") == [held.id]
        assert harness.space.get(held.id).state == "waiting"
        assert harness.space.complete([completion(harness, held)])[0] == ["STALE_FENCE"]

    def test_a_failure_waits_longer_each_time_then_is_a_dead_letter(self, harness: WorkHarness) -> None:
        """Back-off, the configured number of retries, one last receipt."""
        (one,) = put(harness)
        for waits in (1, 2):
            (claim,) = take(harness)
            harness.space.complete([failure(harness, claim)])
            assert take(harness) == []
            harness.clock.advance(seconds=waits - 1, microseconds=999_999)
            assert take(harness) == []
            harness.clock.advance(microseconds=1)
        (claim,) = take(harness)
        harness.space.complete([failure(harness, claim)])
        assert harness.space.get(one).state == "dead"
        receipts = [harness.space.receipt(each) for each in harness.space.public_tuple(one)["receipts"]]
        assert [each.yool for each in receipts].count("tuple.run") == 1
        assert receipts[-1].exit == 1
        assert [one.id for one in harness.space.rd_all({"state": "dead"})] == [one]

    def test_dead_letters_are_told_the_last_first_without_those_put_again(self, harness: WorkHarness) -> None:
        """By when they were given up, in pages, of a run or a lane; and so are those that ended otherwise. # YT-05"""
        once = {"max_retries": 0}
        ids = put(harness, *[draft(lane, agent_terms=once) for lane in ("build", "b", "build", "build", "build")])
        claims = {each.id: each for lane in ("build", "b") for each in take(harness, lane, limit=4)}
        for at in (3, 0, 1, 2):
            harness.space.complete([failure(harness, claims[ids[at]])])
        harness.space.complete([completion(harness, claims[ids[4]])])
        again = harness.space.put_again(ids[0], authority=PERSON).id
        harness.space.cancel(again)
        for _ in range(2):
            with harness.space.store.read() as view:
                (figures,) = view.run_totals()
                assert (figures.states, figures.put_again) == ({"cancelled": 1, "dead": 4, "done": 1}, 1)
                dead = view.list_dead(RUN, limit=9)
                assert [each.id for each in dead] == [ids[2], ids[1], ids[3]]
                assert view.list_dead(None, limit=2) == dead[:2]
                assert view.list_dead(RUN, limit=2, ended_before=dead[1].final_receipt_number) == dead[2:]
                assert [each.id for each in view.list_dead(RUN, lane="build", limit=9)] == [ids[2], ids[3]]
                assert [each.id for each in view.list_dead(RUN, include_put_again=True, limit=9)] == [
                    ids[2],
                    ids[1],
                    ids[0],
                    ids[3],
                ]
                assert view.list_dead("another", limit=9) == []
                assert [each.id for each in view.list_ended(RUN, limit=9)] == [again, ids[4], ids[0]]
                assert [each.id for each in view.list_ended(RUN, limit=1)] == [again]
                assert view.list_ended("another", limit=9) == []
            harness.delete_index()
            harness.reopen()

    def test_what_ended_and_what_is_held_is_told_of_a_run_or_of_all(self, harness: WorkHarness) -> None:
        """The last that ended first, whatever the run, and as many of each as are asked for. # YT-15"""
        of: dict[str, str] = {}
        for run in ("one", "two", "one", "none", "two", "one"):
            of |= dict.fromkeys(put(harness, draft("build"), run=run), run)
        claims = [each for each in take(harness, "build", limit=9) if of[each.id] != "none"]
        ended: list[str] = []
        for claim in (claims[3], claims[0], claims[2]):
            harness.space.complete([completion(harness, claim)])
            ended.insert(0, claim.id)
        held = [each for each in of if each not in ended]
        for _ in range(2):
            with harness.space.store.read() as view:
                for limit in (1, 2, 9):
                    assert [each.id for each in view.list_ended(None, limit=limit)] == ended[:limit]
                    assert [each.id for each in view.list_claimed(None, limit=limit)] == held[:limit]
                for run in ("one", "two", "none", "another"):
                    assert [each.id for each in view.list_ended(run, limit=9)] == [
                        each for each in ended if of[each] == run
                    ]
                    mine = [each for each in held if of[each] == run]
                    assert [each.id for each in view.list_claimed(run, limit=9)] == mine
                    assert [each.id for each in view.list_claimed(run, limit=1)] == mine[:1]
            harness.delete_index()
            harness.reopen()

    def test_the_strictest_yool_says_how_often_it_is_tried_again(self, harness: WorkHarness) -> None:
        """What a tuple does not say its yools say, also after a restart; what it says holds."""

        def lookup(name: str) -> CatalogEntry:
            said = {"agent.lint.ruff": 0, "agent.test.pytest": 3}[name]
            return CatalogEntry(name=name, version=1, authority=("user",), lane="build", terms=Terms(max_retries=said))

        space = TupleSpace(harness.space.store, lookup=lookup, boot="first")
        strict = draft(payload=[{"yool": "agent.test.pytest"}, {"yool": "agent.lint.ruff"}])
        patient = draft(payload=[{"yool": "agent.test.pytest"}])
        own = draft(agent_terms={"max_retries": 1})
        ids = [each.id for each in space.out(strict, patient, own, authority=PERSON, run=RUN)]
        assert [harness.space.get(each).retries for each in ids] == [0, 3, 1]
        harness.delete_index()
        harness.reopen()
        assert [harness.space.get(each).retries for each in ids] == [0, 3, 1]
        harness.space.complete([failure(harness, claim) for claim in take(harness, limit=3)])
        assert [harness.space.get(each).state for each in ids] == ["dead", "waiting", "waiting"]

    def test_what_comes_is_known_for_those_that_are_meant(self, harness: WorkHarness) -> None:
        """A tuple in somebody's hands, or that waits for its next attempt, comes; others' tuples do not."""
        held, delayed = put(harness, draft(map_pos={"who": "held"}), draft(map_pos={"who": "delayed"}))
        _, second = take(harness, limit=2)
        harness.space.complete([failure(harness, second)])
        with harness.space.store.read() as view:
            now = view.as_of

            def due(**said: Any) -> int | None:
                found = view.next_due_us(read_pattern(said))
                return None if found is None else found - now

            assert (due(), due(lane="build")) == (SECOND_US, SECOND_US)
            assert (due(id=held), due(id=delayed)) == (LEASE_US, SECOND_US)
            assert due(lane="build", **{"map_pos.who": "held"}) == LEASE_US
            assert due(**{"map_pos.who": {"ne": "delayed"}}) == LEASE_US
            assert due(**{"map_pos.who": "nobody"}) is None
            assert due(lane="other") is None

    def test_a_dead_letter_can_be_put_again_once(self, harness: WorkHarness) -> None:
        """As a new tuple; the old one says which."""
        (one,) = put(harness, draft(agent_terms={"max_retries": 0}))
        (claim,) = take(harness)
        harness.space.complete([failure(harness, claim)])
        again = harness.space.put_again(one, authority=PERSON)
        assert again.id != one
        assert harness.space.get(one).put_again_as == again.id
        expect_error(TupleEnded, harness.space.put_again, one, authority=PERSON)
        assert take(harness)[0].id == again.id

    def test_a_dead_letter_put_again_keeps_a_deadline_that_is_ahead(self, harness: WorkHarness) -> None:
        """One that is past is dropped: nothing could be begun."""
        soon, later = (print_time(harness.clock.now() + seconds * SECOND_US) for seconds in (10, 100))
        ids = put(harness, *(draft(agent_terms={"max_retries": 0, "deadline_iso": each}) for each in (soon, later)))
        harness.space.complete([failure(harness, claim) for claim in take(harness, limit=2)])
        harness.clock.advance(seconds=50)
        again = [harness.space.put_again(each, authority=PERSON).id for each in ids]
        terms = [harness.space.get(each).tuple.agent_terms for each in again]
        assert terms == [{"max_retries": 0}, {"max_retries": 0, "deadline_iso": later}]

    def test_cancelling_ends_it_wherever_it_is(self, harness: WorkHarness) -> None:
        """Its holder may write nothing, and it cannot be cancelled twice."""
        waiting, held = put(harness, draft("a"), draft("b"))
        (claim,) = take(harness, "b")
        for one in (waiting, held):
            ended = harness.space.cancel(one)
            assert ended.exit == 130
            assert harness.space.get(one).state == "cancelled"
            expect_error(TupleEnded, harness.space.cancel, one)
        assert harness.space.complete([completion(harness, claim)])[0] == ["STALE_FENCE"]
        assert take(harness, "a") == []

    def test_a_tuple_past_its_deadline_is_not_given_out(self, harness: WorkHarness) -> None:
        """And one that comes too late is refused."""
        soon = print_time(harness.clock.now() + 10 * SECOND_US)
        (one,) = put(harness, draft(agent_terms={"deadline_iso": soon}))
        harness.clock.advance(seconds=10)
        assert take(harness) == []
        assert harness.space.get(one).state == "dead"
        expect_error(DeadlinePast, put, harness, draft(agent_terms={"deadline_iso": soon}))

    def test_what_is_too_late_keeps_nobody_from_what_is_not(self, harness: WorkHarness) -> None:
        """However many stand before it, whoever asks for the next gets it, and all of them are ended."""
        soon = print_time(harness.clock.now() + 10 * SECOND_US)
        late = put(harness, *[draft(agent_terms={"deadline_iso": soon})] * 600)
        first, second = put(harness, draft(), draft())
        (held,) = put(harness, draft("other"))
        harness.clock.advance(seconds=10)
        assert [claim.id for claim in take(harness)] == [first]
        (claim,) = take(harness, "other")
        assert claim.id == held
        put(harness, *[draft("other", agent_terms={"deadline_iso": print_time(harness.clock.now() + 1)})] * 3)
        (last,) = put(harness, draft("other"))
        harness.clock.advance(seconds=1)
        _, more = harness.space.complete([completion(harness, claim)], claim_more=({"lane": "other"}, "w1", 1))
        assert [each.id for each in more] == [last]
        assert [claim.id for claim in take(harness, limit=2)] == [second]
        assert {harness.space.get(each).state for each in late} == {"dead"}
        assert harness.space.store.verify() == []

    def test_a_receipt_of_another_tuple_is_refused(self, harness: WorkHarness) -> None:
        """As one of its steps or as its last; so is one of no step. Nothing of that result is written."""
        put(harness, draft(), draft())
        first, second = take(harness, limit=2)
        own, other = completion(harness, first), completion(harness, second)
        assert own.final_receipt is not None
        before = harness.journal_bytes()
        for receipts, last in (
            (other.receipts, None),
            (own.receipts, other.final_receipt),
            ((own.final_receipt,), None),
        ):
            wrong = Completion(id=first.id, fence=first.fence, receipts=receipts, final_receipt=last)
            assert harness.space.complete([wrong])[0] == ["RECEIPT_FOREIGN"]
        assert harness.journal_bytes() == before
        assert harness.space.complete([own])[0] == [None]

    def test_what_is_told_behind_the_end_of_a_tuple_comes_too_late(self, harness: WorkHarness) -> None:
        """Also in the call that tells its end, which counts once."""
        put(harness, draft(), draft())
        first, second = take(harness, limit=2)
        done, not_done = completion(harness, first), failure(harness, second)
        late = [failure(harness, first, usd=0.5), completion(harness, second, usd=0.5)]
        answers, _ = harness.space.complete([done, not_done, *late])
        assert answers == [None, None, "STALE_FENCE", "STALE_FENCE"]
        for result, state in ((done, "done"), (not_done, "waiting")):
            told = [each.id for each in (*result.receipts, result.final_receipt) if each is not None]
            assert harness.space.public_tuple(result.id)["receipts"] == told
            kept = harness.space.get(result.id)
            assert (kept.state, kept.spent_micros) == (state, 0)

    def test_a_receipt_told_twice_in_one_result_counts_once(self, harness: WorkHarness) -> None:
        """It is one execution, and was paid once."""
        put(harness, draft("build", 1, 2))
        (claim,) = take(harness)
        one = receipt(harness, claim, usd=0.25)
        harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(one, one))])
        assert harness.space.public_tuple(claim.id)["receipts"] == [one.id]
        with harness.space.store.read() as view:
            (figures,) = view.run_totals()
        assert (figures.executed, figures.micros) == (1, 250_000)
        assert harness.space.get(claim.id).spent_micros == 250_000

    def test_settling_and_claiming_is_one_commit(self, harness: WorkHarness) -> None:
        """What makes workers fast."""
        put(harness, draft(), draft())
        (claim,) = take(harness)
        before = harness.space.store.last_line()
        answers, more = harness.space.complete([completion(harness, claim)], claim_more=({"lane": "build"}, "w1", 1))
        assert answers == [None]
        assert len(more) == 1
        assert harness.space.store.last_line() == before + 1

    def test_finished_steps_are_known_though_the_attempt_does_not_count(self, harness: WorkHarness) -> None:
        """A worker that was told to stop gives the tuple back; the next one goes on where it stopped."""
        (one,) = put(harness, draft("build", 1, 2))
        (claim,) = take(harness)
        first = receipt(harness, claim)
        harness.space.complete([Completion(id=one, fence=claim.fence, receipts=(first,))])
        harness.space.release([(one, claim.fence)])
        harness.reopen()
        (again,) = take(harness)
        assert (again.attempt, again.finished_steps) == (1, {0: first.id})
        harness.space.release([(one, again.fence)])
        assert harness.space.cancel(one).receipts == (first.id,)

    def test_finished_steps_are_known_to_the_next_attempt(self, harness: WorkHarness) -> None:
        """It begins at the first missing step. # YT-10"""
        put(harness, draft("build", 1, 2, 3))
        (claim,) = take(harness)
        first = receipt(harness, claim, 0)
        harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(first,))])
        harness.reopen()
        harness.clock.advance(seconds=31)
        (again,) = take(harness)
        assert again.finished_steps == {0: first.id}
