"""What the team remembers: keeping it, pinning it, and handing a part of it on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from engrambus.core import BYTES_PER_TOKEN, estimate_tokens, parse_duration
from engrambus.errors import BudgetTooSmall, CortexOff, EngramBusError, EpisodeNotFound, FieldValue
from engrambus.evidence.pointers import Pointer, check_pointer
from engrambus.gateway.budgets import deref_budget
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.cortex import (
    MAX_BYTES,
    MAX_CATEGORIES,
    MAX_ITEMS,
    MAX_KIND,
    MAX_LABEL,
    MAX_SLUG,
    MAX_TEXT,
    Episode,
    EpisodeKept,
    Limits,
    SharedContextSnapshot,
    SnapshotScope,
    SnapshotTaken,
    check_kind,
    check_label,
    check_plain,
    is_slug,
    items_of,
    signature,
    slug_of,
    take_snapshot,
)
from engrambus.knowledge.engrams import Engram, EngramReads
from engrambus.policy import (
    ADMIN,
    ContentDrawn,
    check_descends,
    check_may_promote,
    check_tokens,
    present_turn,
    shared_scopes,
    tokens_left,
    visible_spaces,
)

SWITCHED_ON = "An admin switches it on in .catalog/policy.yaml and runs `engrambus policy apply`."
DEFAULT_KIND = "fact"
DEFAULT_IMPORTANCE = 0.5
MAX_ATOMS = 100
MAX_PAGES = 20

Label = Annotated[str, Meta(max_length=MAX_LABEL)]
Importance = Annotated[float, Meta(ge=0, le=1, description="How much it matters, 0 to 1")]


class KeepEpisode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something to remember."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, description="What to remember")]
    kind: Annotated[str, Meta(max_length=MAX_KIND, description="decision, preference, workflow, …")] = DEFAULT_KIND
    slug: (
        Annotated[str, Meta(max_length=MAX_SLUG, description="Its name; one that exists gets a new version")] | None
    ) = None
    categories: Annotated[list[Label], Meta(max_length=MAX_CATEGORIES, description="What it is filed under")] = []
    importance: Importance = DEFAULT_IMPORTANCE
    pinned: Annotated[bool, Meta(description="Keep it in working memory")] = False
    ttl: Annotated[str, Meta(max_length=32, description="How long it holds: P30D; for ever unless said")] | None = None
    pointers: Annotated[list[Pointer], Meta(description="Where the evidence is, pinned")] = []
    at: Annotated[list[str], Meta(description="Evidence the easy way: path:10-20, stamped at HEAD")] = []


class EpisodeAnswer(Struct, frozen=True, kw_only=True):
    memory_id: str
    ref: str
    """The pointer to it."""
    version: int
    pinned: bool
    importance: float


@operation(
    "sam.keep",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/sam"),
    command=Command(
        "memory keep",
        section="knowledge",
        example='engrambus memory keep "We publish under example.org." --kind decision --importance 0.9',
        renderer="cortex:episode",
        rank=82,
        arguments=("text",),
        option_names={"categories": "--category"},
    ),
    absent_from={"mcp": "agents contribute, and their parents decide"},
)
def keep_episode(context: Context, request: KeepEpisode) -> EpisodeAnswer:
    """Record something for the team to remember: a decision, a preference, the state of work."""
    check_plain(request.text, "text")
    check_kind(request.kind)
    for number, category in enumerate(request.categories):
        check_label(category, f"categories[{number}]")
    if request.slug is not None and not is_slug(request.slug):
        raise FieldValue("A slug is lower-case words with dashes.", field="slug", used=request.slug, limit=MAX_SLUG)
    lifetime = None if request.ttl is None else parse_duration(request.ttl, "ttl")
    pointers = stamped(context, request.pointers, request.at)

    def decide(view: View) -> tuple[list[EpisodeKept], EpisodeAnswer]:
        slug = request.slug or slug_of(request.text)
        before = view.episode(request.kind, slug)
        episode = Episode(
            kind=request.kind,
            slug=slug,
            version=before.version + 1 if before else 1,
            text=request.text,
            categories=tuple(request.categories),
            importance=request.importance,
            pinned=request.pinned,
            at=view.as_of,
            expires_at=None if lifetime is None else view.as_of + lifetime,
            by=context.caller.full_name,
            pointers=pointers,
        )
        return [kept(context, episode)], _answer(episode)

    return remember(context, decide)


class PinEpisode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=200, description="decision:use-sqlite, or its memory_id")]
    unpin: Annotated[bool, Meta(description="Take it out of working memory")] = False


@operation(
    "sam.pin",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/sam/{id}/pin"),
    command=Command(
        "memory pin",
        section="knowledge",
        example="engrambus memory pin decision:we-publish-under-example-org",
        renderer="cortex:episode",
        rank=84,
        arguments=("id",),
    ),
    absent_from={"mcp": "what stays in working memory is a parent's decision"},
)
def pin_episode(context: Context, request: PinEpisode) -> EpisodeAnswer:
    """Keep a memory among those every agent inherits, or release it."""
    kind, _, slug = request.id.partition("@")[0].removeprefix("sam:").partition(":")

    def decide(view: View) -> tuple[list[EpisodeKept], EpisodeAnswer]:
        before = view.episode(kind, slug)
        if before is None:
            raise EpisodeNotFound(
                field="id", hint="engrambus memory read, or engrambus inherit, shows what is remembered."
            )
        if before.expires_at is not None and before.expires_at <= view.as_of:
            raise EpisodeNotFound("What was remembered under this name has expired.", field="id", hint="Keep it anew.")
        if before.pinned != request.unpin:
            return [], _answer(before)
        episode = msgspec.structs.replace(
            before, version=before.version + 1, pinned=not request.unpin, at=view.as_of, by=context.caller.full_name
        )
        return [kept(context, episode)], _answer(episode)

    return remember(context, decide)


class Inherit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of what the team remembers to hand on, and how much of it."""

    for_agent: Annotated[str, Meta(max_length=64, description="Who inherits; you unless said")] | None = None
    scope: Annotated[SnapshotScope | None, Meta(description="What is to be inherited")] = None
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000, description="The snapshot is never larger")] = MAX_BYTES
    max_items: Annotated[int, Meta(ge=1, le=10_000, description="Nor longer")] = MAX_ITEMS


