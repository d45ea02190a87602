"""What every back end of the work plane does, stated as tests. A subclass gives the fixture `harness`."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from stigmergy.core import SECOND, print_time
from stigmergy.errors import (
    BudgetExceeded,
    DeadlinePast,
    IdempotencyConflict,
    LaneFull,
    StaleFence,
    StigmergyError,
    TupleEnded,
    TupleNotFound,
)
from stigmergy.space.catalog import CatalogEntry, Terms
from stigmergy.space.tuples import Claim, Price, Settled, TupleSpace, read_pattern, tuple_id
from stigmergy.testing.work.harness import PERSON, RUN, WorkHarness, draft, failed, finished, put, receipt

LEASE = 30 * SECOND


def refused(kind: type[StigmergyError], call: Any, *args: Any, **more: Any) -> StigmergyError:
    """The refusal a call must meet."""
    try:
        call(*args, **more)
    except kind as refusal:
        return refusal
    raise AssertionError(f"{kind.__name__} was expected")


def take(harness: WorkHarness, lane: str = "build", limit: int = 1, worker: str = "w1") -> list[Claim]:
    """Claim without waiting."""
    return harness.space.claim({"lane": lane}, worker=worker, limit=limit)


class Linda:
    """Putting, reading and taking. # YT-04 # YT-05"""

    def test_a_tuple_is_named_by_the_published_formula(self, harness: WorkHarness) -> None:
        """The id is the hash of the tuple as created."""
        (one,) = put(harness)
        shown = harness.space.shown(one)
        assert shown.pop("id") == one == tuple_id(shown)
        assert shown["receipts"] == []

    def test_the_id_stays_when_receipts_come(self, harness: WorkHarness) -> None:
        """Appending a receipt changes no id."""
        (one,) = put(harness)
        (claim,) = take(harness)
        harness.space.settle([finished(harness, claim)])
        shown = harness.space.shown(one)
        assert len(shown["receipts"]) == 2
        assert tuple_id({**shown, "receipts": []}) == one

    def test_the_same_work_put_twice_is_two_tuples(self, harness: WorkHarness) -> None:
        """At the same microsecond, in one call and in two, without an id nothing collapses."""
        ids = [*put(harness, draft(), draft()), *put(harness, draft())]
        assert len(set(ids)) == 3
        times = [harness.space.shown(one)["created_at"] for one in ids]
        assert len(set(times)) == 3

    def test_ids_are_found_by_how_they_begin(self, harness: WorkHarness) -> None:
        """Of tuples and of receipts, by any number of digits, and no more than asked for."""
        ids = put(harness, *[draft() for _ in range(40)])
        harness.space.settle([finished(harness, claim) for claim in take(harness, limit=40)])
        with harness.space.store.read() as view:
            receipts = [each for one in ids for each in view.receipts_of(one)]
            for known, like in ((ids, view.tuples_like), (receipts, view.receipts_like)):
                for start in {each[7 : 7 + length] for each in known[:9] for length in (1, 2, 15, 16, 17, 64)}:
                    alike = {each for each in known if each.startswith(f"sha256:{start}")}
                    assert set(like(start, limit=100)) == alike
                    assert len(like(start, limit=1)) == 1

    def test_a_tuple_put_again_with_its_id_is_skipped(self, harness: WorkHarness) -> None:
        """Re-emitting is idempotent, whatever has become of it."""
        (one,) = put(harness)
        whole = harness.space.shown(one)
        before = harness.journal_bytes()
        assert harness.space.out(whole, authority=PERSON, run=RUN)[0].new is False
        assert harness.journal_bytes() == before

    def test_reading_leaves_and_taking_removes(self, harness: WorkHarness) -> None:
        """`rd` finds it as often as asked, `in` once."""
        (one,) = put(harness, draft("notes"))
        for _ in range(2):
            found = harness.space.rd({"lane": "notes"})
            assert found is not None
            assert found.id == one
        taken = harness.space.in_({"lane": "notes"}, by="me")
        assert taken is not None
        assert taken.id == one
        assert harness.space.in_({"lane": "notes"}, by="me") is None
        assert harness.space.rd({"lane": "notes"}) is None
        refused(TupleNotFound, harness.space.get, one)

    def test_what_was_taken_stays_taken_after_a_restart(self, harness: WorkHarness) -> None:
        """Removal is durable."""
        put(harness, draft("notes"))
        harness.space.in_({"lane": "notes"}, by="me")
        harness.reopen()
        assert harness.space.rd({"lane": "notes"}) is None

    def test_done_tuples_can_still_be_read(self, harness: WorkHarness) -> None:
        """And not taken."""
        (one,) = put(harness)
        (claim,) = take(harness)
        harness.space.settle([finished(harness, claim)])
        found = harness.space.rd({"lane": "build", "state": "done"})
        assert found is not None
        assert found.id == one
        assert harness.space.in_({"lane": "build"}, by="me") is None

    def test_patterns_look_at_any_field(self, harness: WorkHarness) -> None:
        """Equality, prefix, comparison and presence."""
        first, second = put(
            harness,
            draft(map_pos={"stack": "dotnet", "n": 3}, priority=5),
            draft(map_pos={"stack": "python", "n": 7}, flags={"no_cache": True}),
        )
        for pattern, expected in (
            ({"map_pos.stack": "python"}, [second]),
            ({"map_pos.stack": {"prefix": "dot"}}, [first]),
            ({"map_pos.n": {"gt": 3}}, [second]),
            ({"map_pos.n": {"ge": 3, "lt": 7}}, [first]),
            ({"priority": {"exists": True}}, [first]),
            ({"flags.no_cache": {"exists": False}}, [first]),
            ({"flags.no_cache": True}, [second]),
            ({"payload.0.args.n": 0}, [first, second]),
            ({"payload.1.yool": {"exists": True}}, []),
            ({"map_pos.n": "3"}, []),
            ({"map_pos.stack": {"gt": 1}}, []),
            ({"id": second}, [second]),
            ({"id": "nothing"}, []),
        ):
            assert [one.id for one in harness.space.rd_all(pattern)] == expected, pattern

    def test_whoever_waits_is_woken(self, harness: WorkHarness) -> None:
        """A blocked `in` gets the tuple that comes, without asking again and again."""
        got: list[Any] = []
        waiter = threading.Thread(target=lambda: got.append(harness.space.in_({"lane": "late"}, by="me", timeout=30.0)))
        waiter.start()
        (one,) = put(harness, draft("late"))
        waiter.join(20)
        assert [each.id for each in got] == [one]

    def test_waiting_ends(self, harness: WorkHarness) -> None:
        """With nothing, when nothing came."""
        assert harness.space.rd({"lane": "nobody"}, timeout=0.05) is None
        assert harness.space.in_({"lane": "nobody"}, by="me", timeout=0.05) is None
        assert harness.space.claim({"lane": "nobody"}, worker="w", timeout=0.05) == []

    def test_a_parent_must_be_there(self, harness: WorkHarness) -> None:
        """What is spent has to be counted somewhere."""
        refused(TupleNotFound, put, harness, draft(parent_id="sha256:" + "0" * 64))

    def test_an_idempotency_key_answers_with_the_same_tuple(self, harness: WorkHarness) -> None:
        """And refuses another request under the same key."""
        first = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True, asked=("me k", "r1"))[0]
        again = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True, asked=("me k", "r1"))[0]
        assert (again.id, again.accepted, again.new) == (first.id, first.accepted, False)
        refused(IdempotencyConflict, harness.space.out, draft(), authority=PERSON, run=RUN, asked=("me k", "r2"))

    def test_a_full_lane_refuses_or_is_waited_for(self, harness: WorkHarness) -> None:
        """Backpressure by the depth of the queue. # YT-06"""
        harness.space.settings = msgspec.structs.replace(harness.space.settings, queue_maxsize=2)
        put(harness, draft(), draft())
        before = harness.journal_bytes()
        refused(LaneFull, put, harness)
        refused(LaneFull, put, harness, block=0.05)
        assert harness.journal_bytes() == before
        put(harness, draft("other"))
        got: list[Any] = []
        waiter = threading.Thread(target=lambda: got.extend(put(harness, block=30.0)))
        waiter.start()
        take(harness)
        waiter.join(20)
        assert len(got) == 1


