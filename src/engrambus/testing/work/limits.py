"""Limits of work: keys, lanes, authorities and rates, pauses, and turns between runs and parents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engrambus.core import SECOND_US, print_time
from engrambus.errors import LimitInvalid, LimitNotFound, TermsInvalid
from engrambus.space.tuples import (
    Claim,
    LimitMatch,
    LimitRule,
    Price,
    WorkView,
    limit_blocks,
    pause,
    read_match,
    read_pattern,
    remove_limit,
    set_limit,
    subject_of,
    unpause,
)
from engrambus.testing.work.harness import (
    LEASE_US,
    PERSON,
    WorkHarness,
    completion,
    draft,
    expect_error,
    failure,
    put,
    take,
)

LANE = read_pattern({"lane": "build"})


def limit(harness: WorkHarness, *, running: int | None = None, rate: str | None = None, **match: str) -> LimitRule:
    """Set a limit."""
    match_read = read_match(**match)
    rule: LimitRule = _commit(harness, lambda view: set_limit(view, match_read, running=running, rate=rate, by="admin"))
    return rule


def stop(harness: WorkHarness, why: str = "", **match: str) -> None:
    """Pause what matches."""
    _commit(harness, lambda view: pause(view, read_match(**match), why=why, by="admin"))


def go_on(harness: WorkHarness, **match: str) -> None:
    """End a pause."""
    _commit(harness, lambda view: unpause(view, read_match(**match), by="admin"))


def _commit(harness: WorkHarness, decide: Callable[[WorkView], tuple[Sequence[Any], Any]]) -> Any:
    return harness.space.store.commit(decide)


def keyed(key: str, lane: str = "build", **fields: Any) -> dict[str, Any]:
    """Return a tuple with a concurrency key."""
    return draft(lane, agent_terms={"concurrency_key": key}, **fields)


def finish(harness: WorkHarness, *claims: Claim) -> None:
    """Complete claims."""
    assert harness.space.complete([completion(harness, claim) for claim in claims])[0] == [None] * len(claims)


def _ids(claims: list[Claim]) -> list[str]:
    return [claim.id for claim in claims]


class LimitConformance:
    """Limits, pauses and turns (decision 110)."""  # YT-17

    def test_no_more_of_a_key_run_than_its_limit(self, harness: WorkHarness) -> None:
        """In one claim or several; others are not held up, and a completion lets the next one start."""
        ids = put(harness, *(keyed("a") for _ in range(4)), keyed("b"), draft())
        limit(harness, key="a", running=2)
        claims = take(harness, limit=9)
        assert _ids(claims) == [ids[0], ids[1], ids[4], ids[5]]
        assert take(harness, worker="w2") == []
        finish(harness, claims[1])
        (third,) = take(harness, limit=9, worker="w2")
        assert third.id == ids[2]
        finish(harness, claims[0], third)
        assert _ids(take(harness, limit=9)) == [ids[3]]
        assert harness.space.store.verify() == []

    def test_a_prefix_counts_each_key_by_itself(self, harness: WorkHarness) -> None:
        """An exact name counts one key; both hold."""
        ids = put(harness, *(keyed(f"customer-{n % 2}") for n in range(6)), keyed("other"), keyed("other"))
        limit(harness, key="customer-*", running=2)
        limit(harness, key="customer-1", running=1)
        assert _ids(take(harness, limit=9)) == [ids[n] for n in (0, 1, 2, 6, 7)]

    def test_a_lane_an_authority_and_a_run_are_limited_together(self, harness: WorkHarness) -> None:
        """A tuple starts if every rule about it has room."""
        ids = put(harness, *(draft() for _ in range(3)), run="one") + put(harness, draft(), draft("b"), run="two")
        limit(harness, lane="build", running=3)
        limit(harness, run="one", running=1)
        assert _ids(take(harness, limit=9)) == [ids[0], ids[3]]
        limit(harness, authority="user", running=2)
        assert take(harness, "b") == []
        limit(harness, authority="user", running=3)
        assert _ids(take(harness, "b")) == [ids[4]]

    # YT-17: slots are leases
    def test_a_lost_worker_gives_its_slot_back_by_itself(self, harness: WorkHarness) -> None:
        """When its lease ends; the tuple is counted once when it is claimed again."""
        ids = put(harness, keyed("a"), keyed("a"), keyed("a"))
        limit(harness, key="a", running=2)
        lost, renewed = take(harness, limit=9)
        harness.clock.advance(seconds=20)
        assert harness.space.renew([(renewed.id, renewed.fence)]) == []
        assert take(harness) == []
        with harness.space.store.read() as view:
            assert view.next_due_us(LANE) == lost.lease_until_us
        harness.clock.advance(seconds=10)
        (retried,) = take(harness, limit=9, worker="w2")
        assert (retried.id, retried.attempt) == (lost.id, 2)
        assert take(harness) == []
        harness.clock.advance(seconds=20)
        assert _ids(take(harness, limit=9, worker="w3")) == [renewed.id]
        assert harness.space.complete([completion(harness, lost)])[0] == ["STALE_FENCE"]
        assert take(harness) == []
        assert ids[2] not in (retried.id, renewed.id)

    def test_a_late_tuple_holds_up_none_of_a_limited_key(self, harness: WorkHarness) -> None:
        """A claim that ends it looks again: what the first look counted for others is free."""
        deadline = print_time(harness.clock.now() + 5 * SECOND_US)
        late = draft(agent_terms={"deadline_iso": deadline})
        first, second, _, ended = put(harness, keyed("ab"), keyed("ab"), keyed("ab"), late)
        limit(harness, key="a*", running=2, rate="2/PT10S")
        harness.clock.advance(seconds=10)
        assert _ids(take(harness, limit=3)) == [first, second]
        assert harness.space.get(ended).state == "dead"

    def test_a_restart_of_the_machine_frees_every_slot(self, harness: WorkHarness) -> None:
        """Claims of an earlier epoch hold none."""
        put(harness, keyed("a"), keyed("a"))
        limit(harness, key="a", running=1)
        (first,) = take(harness)
        assert take(harness) == []
        harness.reboot("second")
        (retried,) = take(harness, limit=9)
        assert (retried.id, retried.attempt) == (first.id, 2)
        assert take(harness) == []

    def test_a_released_or_failed_tuple_frees_its_slot(self, harness: WorkHarness) -> None:
        """And waits for one itself."""
        ids = put(harness, keyed("a"), keyed("a"))
        limit(harness, key="a", running=1)
        (first,) = take(harness)
        harness.space.release([(first.id, first.fence)])
        (first,) = take(harness)
        assert first.id == ids[0]
        harness.space.complete([failure(harness, first)])
        (second,) = take(harness)
        assert second.id == ids[1]
        harness.clock.advance(seconds=5)
        assert take(harness) == []
        harness.space.cancel(second.id)
        assert _ids(take(harness)) == [ids[0]]

    def test_a_limit_holds_at_once_and_counts_what_runs(self, harness: WorkHarness) -> None:
        """Lower than what runs, nothing is stopped; raised or removed, the next may start."""
        put(harness, *(draft() for _ in range(6)))
        claims = take(harness, limit=3)
        limit(harness, lane="build", running=2)
        assert take(harness) == []
        finish(harness, claims[0])
        assert take(harness) == []
        limit(harness, lane="build", running=3)
        assert len(take(harness, limit=9)) == 1
        _commit(harness, lambda view: remove_limit(view, LimitMatch(lane="build")))
        assert len(take(harness, limit=9)) == 2
        error = expect_error(LimitNotFound, _commit, harness, lambda view: remove_limit(view, LimitMatch(lane="build")))
        assert error.code == "LIMIT_NOT_FOUND"

    def test_a_rate_lets_so_many_start_in_any_period(self, harness: WorkHarness) -> None:
        """The window moves with the starts, and a waiting worker knows when the next is allowed."""
        put(harness, *(draft() for _ in range(9)))
        limit(harness, lane="build", rate="3/PT1M")
        start_us = harness.clock.now()
        finish(harness, *take(harness, limit=2))
        harness.clock.advance(seconds=30)
        finish(harness, *take(harness, limit=9))
        assert take(harness) == []
        with harness.space.store.read() as view:
            assert view.next_due_us(LANE) == start_us + 60 * SECOND_US
        harness.reopen()
        harness.clock.advance(seconds=29, microseconds=999_999)
        assert take(harness) == []
        harness.clock.advance(microseconds=1)
        assert len(take(harness, limit=9)) == 2
        harness.delete_index()
        assert take(harness) == []
        harness.clock.advance(seconds=30)
        assert len(take(harness, limit=9)) == 1
        assert harness.space.store.verify() == []

    def test_a_rate_of_an_authority_holds_in_every_lane(self, harness: WorkHarness) -> None:
        """Other kinds of authority are not held up."""
        people = put(harness, *(draft(lane) for lane in ("a", "b", "c")))
        builds = harness.space.out(draft("a"), authority={"user": "admin", "agent": None, "ci": True}, run="ci")
        limit(harness, authority="user", rate="2/PT1M")
        assert _ids(harness.space.claim({}, worker="w", limit=9)) == [people[0], people[1], builds[0].id]

    # issue 21: bad input, clock jumps
    def test_a_clock_that_jumps_neither_stalls_a_rate_nor_lets_a_burst_through(self, harness: WorkHarness) -> None:
        """Forward, one period's starts are free; back, the project's time goes on slowly."""
        put(harness, *(draft() for _ in range(20)))
        limit(harness, lane="build", rate="2/PT1M")
        assert len(take(harness, limit=9)) == 2
        harness.clock.advance(seconds=3000)
        assert len(take(harness, limit=9)) == 2
        harness.clock.advance(seconds=-3000)
        assert take(harness, limit=9) == []
        harness.clock.advance(seconds=121)
        assert len(take(harness, limit=9)) == 2

    def test_what_is_paused_waits_and_the_rest_goes_on(self, harness: WorkHarness) -> None:
        """What runs is finished; the reason is given; ended pauses leave limits as they were."""
        ids = put(harness, draft(), draft()) + put(harness, draft(), run="two") + put(harness, draft("b"))
        (running,) = take(harness)
        stop(harness, "the registry is down", lane="build")
        stop(harness, lane="build")
        assert take(harness) == []
        assert _ids(harness.space.claim({}, worker="w", limit=9)) == [ids[3]]
        finish(harness, running)
        with harness.space.store.read() as view:
            record = view.find(ids[1])
            assert record is not None
            (block,) = limit_blocks(view, subject_of(record))
            assert "lane build is paused by admin" in block.summary
            assert block.summary.endswith(": the registry is down")
            assert view.waiting_groups() == []
            assert view.next_due_us(LANE) is None
        limit(harness, lane="build", running=1)
        assert take(harness) == []
        go_on(harness, lane="build")
        assert len(take(harness, limit=9)) == 1
        expect_error(LimitNotFound, go_on, harness, lane="build")

    def test_a_run_or_a_key_can_be_paused_in_a_lane(self, harness: WorkHarness) -> None:
        """Only what fits all that is named waits."""
        first_claim = put(harness, draft(), keyed("k"), run="one")
        two = put(harness, draft(), keyed("k"), keyed("k", "b"), run="two")
        stop(harness, lane="build", run="one")
        stop(harness, lane="build", key="k")
        assert _ids(harness.space.claim({}, worker="w", limit=9)) == [two[0], two[2]]
        go_on(harness, lane="build", run="one")
        assert _ids(take(harness, limit=9)) == [first_claim[0]]
        go_on(harness, lane="build", key="k")
        assert set(_ids(take(harness, limit=9))) == {first_claim[1], two[1]}

    def test_a_reader_may_take_only_what_could_start(self, harness: WorkHarness) -> None:
        """`in` waits for limits and pauses, and uses no slot, since nothing runs."""
        ids = put(harness, keyed("a"), keyed("a"), keyed("a"))
        limit(harness, key="a", running=1)
        taken_tuple = harness.space.in_({"lane": "build"}, by="a")
        assert taken_tuple is not None
        assert taken_tuple.id == ids[0]
        (claim,) = take(harness)
        assert harness.space.in_({"lane": "build"}, by="a") is None
        finish(harness, claim)
        assert harness.space.in_({"lane": "build"}, by="a") is not None

    def test_a_large_run_does_not_hold_up_a_small_one(self, harness: WorkHarness) -> None:
        """Runs take turns, in any order of their puts, in one claim and in many."""
        large = put(harness, *(draft(map_pos={"n": n}) for n in range(60)), run="large")
        first = take(harness, limit=2)
        small = put(harness, *(draft(map_pos={"n": n}) for n in range(3)), run="small")
        assert _ids(first) == large[:2]
        assert _ids(take(harness, limit=4)) == [small[0], large[2], small[1], large[3]]
        harness.reopen()
        assert _ids(take(harness)) == [small[2]]
        harness.delete_index()
        late = put(harness, draft(), run="late")
        assert _ids(take(harness, limit=3)) == [late[0], large[4], large[5]]
        assert harness.space.store.verify() == []

    def test_priority_goes_before_turns(self, harness: WorkHarness) -> None:
        """Runs take turns among tuples of one priority."""
        low = put(harness, draft(), draft(), run="low")
        high = put(harness, draft(priority=1), draft(priority=1), run="high")
        assert _ids(take(harness, limit=9)) == [high[0], high[1], low[0], low[1]]

    # issue 21: lane fan-out, fair between parents
    def test_parents_of_a_run_take_turns(self, harness: WorkHarness) -> None:
        """Each child of a small fan-out waits for one of a large one at most."""
        claim, two = put(harness, draft("p"), draft("p", priority=1))
        many = put(harness, *(draft(parent_id=claim, map_pos={"n": n}) for n in range(9)))
        few = put(harness, *(draft(parent_id=two, map_pos={"n": n}) for n in range(2)))
        alone = put(harness, draft(map_pos={"n": 99}))
        assert _ids(take(harness, limit=3)) == [alone[0], many[0], few[0]]
        assert _ids(take(harness, limit=4)) == [many[1], few[1], many[2], many[3]]

    def test_what_a_limit_holds_back_does_not_change_the_turns_of_others(self, harness: WorkHarness) -> None:
        """However many wait, and in any order."""
        limited = put(harness, *(keyed(f"k{n % 20}", map_pos={"n": n}) for n in range(200)), run="held")
        limit(harness, key="k*", running=1)
        running = take(harness, limit=20)
        assert {claim.run for claim in running} == {"held"}
        free = put(harness, *(draft(map_pos={"n": n}) for n in range(3)), run="free")
        for _ in range(2):
            assert take(harness, worker="w2")[0].id == free.pop(0)
        finish(harness, running[7])
        assert _ids(take(harness, limit=9)) == [limited[27], free[0]]
        with harness.space.store.read() as view:
            (use,) = view.limit_uses()
        assert (use.running, use.waiting, use.full) == (20, 179, 20)
        go_on_ids = set(limited)
        _commit(harness, lambda view: remove_limit(view, LimitMatch(key="k*")))
        assert set(_ids(take(harness, limit=500))) <= go_on_ids
        assert harness.space.store.verify() == []

    def test_delayed_tuples_take_their_turn_when_they_are_due(self, harness: WorkHarness) -> None:
        """With those that waited before."""
        ids = put(harness, *(draft(map_pos={"n": n}) for n in range(4)), run="one")
        claims = take(harness, limit=2)
        harness.space.release([(claim.id, claim.fence) for claim in claims], delay_us=10 * SECOND_US)
        two = put(harness, draft(), run="two")
        harness.clock.advance(seconds=11)
        with harness.space.store.read() as view:
            assert view.may_claim(LANE, epoch=view.current_epoch().number)
        assert _ids(take(harness, limit=9)) == [two[0], *ids]

    def test_a_step_of_a_claim_made_under_a_limit_runs_on(self, harness: WorkHarness) -> None:
        """A pause does not take a claim away."""
        put(harness)
        (claim,) = take(harness)
        stop(harness, lane="build")
        assert harness.space.renew([(claim.id, claim.fence)]) == []
        harness.space.start_step(claim, 0, Price())
        assert claim.lease_until_us == harness.clock.now() + LEASE_US
        finish(harness, claim)

    # issue 21: bad input, limits of 0
    def test_bad_limits_are_refused_and_change_nothing(self, harness: WorkHarness) -> None:
        """Each with a code and what to do instead."""
        journal = harness.journal_bytes()
        for rate in ("0/PT1M", "-1/PT1M", "5/PT0S", "5/P1M", "5/P1Y", "5/-PT1S", "5", "PT1M", "5/PT1M/2", "x/PT1M"):
            assert expect_error(LimitInvalid, limit, harness, lane="build", rate=rate).field == "rate"
        for running in (0, -1, 10**9):
            assert expect_error(LimitInvalid, limit, harness, lane="build", running=running).field == "running"
        assert "pause" in str(expect_error(LimitInvalid, limit, harness, lane="build", running=0).hint)
        for match in ({"lane": "b*"}, {"run": "*"}, {"authority": "root"}, {"key": "a*b"}, {"key": ""}, {}):
            expect_error(LimitInvalid, limit, harness, running=1, **match)
        expect_error(LimitInvalid, limit, harness, lane="build")
        for key in ("", "a*", "x" * 129, "a\nb", 7):
            terms = {"concurrency_key": key}
            error = expect_error(TermsInvalid, put, harness, draft(agent_terms=terms))
            assert error.field == "agent_terms.concurrency_key"
        assert harness.journal_bytes() == journal

    def test_a_tuple_put_and_claimed_at_once_is_counted(self, harness: WorkHarness) -> None:
        """It does not wait, but others do because of it."""
        limit(harness, key="a", running=1)
        put(harness, keyed("a"))
        _, claim = harness.space.out_claimed(keyed("a", map_pos={"n": 1}), authority=PERSON, run="r", worker="w")
        assert claim is not None
        assert take(harness) == []
        finish(harness, claim)
        assert len(take(harness)) == 1

    # decision 110: what a claim came past in vain is closed until something waits below it again
    def test_work_below_new_parents_and_of_new_keys_is_found_after_a_lane_was_empty(self, harness: WorkHarness) -> None:
        """However many parents and keys it had seen before."""
        parents = put(harness, *[draft("parents") for _ in range(6)])
        put(harness, draft())
        assert len(take(harness)) == 1  # it still runs, so that claims of any lane look at this one
        for new in (draft(parent_id=parents[0]), keyed("new"), draft()):
            cancelled = put(harness, *[draft(parent_id=parent) for parent in parents[1:]], draft(), keyed("old"))
            for tuple_id in cancelled:
                harness.space.cancel(tuple_id)
            put(harness, draft("other"))
            # It finds something elsewhere, and comes past the empty lane.
            assert len(harness.space.claim({"lane": {"ne": "parents"}}, worker="w", limit=99)) == 1
            (new_id,) = put(harness, new)
            assert [claim.id for claim in take(harness, limit=9)] == [new_id]
