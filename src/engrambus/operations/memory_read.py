"""Reading memory stores: the controller's package, charged to the caller's turn, with a receipt in the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.memory import ContextPackage, MemoryInput, Stores, count_dropped, read_memory, record_read
from engrambus.knowledge.messages import read_payers

EPISODES = "episodes.jsonl"
"""Name of the file that holds the team's own memories."""


class ReadMemory(MemoryInput, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to JSONL memory stores, and how to answer about dropped records."""

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
        about="Search JSONL memory files.",
        hidden=("dropped", "now_utc", "scoring", "trust_filter"),
        explained=("budget",),
        defaults={"dropped": "counts"},
    ),
    is_hashed=True,
)
def memory_read(context: Context, request: ReadMemory) -> ContextPackage:
    """Search JSONL memory files; equal input gives equal excerpts, within a token limit."""
    allowed_folders = None if context.any_file else tuple(map(Path, context.policy.memory_folders))
    # the team's own store may be among those to read
    context.write_episodes(to_be_read=any(path.endswith(EPISODES) for path in request.store_paths))
    with context.project_files.memory_stores(allowed_folders) as stores:
        package = read_memory(request, _visible_stores(context, stores))
    if request.dropped == "counts":
        package = count_dropped(package)

    def decide(view: View) -> tuple[list[Any], ContextPackage]:
        payers = read_payers(view, context.policy, context.caller, context.limits)
        return record_read(package, request.store_paths, payers), package

    return context.commit(decide, ContextPackage, in_run=False, remember=False)


def _visible_stores(context: Context, stores: Stores) -> Stores:
    """Return the memory stores without what the caller's role may not see."""
    if context.role_filter is None or not context.role_filter.rule.paths:
        return stores
    from engrambus.gateway.role_evidence import RoleMemoryStores

    return RoleMemoryStores(stores, context.role_filter, context.project_files.root)
