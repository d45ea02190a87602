"""The same actions on batches in several tuple spaces: folded or not, in memory or on disk, they add up to the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engrambus.errors import EngramBusError
from engrambus.space.tuples import BatchSpace, Claim, SpaceSettings, level_statuses
from engrambus.testing import ManualClock
from engrambus.testing.work import PERSON, RUN, WorkHarness, completion, draft, failure, put

SETTINGS = SpaceSettings(backoff_us=2_000_000, lease_us=30_000_000, alarm_pct=0)
SHAPES = ((1, 1), (1, 7), (2, 3), (3, 2), (4, 1), (2, 7), (3, 4), (1, 90))
ONE_PARENT = tuple((depth, branching) for depth, branching in SHAPES if depth == 1 or branching == 1)
"""Shapes all of whose leaves have the same parent."""
ENDED_STATES = ("done", "dead", "cancelled", "taken")
_NUMBERS = st.integers(0, len(SHAPES) - 1)


class BatchAgreement(RuleBasedStateMachine):
    """Spaces that do the same. A subclass supplies them; `is_flat` says that the first has nothing folded."""

    is_flat = False
    shapes: tuple[tuple[int, int], ...] = SHAPES
    takes_all = False
    """Every claim takes all that can be claimed, so that the order of claims does not matter."""

    def __init__(self) -> None:
        super().__init__()
        self.spaces = self.make_spaces()
        self.batches: list[str] = []
        self.claims: list[list[Claim]] = []
        """Claims that are held, one for each space."""

    def make_spaces(self) -> list[WorkHarness]:
        """Create the spaces, each with a clock of its own."""
        raise NotImplementedError

    @initialize(number=_NUMBERS, retries=st.sampled_from([None, 0, 1]))
    def begin(self, number: int, retries: int | None) -> None:
        self.spawn(number, retries, 0)

    @precondition(lambda self: len(self.batches) < 3)
    @rule(number=_NUMBERS, retries=st.sampled_from([None, 0]), priority=st.sampled_from([0, 3]))
    def spawn(self, number: int, retries: int | None, priority: int) -> None:
        shape = self.shapes[number % len(self.shapes)]
        terms = {"budget_usd": 100} | ({} if retries is None else {"max_retries": retries})
        template = draft("build", 0, agent_terms=terms, priority=priority, map_pos={"batch_no": len(self.batches)})
        ids = set()
        for position, space in enumerate(self.spaces):
            threshold = 1_000_000 if self.is_flat and position == 0 else 1
            answer = BatchSpace(space.space).spawn(
                template, depth=shape[0], branching=shape[1], threshold=threshold, authority=PERSON, run=RUN
            )
            ids.add(answer.id)
        (batch,) = ids
        self.batches.append(batch)

    @rule(limit=st.integers(1, 5))
    def claim(self, limit: int) -> None:
        claim = _claim_all if self.takes_all else _claim
        answers = [claim(space, limit) for space in self.spaces]
        assert all([item.id for item in answer] == [item.id for item in answers[0]] for answer in answers)
        self.claims += [list(same) for same in zip(*answers, strict=True)]

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), usd=st.sampled_from([0.0, 0.001, 0.25]), fails=st.booleans())
    def complete(self, data: st.DataObject, usd: float, fails: bool) -> None:
        held = self.claims.pop(data.draw(st.integers(0, len(self.claims) - 1)))
        make = failure if fails else completion
        self._same(lambda space, claim: space.space.complete([make(space, claim, usd=usd)])[0], held)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), counts=st.booleans())
    def release(self, data: st.DataObject, counts: bool) -> None:
        held = self.claims.pop(data.draw(st.integers(0, len(self.claims) - 1)))
        self._same(lambda space, claim: space.space.release([(claim.id, claim.fence)], counts_attempt=counts), held)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def cancel_leaf(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.claims))
        self._same(lambda space, claim: space.space.cancel(claim.id).exit, held)

    @rule(data=st.data())
    def cancel_node(self, data: st.DataObject) -> None:
        batch, path = self._draw_path(data)
        self._each(lambda space: BatchSpace(space.space).cancel(batch, path).exit)

    @rule(data=st.data())
    def prune(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.batches))
        for space in self.spaces[1 if self.is_flat else 0 :]:
            before = _waiting(space)
            folded = BatchSpace(space.space).prune(batch)
            assert bool(folded) == (_waiting(space) != before)

    @precondition(lambda self: not self.is_flat)
    @rule(data=st.data())
    def compress(self, data: st.DataObject) -> None:
        batch, path = self._draw_path(data)
        self._each(lambda space: BatchSpace(space.space).compress(batch, path))

    @precondition(lambda self: not self.is_flat)
    @rule(data=st.data())
    def put_below(self, data: st.DataObject) -> None:
        agents = [record for record in self.spaces[0].space.rd_all({}, limit=1000) if "agent" in record.tuple.map_pos]
        parent = data.draw(st.sampled_from(sorted(record.id for record in agents)))
        self._each(lambda space: put(space, draft("side", parent_id=parent)))
        self._each(lambda space: _finish_side(space))

    @rule(seconds=st.sampled_from([1, 3, 40]))
    def wait(self, seconds: int) -> None:
        for space in self.spaces:
            space.clock.advance(seconds=seconds)

    @rule(rebuilds=st.booleans())
    def reopen(self, rebuilds: bool) -> None:
        for space in self.spaces:
            if rebuilds:
                space.delete_index()
            space.reopen()

    @invariant()
    def agree(self) -> None:
        """Counts, costs and receipts are the same; those that ended while folded have no receipt."""
        for batch in self.batches:
            first, *others = [_figures(space, batch) for space in self.spaces]
            assert all(other == first for other in others)
            if not self.is_flat:
                places = [_places(space, batch) for space in self.spaces]
                assert all(other == places[0] for other in places)

    def teardown(self) -> None:
        """Check every journal against its index."""
        try:
            for space in self.spaces:
                assert space.space.store.verify() == []
        finally:
            for space in self.spaces:
                space.close()

    def _draw_path(self, data: st.DataObject) -> tuple[str, str]:
        batch = data.draw(st.sampled_from(self.batches))
        shape = BatchSpace(self.spaces[0].space).get(batch).shape
        level = data.draw(st.integers(0, shape.depth))
        return batch, shape.path(level, data.draw(st.integers(0, shape.agents_at(level) - 1)))

    def _same(self, act: Callable[[WorkHarness, Claim], Any], held: list[Claim]) -> None:
        pairs = iter(zip(self.spaces, held, strict=True))
        self._each(lambda space: act(*next(pairs)))

    def _each(self, act: Callable[[WorkHarness], Any]) -> None:
        answers = []
        for space in self.spaces:
            try:
                answers.append(act(space))
            except EngramBusError as error:
                answers.append(error.code)
        assert all(answer == answers[0] for answer in answers), answers


def _claim(space: WorkHarness, limit: int) -> list[Claim]:
    return space.space.claim({"lane": "build"}, worker="w", limit=limit)


def _claim_all(space: WorkHarness, limit: int) -> list[Claim]:
    claims: list[Claim] = []
    while more := _claim(space, limit * 32):
        claims += more
    return sorted(claims, key=lambda claim: claim.id)


def _finish_side(space: WorkHarness) -> list[str | None]:
    claims = space.space.claim({"lane": "side"}, worker="w", limit=5)
    return space.space.complete([completion(space, claim, usd=0.125) for claim in claims])[0]


def _waiting(space: WorkHarness) -> int:
    with space.space.store.read() as view:
        return view.waiting_count("build")


def _figures(space: WorkHarness, batch_id: str) -> dict[str, Any]:
    with space.space.store.read() as view:
        batch = view.batch(batch_id)
        assert batch is not None
        rows = level_statuses(view, batch)
        levels = []
        for row in rows:
            states = dict(row.counts.states)
            assert row.folded + sum(states.values()) == row.agents
            tuples = view.agents_at(batch_id, row.level, 0, row.agents)
            cancelled = sum(record.state == "cancelled" for record in view.find_all([a.id for a in tuples]).values())
            name = "waiting" if row.level == batch.shape.depth else "open"
            states[name] = states.get(name, 0) + row.folded
            states = {state: count for state, count in states.items() if count}
            levels.append((states, row.counts.micros, row.counts.tokens, row.counts.receipts - cancelled))
        root = view.find(batch_id)
        assert root is not None
        ended = root.state in ENDED_STATES
        final = view.receipt(view.receipt_ids(batch_id)[-1]) if ended else None
        finished = (final.exit, final.error, final.cost.usd_micros, final.cost.tokens) if final is not None else None
        assert batch.folded == sum(map(len, view.folded_leaves(batch_id))) == rows[-1].folded
        children = sum(
            states.get("open", 0) + states.get("waiting", 0) + states.get("claimed", 0) for states, *_ in levels[1:2]
        )
        (agent,) = view.agents([batch_id]).values()
        assert ended or agent.children_left == children
        return {
            "levels": levels,
            "root": (root.state, root.spent_micros, root.spent_tokens, root.reserved_micros),
            "end": finished,
        }


def _places(space: WorkHarness, batch_id: str) -> list[Any]:
    """Return every materialised agent with its state, and the folded ranges."""
    with space.space.store.read() as view:
        batch = view.batch(batch_id)
        assert batch is not None
        agents = [
            msgspec.to_builtins(agent)
            for level in range(batch.shape.depth + 1)
            for agent in view.agents_at(batch_id, level, 0, batch.shape.agents_at(level))
        ]
        return [agents, view.folded_leaves(batch_id), view.idle_leaves(batch_id), view.run_totals(), view.lane_counts()]


def manual_clocks(count: int) -> list[ManualClock]:
    """Return clocks that show the same time."""
    return [ManualClock() for _ in range(count)]
