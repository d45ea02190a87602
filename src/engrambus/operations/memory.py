"""Reading memory stores: the controller's package, its receipt, and what it costs the caller's turn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from engrambus.gateway.budgets import deref_budget
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.memory import (
    ContextPackage,
    MemoryInput,
    MemoryRead,
    MemoryReadData,
    count_dropped,
    read_memory,
)
from engrambus.policy import ADMIN, ContentDrawn, check_tokens, present_turn


class ReadMemory(MemoryInput, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to JSONL memory stores, and how to tell what was dropped."""

    dropped: Annotated[
        Literal["full", "counts"], Meta(description="List what was dropped, or only count it by reason")
    ] = "full"


@operation(
    "memory.read",
    writes=True,
    route=Route("POST", "/memory/read"),
    command=Command(
        "memory read",
        section="knowledge",
        example='engrambus memory read --query "refund approval" --store notes.jsonl --max-excerpt-tokens 400',
        renderer="cortex:memory_excerpts",
        rank=80,
        override="knowledge:memory_read",
    ),
    tool=Tool(
        hidden=("dropped", "now_utc", "scoring", "trust_filter"), explained=("budget",), defaults={"dropped": "counts"}
    ),
)
def memory_read(context: Context, request: ReadMemory) -> ContextPackage:
    """Search JSONL memory files; equal input gives equal excerpts, within a token limit."""
    caller = context.caller
    fences = None if context.any_file else tuple(map(Path, context.policy.memory_folders))
    context.write_episodes()  # the team's own store may be among those asked for
    with context.project_files.memory_stores(fences) as stores:
        package = read_memory(request, stores)
    if request.dropped == "counts":
        package = count_dropped(package)
    receipt = MemoryRead(
        data=MemoryReadData(
            query_hash=package.query.query_hash,
            store_paths=sorted(set(request.store_paths)),
            selected_count=len(package.selection.selected),
            package_hash=package.package_hash,
        )
    )
    cost = package.budget.used_excerpt_tokens

    def decide(view: View) -> tuple[list[Any], ContextPackage]:
        turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)
        if caller.role != ADMIN:
            check_tokens(turn, deref_budget(context, view), cost)
        drawn = ContentDrawn(run=caller.run.run_id, agent=caller.name, turn=turn.number, tokens=cost)
        return [receipt, drawn], package

    return context.commit(decide, ContextPackage, in_run=False, remember=False)
