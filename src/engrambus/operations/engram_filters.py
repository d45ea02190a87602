"""The filters that requests for engrams have in common, and what is known about the memories in an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Protocol, TypeAlias

from msgspec import Meta, Struct

from engrambus.gateway.context import Context
from engrambus.knowledge.engrams import (
    AuthorRoles,
    Engram,
    EngramFilter,
    VisibleStore,
    filter_store,
    has_pointed_memories,
    is_memory,
    memory_name,
    memory_of_engram,
    own_name,
    read_moment,
)
from engrambus.policy import Role

MAX_PATH_CHARS = 300
MAX_MOMENT_CHARS = 40

AgentField: TypeAlias = (
    Annotated[str, Meta(max_length=96, description="Only by this agent, of any run or by its full name")] | None
)
RoleField: TypeAlias = Annotated[Role | None, Meta(description="Only by agents of this role")]
PathField: TypeAlias = (
    Annotated[
        str,
        Meta(
            max_length=MAX_PATH_CHARS,
            description="Only what points at this file, into this folder or at what this pattern matches",
        ),
    ]
    | None
)
SinceField: TypeAlias = (
    Annotated[
        str, Meta(max_length=MAX_MOMENT_CHARS, description="Only from this time on: 2026-01-31T12:00:00Z, or PT2H ago")
    ]
    | None
)
UntilField: TypeAlias = (
    Annotated[str, Meta(max_length=MAX_MOMENT_CHARS, description="Only before this time, written like --since")] | None
)


class FilterFields(Protocol):
    """The fields of a request that filter by author, role, path and time."""

    @property
    def agent(self) -> str | None: ...
    @property
    def role(self) -> str | None: ...
    @property
    def path(self) -> str | None: ...
    @property
    def since(self) -> str | None: ...
    @property
    def until(self) -> str | None: ...


def requested_filter(context: Context, fields: FilterFields, *, others: bool = False) -> EngramFilter:
    """Return the filter that a request asks for; with `others`, without what the caller put itself."""
    return EngramFilter(
        agent=fields.agent,
        role=fields.role,
        path=fields.path,
        since_us=read_moment(fields.since, context.as_of, "since"),
        until_us=read_moment(fields.until, context.as_of, "until"),
        not_by=own_name(context.caller) if others else None,
    )


def filter_stores(
    context: Context, stores: Iterable[VisibleStore], criteria: EngramFilter, *, newer_than: int = 0
) -> list[VisibleStore]:
    """Return stores without what a filter excludes; the stores themselves if it excludes nothing."""
    if criteria.excludes_nothing and not newer_than:
        return list(stores)
    matches = criteria.matcher(AuthorRoles(context.view))
    return [filter_store(store, matches, newer_than=newer_than) for store in stores]


class MemoryAbout(Struct, frozen=True, kw_only=True, omit_defaults=True):
    ref: str
    """The pointer to the memory in its last version."""
    pinned: bool = False
    """True if it stands in every brief and is inherited first."""


def memories_about(context: Context, engrams: Sequence[Engram]) -> dict[str, MemoryAbout]:
    """Return the memories that engrams are or have become, by the id of the engram."""
    view, about = context.view, {}
    may_be_remembered = has_pointed_memories(view)
    for engram in engrams:
        memory = engram if is_memory(engram.id) else memory_of_engram(view, engram) if may_be_remembered else None
        episode = view.episode(*memory_name(memory.id)) if memory is not None else None
        if episode is not None:
            about[engram.id] = MemoryAbout(ref=episode.ref, pinned=episode.pinned)
    return about
