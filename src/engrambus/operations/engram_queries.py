"""Operations that read engrams: query by words, list the newest with their authors, show one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from engrambus.core import check_fits, fits, print_time
from engrambus.errors import EmbeddingsOff, EngramUnconfirmed, EngramUntrusted, FieldValue, NothingSearched
from engrambus.evidence.pointers import EvidenceState
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Resource, Route, Tool, operation
from engrambus.knowledge.engrams import (
    DEFAULT_K,
    MAX_K,
    MAX_SHOWN_ID_CHARS,
    Adoption,
    AuthorRoles,
    Capture,
    Engram,
    EngramFilter,
    EngramReads,
    Kind,
    Reader,
    VisibleStore,
    find_shown,
    find_visible,
    list_once,
    listed_up_to,
    mark_listed,
    normalise_key,
    query_keys,
    rank,
    read_by,
    stale_last,
)
from engrambus.operations.engram_filters import (
    AgentField,
    MemoryAbout,
    PathField,
    RoleField,
    SinceField,
    UntilField,
    filter_stores,
    memories_about,
    requested_filter,
)
from engrambus.operations.engram_uses import SHOWN_USES, UsesAbout, used_about, uses_about
from engrambus.operations.evidence_about import EvidenceAbout, EvidenceLookup, evidence_about
from engrambus.operations.learned_about import LearnedAbout, learned_about
from engrambus.operations.replacing_about import past_about, past_stores, read_past_time, replaced_about
from engrambus.policy import MEMORY_SPACE, UNTRUSTED_SPACE, Scope, confirmed_space

MAX_QUERY_CHARS = 2000
MAX_CURSOR_DIGITS = 18
MAX_CURSOR_CHARS = 2 * MAX_CURSOR_DIGITS + 1
DEFAULT_ROWS = 50
MAX_ROWS = 200
MAX_SEARCHED = 10_000
"""Engrams one feed request looks at; its cursor continues from there."""
READ_SIZE = 200


class QueryEngrams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to the team's knowledge; without words or keys, what is newest."""

    q: Annotated[str, Meta(max_length=MAX_QUERY_CHARS, description="Words to search for")] = ""
    keys: Annotated[list[str], Meta(max_length=32, description="An exact key, as `engrambus show` lists them")] = []
    k: Annotated[int, Meta(ge=1, le=MAX_K, description="Maximum number of results")] = DEFAULT_K
    scope: Annotated[Scope | None, Meta(description="Only engrams of this scope")] = None
    kind: Annotated[Kind | None, Meta(description="Only engrams of this kind")] = None
    others: Annotated[bool, Meta(description="Only what others learned, not you")] = False
    since_last: Annotated[
        bool, Meta(description="Only what you were not shown yet; without words or filters, it counts as shown then")
    ] = False
    agent: AgentField = None
    role: RoleField = None
    path: PathField = None
    since: SinceField = None
    until: UntilField = None
    max_tokens: Annotated[int, Meta(ge=1, description="Maximum size of the answer, in tokens")] | None = None
    cursor: (
        Annotated[
            str,
            Meta(
                max_length=MAX_CURSOR_CHARS,
                description="Continue where the previous answer ended; only without search words",
            ),
        ]
        | None
    ) = None
    as_of: (
        Annotated[str, Meta(max_length=40, description="Ask the past: a date, a time, or P7D for 7 days ago")] | None
    ) = None


