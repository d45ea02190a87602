"""Operations that read engrams: query by words or list the newest, show one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from engrambus.core import check_fits, fits, print_time
from engrambus.errors import ComparedPartly, EngramUnconfirmed, EngramUntrusted, FieldValue, NothingSearched
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Resource, Route, Tool, operation
from engrambus.knowledge.engrams import (
    DEFAULT_K,
    MAX_K,
    MAX_SHOWN_ID_CHARS,
    Engram,
    EngramFilter,
    Kind,
    VisibleStore,
    find_shown,
    find_visible,
    list_once,
    listed_up_to,
    mark_listed,
    most_similar,
    query_keys,
    rank,
    read_embedding_ref,
    recall_by_meaning,
    requested_keys,
    stale_last,
)
from engrambus.operations.engram_about import (
    MAX_CURSOR_DIGITS,
    EngramAbout,
    about_engrams,
    list_spaces,
    read_cursor,
    without_keys,
)
from engrambus.operations.engram_filters import (
    AgentField,
    PathField,
    RoleField,
    SinceField,
    UntilField,
    filter_stores,
    requested_filter,
)
from engrambus.operations.engram_uses import SHOWN_USES
from engrambus.operations.evidence_about import EvidenceLookup
from engrambus.operations.replacing_about import past_stores, read_past_time
from engrambus.policy import UNTRUSTED_SPACE, Scope, confirmed_space

MAX_QUERY_CHARS = 2000
MAX_CURSOR_CHARS = 2 * MAX_CURSOR_DIGITS + 1


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
        about="Find engrams and memories by words, or the newest.",
        hidden=(
            *("agent", "as_of", "cursor", "keys", "max_tokens"),
            *("path", "role", "scope", "since", "since_last", "until"),
        ),
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
            engrams = _found(context, request, stores, keys, lookup)
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
    context: Context,
    request: QueryEngrams,
    stores: Sequence[VisibleStore],
    keys: Sequence[str],
    lookup: EvidenceLookup,
) -> list[Engram]:
    if context.embeddings.is_on and keys and request.q.strip():
        vectors = context.embeddings.vectors
        best = recall_by_meaning(stores, keys, request.q, vectors, k=request.k, kind=request.kind)
    else:
        best = [ranked.engram for ranked in rank(stores, keys, k=request.k, kind=request.kind)]
    stale = lookup.find_stale(best)
    return stale_last(best, lambda engram: engram.id in stale)


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


def _requested_keys(request: QueryEngrams) -> list[str]:
    """Return the keys to look up, without repeats: the caller's own first, then those of the words."""
    own_keys = (key for text in request.keys for key in requested_keys(text))
    word_keys = query_keys(request.q) if request.q else ()
    return list(dict.fromkeys([*own_keys, *word_keys]))


def _nothing_searched(request: QueryEngrams) -> NothingSearched:
    return NothingSearched(
        field="keys" if request.keys else "q",
        hint="Name a thing: a file, a function, a part of the system. Without words, the newest engrams are listed.",
    )


def _print_cursor(ordinal: int, newest: int | None = None) -> str:
    """Return the cursor of the page after an ordinal."""
    return str(ordinal) if newest is None else f"{ordinal}.{newest}"


def _read_cursors(request: QueryEngrams) -> tuple[int | None, int | None]:
    """Return the ordinal that the last page ended with, and with `since_last` the newest when the first was read."""
    if request.cursor is None or not request.since_last:
        return read_cursor(request.cursor), None
    ordinal, _, newest = request.cursor.partition(".")
    return read_cursor(ordinal), read_cursor(newest)


class QueryByEmbedding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question by similarity of meaning."""

    embedding_ref: Annotated[
        str, Meta(max_length=300, description="`emb:` and the id of the engram whose embedding is compared with others")
    ]
    k: Annotated[int, Meta(ge=1, le=MAX_K, description="Maximum number of results")] = DEFAULT_K


@operation(
    "engram.query_by_embedding",
    route=Route("GET", "/engram/query_by_embedding"),
    absent_from={
        "mcp": "agents ask with less_query_engrams",
        "cli": "`engrambus query` finds engrams by words, and by meaning where that is on",
    },
    span="search_memory",
)
def query_by_embedding(context: Context, request: QueryByEmbedding) -> QueryAnswer:
    """Find the engrams whose meaning is most similar to an engram's; refused where search by meaning is off."""
    vectors = context.embeddings.vectors
    engram_id = read_embedding_ref(request.embedding_ref)
    with context.visible_stores() as stores:
        engram = find_visible(stores, engram_id, "embedding_ref")[1].engram
        similar = most_similar(stores, engram, vectors, k=request.k)
        if similar.compared < similar.visible:
            context.limits.applied(ComparedPartly(field="embedding_ref", limit=similar.visible, used=similar.compared))
        about = about_engrams(context, stores, similar.engrams)
    return QueryAnswer(
        engrams=[without_keys(engram) for engram in similar.engrams], as_of=print_time(context.as_of), about=about
    )


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