class Holding:
    """Claims, leases and fences. # YT-06"""

    def test_each_tuple_is_somebodys_once(self, harness: WorkHarness) -> None:
        """A second worker gets the next one."""
        ids = put(harness, draft(), draft())
        (first,) = take(harness)
        (second,) = take(harness, worker="w2")
        assert [first.id, second.id] == ids
        assert take(harness) == []
        assert second.fence > first.fence

    def test_higher_priority_goes_first_then_older(self, harness: WorkHarness) -> None:
        """Order within a lane, and across lanes."""
        ids = put(harness, draft(), draft(priority=5), draft(), draft("other", priority=3), draft(priority=-1))
        claims = harness.space.claim({}, worker="w", limit=10)
        assert [claim.id for claim in claims] == [ids[at] for at in (1, 3, 0, 2, 4)]

    def test_a_lease_that_ends_gives_the_tuple_back(self, harness: WorkHarness) -> None:
        """To anyone, at once, and the old holder may write nothing."""
        put(harness)
        (claim,) = take(harness)
        harness.clock.turn(seconds=29)
        assert take(harness) == []
        harness.clock.turn(seconds=1)
        assert harness.space.settle([finished(harness, claim)])[0] == ["STALE_FENCE"]
        (again,) = take(harness, worker="w2")
        assert again.id == claim.id
        assert again.attempt == 2
        assert harness.space.settle([finished(harness, claim)])[0] == ["STALE_FENCE"]
        assert harness.space.settle([finished(harness, again)])[0] == [None]

    def test_a_heartbeat_keeps_it(self, harness: WorkHarness) -> None:
        """As long as it comes in time."""
        put(harness)
        (claim,) = take(harness)
        for _ in range(5):
            harness.clock.turn(seconds=20)
            assert harness.space.renew([(claim.id, claim.fence)]) == []
        harness.clock.turn(seconds=30)
        assert harness.space.renew([(claim.id, claim.fence)]) == [claim.id]
        refused(StaleFence, harness.space.start_step, claim, 0, Price())

    def test_attempts_count_at_the_claim(self, harness: WorkHarness) -> None:
        """So a worker that is killed counts, and what kills its workers ends as a dead letter."""
        (one,) = put(harness, draft(agent_terms={"max_retries": 1}))
        for attempt in (1, 2):
            (claim,) = take(harness)
            assert claim.attempt == attempt
            harness.clock.turn(seconds=31)
        assert take(harness) == []
        kept = harness.space.get(one)
        assert kept.state == "dead"
        last = harness.space.receipt(harness.space.shown(one)["receipts"][-1])
        assert last.exit != 0
        assert last.error == "the worker was lost"

    def test_a_new_start_of_the_machine_frees_everything(self, harness: WorkHarness) -> None:
        """Nobody who held anything is alive; fences of the new epoch are greater."""
        put(harness)
        (claim,) = take(harness)
        harness.start_machine("second")
        (again,) = take(harness)
        assert again.fence > claim.fence
        assert again.fence.epoch == claim.fence.epoch + 1
        assert harness.space.settle([finished(harness, claim)])[0] == ["STALE_FENCE"]

    def test_what_is_given_back_does_not_count(self, harness: WorkHarness) -> None:
        """A worker that was told to stop costs no attempt."""
        put(harness)
        (claim,) = take(harness)
        assert harness.space.release([(claim.id, claim.fence)]) == [claim.id]
        (again,) = take(harness)
        assert again.attempt == 1
        assert harness.space.release([(claim.id, claim.fence)]) == []

    def test_a_failure_waits_longer_each_time_then_is_a_dead_letter(self, harness: WorkHarness) -> None:
        """Back-off, the configured number of retries, one last receipt."""
        (one,) = put(harness)
        for waits in (1, 2):
            (claim,) = take(harness)
            harness.space.settle([failed(harness, claim)])
            assert take(harness) == []
            harness.clock.turn(seconds=waits - 1, microseconds=999_999)
            assert take(harness) == []
            harness.clock.turn(microseconds=1)
        (claim,) = take(harness)
        harness.space.settle([failed(harness, claim)])
        assert harness.space.get(one).state == "dead"
        receipts = [harness.space.receipt(each) for each in harness.space.shown(one)["receipts"]]
        assert [each.yool for each in receipts].count("tuple.run") == 1
        assert receipts[-1].exit == 1
        assert [one.id for one in harness.space.rd_all({"state": "dead"})] == [one]

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
        harness.space.settle([failed(harness, claim) for claim in take(harness, limit=3)])
        assert [harness.space.get(each).state for each in ids] == ["dead", "waiting", "waiting"]

    def test_what_comes_is_known_for_those_that_are_meant(self, harness: WorkHarness) -> None:
        """A tuple in somebody's hands, or that waits for its next attempt, comes; others' tuples do not."""
        held, delayed = put(harness, draft(map_pos={"who": "held"}), draft(map_pos={"who": "delayed"}))
        _, second = take(harness, limit=2)
        harness.space.settle([failed(harness, second)])
        with harness.space.store.read() as view:
            now = view.as_of

            def due(**said: Any) -> int | None:
                found = view.next_due(read_pattern(said))
                return None if found is None else found - now

            assert (due(), due(lane="build")) == (SECOND, SECOND)
            assert (due(id=held), due(id=delayed)) == (LEASE, SECOND)
            assert due(lane="build", **{"map_pos.who": "held"}) == LEASE
            assert due(**{"map_pos.who": {"ne": "delayed"}}) == LEASE
            assert due(**{"map_pos.who": "nobody"}) is None
            assert due(lane="other") is None

    def test_a_dead_letter_can_be_put_again_once(self, harness: WorkHarness) -> None:
        """As a new tuple; the old one says which."""
        (one,) = put(harness, draft(agent_terms={"max_retries": 0}))
        (claim,) = take(harness)
        harness.space.settle([failed(harness, claim)])
        again = harness.space.put_again(one, authority=PERSON)
        assert again.id != one
        assert harness.space.get(one).again == again.id
        refused(TupleEnded, harness.space.put_again, one, authority=PERSON)
        assert take(harness)[0].id == again.id

    def test_cancelling_ends_it_wherever_it_is(self, harness: WorkHarness) -> None:
        """Its holder may write nothing, and it cannot be cancelled twice."""
        waiting, held = put(harness, draft("a"), draft("b"))
        (claim,) = take(harness, "b")
        for one in (waiting, held):
            ended = harness.space.cancel(one)
            assert ended.exit == 130
            assert harness.space.get(one).state == "cancelled"
            refused(TupleEnded, harness.space.cancel, one)
        assert harness.space.settle([finished(harness, claim)])[0] == ["STALE_FENCE"]
        assert take(harness, "a") == []

    def test_a_tuple_past_its_deadline_is_not_given_out(self, harness: WorkHarness) -> None:
        """And one that comes too late is refused."""
        soon = print_time(harness.clock.now() + 10 * SECOND)
        (one,) = put(harness, draft(agent_terms={"deadline_iso": soon}))
        harness.clock.turn(seconds=10)
        assert take(harness) == []
        assert harness.space.get(one).state == "dead"
        refused(DeadlinePast, put, harness, draft(agent_terms={"deadline_iso": soon}))

    def test_a_receipt_of_another_tuple_is_refused(self, harness: WorkHarness) -> None:
        """And nothing of that result is written."""
        put(harness, draft(), draft())
        first, second = take(harness, limit=2)
        wrong = Settled(id=first.id, fence=first.fence, receipts=(receipt(harness, second),))
        assert harness.space.settle([wrong])[0] == ["RECEIPT_FOREIGN"]
        assert harness.space.shown(first.id)["receipts"] == []

    def test_settling_and_claiming_is_one_commit(self, harness: WorkHarness) -> None:
        """What makes workers fast."""
        put(harness, draft(), draft())
        (claim,) = take(harness)
        before = harness.space.store.last_line()
        answers, more = harness.space.settle([finished(harness, claim)], more=({"lane": "build"}, "w1", 1))
        assert answers == [None]
        assert len(more) == 1
        assert harness.space.store.last_line() == before + 1

    def test_finished_steps_are_known_though_the_attempt_does_not_count(self, harness: WorkHarness) -> None:
        """A worker that was told to stop gives the tuple back; the next one goes on where it stopped."""
        (one,) = put(harness, draft("build", 1, 2))
        (claim,) = take(harness)
        first = receipt(harness, claim)
        harness.space.settle([Settled(id=one, fence=claim.fence, receipts=(first,))])
        harness.space.release([(one, claim.fence)])
        harness.reopen()
        (again,) = take(harness)
        assert (again.attempt, again.done) == (1, {0: first.id})
        harness.space.release([(one, again.fence)])
        assert harness.space.cancel(one).receipts == (first.id,)

    def test_finished_steps_are_known_to_the_next_attempt(self, harness: WorkHarness) -> None:
        """It begins at the first missing step. # YT-10"""
        put(harness, draft("build", 1, 2, 3))
        (claim,) = take(harness)
        first = receipt(harness, claim, 0)
        harness.space.settle([Settled(id=claim.id, fence=claim.fence, receipts=(first,))])
        harness.reopen()
        harness.clock.turn(seconds=31)
        (again,) = take(harness)
        assert again.done == {0: first.id}


