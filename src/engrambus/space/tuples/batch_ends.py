"""The end of batches: nodes that end with their last child, and cancelling a node with everything below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from engrambus.core import MICROS_PER_DOLLAR, print_time
from engrambus.errors import TupleEnded, TupleNotFound
from engrambus.evidence.receipts import Cost, Receipt, new_receipt
from engrambus.space.batches import LeafRange, count_leaves, overlap
from engrambus.space.tuples.batches import AgentFactory
from engrambus.space.tuples.budgets import lineage
from engrambus.space.tuples.facts import Fact, FoldedEnded, StepCost, StepDone, TupleDone, TuplePut, TupleTaken
from engrambus.space.tuples.final_receipts import EXIT_CANCELLED, TUPLE_YOOL, end_tuple
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.transitions import after_child_end, new_agent, new_record
from engrambus.space.tuples.values import ENDED, AgentPosition, BatchAgent, BatchRecord, Price, TupleRecord

EXIT_GIVEN_UP = 1
"""Exit code of a node some of whose leaves were given up."""
MAX_CHILD_RECEIPTS = 256
"""Children whose final receipts a node's receipt names; of more it names none."""
_END = (TupleDone, TupleTaken)


def end_nodes(view: WorkView, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts that end the nodes whose last child ends with the given facts of the same commit."""
    ended = [fact.id for fact in facts if isinstance(fact, _END)]
    if not ended or not view.has_batches():
        return []
    pending = _PendingAgents(view, facts, ended)
    ends: list[Fact] = []
    for fact in facts:
        node = pending.apply(fact)
        while node is not None and node.children_left == 0 and node.id not in pending.final_receipts:
            end = _end_node(view, node, pending, facts)
            ends.append(end)
            node = pending.apply(end)
    return ends


class _PendingAgents:
    """Agents of batches with the facts of this commit applied."""

    def __init__(self, view: WorkView, facts: Iterable[Fact], ended: Sequence[str]) -> None:
        self._view = view
        self._by_id = view.agents(ended)
        self._places = {(agent.position.batch, *_place(agent.position)): agent.id for agent in self._by_id.values()}
        self.final_receipts: dict[str, str] = {
            fact.id: fact.receipt.id for fact in facts if isinstance(fact, TupleDone)
        }
        """Final receipts of the tuples that end in this commit, by tuple."""
        self._new: dict[str, TupleRecord] = {}
        """Nodes and leaves that are put in this commit."""

    def apply(self, fact: Fact) -> BatchAgent | None:
        """Apply a fact; return the node that has a child less to wait for, if there is one."""
        match fact:
            case TuplePut(agent=AgentPosition() as position):
                self._keep(new_agent(fact.id, position))
                self._new[fact.id] = new_record(fact, 0)
            case FoldedEnded():
                node = self._at(fact.id, fact.level, fact.number)
                if node is not None:
                    cancelled = node.cancelled + count_leaves(LeafRange(*leaves) for leaves in fact.leaves)
                    self._keep(msgspec.structs.replace(node, cancelled=cancelled))
            case TupleDone() | TupleTaken():
                return self._end_child(fact)
        return None

    def record(self, tuple_id: str) -> TupleRecord | None:
        """Return a tuple, whether it is in the space or put in this commit."""
        return self._new.get(tuple_id) or self._view.find(tuple_id)

    def children(self, node: BatchAgent, branching: int) -> list[str]:
        """Return the ids of a node's materialised children, in order."""
        batch, level, first = node.position.batch, node.position.level + 1, node.position.number * branching
        ids = {
            agent.position.number: agent.id for agent in self._view.agents_at(batch, level, first, first + branching)
        }
        for tuple_id in self._new:
            position = self._by_id[tuple_id].position
            if (position.batch, position.level) == (batch, level) and first <= position.number < first + branching:
                ids[position.number] = tuple_id
        return [ids[number] for number in sorted(ids)]

    def _end_child(self, fact: TupleDone | TupleTaken) -> BatchAgent | None:
        state = fact.state if isinstance(fact, TupleDone) else "taken"
        if isinstance(fact, TupleDone):
            self.final_receipts[fact.id] = fact.receipt.id
        child = self._by_id.get(fact.id)
        if child is None or child.position.level == 0:
            return None
        batch = self._view.batch(child.position.batch)
        if batch is None:
            return None
        position = child.position
        parent = self._at(position.batch, position.level - 1, position.number // batch.shape.branching)
        if parent is None:
            return None
        return self._keep(after_child_end(parent, child, state))

    def _at(self, batch: str, level: int, number: int) -> BatchAgent | None:
        agent_id = self._places.get((batch, level, number))
        if agent_id is not None:
            return self._by_id[agent_id]
        agents = self._view.agents_at(batch, level, number, number + 1)
        return self._keep(agents[0]) if agents else None

    def _keep(self, agent: BatchAgent) -> BatchAgent:
        self._by_id[agent.id] = agent
        self._places[agent.position.batch, agent.position.level, agent.position.number] = agent.id
        return agent


def _place(position: AgentPosition) -> tuple[int, int]:
    return position.level, position.number


def _end_node(view: WorkView, node: BatchAgent, pending: _PendingAgents, facts: Sequence[Fact]) -> TupleDone:
    """Return the fact that ends a node all of whose children have ended, with one receipt over all of them."""
    batch = view.batch(node.position.batch)
    record = pending.record(node.id)
    if batch is None or record is None:
        raise TupleNotFound(field="id", used=node.id)
    leaves = batch.shape.leaves_below(node.position.level)
    parts = [
        f"{count:,} {state}"
        for count, state in ((node.dead, "given up"), (node.cancelled, "cancelled or taken"))
        if count
    ]
    final = new_receipt(
        yool=TUPLE_YOOL,
        tuple_id=node.id,
        started_at=record.tuple.created_at,
        ended_at=print_time(view.as_of),
        exit=EXIT_GIVEN_UP if node.dead else EXIT_CANCELLED if node.cancelled else 0,
        cost=_cost(_spent(view, node.id, facts)),
        receipts=_child_receipts(view, batch, node, pending),
        error=f"of {leaves:,} leaves {', '.join(parts)}" if parts else None,
    )
    return TupleDone(id=node.id, run=record.run, state="done", receipt=final)


def _child_receipts(view: WorkView, batch: BatchRecord, node: BatchAgent, pending: _PendingAgents) -> tuple[str, ...]:
    branching = batch.shape.branching
    if branching > MAX_CHILD_RECEIPTS:
        return ()
    finals = (
        pending.final_receipts.get(child_id) or next(reversed(view.receipt_ids(child_id)), None)
        for child_id in pending.children(node, branching)
    )
    return tuple(receipt for receipt in finals if receipt is not None)


def _spent(view: WorkView, node_id: str, facts: Sequence[Fact]) -> Price:
    """Return what was spent below a node, the given facts of this commit included."""
    record = view.find(node_id)
    spent = Price() if record is None else Price(micros=record.spent_micros, tokens=record.spent_tokens)
    for fact in facts:
        if isinstance(fact, StepDone | StepCost) and (fact.micros or fact.tokens):
            spender = view.find(fact.id)
            if spender is not None and any(member.id == node_id for member in lineage(view, spender)):
                spent += Price(micros=fact.micros, tokens=fact.tokens)
    return spent


def _cost(spent: Price) -> Cost:
    return Cost(usd=spent.micros / MICROS_PER_DOLLAR, tokens_in=spent.tokens)


def cancel_agent(view: WorkView, batch: BatchRecord, level: int, number: int) -> tuple[list[Fact], Receipt]:
    """Cancel an agent of a batch and everything below it; folded agents are counted, not materialised."""
    shape, place = batch.shape, (level, number)
    span = shape.leaf_span(level, number)
    agents = view.agents_at(batch.id, level, number, number + 1)
    folded = overlap(view.folded_leaves(batch.id), span)
    record = view.find(agents[0].id) if agents else None
    if record is not None and (record.state in ENDED or record.state == "taken"):
        raise TupleEnded(f"The agent is {record.state}.", field="id", used=record.id)
    if record is None and not folded:
        raise TupleEnded("The agent was cancelled with a node above it.", field="path", used=shape.path(level, number))
    if level == shape.depth:
        return _cancel_leaf(view, batch, span, agents)
    facts: list[Fact] = [] if record is not None else AgentFactory.of(view, batch).put_node(level, number)
    for leaf in view.agents_at(batch.id, shape.depth, span.start, span.stop, unended=True):
        leaf_record = view.find(leaf.id)
        if leaf_record is not None:
            facts.append(end_tuple(view, leaf_record, "cancelled", exit=EXIT_CANCELLED, error="cancelled"))
    if folded:
        levels = range(level + 1, shape.depth + 1)
        counts = {below: sum(len(shape.whole_nodes(leaves, below)) for leaves in folded) for below in levels}
        facts.append(
            FoldedEnded(
                id=batch.id,
                level=level,
                number=number,
                state="cancelled",
                leaves=tuple((leaves.start, leaves.stop) for leaves in folded),
                agents=tuple((below, count) for below, count in counts.items() if count),
            )
        )
    for below in range(shape.depth - 1, level, -1):
        size = shape.leaves_below(below)
        for node in view.agents_at(batch.id, below, span.start // size, span.stop // size, unended=True):
            facts.append(_cancelled(view, node.id, batch.run))
    node_id = (
        agents[0].id if agents else next(put.id for put in facts if isinstance(put, TuplePut) and _puts(put, place))
    )
    end = _cancelled(view, node_id, batch.run)
    return [*facts, end], end.receipt


def _puts(put: TuplePut, place: tuple[int, int]) -> bool:
    return put.agent is not None and _place(put.agent) == place


def _cancel_leaf(
    view: WorkView, batch: BatchRecord, span: LeafRange, agents: Sequence[BatchAgent]
) -> tuple[list[Fact], Receipt]:
    facts: list[Fact] = []
    record = view.find(agents[0].id) if agents else None
    if record is None:
        factory = AgentFactory.of(view, batch)
        facts = [*factory.unfold_to(span), put := factory.leaf(span.start)]
        record = new_record(put, 0)
    end = end_tuple(view, record, "cancelled", exit=EXIT_CANCELLED, error="cancelled")
    return [*facts, end], end.receipt


def _cancelled(view: WorkView, node_id: str, run: str) -> TupleDone:
    now = print_time(view.as_of)
    final = new_receipt(
        yool=TUPLE_YOOL,
        tuple_id=node_id,
        started_at=now,
        ended_at=now,
        exit=EXIT_CANCELLED,
        cost=_cost(_spent(view, node_id, ())),
        error="cancelled",
    )
    return TupleDone(id=node_id, run=run, state="cancelled", receipt=final)
