"""Operations on batches: spawn, show, list, fold. A batch is cancelled like a task, with `tuple.cancel`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from engrambus.core import MICROS_PER_DOLLAR
from engrambus.errors import BatchNotFound
from engrambus.gateway.context import Context, check_run_goes_on
from engrambus.gateway.declare import Command, Route, operation
from engrambus.operations.engram_about import read_cursor
from engrambus.operations.tuples import idempotency_of
from engrambus.policy import ADMIN
from engrambus.space.tuples import (
    BatchRecord,
    BatchSpace,
    LevelStatus,
    WorkView,
    folded_agents,
    level_statuses,
    stamp_authority,
    visible_tuple,
)

MAX_LISTED = 1000
_NO_TOOL = {"mcp": "the tool list has no room; an agent dispatches tuples, and a program spawns batches"}


class SpawnBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tuple of each leaf, and the shape of the tree."""

    lane: Annotated[str, Meta(description="Queue its leaves wait in")]
    depth: Annotated[int, Meta(description="Levels below the root")]
    branching: Annotated[int, Meta(description="Children of each node above the leaves")]
    payload: Annotated[
        list[dict[str, Any]],
        Meta(description="Steps of each leaf; ${agent.path} and ${agent.number} in arguments are filled in"),
    ] = []
    compression_threshold: (
        Annotated[int, Meta(description="Leaves from which it is put folded; the project's setting by default")] | None
    ) = None
    map_pos: Annotated[dict[str, Any] | UnsetType, Meta(description="Its position in the project")] = UNSET
    agent_terms: Annotated[
        dict[str, Any] | UnsetType,
        Meta(description="budget_usd, budget_tokens of the whole batch; deadline_iso, max_retries of each leaf"),
    ] = UNSET
    src_ptr: Annotated[list[str] | UnsetType, Meta(description="Pointers to its sources")] = UNSET
    parent_id: Annotated[str | UnsetType | None, Meta(description="Parent tuple; shares its spending")] = UNSET
    flags: Annotated[dict[str, Any] | UnsetType, Meta(description="no_cache: use no cached result")] = UNSET
    priority: Annotated[int | UnsetType, Meta(description="Higher is claimed first; 0 by default")] = UNSET
    schema: Annotated[str | UnsetType, Meta(description="yool-tuple/v1 or v2")] = UNSET


class SpawnAnswer(Struct, frozen=True, kw_only=True):
    id: str
    """Id of the batch, which is that of its root."""
    new: bool
    """False if the request was repeated under its idempotency key."""
    agents: int
    """Agents of all levels, the root included."""
    leaves: int
    folded: int
    """Agents that are not materialised."""


@operation(
    "batch.spawn",
    writes=True,
    route=Route("POST", "/batch", body_limit=2 * 1024 * 1024),
    command=Command(
        "batch spawn",
        section="work",
        example="engrambus batch spawn --lane build --yool agent.lint.ruff --arg path=src --depth 3 --branching 100",
        renderer="work:batch_spawned",
        rank=60,
        override="work:batch_spawn",
    ),
    absent_from=_NO_TOOL,
    prose=("lane",),
)
def spawn_batch(context: Context, request: SpawnBatch) -> SpawnAnswer:
    """Spawn a batch: a tree of agents of which only what workers reach becomes tasks.

    Its leaves run the steps; the nodes above them end when everything below has ended.
    """
    with context.store.read() as view:
        check_run_goes_on(view, context.caller)
    template = msgspec.to_builtins(request)
    shape = {name: template.pop(name) for name in ("depth", "branching")}
    threshold = template.pop("compression_threshold")
    space = context.tuple_space.space
    if template.get("parent_id"):
        with space.store.read() as work:
            template["parent_id"] = visible_tuple(work, context.caller, template["parent_id"], "parent_id").id
    answer = BatchSpace(space).spawn(
        template,
        **shape,
        threshold=threshold,
        authority=stamp_authority(context.caller, ci=context.tuple_space.ci),
        run=context.caller.run.run_id,
        idempotency=idempotency_of(context),
        every_run=context.caller.role == ADMIN,
    )
    with space.store.read() as work:
        batch = _visible_batch(context, work, answer.id)
        return SpawnAnswer(
            id=batch.id,
            new=answer.new,
            agents=batch.shape.agents,
            leaves=batch.shape.leaves,
            folded=folded_agents(work, batch),
        )


class BatchId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=80, description="The batch's id, or its first digits")]


class LevelRow(Struct, frozen=True, kw_only=True):
    level: int
    agents: int
    folded: int
    """Agents that are not materialised."""
    states: dict[str, int]
    """Agents that are materialised or have ended, by state."""
    usd: float
    """Spent by the agents of this level themselves."""
    tokens: int
    receipts: int


class BatchAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    state: str
    lane: str
    depth: int
    branching: int
    agents: int
    folded: int
    """Agents that are not materialised."""
    levels: list[LevelRow]
    usd: float
    """Spent by all its agents and their children."""
    tokens: int
    budget_usd: float | None = None
    budget_tokens: int | None = None
    terminal: str | None = None
    """The final receipt."""