class Paying:
    """Budgets, the cache, receipts. # YT-08 # YT-09 # YT-11"""

    def test_a_step_that_is_too_dear_is_not_begun(self, harness: WorkHarness) -> None:
        """What it will probably cost is more than is left."""
        put(harness, draft(agent_terms={"budget_usd": 0.01, "budget_tokens": 100}))
        (claim,) = take(harness)
        refused(BudgetExceeded, harness.space.start_step, claim, 0, Price(micros=10_001))
        refused(BudgetExceeded, harness.space.start_step, claim, 0, Price(tokens=101))
        harness.space.start_step(claim, 0, Price(micros=10_000, tokens=100))

    def test_what_is_set_aside_is_not_there_for_others(self, harness: WorkHarness) -> None:
        """Until the step has ended."""
        put(harness, draft("build", 1, 2, agent_terms={"budget_usd": 0.01}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(micros=8_000))
        refused(BudgetExceeded, harness.space.start_step, claim, 1, Price(micros=3_000))
        done = receipt(harness, claim, 0, usd=0.005)
        harness.space.settle([Settled(id=claim.id, fence=claim.fence, receipts=(done,))])
        harness.space.start_step(claim, 1, Price(micros=5_000))

    def test_children_spend_what_their_parent_has(self, harness: WorkHarness) -> None:
        """All the way up, exactly."""
        (top,) = put(harness, draft("top", agent_terms={"budget_usd": 0.01}))
        (middle,) = put(harness, draft("middle", parent_id=top))
        (low,) = put(harness, draft("low", parent_id=middle, agent_terms={"budget_usd": 1}))
        (claim,) = take(harness, "low")
        harness.space.start_step(claim, 0, Price(micros=6_000))
        assert harness.space.get(top).held_micros == 6_000
        harness.space.spend(claim, 0, Price(micros=2_000, tokens=5))
        assert [harness.space.get(one).micros for one in (top, middle, low)] == [2_000] * 3
        assert harness.space.get(top).held_micros == 4_000
        harness.space.settle([finished(harness, claim, usd=0.007, tokens_in=9)])
        for one in (top, middle, low):
            kept = harness.space.get(one)
            assert (kept.micros, kept.tokens, kept.held_micros, kept.held_tokens) == (7_000, 9, 0, 0)
        (own,) = take(harness, "top")
        refused(BudgetExceeded, harness.space.start_step, own, 0, Price(micros=3_001))

    def test_what_a_lost_worker_had_spent_stays_spent(self, harness: WorkHarness) -> None:
        """What was set aside beyond that is free again."""
        (one,) = put(harness, draft(agent_terms={"budget_usd": 0.01}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price(micros=9_000))
        harness.space.spend(claim, 0, Price(micros=4_000))
        harness.clock.turn(seconds=31)
        (again,) = take(harness)
        kept = harness.space.get(one)
        assert (kept.micros, kept.held_micros) == (4_000, 0)
        harness.space.start_step(again, 0, Price(micros=6_000))

    def test_an_alarm_is_put_once_when_a_budget_is_nearly_spent(self, harness: WorkHarness) -> None:
        """In a lane of its own, saying how much of what."""
        (one,) = put(harness, draft("build", 1, 2, agent_terms={"budget_usd": 0.01}))
        (claim,) = take(harness)
        harness.space.start_step(claim, 0, Price())
        harness.space.spend(claim, 0, Price(micros=7_999))
        assert harness.space.rd_all({"lane": "alarm"}) == []
        harness.space.spend(claim, 0, Price(micros=1))
        harness.space.spend(claim, 0, Price(micros=1_000))
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
            harness.space.settle([Settled(id=claim.id, fence=claim.fence, receipts=(each,))])
        with harness.space.store.read() as view:
            assert view.cached("k") == good[1]
            assert view.cached("other") is None
            assert (view.averages(good[0].yool).runs, view.averages(good[0].yool).micros) == (2, 2_000)
        harness.space.report_damage(good[1].id, good[1].stdout_sha)
        with harness.space.store.read() as view:
            assert view.cached("k") == good[0]

    def test_a_hit_is_a_line_that_names_the_original(self, harness: WorkHarness) -> None:
        """It costs nothing and makes no receipt."""
        put(harness, draft())
        (claim,) = take(harness)
        original = receipt(harness, claim, key="k", usd=0.5)
        harness.space.settle([Settled(id=claim.id, fence=claim.fence, receipts=(original,))])
        (one,) = put(harness, draft("second"))
        (other,) = take(harness, "second")
        harness.space.settle([Settled(id=other.id, fence=other.fence, hits=((0, original.id),))])
        assert harness.space.shown(one)["receipts"] == [original.id]
        assert harness.space.get(one).micros == 0
        with harness.space.store.read() as view:
            (figures,) = view.runs()
            assert (figures.executed, figures.hits, figures.micros) == (1, 1, 500_000)
            assert [each.id for _, each in view.receipts_in(RUN, limit=9)] == [original.id]
            assert [each.id for each in view.last_receipts(RUN, limit=9)] == [original.id]
            assert view.last_receipts("01KDVP9R00STGMERGYRUN00009", limit=9) == []

    def test_dispatch_gives_a_receipt_at_once(self, harness: WorkHarness) -> None:
        """For taking it in."""
        answer = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True)[0]
        assert answer.accepted is not None
        accepted = harness.space.receipt(answer.accepted)
        assert (accepted.tuple_id, accepted.exit) == (answer.id, 0)


class Keeping:
    """The journal is the truth. # YT-10"""

    def test_everything_is_the_same_after_a_restart_and_without_the_index(self, harness: WorkHarness) -> None:
        """Whatever happened."""
        ids = put(harness, draft(), draft(priority=3), draft("b"), draft("c", agent_terms={"budget_usd": 1}))
        first, second = take(harness, limit=2)
        harness.space.settle([finished(harness, first, usd=0.25), failed(harness, second)])
        (held,) = take(harness, "c")
        harness.space.start_step(held, 0, Price(micros=5))
        harness.space.spend(held, 0, Price(micros=2))
        harness.space.cancel(ids[2])
        before = _everything(harness, ids)
        harness.reopen()
        assert _everything(harness, ids) == before
        harness.delete_index()
        assert _everything(harness, ids) == before
        assert harness.space.store.verify() == []


def _everything(harness: WorkHarness, ids: list[str]) -> Any:
    with harness.space.store.read() as view:
        return (
            [view.find(one) for one in ids],
            [view.receipts_of(one) for one in ids],
            [view.finished(one) for one in ids],
            [view.running(one, 0) for one in ids],
            view.runs(),
            view.lanes(),
            view.reign(),
            view.receipts_in(RUN, limit=100),
        )


class WorkConformance(Linda, Holding, Paying, Keeping):
    """All of it."""
