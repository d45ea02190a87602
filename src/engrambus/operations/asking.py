"""Finding engrams again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.core.token_limit import fits, take_within
from engrambus.errors import EngramNotFound, FieldValue
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Resource, Route, Tool, operation
from engrambus.knowledge.engrams import (
    DEFAULT_K,
    MAX_K,
    Engram,
    Kind,
    VisibleStore,
    normalise_key,
    query_keys,
    recall,
)
from engrambus.policy import Scope

MAX_QUERY = 2000
MAX_CURSOR = 18


class QueryEngrams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to the team's knowledge; without words or keys, the newest engrams."""

    q: Annotated[str, Meta(max_length=MAX_QUERY, description="Free text")] = ""
    keys: Annotated[list[str], Meta(max_length=32, description="Exact keys")] = []
    k: Annotated[int, Meta(ge=1, le=MAX_K, description="How many at the most")] = DEFAULT_K
    scope: Annotated[Scope | None, Meta(description="Only this scope")] = None
    kind: Annotated[Kind | None, Meta(description="Only this kind")] = None
    max_tokens: Annotated[int, Meta(ge=1, description="The answer is never larger")] | None = None
    cursor: Annotated[str, Meta(max_length=20, description="Where the last page ended; only without words")] | None = (
        None
    )


class QueryAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    engrams: list[Engram]
    as_of: str
    """The moment the answer is true of."""
    truncated: bool = False
    """Whether engrams were left out to stay within max_tokens."""
    cursor: str | None = None
    """Ask again with it for the next page."""


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
    ),
    tool=Tool(hidden=("cursor", "keys", "max_tokens", "scope")),
    span="search_memory",
)
def query_engrams(context: Context, request: QueryEngrams) -> QueryAnswer:
    """Find engrams by words, or list the newest.

    An engram is a short claim with pointers to its evidence.
    """
    keys = _asked_keys(request)
    with context.visible_stores(request.scope) as visible_stores:
        if keys or request.q.strip():
            if request.cursor is not None:
                raise FieldValue("What words and keys find has no pages.", field="cursor", hint="Ask for more with k.")
            engrams = recall(visible_stores, keys, k=request.k, kind=request.kind)
            return _answer(context, request, engrams, [])
        return _newest(context, request, visible_stores)


def _newest(context: Context, request: QueryEngrams, visible_stores: list[VisibleStore]) -> QueryAnswer:
    """A page of the newest engrams: the project's own, or a shared store's when its scope is named."""
    if not visible_stores:
        return _answer(context, request, [], [])
    reads, spaces = visible_stores[0]
    found = reads.newest(spaces, kind=request.kind, limit=request.k + 1, before=read_cursor(request.cursor))
    return _answer(context, request, reads.engrams(found[: request.k]), found)


def _answer(context: Context, request: QueryEngrams, engrams: list[Engram], pages: Sequence[int]) -> QueryAnswer:
    """The answer within its budget. Engrams are shown without their hash keys: who found them does not need them."""
    shown = [msgspec.structs.replace(engram, hash_keys=()) for engram in engrams]
    cursor = str(pages[request.k - 1]) if len(pages) > request.k else None
    answer = QueryAnswer(engrams=shown, as_of=print_time(context.as_of), cursor=cursor)
    if request.max_tokens is None or fits(answer, request.max_tokens):
        return answer
    longest_cursor = "9" * MAX_CURSOR if pages else None
    cut = QueryAnswer(engrams=[], as_of=answer.as_of, truncated=True, cursor=longest_cursor)
    kept = take_within(cut, shown, request.max_tokens)
    ends_at = str(pages[len(kept) - 1]) if pages and kept else None
    return msgspec.structs.replace(cut, engrams=kept, cursor=ends_at)


def _asked_keys(request: QueryEngrams) -> list[str]:
    given = (normalise_key(key) for key in request.keys)
    words = query_keys(request.q) if request.q else ()
    return list(dict.fromkeys([*(key for key in given if key), *words]))


def read_cursor(cursor: str | None) -> int | None:
    """Where a page of the newest engrams ended."""
    if cursor is None:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > MAX_CURSOR:
        raise FieldValue("The cursor is not one of ours.", field="cursor")
    return int(cursor)


class EngramId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=36, description="The engram's id")]


@operation(
    "engram.get",
    route=Route("GET", "/engram/{id}"),
    command=Command(
        "show",
        section="knowledge",
        example="engrambus show 01K7Z3V5QX0000000000000000",
        renderer="knowledge:engram",
        rank=25,
        arguments=("id",),
    ),
    absent_from={"mcp": "less_query_engrams shows all an agent needs"},
    resource=Resource("engrambus://engram/{id}", "One engram", "application/json", ttl_ms=60_000),
    span="search_memory",
)
def get_engram(context: Context, request: EngramId) -> Engram:
    """Show one engram in full."""
    with context.visible_stores() as visible_stores:
        for reads, spaces in visible_stores:
            found = reads.find(spaces, request.id)
            if found is not None:
                return found.engram
    raise EngramNotFound(field="id")