@operation(
    "batch.show",
    route=Route("GET", "/batch/{id}"),
    command=Command(
        "batch show",
        section="work",
        example="engrambus batch show 61a6ffdddafe",
        renderer="work:batch",
        rank=62,
        arguments=("id",),
    ),
    absent_from=_NO_TOOL,
)
def show_batch(context: Context, request: BatchId) -> BatchAnswer:
    """Show a batch: how many agents of each level are folded, waiting, running or ended, and their cost."""
    with context.tuple_space.space.store.read() as view:
        batch = _visible_batch(context, view, request.id)
        rows = [_level_row(status) for status in level_statuses(view, batch)]
        root = visible_tuple(view, context.caller, batch.id)
        receipts = view.receipt_ids(batch.id)
    return BatchAnswer(
        id=batch.id,
        state=batch.state,
        lane=batch.lane,
        depth=batch.shape.depth,
        branching=batch.shape.branching,
        agents=batch.shape.agents,
        folded=sum(row.folded for row in rows),
        levels=rows,
        usd=root.spent_micros / MICROS_PER_DOLLAR,
        tokens=root.spent_tokens,
        budget_usd=None if root.budget_micros is None else root.budget_micros / MICROS_PER_DOLLAR,
        budget_tokens=root.budget_tokens,
        terminal=receipts[-1] if receipts else None,
    )


def _level_row(status: LevelStatus) -> LevelRow:
    return LevelRow(
        level=status.level,
        agents=status.agents,
        folded=status.folded,
        states=status.counts.states,
        usd=status.counts.micros / MICROS_PER_DOLLAR,
        tokens=status.counts.tokens,
        receipts=status.counts.receipts,
    )


class ListBatches(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="Maximum number of batches")] = 100
    cursor: Annotated[str, Meta(max_length=20, description="Cursor of the previous answer")] | None = None


class BatchRow(Struct, frozen=True, kw_only=True):
    """A batch in a list."""

    id: str
    run_id: str
    state: str
    lane: str
    depth: int
    branching: int
    agents: int
    folded: int
    """Agents that are not materialised."""


class BatchesAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    batches: list[BatchRow]
    """Newest first."""
    cursor: str | None = None
    """Cursor of the next page, if there is one."""


@operation(
    "batch.list",
    route=Route("GET", "/batch"),
    command=Command(
        "batch list",
        section="work",
        example="engrambus batch list",
        renderer="work:batches",
        rank=64,
    ),
    absent_from=_NO_TOOL,
)
def list_batches(context: Context, request: ListBatches) -> BatchesAnswer:
    """List batches, newest first, with how many of their agents are not materialised."""
    with context.tuple_space.space.store.read() as view:
        batches = view.list_batches(context.run_seen, limit=request.limit + 1, before=read_cursor(request.cursor))
        page = batches[: request.limit]
        rows = [batch_row(view, batch) for batch in page]
    return BatchesAnswer(batches=rows, cursor=str(page[-1].ordinal) if len(batches) > len(page) else None)


def batch_row(view: WorkView, batch: BatchRecord) -> BatchRow:
    """Return a batch as lists show it."""
    return BatchRow(
        id=batch.id,
        run_id=batch.run,
        state=batch.state,
        lane=batch.lane,
        depth=batch.shape.depth,
        branching=batch.shape.branching,
        agents=batch.shape.agents,
        folded=folded_agents(view, batch),
    )


class CompressBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=80, description="The batch's id, or its first digits")]
    path: Annotated[str, Meta(max_length=800, description="The node to fold, like 0.3.1; 0 is the whole batch")] = "0"


class FoldAnswer(Struct, frozen=True, kw_only=True):
    id: str
    agents: int
    """Agents that were folded by this call."""
    folded: int
    """Agents of the batch that are not materialised now."""


@operation(
    "batch.compress",
    writes=True,
    route=Route("POST", "/batch/{id}/compress"),
    command=Command(
        "batch compress",
        section="work",
        example="engrambus batch compress 61a6ffdddafe/0.3",
        renderer="work:batch_folded",
        rank=66,
        arguments=("id",),
        override="work:batch_compress",
    ),
    absent_from=_NO_TOOL,
)
def compress_batch(context: Context, request: CompressBatch) -> FoldAnswer:
    """Fold everything below a node of a batch that nothing has happened to; refused while an agent below it runs."""
    return _fold(context, request.id, lambda batches, batch_id: batches.compress(batch_id, request.path))


@operation(
    "batch.prune",
    writes=True,
    route=Route("POST", "/batch/{id}/prune"),
    command=Command(
        "batch prune",
        section="work",
        example="engrambus batch prune 61a6ffdddafe",
        renderer="work:batch_folded",
        rank=68,
        arguments=("id",),
    ),
    absent_from=_NO_TOOL,
)
def prune_batch(context: Context, request: BatchId) -> FoldAnswer:
    """Fold every agent of a batch that nothing has happened to; the others stay as they are."""
    return _fold(context, request.id, lambda batches, batch_id: batches.prune(batch_id))


def _fold(context: Context, batch_id: str, fold: Any) -> FoldAnswer:
    space = context.tuple_space.space
    with space.store.read() as view:
        batch = _visible_batch(context, view, batch_id)
    agents = fold(BatchSpace(space), batch.id)
    with space.store.read() as view:
        return FoldAnswer(id=batch.id, agents=agents, folded=folded_agents(view, batch))


def _visible_batch(context: Context, view: WorkView, batch_id: str) -> BatchRecord:
    """Return the batch with that id, or with a unique id that starts so, among those the caller sees."""
    batch = view.batch(visible_tuple(view, context.caller, batch_id).id)
    if batch is None:
        raise BatchNotFound(
            "The task is not a batch.", field="id", used=batch_id, hint="List them: engrambus batch list."
        )
    return batch
