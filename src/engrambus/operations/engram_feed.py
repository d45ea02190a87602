"""The feed: engrams by time, with their authors and the state of their evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.evidence.pointers import EvidenceState
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, operation
from engrambus.knowledge.engrams import (
    AuthorRoles,
    Engram,
    EngramReads,
    Kind,
    VisibleStore,
    find_shown,
)
from engrambus.operations.engram_about import EngramAbout, about_engrams, list_spaces, read_cursor, without_keys
from engrambus.operations.engram_filters import (
    AgentField,
    PathField,
    RoleField,
    SinceField,
    UntilField,
    requested_filter,
)
from engrambus.operations.engram_uses import SHOWN_USES
from engrambus.operations.evidence_about import EvidenceLookup
from engrambus.policy import MEMORY_SPACE, UNTRUSTED_SPACE, Scope, confirmed_space

DEFAULT_ROWS = 50
MAX_ROWS = 200
MAX_SEARCHED = 10_000
"""Engrams one feed request looks at; its cursor continues from there."""
READ_SIZE = 200


class ReadFeed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters of the feed."""

    q: Annotated[str, Meta(max_length=200, description="Only engrams that contain all of these words")] = ""
    role: RoleField = None
    agent: AgentField = None
    path: PathField = None
    since: SinceField = None
    until: UntilField = None
    scope: Annotated[Scope | None, Meta(description="Only engrams of this scope")] = None
    kind: Annotated[Kind | None, Meta(description="Only engrams of this kind")] = None
    stale: Annotated[bool, Meta(description="Only engrams whose evidence has changed since")] = False
    untrusted: Annotated[bool, Meta(description="Only adopted engrams that no person has confirmed")] = False
    unconfirmed: Annotated[bool, Meta(description="Only claims from prose that await confirmation")] = False
    id: Annotated[str, Meta(max_length=36, description="Only this engram")] | None = None
    k: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="Maximum number of results")] = DEFAULT_ROWS
    cursor: Annotated[str, Meta(max_length=20, description="Continue where the previous answer ended")] | None = None


class FeedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One engram with its author's role and the state of its evidence."""

    engram: Engram
    agent: str
    """Its author, by its name in the run."""
    role: str | None = None
    """Its author's role; none if the run belongs to another project."""
    states: list[EvidenceState | None]
    """For each pointer, how its lines compare with the files as they are now, or `unresolved`."""
    stale: bool = False
    """True if a pointer no longer shows what it showed."""
    pinned: bool = False
    """True if it comes first in every brief."""
    about: EngramAbout
    """What is known about it now."""


class FeedAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    rows: list[FeedRow]
    as_of: str
    searched: int = 0
    """How many engrams were looked at."""
    cursor: str | None = None
    """Send it to get older engrams; possibly none of those match."""


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
        option_names={"q": "WORDS"},
    ),
    absent_from={"mcp": "agents ask with less_query_engrams"},
)
def feed(context: Context, request: ReadFeed) -> FeedAnswer:
    """List engrams by time, with their author and whether their evidence has changed."""
    roles = AuthorRoles(context.view)
    as_of = print_time(context.as_of)
    with context.visible_stores(request.scope) as stores:
        if request.id is not None:
            store, stored, _ = find_shown(stores, request.id)
            pinned = stored.ordinal in store.reads.pinned((stored.space,))
            row = _feed_row(
                context, stores, stored.engram, roles, pinned=pinned, lookup=EvidenceLookup(context), of_past=True
            )
            return FeedAnswer(rows=[row], as_of=as_of)
        if not stores:  # the scope is not enabled in this project
            return FeedAnswer(rows=[], as_of=as_of)
        reads, spaces = list_spaces(stores)
        spaces = _feed_spaces(request, spaces)
        pinned_ordinals = frozenset(reads.pinned(spaces))
        matches = _feed_filter(context, request, roles)
        lookup = EvidenceLookup(context)
        # A filter may match rarely; the search is bounded, and the cursor lets the caller continue it.
        listed: list[tuple[int, Engram]] = []
        batch: list[tuple[int, Engram]] = []
        searched, last, cursor = 0, read_cursor(request.cursor), None
        for ordinal, engram in _newest_first(reads, spaces, request.kind, last):
            # Several are compared with the files at a time, but never more than the answer has room for.
            if len(batch) == request.k - len(listed):
                listed += _listed_rows(batch, lookup, only_stale=request.stale)
                batch = []
            if len(listed) == request.k or searched == MAX_SEARCHED:
                cursor = str(last)
                break
            searched, last = searched + 1, ordinal
            if matches(engram):
                batch.append((ordinal, engram))
        listed += _listed_rows(batch, lookup, only_stale=request.stale)
        rows = [
            _feed_row(context, stores, engram, roles, pinned=ordinal in pinned_ordinals, lookup=lookup)
            for ordinal, engram in listed
        ]
    return FeedAnswer(rows=rows, as_of=as_of, searched=searched, cursor=cursor)


def _listed_rows(
    batch: list[tuple[int, Engram]], lookup: EvidenceLookup, *, only_stale: bool
) -> list[tuple[int, Engram]]:
    """Return those of some engrams that a feed shows; their evidence is looked up together."""
    stale = lookup.find_stale([engram for _, engram in batch])
    return [(ordinal, engram) for ordinal, engram in batch if not only_stale or engram.id in stale]


def _feed_spaces(request: ReadFeed, spaces: Sequence[str]) -> tuple[str, ...]:
    """Return which of the spaces a feed lists; memories have a list of their own."""
    if request.untrusted:
        return tuple(space for space in spaces if space == UNTRUSTED_SPACE)
    if request.unconfirmed:
        return tuple(space for space in spaces if confirmed_space(space) is not None)
    return tuple(space for space in spaces if space != MEMORY_SPACE)


def _newest_first(
    reads: EngramReads, spaces: Sequence[str], kind: str | None, older_than: int | None
) -> Iterator[tuple[int, Engram]]:
    while True:
        ordinals = reads.newest(spaces, kind=kind, limit=READ_SIZE, older_than=older_than)
        yield from zip(ordinals, reads.engrams(ordinals), strict=True)
        if len(ordinals) < READ_SIZE:
            return
        older_than = ordinals[-1]


def _feed_filter(context: Context, request: ReadFeed, roles: AuthorRoles) -> Callable[[Engram], bool]:
    words = request.q.casefold().split()
    passes = requested_filter(context, request).matcher(roles)

    def matches(engram: Engram) -> bool:
        if not passes(engram):
            return False
        if not words:
            return True
        name = engram.provenance.created_by.rpartition("/")[2]
        text = " ".join((engram.claim, name, *engram.tags, *(pointer.ref for pointer in engram.pointers))).casefold()
        return all(word in text for word in words)

    return matches


def _feed_row(
    context: Context,
    stores: Sequence[VisibleStore],
    engram: Engram,
    roles: AuthorRoles,
    *,
    pinned: bool,
    lookup: EvidenceLookup,
    of_past: bool = False,
) -> FeedRow:
    author = engram.provenance.created_by
    states = lookup.states([engram])[engram.id]
    return FeedRow(
        engram=without_keys(engram),
        agent=author.rpartition("/")[2],
        role=roles.of(author),
        states=states,
        stale=any(state is not None and state.is_stale for state in states),
        pinned=pinned,
        about=about_engrams(context, stores, [engram], shown_uses=SHOWN_USES, of_past=of_past, lookup=lookup)[
            engram.id
        ],
    )
