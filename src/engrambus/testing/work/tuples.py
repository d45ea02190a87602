"""Putting, reading and taking tuples: ids, patterns, parents, idempotency keys and full lanes."""

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
    """Return objects nested this deep."""
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


class TupleConformance:
    """`out`, `rd` and `in`."""  # YT-04, YT-05

    def test_a_tuples_id_follows_the_published_formula(self, harness: WorkHarness) -> None:
        """It is the hash of the tuple as created."""
        (put_id,) = put(harness)
        public = harness.space.public_tuple(put_id)
        assert public.pop("id") == put_id == tuple_id(public)
        assert public["receipts"] == []

    # the id is a content hash that others may store
    def test_receipts_do_not_change_the_id(self, harness: WorkHarness) -> None:
        """The hash covers no receipts."""
        (put_id,) = put(harness)
        (claim,) = take(harness)
        harness.space.complete([completion(harness, claim)])
        public = harness.space.public_tuple(put_id)
        assert len(public["receipts"]) == 2
        assert tuple_id({**public, "receipts": []}) == put_id

    def test_the_same_work_put_twice_is_two_tuples(self, harness: WorkHarness) -> None:
        """In one call or in two, even within one microsecond."""
        ids = [*put(harness, draft(), draft()), *put(harness, draft())]
        assert len(set(ids)) == 3
        times = [harness.space.public_tuple(tuple_id)["created_at"] for tuple_id in ids]
        assert len(set(times)) == 3

    # people type the first digits, as with git
    def test_ids_are_found_by_their_first_digits(self, harness: WorkHarness) -> None:
        """Ids of tuples and of receipts, by any number of digits, up to a limit."""
        ids = put(harness, *[draft() for _ in range(40)])
        harness.space.complete([completion(harness, claim) for claim in take(harness, limit=40)])
        with harness.space.store.read() as view:
            receipts = [receipt_id for tuple_id in ids for receipt_id in view.receipt_ids(tuple_id)]
            for all_ids, like in ((ids, view.tuple_ids_starting), (receipts, view.receipt_ids_starting)):
                for start in {item[7 : 7 + length] for item in all_ids[:9] for length in (1, 2, 15, 16, 17, 64)}:
                    alike = {item for item in all_ids if item.startswith(f"sha256:{start}")}
                    assert set(like(start, limit=100)) == alike
                    assert len(like(start, limit=1)) == 1

    def test_putting_an_existing_id_is_skipped(self, harness: WorkHarness) -> None:
        """In any state of the tuple."""
        (tuple_id,) = put(harness)
        public = harness.space.public_tuple(tuple_id)
        journal = harness.journal_bytes()
        assert harness.space.out(public, authority=PERSON, run=RUN)[0].new is False
        assert harness.journal_bytes() == journal

    # the JSON decoder has a depth limit, and the journal must stay readable
    def test_values_nested_too_deeply_are_refused(self, harness: WorkHarness) -> None:
        """In every free-form field; the journal stays readable."""  # YT-10, BX-03
        journal = harness.journal_bytes()
        for depth in (32, 33, 500, 975, 5000, 100_000):
            for nested in (
                {"map_pos": _nested(depth)},
                {"payload": [{"yool": "agent.lint.ruff", "args": _nested(depth)}]},
            ):
                refusal = expect_error(TooDeep, put, harness, draft(**nested))
                assert refusal.limit == 32
                assert str(refusal.field).startswith(next(iter(nested)))
        assert harness.journal_bytes() == journal
        put(harness, draft(map_pos=_nested(31)), draft(payload=[{"yool": "agent.lint.ruff", "args": _nested(29)}]))
        records = harness.space.rd_all({})
        harness.delete_index()
        harness.reopen()
        assert harness.space.rd_all({}) == records

    def test_putting_an_existing_id_after_its_deadline_is_skipped_too(self, harness: WorkHarness) -> None:
        """By id or by idempotency key; a new tuple with that deadline is refused."""
        late_draft = draft(agent_terms={"deadline_iso": print_time(harness.clock.now() + SECOND_US)})
        first = harness.space.out(late_draft, authority=PERSON, run=RUN, accept=True, idempotency=("me k", "r1"))[0]
        public = harness.space.public_tuple(first.id) | {"receipts": []}
        harness.clock.advance(seconds=2)
        journal = harness.journal_bytes()
        repeated = harness.space.out(late_draft, authority=PERSON, run=RUN, accept=True, idempotency=("me k", "r1"))[0]
        assert (repeated.id, repeated.receipt_id, repeated.new) == (first.id, first.receipt_id, False)
        (by_id,) = harness.space.out(public, authority=PERSON, run=RUN)
        assert (by_id.id, by_id.new) == (first.id, False)
        expect_error(DeadlinePast, put, harness, late_draft)
        expect_error(DeadlinePast, put, harness, public, late_draft)
        later = {name: value for name, value in public.items() if name != "id"} | {"src_ptr": ["wiki://other"]}
        expect_error(DeadlinePast, put, harness, {**later, "id": tuple_id(later)})
        assert harness.journal_bytes() == journal

    def test_putting_a_tuple_with_its_receipts_is_skipped_too(self, harness: WorkHarness) -> None:
        """Also after its deadline; the answer names the acceptance receipt."""  # YT-04
        terms = {"deadline_iso": print_time(harness.clock.now() + 60 * SECOND_US)}
        sent = harness.space.out(draft(agent_terms=terms), authority=PERSON, run=RUN, accept=True)[0]
        (claim,) = take(harness)
        harness.space.complete([completion(harness, claim)])
        harness.clock.advance(seconds=120)
        public = harness.space.public_tuple(sent.id)
        assert len(public["receipts"]) == 3
        journal = harness.journal_bytes()
        (repeated,) = harness.space.out(public, authority=PERSON, run=RUN, accept=True)
        assert (repeated.id, repeated.new, repeated.receipt_id) == (sent.id, False, sent.receipt_id)
        assert harness.journal_bytes() == journal

    def test_a_new_tuple_may_not_have_receipts(self, harness: WorkHarness) -> None:
        """They could not be this project's."""  # YT-04
        (put_id,) = put(harness)
        changed = {**harness.space.public_tuple(put_id), "lane": "elsewhere", "receipts": []}
        changed["id"] = tuple_id(changed)
        journal = harness.journal_bytes()
        expect_error(FieldValue, put, harness, {**changed, "receipts": [put_id]})
        assert harness.journal_bytes() == journal
        assert put(harness, changed) == [changed["id"]]

    def test_rd_leaves_a_tuple_and_in_removes_it(self, harness: WorkHarness) -> None:
        """`rd` finds it any number of times, `in` once."""
        (tuple_id,) = put(harness, draft("notes"))
        for _ in range(2):
            record = harness.space.rd({"lane": "notes"})
            assert record is not None
            assert record.id == tuple_id
        removed = harness.space.in_({"lane": "notes"}, by="me")
        assert removed is not None
        assert removed.id == tuple_id
        assert harness.space.in_({"lane": "notes"}, by="me") is None
        assert harness.space.rd({"lane": "notes"}) is None
        expect_error(TupleNotFound, harness.space.get, tuple_id)

    def test_a_taken_tuple_stays_taken_after_a_restart(self, harness: WorkHarness) -> None:
        """Removal is durable."""
        put(harness, draft("notes"))
        harness.space.in_({"lane": "notes"}, by="me")
        harness.reopen()
        assert harness.space.rd({"lane": "notes"}) is None

    def test_done_tuples_can_be_read(self, harness: WorkHarness) -> None:
        """But not taken."""
        (tuple_id,) = put(harness)
        (claim,) = take(harness)
        harness.space.complete([completion(harness, claim)])
        record = harness.space.rd({"lane": "build", "state": "done"})
        assert record is not None
        assert record.id == tuple_id
        assert harness.space.in_({"lane": "build"}, by="me") is None

    def test_patterns_match_any_field(self, harness: WorkHarness) -> None:
        """Equality, prefix, comparison and presence."""
        first, second = put(
            harness,
            draft(map_pos={"stack": "dotnet", "n": 3}, priority=5, src_ptr=["wiki://a"]),
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
            ({"payload[0].args.n": 0}, [first, second]),
            ({"payload[1].yool": {"exists": True}}, []),
            ({"src_ptr": ["wiki://a"]}, [first]),
            ({"src_ptr[0]": {"prefix": "wiki"}}, [first]),
            ({"src_ptr": []}, [second]),
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
            assert [record.id for record in harness.space.rd_all(pattern)] == expected, pattern
        (claim,) = harness.space.claim({"run": RUN, "state": "waiting"}, worker="w")
        assert claim.id == first
        assert [record.id for record in harness.space.rd_all({"run": RUN, "state": "claimed"})] == [first]
        removed = harness.space.in_({"run": RUN, "lane": "build"}, by="me")
        assert removed is not None
        assert removed.id == second

    def test_patterns_compare_only_what_can_be_compared(self, harness: WorkHarness) -> None:
        """Bounds are exact, an absent field equals nothing, true is not a number, and a literal key beats a path."""
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
            assert [record.id for record in harness.space.rd_all(pattern)] == expected, pattern

    def test_a_taken_tuple_is_not_found_by_any_field(self, harness: WorkHarness) -> None:
        """Indexed or not."""
        equal_draft = draft("notes", 7, map_pos={"n": 1, "stack": "python"})
        put(harness, equal_draft)
        (remaining,) = put(harness, equal_draft)
        assert harness.space.in_({"map_pos.n": 1}, by="me") is not None
        for pattern in ({"map_pos.n": 1}, {"map_pos.stack": "python"}, {"payload.0.args.n": 7}, {"lane": "notes"}, {}):
            assert [record.id for record in harness.space.rd_all(pattern)] == [remaining], pattern

    def test_all_conditions_of_a_pattern_apply(self, harness: WorkHarness) -> None:
        """Also when one of them is answered from an index."""
        python = {"n": 1, "stack": "python"}
        put(harness, draft("other", map_pos=python, priority=9), draft(map_pos={"n": 1, "stack": "dotnet"}))
        (matching,) = put(harness, draft(map_pos=python))
        pattern = {"map_pos.n": 1, "lane": "build", "map_pos.stack": {"prefix": "py"}}
        assert [record.id for record in harness.space.rd_all(pattern)] == [matching]
        assert [claim.id for claim in harness.space.claim(pattern, worker="w", limit=3)] == [matching]
        assert harness.space.in_(pattern, by="me") is None

    def test_waiting_times_out(self, harness: WorkHarness) -> None:
        """And returns nothing."""
        assert harness.space.rd({"lane": "nobody"}, timeout=0.05) is None
        assert harness.space.in_({"lane": "nobody"}, by="me", timeout=0.05) is None
        assert harness.space.claim({"lane": "nobody"}, worker="w", timeout=0.05) == []

    def test_a_parent_must_exist(self, harness: WorkHarness) -> None:
        """Spending is charged to it."""
        expect_error(TupleNotFound, put, harness, draft(parent_id="sha256:" + "0" * 64))

    def test_a_parent_may_be_put_with_its_children(self, harness: WorkHarness) -> None:
        """Before them, in the same call."""  # YT-11
        parent = {**harness.space.public_tuple(put(harness)[0]), "lane": "top"}
        parent["id"] = tuple_id(parent)
        child, journal = draft("low", parent_id=parent["id"]), harness.journal_bytes()
        refusal = expect_error(TupleNotFound, put, harness, child, parent)
        assert refusal.field == "parent_id"
        assert harness.journal_bytes() == journal
        assert put(harness, parent, child)[0] == parent["id"]
        (claim,) = take(harness, "low")
        harness.space.complete([completion(harness, claim, usd=0.25)])
        assert harness.space.get(parent["id"]).spent_micros == 250_000

    # every cost is added to each ancestor in the same commit
    def test_the_depth_of_a_parent_chain_is_limited(self, harness: WorkHarness) -> None:
        """To the depth to which spending is charged, put one by one or at once."""  # YT-11
        chain = put(harness, draft("top", agent_terms={"budget_usd": 0.01}))
        while len(chain) < MAX_GENERATIONS:
            chain += put(harness, draft("chain", parent_id=chain[-1]))
        journal = harness.journal_bytes()
        refusal = expect_error(LineageTooLong, put, harness, draft("chain", parent_id=chain[-1]))
        assert (refusal.field, refusal.limit) == ("parent_id", MAX_GENERATIONS)
        assert harness.journal_bytes() == journal
        (sibling,) = put(harness, draft("low", parent_id=chain[-2]))
        parent = harness.space.public_tuple(put(harness, draft("chain", parent_id=chain[-3]))[0])
        child = {**parent, "parent_id": parent["id"], "lane": "low"}
        child["id"] = tuple_id(child)
        grandchild = {**draft("chain"), "parent_id": child["id"]}
        journal = harness.journal_bytes()
        expect_error(LineageTooLong, put, harness, child, grandchild)
        assert harness.journal_bytes() == journal
        (claim,) = take(harness, "low")
        assert claim.id == sibling
        harness.space.complete([completion(harness, claim, usd=0.009)])
        assert harness.space.get(chain[0]).spent_micros == 9_000
        assert len(harness.space.rd_all({"lane": "alarm"})) == 1

    # one run must not spend another's budget, nor learn of its tuples
    def test_a_parent_must_be_of_the_same_run(self, harness: WorkHarness) -> None:
        """Another run's looks absent, unless the caller sees every run."""  # YT-04
        (parent,) = put(harness)
        child, journal = draft(parent_id=parent), harness.journal_bytes()
        expect_error(TupleNotFound, harness.space.out, child, authority=PERSON, run="other")
        assert harness.journal_bytes() == journal
        (of_all,) = harness.space.out(child, authority=PERSON, run="other", every_run=True)
        (of_own,) = put(harness, child)
        assert len({of_all.id, of_own}) == 2

    def test_an_idempotency_key_answers_with_the_same_tuple(self, harness: WorkHarness) -> None:
        """A different request under the same key is refused."""
        first = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True, idempotency=("me k", "r1"))[0]
        repeated = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True, idempotency=("me k", "r1"))[0]
        assert (repeated.id, repeated.receipt_id, repeated.new) == (first.id, first.receipt_id, False)
        expect_error(
            IdempotencyConflict, harness.space.out, draft(), authority=PERSON, run=RUN, idempotency=("me k", "r2")
        )

    def test_an_idempotency_key_is_recorded_for_an_existing_tuple(self, harness: WorkHarness) -> None:
        """Its first request uses it up, also after a restart."""  # YT-04
        first = harness.space.out(draft(), authority=PERSON, run=RUN, accept=True)[0]
        public = harness.space.public_tuple(first.id)

        def ask(fields: dict[str, Any], request: str, run: str = RUN) -> tuple[str, str | None, bool]:
            (answer,) = harness.space.out(
                fields, authority=PERSON, run=run, accept=True, idempotency=(f"{run} k", request)
            )
            return answer.id, answer.receipt_id, answer.new

        for run, receipt in ((RUN, first.receipt_id), ("other", None)):
            assert ask(public, "r1", run) == (first.id, receipt, False)
            journal = harness.journal_bytes()
            assert ask(public, "r1", run) == (first.id, receipt, False)
            for fields in (public, draft("build", 1)):
                expect_error(IdempotencyConflict, ask, fields, "r2", run)
            harness.delete_index()
            harness.reopen()
            assert ask(public, "r1", run) == (first.id, receipt, False)
            expect_error(IdempotencyConflict, ask, draft(), "r2", run)
            assert harness.journal_bytes() == journal
        assert harness.space.public_tuple(first.id) == public
        assert len(harness.space.rd_all({})) == 1

    def test_disk_space_is_requested_at_most_every_five_minutes(self, harness: WorkHarness) -> None:
        """And not while the garbage collector runs."""  # YT-13

        def short() -> None:
            raise DiskPressure

        space = TupleSpace(harness.space.store, breaker=short, boot="first")

        def checks_made() -> int:
            expect_error(DiskPressure, space.out, draft(), authority=PERSON, run=RUN)
            return len(space.rd_all({"lane": "gc.urgent"}))

        assert [checks_made(), checks_made()] == [1, 1]
        (claim,) = take(harness, "gc.urgent")
        assert checks_made() == 1
        harness.space.complete([completion(harness, claim)])
        journal = harness.journal_bytes()
        harness.clock.advance(seconds=299)
        assert checks_made() == 1
        assert harness.journal_bytes() == journal
        harness.clock.advance(seconds=1)
        assert [checks_made(), checks_made()] == [2, 2]
        put(harness, draft("other"))
        with harness.space.store.read() as view:
            newest = view.newest_in("gc.urgent")
            assert newest is not None
            assert newest.id == space.rd_all({"lane": "gc.urgent"})[-1].id
            assert view.newest_in("nobody's") is None

    # backpressure: a producer is refused before the queue grows without bound
    def test_one_call_cannot_overfill_a_lane(self, harness: WorkHarness) -> None:
        """All tuples of the call count, and if they are too many none is put."""  # YT-06
        harness.space.settings = msgspec.structs.replace(harness.space.settings, queue_maxsize=2)
        journal = harness.journal_bytes()
        refusal = expect_error(LaneFull, put, harness, draft(), draft("other"), draft(), draft())
        assert (refusal.field, refusal.limit) == ("lane", 2)
        assert harness.journal_bytes() == journal
        put(harness, draft(), draft("other"), draft(), draft("other"))

    def test_a_full_lane_refuses(self, harness: WorkHarness) -> None:
        """Backpressure by the depth of the queue."""  # YT-06
        harness.space.settings = msgspec.structs.replace(harness.space.settings, queue_maxsize=2)
        put(harness, draft(), draft())
        journal = harness.journal_bytes()
        expect_error(LaneFull, put, harness)
        expect_error(LaneFull, put, harness, block=0.05)
        assert harness.journal_bytes() == journal
        put(harness, draft("other"))
