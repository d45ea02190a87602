"""Folding agents of a batch that nothing has happened to, and the counts of its levels."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from engrambus.core import short_id
from engrambus.errors import BatchRunning
from engrambus.space.batches import BatchShape, LeafRange, united
from engrambus.space.tuples.facts import AgentsFolded, Fact
from engrambus.space.tuples.next_steps import next_yools
from engrambus.space.tuples.ports import WaitingGroup, WorkView
from engrambus.space.tuples.values import BatchRecord, LevelCounts

MAX_NAMED = 8
"""Running agents that a refusal names."""


class LevelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One level of a batch."""

    level: int
    agents: int
    """Number of its agents, whether they are tuples or not."""
    folded: int
    """Agents that have never been tuples, or are none now."""
    counts: LevelCounts


def level_statuses(view: WorkView, batch: BatchRecord) -> list[LevelStatus]:
    """Return the counts of every level; `folded` and the states add up to `agents`."""
    folded = view.folded_leaves(batch.id)
    counts = view.level_counts(batch.id)
    return [
        LevelStatus(
            level=level,
            agents=batch.shape.agents_at(level),
            folded=folded_at(batch.shape, folded, level),
            counts=counts.get(level) or LevelCounts(states={}),
        )
        for level in range(batch.shape.depth + 1)
    ]


def folded_at(shape: BatchShape, folded: Sequence[LeafRange], level: int) -> int:
    """Return the number of a level's nodes all of whose leaves are folded; the root is always a tuple."""
    return sum(len(shape.whole_nodes(leaves, level)) for leaves in folded) if level else 0


def folded_agents(view: WorkView, batch: BatchRecord) -> int:
    """Return the number of a batch's folded agents of all levels."""
    folded = view.folded_leaves(batch.id)
    return sum(folded_at(batch.shape, folded, level) for level in range(1, batch.shape.depth + 1))


def folded_groups(view: WorkView) -> list[WaitingGroup]:
    """Return the folded leaves of all batches as groups of waiting tuples; the root stands for the oldest."""
    groups = []
    for batch in view.folded_batches(None):
        root = view.find(batch.id)
        if root is not None:
            yools = next_yools(batch.template)
            groups.append(WaitingGroup(lane=batch.lane, run=batch.run, yools=yools, tuples=batch.folded, oldest=root))
    return groups


def fold(
    view: WorkView, batch: BatchRecord, level: int, number: int, *, refuse_running: bool
) -> tuple[list[Fact], int]:
    """Fold the idle leaves below a node, and the nodes that are whole again; return how many agents that are.

    Idle is a leaf that was never claimed and has no children of its own. Everything else stays as it is.
    """
    shape, span = batch.shape, batch.shape.leaf_span(level, number)
    if refuse_running:
        _check_none_runs(view, batch, span)
    kept_spans = [shape.leaf_span(agent.position.level, agent.position.number) for agent in view.kept_agents(batch.id)]
    idle = [
        leaf
        for leaf in view.idle_leaves(batch.id)
        if span.start <= leaf < span.stop and not any(start <= leaf < stop for start, stop in kept_spans)
    ]
    if not idle:
        return [], 0
    leaves = united(LeafRange(leaf, leaf + 1) for leaf in idle)
    folded = united([*view.folded_leaves(batch.id), *leaves])
    nodes = [
        (upper, node)
        for upper in range(shape.depth - 1, 0, -1)
        for node in sorted({leaf // shape.leaves_below(upper) for leaf in idle})
        if _contains(folded, shape.leaf_span(upper, node))
    ]
    fact = AgentsFolded(id=batch.id, leaves=tuple((start, stop) for start, stop in leaves), nodes=tuple(nodes))
    return [fact], len(idle) + len(nodes)


def _contains(ranges: Sequence[LeafRange], span: LeafRange) -> bool:
    """True if one of the sorted ranges contains a span."""
    position = bisect_right(ranges, span.start, key=lambda leaves: leaves.start) - 1
    return position >= 0 and ranges[position].stop >= span.stop


def _check_none_runs(view: WorkView, batch: BatchRecord, span: LeafRange) -> None:
    """Refuse to fold a node below which a leaf is claimed."""
    leaves = view.agents_at(batch.id, batch.shape.depth, span.start, span.stop, unended=True)
    records = view.find_all([leaf.id for leaf in leaves if not leaf.is_idle])
    running = [record for record in records.values() if record.state == "claimed"]
    if running:
        named = ", ".join(short_id(record.id) for record in running[:MAX_NAMED])
        suffix = f" and {len(running) - MAX_NAMED} more" if len(running) > MAX_NAMED else ""
        raise BatchRunning(
            f"Agents below this node are running: {named}{suffix}.",
            field="path",
            used=len(running),
            limit=0,
            hint="Wait until they have ended, name a node below, or fold what is idle: engrambus batch prune ID.",
        )
