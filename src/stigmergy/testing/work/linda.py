"""Putting, reading and taking, as every back end does it."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from stigmergy.core import SECOND, print_time
from stigmergy.errors import (
    FieldValue,
    IdempotencyConflict,
    LaneFull,
    TupleNotFound,
)
from stigmergy.space.tuples import tuple_id
from stigmergy.testing.work.acts import refused, take
from stigmergy.testing.work.harness import PERSON, RUN, WorkHarness, draft, finished, put


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

    def test_a_tuple_as_it_is_shown_is_skipped_too(self, harness: WorkHarness) -> None:
        """With the receipts it has got since, and after its deadline; it tells the receipt for taking it in. # YT-04"""
        terms = {"deadline_iso": print_time(harness.clock.now() + 60 * SECOND)}
        sent = harness.space.out(draft(agent_terms=terms), authority=PERSON, run=RUN, accept=True)[0]
        (claim,) = take(harness)
        harness.space.settle([finished(harness, claim)])
        harness.clock.turn(seconds=120)
        whole = harness.space.shown(sent.id)
        assert len(whole["receipts"]) == 3
        before = harness.journal_bytes()
        (again,) = harness.space.out(whole, authority=PERSON, run=RUN, accept=True)
        assert (again.id, again.new, again.accepted) == (sent.id, False, sent.accepted)
        assert harness.journal_bytes() == before

    def test_a_tuple_comes_in_without_receipts(self, harness: WorkHarness) -> None:
        """What it says it has, nobody here gave it. # YT-04"""
        (one,) = put(harness)
        other = {**harness.space.shown(one), "lane": "elsewhere", "receipts": []}
        other["id"] = tuple_id(other)
        before = harness.journal_bytes()
        refused(FieldValue, put, harness, {**other, "receipts": [one]})
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

    def test_a_parent_is_of_the_same_run(self, harness: WorkHarness) -> None:
        """Another run's looks absent, unless whoever puts it sees every run. # YT-04"""
        (parent,) = put(harness)
        child, before = draft(parent_id=parent), harness.journal_bytes()
        refused(TupleNotFound, harness.space.out, child, authority=PERSON, run="other")
        assert harness.journal_bytes() == before
        (of_all,) = harness.space.out(child, authority=PERSON, run="other", every_run=True)
        (of_own,) = put(harness, child)
        assert len({of_all.id, of_own}) == 2

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
