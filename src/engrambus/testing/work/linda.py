"""Putting, reading and taking, as every back end does it."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.core import SECOND_US, print_time
from engrambus.errors import (
    DeadlinePast,
    DiskPressure,
    FieldValue,
    IdempotencyConflict,
    LaneFull,
    LineageTooLong,
    TooDeep,
    TupleNotFound,
)
from engrambus.space.tuples import MAX_GENERATIONS, TupleSpace, tuple_id
from engrambus.testing.work.harness import PERSON, RUN, WorkHarness, completion, draft, expect_error, put, take


def _nested(depth: int) -> Any:
    """So many objects in each other."""
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


class TupleConformance:
    """Putting, reading and taking. # YT-04 # YT-05"""

    def test_a_tuple_is_named_by_the_published_formula(self, harness: WorkHarness) -> None:
        """The id is the hash of the tuple as created."""
        (one,) = put(harness)
        shown = harness.space.public_tuple(one)
        assert shown.pop("id") == one == tuple_id(shown)
        assert shown["receipts"] == []

    def test_the_id_stays_when_receipts_come(self, harness: WorkHarness) -> None:
        """Appending a receipt changes no id."""
        (one,) = put(harness)
        (claim,) = take(harness)
        harness.space.complete([completion(harness, claim)])
        shown = harness.space.public_tuple(one)
        assert len(shown["receipts"]) == 2
        assert tuple_id({**shown, "receipts": []}) == one

    def test_the_same_work_put_twice_is_two_tuples(self, harness: WorkHarness) -> None:
        """At the same microsecond, in one call and in two, without an id nothing collapses."""
        ids = [*put(harness, draft(), draft()), *put(harness, draft())]
        assert len(set(ids)) == 3
        times = [harness.space.public_tuple(one)["created_at"] for one in ids]
        assert len(set(times)) == 3

    def test_ids_are_found_by_how_they_begin(self, harness: WorkHarness) -> None:
        """Of tuples and of receipts, by any number of digits, and no more than asked for."""
        ids = put(harness, *[draft() for _ in range(40)])
        harness.space.complete([completion(harness, claim) for claim in take(harness, limit=40)])
        with harness.space.store.read() as view:
            receipts = [each for one in ids for each in view.receipt_ids(one)]
            for known, like in ((ids, view.tuple_ids_starting), (receipts, view.receipt_ids_starting)):
                for start in {each[7 : 7 + length] for each in known[:9] for length in (1, 2, 15, 16, 17, 64)}:
                    alike = {each for each in known if each.startswith(f"sha256:{start}")}
                    assert set(like(start, limit=100)) == alike
                    assert len(like(start, limit=1)) == 1

    def test_a_tuple_put_again_with_its_id_is_skipped(self, harness: WorkHarness) -> None:
        """Re-emitting is idempotent, whatever has become of it."""
        (one,) = put(harness)
        whole = harness.space.public_tuple(one)
        before = harness.journal_bytes()
        assert harness.space.out(whole, authority=PERSON, run=RUN)[0].new is False
        assert harness.journal_bytes() == before

    def test_what_is_nested_too_deeply_is_refused(self, harness: WorkHarness) -> None:
        """By whatever field takes what a caller likes; what is taken can be read again. # YT-10 # BX-03"""
        before = harness.journal_bytes()
        for depth in (32, 33, 500, 975, 5000, 100_000):
            for said in (
                {"map_pos": _nested(depth)},
                {"payload": [{"yool": "agent.lint.ruff", "args": _nested(depth)}]},
            ):
                refusal = expect_error(TooDeep, put, harness, draft(**said))
                assert refusal.limit == 32
                assert str(refusal.field).startswith(next(iter(said)))
        assert harness.journal_bytes() == before
        put(harness, draft(map_pos=_nested(31)), draft(payload=[{"yool": "agent.lint.ruff", "args": _nested(29)}]))
        held = harness.space.rd_all({})
        harness.delete_index()
        harness.reopen()
        assert harness.space.rd_all({}) == held

    def test_a_tuple_put_again_after_its_deadline_is_skipped_too(self, harness: WorkHarness) -> None:
        """By its id, or under its idempotency key: what was done is answered. One that is new comes too late."""
        said = draft(agent_terms={"deadline_iso": print_time(harness.clock.now() + SECOND_US)})
        first = harness.space.out(said, authority=PERSON, run=RUN, accept=True, idempotency=("me k", "r1"))[0]
        whole = harness.space.public_tuple(first.id) | {"receipts": []}
        harness.clock.advance(seconds=2)
        before = harness.journal_bytes()
        again = harness.space.out(said, authority=PERSON, run=RUN, accept=True, idempotency=("me k", "r1"))[0]
        assert (again.id, again.receipt_id, again.new) == (first.id, first.receipt_id, False)
        (by_id,) = harness.space.out(whole, authority=PERSON, run=RUN)
        assert (by_id.id, by_id.new) == (first.id, False)
        expect_error(DeadlinePast, put, harness, said)
        expect_error(DeadlinePast, put, harness, whole, said)
        later = {name: value for name, value in whole.items() if name != "id"} | {"src_ptr": ["wiki://other"]}
        expect_error(DeadlinePast, put, harness, {**later, "id": tuple_id(later)})
        assert harness.journal_bytes() == before

    def test_a_tuple_as_it_is_shown_is_skipped_too(self, harness: WorkHarness) -> None:
        """With the receipts it has got since, and after its deadline; it tells the receipt for taking it in. # YT-04"""
        terms = {"deadline_iso": print_time(harness.clock.now() + 60 * SECOND_US)}
        sent = harness.space.out(draft(agent_terms=terms), authority=PERSON, run=RUN, accept=True)[0]
        (claim,) = take(harness)
        harness.space.complete([completion(harness, claim)])
        harness.clock.advance(seconds=120)
        whole = harness.space.public_tuple(sent.id)
        assert len(whole["receipts"]) == 3
        before = harness.journal_bytes()
        (again,) = harness.space.out(whole, authority=PERSON, run=RUN, accept=True)
        assert (again.id, again.new, again.receipt_id) == (sent.id, False, sent.receipt_id)
        assert harness.journal_bytes() == before

    def test_a_tuple_comes_in_without_receipts(self, harness: WorkHarness) -> None:
        """What it says it has, nobody here gave it. # YT-04"""
        (one,) = put(harness)
        other = {**harness.space.public_tuple(one), "lane": "elsewhere", "receipts": []}
        other["id"] = tuple_id(other)
        before = harness.journal_bytes()
        expect_error(FieldValue, put, harness, {**other, "receipts": [one]})
        assert harness.journal_bytes() == before
        assert put(harness, other) == [other["id"]]

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
        expect_error(TupleNotFound, harness.space.get, one)

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
        harness.space.complete([completion(harness, claim)])
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
            ({"run": RUN, "map_pos.n": 3}, [first]),
            ({"run": "nothing"}, []),
            ({"state": "waiting"}, [first, second]),
            ({"state": "dead"}, []),
        ):
            assert [one.id for one in harness.space.rd_all(pattern)] == expected, pattern
        (claim,) = harness.space.claim({"run": RUN, "state": "waiting"}, worker="w")
        assert claim.id == first
        assert [one.id for one in harness.space.rd_all({"run": RUN, "state": "claimed"})] == [first]
        taken = harness.space.in_({"run": RUN, "lane": "build"}, by="me")
        assert taken is not None
        assert taken.id == second

    def test_patterns_compare_only_what_can_be_compared(self, harness: WorkHarness) -> None:
        """At the bound too; what is not there equals nothing, true is no number, and a whole key goes before parts."""
        number, true, neither = put(
            harness,
            draft(map_pos={"n": 1}),
            draft(map_pos={"n": True}),
            draft(map_pos={"a.b": "whole", "a": {"b": "parts", "c": 1}}),
        )
        for pattern, expected in (
            ({"map_pos.n": 1}, [number]),
            ({"map_pos.n": 1.0}, [number]),
            ({"map_pos.n": True}, [true]),
            ({"map_pos.n": {"le": 1}}, [number]),
            ({"map_pos.n": {"le": 0}}, []),
            ({"map_pos.n": {"ne": 1}}, [true, neither]),
            ({"map_pos.n": {"ne": 2}}, [number, true, neither]),
            ({"map_pos.a.b": "whole"}, [neither]),
            ({"map_pos.a.b": "parts"}, []),
            ({"map_pos.a.c": 1}, [neither]),
        ):
            assert [one.id for one in harness.space.rd_all(pattern)] == expected, pattern

    def test_what_was_taken_is_found_by_none_of_its_fields(self, harness: WorkHarness) -> None:
        """Whether tuples are posted by them or not."""
        said = draft("notes", 7, map_pos={"n": 1, "stack": "python"})
        put(harness, said)
        (left,) = put(harness, said)
        assert harness.space.in_({"map_pos.n": 1}, by="me") is not None
        for pattern in ({"map_pos.n": 1}, {"map_pos.stack": "python"}, {"payload.0.args.n": 7}, {"lane": "notes"}, {}):
            assert [one.id for one in harness.space.rd_all(pattern)] == [left], pattern

    def test_whatever_else_a_pattern_says_holds_too(self, harness: WorkHarness) -> None:
        """A field by which tuples are found at once leaves none of the other conditions out."""
        python = {"n": 1, "stack": "python"}
        put(harness, draft("other", map_pos=python, priority=9), draft(map_pos={"n": 1, "stack": "dotnet"}))
        (meant,) = put(harness, draft(map_pos=python))
        pattern = {"map_pos.n": 1, "lane": "build", "map_pos.stack": {"prefix": "py"}}
        assert [one.id for one in harness.space.rd_all(pattern)] == [meant]
        assert [claim.id for claim in harness.space.claim(pattern, worker="w", limit=3)] == [meant]
        assert harness.space.in_(pattern, by="me") is None

    def test_waiting_ends(self, harness: WorkHarness) -> None:
        """With nothing, when nothing came."""
        assert harness.space.rd({"lane": "nobody"}, timeout=0.05) is None
        assert harness.space.in_({"lane": "nobody"}, by="me", timeout=0.05) is None
        assert harness.space.claim({"lane": "nobody"}, worker="w", timeout=0.05) == []

    def test_a_parent_must_be_there(self, harness: WorkHarness) -> None:
        """What is spent has to be counted somewhere."""
        expect_error(TupleNotFound, put, harness, draft(parent_id="sha256:" + "0" * 64))

    def test_a_parent_may_come_with_its_parts(self, harness: WorkHarness) -> None:
        """Before them, in the same call; it pays for them as any other. # YT-11"""
        parent = {**harness.space.public_tuple(put(harness)[0]), "lane": "top"}
        parent["id"] = tuple_id(parent)
        child, before = draft("low", parent_id=parent["id"]), harness.journal_bytes()
        refusal = expect_error(TupleNotFound, put, harness, child, parent)
        assert refusal.field == "parent_id"
        assert harness.journal_bytes() == before
        assert put(harness, parent, child)[0] == parent["id"]
        (claim,) = take(harness, "low")
        harness.space.complete([completion(harness, claim, usd=0.25)])
        assert harness.space.get(parent["id"]).spent_micros == 250_000

    def test_a_lineage_is_no_longer_than_is_counted(self, harness: WorkHarness) -> None:
        """So what the last of them spends the first one pays, put one by one or at once. # YT-11"""
        chain = put(harness, draft("top", agent_terms={"budget_usd": 0.01}))
        while len(chain) < MAX_GENERATIONS:
            chain += put(harness, draft("chain", parent_id=chain[-1]))
        before = harness.journal_bytes()
        refusal = expect_error(LineageTooLong, put, harness, draft("chain", parent_id=chain[-1]))
        assert (refusal.field, refusal.limit) == ("parent_id", MAX_GENERATIONS)
        assert harness.journal_bytes() == before
        (sibling,) = put(harness, draft("low", parent_id=chain[-2]))
        one = harness.space.public_tuple(put(harness, draft("chain", parent_id=chain[-3]))[0])
        other = {**one, "parent_id": one["id"], "lane": "low"}
        other["id"] = tuple_id(other)
        more = {**draft("chain"), "parent_id": other["id"]}
        before = harness.journal_bytes()
        expect_error(LineageTooLong, put, harness, other, more)
        assert harness.journal_bytes() == before
        (claim,) = take(harness, "low")
        assert claim.id == sibling
        harness.space.complete([completion(harness, claim, usd=0.009)])
        assert harness.space.get(chain[0]).spent_micros == 9_000
        assert len(harness.space.rd_all({"lane": "alarm"})) == 1

    def test_a_parent_is_of_the_same_run(self, harness: WorkHarness) -> None:
        """Another run's looks absent, unless whoever puts it sees every run. # YT-04"""
        (parent,) = put(harness)
        child, before = draft(parent_id=parent), harness.journal_bytes()
        expect_error(TupleNotFound, harness.space.out, child, authority=PERSON, run="other")
        assert harness.journal_bytes() == before
        (of_all,) = harness.space.out(child, authority=PERSON, run="other", every_run=True)
        (of_own,) = put(harness, child)
        assert len({of_all.id, of_own}) == 2

    def test_an_idempotency_key_answers_with_the_same_tuple(self, harness: WorkHarness) -> None:
        """And refuses another request under the same key."""
        first = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True, idempotency=("me k", "r1"))[0]
        again = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True, idempotency=("me k", "r1"))[0]
        assert (again.id, again.receipt_id, again.new) == (first.id, first.receipt_id, False)
        expect_error(
            IdempotencyConflict, harness.space.out, draft(), authority=PERSON, run=RUN, idempotency=("me k", "r2")
        )

    def test_an_idempotency_key_is_kept_where_the_tuple_was_there_already(self, harness: WorkHarness) -> None:
        """The key is used up by its first request, whatever came of that; after a restart too. # YT-04"""
        first = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True)[0]
        whole = harness.space.public_tuple(first.id)

        def ask(said: dict[str, Any], request: str, run: str = RUN) -> tuple[str, str | None, bool]:
            (one,) = harness.space.out(said, authority=PERSON, run=run, accept=True, idempotency=(f"{run} k", request))
            return one.id, one.receipt_id, one.new

        for run, receipt in ((RUN, first.receipt_id), ("other", None)):
            assert ask(whole, "r1", run) == (first.id, receipt, False)
            before = harness.journal_bytes()
            assert ask(whole, "r1", run) == (first.id, receipt, False)
            for said in (whole, draft("build", 1)):
                expect_error(IdempotencyConflict, ask, said, "r2", run)
            harness.delete_index()
            harness.reopen()
            assert ask(whole, "r1", run) == (first.id, receipt, False)
            expect_error(IdempotencyConflict, ask, draft(), "r2", run)
            assert harness.journal_bytes() == before
        assert harness.space.public_tuple(first.id) == whole
        assert len(harness.space.rd_all({})) == 1

    def test_room_is_asked_for_and_not_again_for_a_while(self, harness: WorkHarness) -> None:
        """Not while somebody is at it, nor for five minutes after. # YT-13"""

        def short() -> None:
            raise DiskPressure

        space = TupleSpace(harness.space.store, breaker=short, boot="first")

        def asked() -> int:
            expect_error(DiskPressure, space.out, draft(), authority=PERSON, run=RUN)
            return len(space.rd_all({"lane": "gc.urgent"}))

        assert [asked(), asked()] == [1, 1]
        (claim,) = take(harness, "gc.urgent")
        assert asked() == 1
        harness.space.complete([completion(harness, claim)])
        before = harness.journal_bytes()
        harness.clock.advance(seconds=299)
        assert asked() == 1
        assert harness.journal_bytes() == before
        harness.clock.advance(seconds=1)
        assert [asked(), asked()] == [2, 2]
        put(harness, draft("other"))
        with harness.space.store.read() as view:
            newest = view.newest_in("gc.urgent")
            assert newest is not None
            assert newest.id == space.rd_all({"lane": "gc.urgent"})[-1].id
            assert view.newest_in("nobody's") is None

    def test_a_lane_is_not_filled_past_its_depth_by_one_call(self, harness: WorkHarness) -> None:
        """Those that come with a tuple count; of too many none is taken. # YT-06"""
        harness.space.settings = msgspec.structs.replace(harness.space.settings, queue_maxsize=2)
        before = harness.journal_bytes()
        refusal = expect_error(LaneFull, put, harness, draft(), draft("other"), draft(), draft())
        assert (refusal.field, refusal.limit) == ("lane", 2)
        assert harness.journal_bytes() == before
        put(harness, draft(), draft("other"), draft(), draft("other"))

    def test_a_full_lane_refuses(self, harness: WorkHarness) -> None:
        """Backpressure by the depth of the queue. # YT-06"""
        harness.space.settings = msgspec.structs.replace(harness.space.settings, queue_maxsize=2)
        put(harness, draft(), draft())
        before = harness.journal_bytes()
        expect_error(LaneFull, put, harness)
        expect_error(LaneFull, put, harness, block=0.05)
        assert harness.journal_bytes() == before
        put(harness, draft("other"))