@operation(
    "inherit",
    writes=True,
    route=Route("POST", "/snapshot"),
    command=Command(
        "inherit",
        section="team",
        example="engrambus inherit --for coder-1",
        renderer="cortex:snapshot",
        rank=60,
        override="team:inherit",
        option_names={"for_agent": "--for"},
    ),
    tool=Tool(hidden=("for_agent", "max_items", "scope")),
)
def inherit(context: Context, request: Inherit) -> SharedContextSnapshot:
    """Get the team's memory: pinned, important and recent items, within a size."""
    caller = context.caller
    scope = request.scope or SnapshotScope()
    with telling(context, "INHERIT_FAIL"):
        if not context.policy.cortex.inherit:
            raise CortexOff("Inheriting is switched off in this project.", field="cortex.inherit", hint=SWITCHED_ON)
        for each in scope.visibility:
            check_may_promote(context.policy, each, "scope.visibility")
        window = parse_duration(scope.recency_window, "scope.recency_window")
        context.note(signature("INHERIT_START", snapshot_id="new", scope=_told(scope)))

        def decide(view: View) -> tuple[list[Any], SharedContextSnapshot]:
            heir, agent = caller.name, view.agent(caller.run.run_id, caller.name)
            if request.for_agent not in (None, caller.name):
                agent = check_descends(view, caller, request.for_agent or "", "for_agent")
                heir = agent.name
            turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)
            most, budget = request.max_bytes, deref_budget(context, view)
            if caller.role != ADMIN:
                check_tokens(turn, budget, 1)
                most = min(most, tokens_left(turn, budget) * BYTES_PER_TOKEN)
            items = items_of(
                view.pins(limit=request.max_items),
                view.important(scope.min_importance, about=scope.about, limit=2 * request.max_items),
                view.recent(view.as_of - window, about=scope.about, limit=2 * request.max_items),
                _atoms(context, view, scope),
                scope,
            )
            snapshot = take_snapshot(
                items,
                scope,
                source_session=f"{caller.run.run_id}/{(agent.parent if agent else None) or ADMIN}",
                now=view.as_of,
                limits=Limits(max_chars=request.max_bytes, max_items=request.max_items),
                room=most,
            )
            size = len(msgspec.json.encode(snapshot))
            if size > most:
                if most < request.max_bytes:  # it is the turn that has too little left, not the request
                    check_tokens(turn, budget, -(-size // BYTES_PER_TOKEN))
                raise BudgetTooSmall(field="max_bytes", limit=most, used=size)
            taken = SnapshotTaken(
                run=caller.run.run_id,
                by=caller.full_name,
                heir=heir,
                snapshot_id=snapshot.snapshot_id,
                items=len(snapshot.items),
                chars=size,
            )
            tokens = estimate_tokens(msgspec.json.encode(snapshot))
            drawn = ContentDrawn(run=caller.run.run_id, agent=caller.name, turn=turn.number, tokens=tokens)
            return [taken, drawn], snapshot

        snapshot = context.commit(decide, SharedContextSnapshot, remember=False)
    size = len(msgspec.json.encode(snapshot))
    context.note(signature("INHERIT_DONE", snapshot_id=snapshot.snapshot_id, items=len(snapshot.items), chars=size))
    return snapshot


def _atoms(context: Context, view: View, scope: SnapshotScope) -> list[Engram]:
    if not scope.include_atoms:
        return []
    wanted = scope.visibility or ["run", "project"]
    spaces = tuple(space for each in wanted for space in visible_spaces(context.caller, each))
    atoms = _newest(view, spaces, scope) if spaces else []
    beyond = tuple(each for each in shared_scopes(context.policy) if each in wanted)
    with context.shared.visible_stores(beyond) as visible_stores:
        for reads, there in visible_stores:
            atoms += _newest(reads, there, scope)
    return atoms


def _newest(reads: EngramReads, spaces: Sequence[str], scope: SnapshotScope) -> list[Engram]:
    """The newest engrams that the scope covers, among the last so many."""
    found: list[Engram] = []
    before: int | None = None
    for _ in range(MAX_PAGES):
        page = reads.newest(spaces, kind=None, limit=MAX_ATOMS, before=before)
        found += filter(scope.covers, reads.engrams(page))
        if len(found) >= MAX_ATOMS or len(page) < MAX_ATOMS:
            break
        before = page[-1]
    return found[:MAX_ATOMS]


def _told(scope: SnapshotScope) -> str:
    """A scope in one word: figures only."""
    return (
        f"categories:{len(scope.categories)},min_importance:{scope.min_importance},window:{scope.recency_window},"
        f"pins:{int(scope.include_working_memory)},atoms:{int(scope.include_atoms)}"
    )


@contextmanager
def telling(context: Context, event: str, **values: object) -> Iterator[None]:
    """Note a failure by its code before it is passed on."""
    try:
        yield
    except EngramBusError as problem:
        context.note(signature(event, **values, error=problem.code))
        raise


def remember(context: Context, decide: Any) -> EpisodeAnswer:
    """Commit something remembered, and bring the store that the memory controller reads up to it."""
    answer = context.commit(decide, EpisodeAnswer)
    context.write_episodes()
    return answer


def kept(context: Context, episode: Episode) -> EpisodeKept:
    """The fact that something is remembered."""
    return EpisodeKept(run=context.caller.run.run_id, by=context.caller.full_name, episode=episode)


def stamped(context: Context, pointers: list[Pointer], places: list[str]) -> tuple[Pointer, ...]:
    """Pointers with their digests, those given the easy way included."""
    all_of_them = [*pointers, *(context.project_files.point_at(place, f"at[{n}]") for n, place in enumerate(places))]
    checked = [check_pointer(pointer, f"pointers[{number}]") for number, pointer in enumerate(all_of_them)]
    context.project_files.keep(tuple(address for _, address in checked))
    return tuple(context.evidence.stamp(pointer, address) for pointer, address in checked)


def _answer(episode: Episode) -> EpisodeAnswer:
    return EpisodeAnswer(
        memory_id=episode.memory_id,
        ref=episode.ref,
        version=episode.version,
        pinned=episode.pinned,
        importance=episode.importance,
    )
