"""The feed: engrams as they come, newest first, each with who said it and how its evidence stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.errors import EngramNotFound
from engrambus.evidence.pointers import STALE, Standing
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, operation
from engrambus.knowledge.engrams import Engram, EngramReads, Kind, VisibleStore
from engrambus.operations.asking import read_cursor
from engrambus.policy import ADMIN, Role, Scope

DEFAULT_ROWS = 50
MAX_ROWS = 200
SEARCHED = 10_000
"""How many engrams one question goes through; the cursor goes on from there."""
AT_ONCE = 200


class ReadFeed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which engrams to show."""

    q: Annotated[str, Meta(max_length=200, description="Only those that hold each of these words, in any part")] = ""
    role: Annotated[Role | None, Meta(description="Only by agents of this role")] = None
    agent: Annotated[str, Meta(max_length=64, description="Only by this agent")] | None = None
    scope: Annotated[Scope | None, Meta(description="Only this scope")] = None
    kind: Annotated[Kind | None, Meta(description="Only this kind")] = None
    stale: Annotated[bool, Meta(description="Only those whose evidence has changed since")] = False
    id: Annotated[str, Meta(max_length=36, description="Only this one")] | None = None
    k: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="How many at the most")] = DEFAULT_ROWS
    cursor: Annotated[str, Meta(max_length=20, description="Where the last page ended")] | None = None


class FeedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One engram, and what its readers ask next."""

    engram: Engram
    agent: str
    """Who said it, by its name in the run."""
    role: str | None = None
    """Its role; none when the run is not of this project."""
    standings: list[Standing | None]
    """How the lines of each pointer stand at the commit that is checked out."""
    stale: bool = False
    """Whether a pointer no longer shows what it showed."""
    pinned: bool = False
    """Whether it stands first in every brief."""


class FeedAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    rows: list[FeedRow]
    as_of: str
    searched: int = 0
    """How many engrams were looked at."""
    cursor: str | None = None
    """Ask again with it for older ones; there may be none that match."""


@operation(
    "engram.feed",
    route=Route("GET", "/feed"),
    command=Command(
        "feed",
        section="knowledge",
        example="engrambus feed ledger --role programmer --stale",
        renderer="knowledge:feed",
        rank=44,
        arguments=("q",),
    ),
    absent_from={"mcp": "agents ask with less_query_engrams"},
)
def feed(context: Context, request: ReadFeed) -> FeedAnswer:
    """List engrams by time, with their author and whether their evidence has changed."""
    roles = _Roles(context)
    with context.visible_stores(request.scope) as visible_stores:
        if request.id is not None:
            return FeedAnswer(rows=[_one(context, visible_stores, request.id, roles)], as_of=print_time(context.as_of))
        if not visible_stores:
            return FeedAnswer(rows=[], as_of=print_time(context.as_of))
        reads, spaces = visible_stores[0]
        pinned = frozenset(reads.pinned(spaces))
        matches = _filter(request, roles)
        rows: list[FeedRow] = []
        searched, last = 0, read_cursor(request.cursor)
        for ordinal, engram in _newest(visible_stores[0], request.kind, last):
            if len(rows) == request.k or searched == SEARCHED:
                return FeedAnswer(rows=rows, as_of=print_time(context.as_of), searched=searched, cursor=str(last))
            searched, last = searched + 1, ordinal
            if matches(engram):
                row = _row(context, engram, roles, pinned=ordinal in pinned)
                if row.stale or not request.stale:
                    rows.append(row)
    return FeedAnswer(rows=rows, as_of=print_time(context.as_of), searched=searched)


class _Roles:
    """The role of every author, looked up once."""

    def __init__(self, context: Context) -> None:
        self._view = context.view
        self._known: dict[str, str | None] = {}

    def of(self, author: str) -> str | None:
        """The role of an agent by its full name."""
        if author not in self._known:
            run, _, name = author.rpartition("/")
            agent = self._view.agent(run, name)
            self._known[author] = ADMIN if name == ADMIN else agent.role if agent else None
        return self._known[author]


def _newest(sight: VisibleStore, kind: str | None, before: int | None) -> Iterator[tuple[int, Engram]]:
    reads, spaces = sight
    while True:
        found = reads.newest(spaces, kind=kind, limit=AT_ONCE, before=before)
        yield from zip(found, reads.engrams(found), strict=True)
        if len(found) < AT_ONCE:
            return
        before = found[-1]


def _filter(request: ReadFeed, roles: _Roles) -> Callable[[Engram], bool]:
    words = request.q.casefold().split()

    def matches(engram: Engram) -> bool:
        author = engram.provenance.created_by
        if request.role is not None and roles.of(author) != request.role:
            return False
        if request.agent is not None and author.rpartition("/")[2] != request.agent:
            return False
        if not words:
            return True
        text = " ".join(
            (engram.claim, author.rpartition("/")[2], *engram.tags, *(pointer.ref for pointer in engram.pointers))
        ).casefold()
        return all(word in text for word in words)

    return matches


def _one(context: Context, visible_stores: list[VisibleStore], engram_id: str, roles: _Roles) -> FeedRow:
    for reads, spaces in visible_stores:
        found = reads.find(spaces, engram_id)
        if found is not None:
            return _row(context, found.engram, roles, pinned=_is_pinned(reads, found.space, found.ordinal))
    raise EngramNotFound(field="id")


def _is_pinned(reads: EngramReads, space: str, ordinal: int) -> bool:
    return ordinal in reads.pinned((space,))


def _row(context: Context, engram: Engram, roles: _Roles, *, pinned: bool) -> FeedRow:
    author = engram.provenance.created_by
    standings = context.project_files.standings(engram.pointers)
    return FeedRow(
        engram=msgspec.structs.replace(engram, hash_keys=()),
        agent=author.rpartition("/")[2],
        role=roles.of(author),
        standings=standings,
        stale=any(standing in STALE for standing in standings),
        pinned=pinned,
    )