class EngramAbout(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about an engram now; it is no part of the engram, whose schema is closed."""

    read_by: list[Reader]
    """Agents that have read the evidence, its author first; empty if it was not read."""
    evidence: EvidenceAbout | None = None
    memory: MemoryAbout | None = None
    """The memory that it is, or that says the same; none if the team does not remember it."""
    used: list[str] = []
    """Ids of the engrams it is based on."""
    used_by: UsesAbout | None = None
    untrusted: Adoption | None = None
    """Where it came from, if it was adopted from elsewhere and no person here has confirmed it."""
    adopted: Adoption | None = None
    """Where it came from and who confirmed it, if it was adopted and a person has."""
    replaces: list[str] = []
    """Ids of the older engrams that it replaced."""
    replaced_by: str | None = None
    """Id of the engram that replaced it, or the pointer to a memory that did."""
    valid_from: str | None = None
    """When it was put; only given for one that was replaced."""
    superseded_at: str | None = None
    """When it was replaced."""
    unconfirmed: Capture | None = None
    """The answer in prose that it was taken from, while it is unconfirmed."""
    captured: Capture | None = None
    """The answer in prose that it was taken from, and who confirmed it."""
    learned: LearnedAbout | None = None


class QueryAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    engrams: list[Engram]
    as_of: str
    """The time the answer is true of."""
    about: dict[str, EngramAbout] = {}
    """What is known now, by the engram's id."""
    truncated: bool = False
    """True if engrams were left out to stay within max_tokens."""
    cursor: str | None = None
    """Send it to get the next page."""


@operation(
    "less.query_engrams",
    route=Route("GET", "/engram/query"),
    command=Command(
        "query",
        section="knowledge",
        example="engrambus query refund approval --kind risk",
        renderer="knowledge:engram_list",
        rank=20,
        arguments=("q",),
        option_names={"q": "WORDS"},
    ),
    tool=Tool(
        hidden=(
            *("agent", "as_of", "cursor", "keys", "max_tokens"),
            *("path", "role", "scope", "since", "since_last", "until"),
        )
    ),
    span="search_memory",
)
def query_engrams(context: Context, request: QueryEngrams) -> QueryAnswer:
    """Find engrams and memories by words, or list the newest.

    An engram is a short claim with pointers to its evidence; a memory is what was kept with `memory keep` or accepted.
    """
    keys = _requested_keys(request)
    past_us = read_past_time(context, request.as_of)
    with context.visible_stores(request.scope) as present:
        criteria = requested_filter(context, request, others=request.others)
        position = 0
        if request.since_last:
            # Positions are counted in the project's own store.
            present = [store for store in present if store.reads is context.view]
            position = listed_up_to(context.view, context.caller)
        if not (keys or request.keys or request.q.strip()):
            return _list_newest(context, request, present, criteria, position, past_us)
        if not keys:
            context.limits.applied(_nothing_searched(request))
        if request.cursor is not None:
            raise FieldValue(
                "A query with words or keys has no pages.", field="cursor", hint="Ask for more engrams with `k`."
            )
        stores = filter_stores(context, past_stores(present, past_us), criteria, newer_than=position)
        lookup = EvidenceLookup(context)
        if past_us is None:
            engrams = _found(request, stores, keys, lookup)
        else:  # what is stale now was not stale then
            engrams = [ranked.engram for ranked in rank(stores, keys, k=request.k, kind=request.kind)]
        return _query_answer(context, request, present, engrams, [], past_us, lookup=lookup)


def _list_newest(
    context: Context,
    request: QueryEngrams,
    present: Sequence[VisibleStore],
    criteria: EngramFilter,
    position: int,
    past_us: int | None,
) -> QueryAnswer:
    """Return a page of the newest engrams and memories; with `since_last`, record that all were shown."""
    older_than, first_newest = _read_cursors(request)
    # decision 10: without words only the nearest store is listed; there is no order across stores
    if not present:
        return _query_answer(context, request, present, [], [], past_us)
    reads, spaces = list_spaces(past_stores(present, past_us))
    # decision 82: claims that await confirmation are found by words; by time they would push out what was put
    spaces = tuple(space for space in spaces if confirmed_space(space) is None)
    # decision 81: what comes in while pages are read is not shown by them, and stays new
    newest = next(iter(reads.newest(spaces, kind=None, limit=1, older_than=None)), 0)
    newest = newest if first_newest is None else min(newest, first_newest)
    (listed,) = filter_stores(context, [VisibleStore(reads, spaces)], criteria, newer_than=position)
    rows = list_once(listed, request.kind).reads
    ordinals = rows.newest(spaces, kind=request.kind, limit=request.k + 1, older_than=older_than)
    engrams = rows.engrams(ordinals[: request.k])
    answer = _query_answer(
        context, request, present, engrams, ordinals, past_us, newest if request.since_last else None
    )
    narrowed = request.kind or request.scope or past_us or criteria != EngramFilter(not_by=criteria.not_by)
    if request.since_last and answer.engrams and answer.cursor is None and not narrowed:
        context.commit(lambda view: (mark_listed(view, context.caller, newest), None), type(None), in_run=False)
    return answer


def _found(
    request: QueryEngrams, stores: Sequence[VisibleStore], keys: Sequence[str], lookup: EvidenceLookup
) -> list[Engram]:
    best = [ranked.engram for ranked in rank(stores, keys, k=request.k, kind=request.kind)]
    stale = lookup.find_stale(best)
    return stale_last(best, lambda engram: engram.id in stale)


def list_spaces(stores: Sequence[VisibleStore]) -> tuple[EngramReads, tuple[str, ...]]:
    """Return the nearest store, and its spaces with that of untrusted engrams: by time they are one list."""
    reads = stores[0].reads
    return reads, tuple(space for store in stores if store.reads is reads for space in store.spaces)


def _query_answer(
    context: Context,
    request: QueryEngrams,
    stores: Sequence[VisibleStore],
    engrams: list[Engram],
    ordinals: Sequence[int],
    past_us: int | None,
    newest: int | None = None,
    lookup: EvidenceLookup | None = None,
) -> QueryAnswer:
    """Return the engrams that fit into the request's budget; `ordinals` are theirs, and one more if a page follows.

    The cursor holds `newest`, if it is given: where the position of the caller will be after the last page.
    """
    shown_engrams = [without_keys(engram) for engram in engrams]
    about = about_engrams(context, stores, shown_engrams, of_past=past_us is not None, lookup=lookup)

    def answer(count: int) -> QueryAnswer:
        truncated = count < len(shown_engrams)
        has_more = truncated or len(ordinals) > request.k
        return QueryAnswer(
            engrams=shown_engrams[:count],
            as_of=print_time(past_us if past_us is not None else context.as_of),
            about={engram.id: about[engram.id] for engram in shown_engrams[:count]},
            truncated=truncated,
            cursor=_print_cursor(ordinals[count - 1], newest) if ordinals and has_more and count else None,
        )

    count, max_tokens = len(shown_engrams), request.max_tokens
    if max_tokens is None or fits(answer(count), max_tokens):
        return answer(count)
    check_fits(answer(0), max_tokens)
    count = bisect_right(range(1, count), False, key=lambda number: not fits(answer(number), max_tokens))
    while count and not fits(answer(count), max_tokens):
        count -= 1
    return answer(count)


def about_engrams(
    context: Context,
    stores: Sequence[VisibleStore],
    engrams: Sequence[Engram],
    *,
    shown_uses: int = 0,
    of_past: bool = False,
    lookup: EvidenceLookup | None = None,
) -> dict[str, EngramAbout]:
    """Return what is known now about each engram, by its id; `shown_uses` is how many of its uses are listed.

    `of_past` says that some may have been replaced.
    """
    readers = read_by(context.view, engrams, context.caller.run.run_id, context.evidence.locate)
    states = (lookup or EvidenceLookup(context)).states(engrams)
    ids = [engram.id for engram in engrams]
    adoptions, captures = context.view.adoptions(ids), context.view.captures(ids)
    replaced = replaced_about(stores, engrams)
    memories = memories_about(context, engrams)
    learned = context.view.learned([engram.id for engram in engrams])
    about = {}
    for engram in engrams:
        adoption, capture = adoptions.get(engram.id), captures.get(engram.id)
        is_untrusted = adoption is not None and adoption.confirmed_by is None
        about[engram.id] = EngramAbout(
            read_by=readers[engram.id],
            evidence=evidence_about(context, engram, states[engram.id]),
            memory=memories.get(engram.id),
            used=used_about(context, stores, engram.id),
            used_by=uses_about(context, stores, engram.id, shown=shown_uses),
            untrusted=adoption if is_untrusted else None,
            adopted=adoption if not is_untrusted else None,
            unconfirmed=capture if capture is not None and capture.confirmed_by is None else None,
            captured=capture if capture is not None and capture.confirmed_by is not None else None,
            replaces=replaced.get(engram.id, []),
            **(past_about(stores, engram) if of_past else {}),
            learned=learned_about(learned.get(engram.id), context.as_of),
        )
    return about


def _requested_keys(request: QueryEngrams) -> list[str]:
    """Return the keys to look up, without repeats: the caller's own first, then those of the words."""
    own_keys = (normalise_key(key) for key in request.keys)
    word_keys = query_keys(request.q) if request.q else ()
    return list(dict.fromkeys([*(key for key in own_keys if key), *word_keys]))


def _nothing_searched(request: QueryEngrams) -> NothingSearched:
    return NothingSearched(
        field="keys" if request.keys else "q",
        hint="Name a thing: a file, a function, a part of the system. Without words, the newest engrams are listed.",
    )


def without_keys(engram: Engram) -> Engram:
    """Return an engram as answers show it."""
    # decision 6: a reader does not need the keys, and they would cost it as many tokens as the rest
    return msgspec.structs.replace(engram, hash_keys=())


def _print_cursor(ordinal: int, newest: int | None = None) -> str:
    """Return the cursor of the page after an ordinal."""
    return str(ordinal) if newest is None else f"{ordinal}.{newest}"


def _read_cursors(request: QueryEngrams) -> tuple[int | None, int | None]:
    """Return the ordinal that the last page ended with, and with `since_last` the newest when the first was read."""
    if request.cursor is None or not request.since_last:
        return read_cursor(request.cursor), None
    ordinal, _, newest = request.cursor.partition(".")
    return read_cursor(ordinal), read_cursor(newest)


def read_cursor(cursor: str | None) -> int | None:
    """Return the ordinal that the last page ended with."""
    if cursor is None:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > MAX_CURSOR_DIGITS:
        raise FieldValue("This cursor did not come from an earlier answer.", field="cursor")
    return int(cursor)


class QueryByEmbedding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question by similarity of meaning."""

    embedding_ref: Annotated[str, Meta(max_length=300, description="The embedding to compare with")]
    k: Annotated[int, Meta(ge=1, le=MAX_K, description="Maximum number of results")] = DEFAULT_K


@operation(
    "engram.query_by_embedding",
    route=Route("GET", "/engram/query_by_embedding"),
    absent_from={
        "mcp": "agents ask with less_query_engrams",
        "cli": "`engrambus query` finds engrams by words",
        "client": "`query_engrams` finds engrams by words",
    },
    span="search_memory",
)
def query_by_embedding(context: Context, request: QueryByEmbedding) -> QueryAnswer:
    """Find engrams by similarity of meaning; refused, because this installation has no embeddings."""
    # decision 63: engrams with an equal reference would be an answer to another question
    raise EmbeddingsOff(field="embedding_ref", hint="Search by words: `less.query_engrams` with `q`.")


class EngramId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=MAX_SHOWN_ID_CHARS, description="The engram's id, or the pointer to a memory")]


@operation(
    "engram.get",
    route=Route("GET", "/engram/{id}"),
    absent_from={
        "mcp": "less_query_engrams shows all an agent needs",
        "cli": "engrambus show prints the engram with what is known about it",
    },
    span="search_memory",
)
def get_engram(context: Context, request: EngramId) -> Engram:
    """Return one engram in full, as the published schema has it."""
    with context.visible_stores() as stores:
        stored = find_visible(stores, request.id)[1]  # refused if it was replaced, because nothing here would say so
    if stored.space == UNTRUSTED_SPACE:
        # decision 68: the published schema has no place for the mark, and without it an engram would pass for ours
        raise EngramUntrusted(field="id", used=stored.engram.id, hint="`engram.show` returns it with its mark.")
    if confirmed_space(stored.space) is not None:
        raise EngramUnconfirmed(field="id", used=stored.engram.id, hint="`engram.show` returns it with its mark.")
    return stored.engram


class ShownEngram(Struct, frozen=True, kw_only=True, omit_defaults=True):
    engrams: list[Engram]
    """The engram."""
    as_of: str
    about: dict[str, EngramAbout] = {}
    """What is known about it now, by its id."""


@operation(
    "engram.show",
    route=Route("GET", "/engram/{id}/about"),
    command=Command(
        "show",
        section="knowledge",
        example="engrambus show 01K7Z3V5QX0000000000000000",
        renderer="knowledge:shown_engram",
        rank=25,
        arguments=("id",),
    ),
    absent_from={"mcp": "less_query_engrams shows all an agent needs"},
    # Not the plain engram: nothing in it would say that its lines have changed.
    resource=Resource(
        "engrambus://engram/{id}", "One engram, and what is known of it", "application/json", ttl_ms=5_000
    ),
    span="search_memory",
)
def show_engram(context: Context, request: EngramId) -> ShownEngram:
    """Show one engram in full, with what it used and what used it."""
    with context.visible_stores() as stores:
        engram = find_shown(stores, request.id).stored.engram
        about = about_engrams(context, stores, [engram], shown_uses=SHOWN_USES, of_past=True)
    return ShownEngram(engrams=[engram], as_of=print_time(context.as_of), about=about)


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
