"""The shared cortex: keeping and pinning memories, inheriting a snapshot of them and contributing to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from engrambus.core import parse_duration
from engrambus.errors import CortexOff, EngramBusError, NoRepository
from engrambus.evidence.pointers import Pointer, check_pointer
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, Tool, operation
from engrambus.gateway.pointer_fields import Place, PointerOrRef
from engrambus.gateway.ports import View
from engrambus.gateway.role_view import visible_store
from engrambus.knowledge.cortex import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_ITEMS,
    MAX_CATEGORIES,
    MAX_CONTENT_CHARS,
    MAX_EVIDENCE,
    MAX_EVIDENCE_CHARS,
    MAX_INPUT_CHARS,
    MAX_KIND_CHARS,
    MAX_LABEL_CHARS,
    MAX_SLUG_CHARS,
    MAX_TEXT_CHARS,
    Contribution,
    ContributionDraft,
    Episode,
    EpisodeDraft,
    EvidenceItem,
    EvidenceKind,
    SharedContextSnapshot,
    SnapshotLimits,
    SnapshotScope,
    check_draft,
    check_kind,
    check_label,
    check_slug,
    check_text,
    compare_with_pins,
    covered_engrams,
    inherit_snapshot,
    keep,
    log_line,
    pin,
    redact_draft,
    snapshot_bytes,
    submit,
)
from engrambus.knowledge.engrams import Engram
from engrambus.knowledge.messages import read_payers
from engrambus.operations.engram_uses import UsedIds, resolve_used
from engrambus.policy import check_may_promote, shared_scopes, visible_spaces

HOW_TO_SWITCH_ON = "An admin switches it on in .catalog/policy.yaml and runs `engrambus policy apply`."
DEFAULT_KIND = "fact"
DEFAULT_IMPORTANCE = 0.5
DEFAULT_SCOPES = ("run", "project")

Label = Annotated[str, Meta(max_length=MAX_LABEL_CHARS)]
Importance = Annotated[float, Meta(ge=0, le=1, description="How much it matters, 0 to 1")]
Lifetime = Annotated[str, Meta(max_length=32, description="Lifetime: P30D is 30 days; unlimited by default")]


class KeepEpisode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something to remember."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARS, description="What to remember")]
    kind: Annotated[
        str, Meta(max_length=MAX_KIND_CHARS, description="Kind of memory: decision, preference, workflow, …")
    ] = DEFAULT_KIND
    slug: (
        Annotated[str, Meta(max_length=MAX_SLUG_CHARS, description="Short name; a name that exists gets a new version")]
        | None
    ) = None
    categories: Annotated[list[Label], Meta(max_length=MAX_CATEGORIES, description="Category to file it under")] = []
    importance: Importance = DEFAULT_IMPORTANCE
    pinned: Annotated[bool, Meta(description="Pin it, so that every agent inherits it")] = False
    ttl: Lifetime | None = None
    pointers: Annotated[list[PointerOrRef], Meta(description="Pointer to evidence, with its commit or digest")] = []
    at: Annotated[list[Place], Meta(description="Evidence: path:10-20 at HEAD, or a pointer's ref")] = []


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
    prose=("text", "kind", "slug", "categories"),
)
def keep_episode(context: Context, request: KeepEpisode) -> EpisodeAnswer:
    """Record something for the team to remember: a decision, a preference, the state of work."""
    check_text(request.text, "text")
    check_kind(request.kind)
    for index, category in enumerate(request.categories):
        check_label(category, f"categories[{index}]")
    if request.slug is not None:
        check_slug(request.slug)
    draft = EpisodeDraft(
        kind=request.kind,
        slug=request.slug,
        text=request.text,
        categories=tuple(request.categories),
        importance=request.importance,
        pinned=request.pinned,
        lifetime_us=lifetime_us(request.ttl),
        pointers=_stamp_pointers(context, request.pointers),
    )

    def decide(view: View) -> tuple[list[Any], EpisodeAnswer]:
        facts, episode = keep(view, draft, caller=context.caller)
        return facts, _episode_answer(episode)

    answer = context.commit(decide, EpisodeAnswer)
    context.write_episodes()
    return answer


class PinEpisode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=200, description="The memory: decision:use-sqlite, or its memory_id")]
    unpin: Annotated[bool, Meta(description="Unpin it instead")] = False


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
    """Keep a memory among those every agent inherits, or release it.

    Pinned memories are in the working memory, which `engrambus inherit` always includes.
    """

    def decide(view: View) -> tuple[list[Any], EpisodeAnswer]:
        facts, episode = pin(view, request.id, pinned=not request.unpin, caller=context.caller)
        return facts, _episode_answer(episode)

    answer = context.commit(decide, EpisodeAnswer)
    context.write_episodes()
    return answer


class Inherit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part of the team's memory to inherit, and its limits."""

    for_agent: Annotated[str, Meta(max_length=96, description="The agent that inherits; you by default")] | None = None
    scope: Annotated[SnapshotScope | None, Meta(description="Which memories to include")] = None
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000, description="Maximum size of the answer, in bytes")] = (
        DEFAULT_MAX_BYTES
    )
    max_items: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of items")] = DEFAULT_MAX_ITEMS


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
    tool=Tool(about="Get the team's memory: pinned, important, recent.", hidden=("for_agent", "max_items", "scope")),
    agent_fields=("for_agent",),
)
def inherit(context: Context, request: Inherit) -> SharedContextSnapshot:
    """Get the team's memory: pinned, important and recent items, within a size.

    A new agent starts with it: what was decided, what is preferred, and how the work stands.
    """
    scope = request.scope or SnapshotScope()
    with log_failure(context, "INHERIT_FAIL"):
        # decision 26: both directions are switched by the policy, so the journal says who switched them off.
        if not context.policy.cortex.inherit:
            raise CortexOff(
                "Inheriting is switched off in this project.", field="cortex.inherit", hint=HOW_TO_SWITCH_ON
            )
        for name in scope.visibility:
            check_may_promote(context.policy, name, "scope.visibility")
        window_us = parse_duration(scope.recency_window, "scope.recency_window")
        context.note(log_line("INHERIT_START", snapshot_id="new", scope=scope.summary()))

        def decide(view: View) -> tuple[list[Any], SharedContextSnapshot]:
            return inherit_snapshot(
                view,
                scope,
                for_agent=request.for_agent,
                limits=SnapshotLimits(max_chars=request.max_bytes, max_items=request.max_items),
                window_us=window_us,
                engrams=_visible_engrams(context, view, scope),
                caller=context.caller,
                payers=read_payers(view, context.policy, context.caller, context.limits),
                rules=context.policy.secrets,
            )

        # The answer holds content, so the journal does not remember it under the idempotency key.
        snapshot = context.commit(decide, SharedContextSnapshot, remember=False)
    context.note(
        log_line(
            "INHERIT_DONE",
            snapshot_id=snapshot.snapshot_id,
            items=len(snapshot.items),
            chars=snapshot_bytes(snapshot),
        )
    )
    return snapshot


class EvidenceInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Evidence for a contribution."""

    kind: EvidenceKind
    value: Annotated[str, Meta(max_length=MAX_EVIDENCE_CHARS)]


class Contribute(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something learned, for the parent to decide on."""

    content: Annotated[str, Meta(min_length=1, max_length=MAX_CONTENT_CHARS, description="What you learned")]
    confidence: Annotated[float, Meta(ge=0, le=1, description="How sure you are, 0 to 1")] = 0.7
    thread_id: Annotated[str, Meta(max_length=MAX_LABEL_CHARS, description="The task it belongs to")] = "default"
    proposed_categories: Annotated[
        list[Label], Meta(max_length=MAX_CATEGORIES, description="Category to file it under")
    ] = []
    evidence: Annotated[
        list[EvidenceInput],
        Meta(max_length=MAX_EVIDENCE, description="path, url, command_output or note, with a value"),
    ] = []
    inputs_used: Annotated[
        list[Annotated[str, Meta(max_length=MAX_INPUT_CHARS)]],
        Meta(max_length=32, description="Ids of the inherited snapshots it is based on"),
    ] = []
    used: UsedIds = []


@operation(
    "contribute",
    writes=True,
    redacts=True,
    route=Route("POST", "/contribution"),
    command=Command(
        "contribute",
        section="team",
        example='engrambus contribute "Retries of the ledger are idempotent." --thread-id billing --confidence 0.9',
        renderer="cortex:contribution",
        rank=62,
        arguments=("content",),
        override="team:contribute",
        option_names={"proposed_categories": "--category"},
    ),
    tool=Tool(
        about="Propose what you learned; your parent decides.",
        hidden=("inputs_used", "thread_id", "used"),
        explained=("evidence",),
    ),
    prose=("content", "thread_id", "proposed_categories"),
)
def contribute(context: Context, request: Contribute) -> Contribution:
    """Propose something you learned; your parent decides if the team keeps it.

    Until then it waits in `engrambus review list`.
    """
    draft = ContributionDraft(
        content=request.content,
        confidence=request.confidence,
        thread_id=request.thread_id,
        categories=tuple(request.proposed_categories),
        evidence=tuple(EvidenceItem(kind=item.kind, value=item.value) for item in request.evidence),
        inputs=tuple(request.inputs_used),
    )
    with log_failure(context, "CONTRIBUTION_FAIL"):
        check_draft(draft)
        with log_failure(context, "REDACTION_FAIL"):
            redacted = redact_draft(draft, context.policy.secrets)
        evidence = tuple(
            _locate_evidence(context, item, f"evidence[{index}].value")
            for index, item in enumerate(redacted.draft.evidence)
        )
        used = resolve_used(context, request.used)
        dedupe_window_us = parse_duration(context.policy.cortex.dedupe_window)
        with context.store.read() as view:
            # The pins are parsed and cached here, so that the write lock is not held for that long.
            compare_with_pins(view, redacted.draft.content)
        contribution = context.commit(
            lambda view: submit(
                view,
                redacted,
                evidence,
                caller=context.caller,
                randomness=context.randomness,
                dedupe_window_us=dedupe_window_us,
                used=used,
            ),
            Contribution,
        )
    context.note(
        log_line(
            "CONTRIBUTION_SUBMIT",
            contribution_id=contribution.contribution_id,
            hash=redacted.content_hash,
            confidence=request.confidence,
            status=contribution.status,
        )
    )
    if contribution.conflict_check.against:
        context.note(
            log_line(
                "CONFLICT_DETECTED",
                contribution_id=contribution.contribution_id,
                pins=len(contribution.conflict_check.against),
                against=",".join(contribution.conflict_check.against[:8]),
            )
        )
    return contribution


@contextmanager
def log_failure(context: Context, event: str, **values: object) -> Iterator[None]:
    """Log the code of a refusal, and pass it on."""
    try:
        yield
    except EngramBusError as problem:
        context.note(log_line(event, **values, error=problem.code))
        raise


def lifetime_us(ttl: str | None) -> int | None:
    return None if ttl is None else parse_duration(ttl, "ttl")


def _episode_answer(episode: Episode) -> EpisodeAnswer:
    return EpisodeAnswer(
        memory_id=episode.memory_id,
        ref=episode.ref,
        version=episode.version,
        pinned=episode.pinned,
        importance=episode.importance,
    )


def _visible_engrams(context: Context, view: View, scope: SnapshotScope) -> list[Engram]:
    if not scope.include_atoms:
        return []
    scopes = scope.visibility or DEFAULT_SCOPES
    spaces = tuple(space for name in scopes for space in visible_spaces(context.caller, name))
    stores = [visible_store(view, spaces)] if spaces else []
    wider_scopes = tuple(name for name in shared_scopes(context.policy) if name in scopes)
    with context.shared.visible_stores(wider_scopes, context.role_filter) as wider_stores:
        return covered_engrams([*stores, *wider_stores], scope)


def _stamp_pointers(context: Context, pointers: Sequence[Pointer | str]) -> tuple[Pointer, ...]:
    """Add digests to the pointers, and pin their commits."""
    fields = [f"pointers[{index}]" for index in range(len(pointers))]
    checked = [check_pointer(pointer, field) for pointer, field in zip(pointers, fields, strict=True)]
    stamped = tuple(context.evidence.stamp(*pair, field) for pair, field in zip(checked, fields, strict=True))
    context.project_files.retain(tuple(address for _, address in checked))
    return stamped


def _locate_evidence(context: Context, item: EvidenceItem, field: str) -> EvidenceItem:
    """Add the pointer to evidence: what a path names must exist, other text is looked for in the repository."""
    try:
        candidate = _named_pointer(context, item, field) if item.kind == "path" else _find_text(context, item)
        if candidate is None:
            return item
        pointer, address = check_pointer(candidate)
        stamped = context.evidence.stamp(pointer, address)
        context.project_files.retain((address,))
    except NoRepository:  # without one a path is only a text
        return item
    except EngramBusError as problem:
        if item.kind != "path":  # evidence without a pointer is still evidence
            return item
        problem.field = field
        raise
    return msgspec.structs.replace(item, pointer=stamped)


def _named_pointer(context: Context, item: EvidenceItem, field: str) -> Pointer:
    """Return the pointer that a path, or the ref of a pointer, stands for."""
    return context.completer.complete(item.value, field)


def _find_text(context: Context, item: EvidenceItem) -> Pointer | None:
    """Return the longest pasted part of a file."""
    project_files = context.project_files
    if item.kind == "url":
        return None
    head = project_files.head()
    pasted = project_files.anchors.recognise(item.value, revision=head)
    if pasted:
        return max(pasted, key=lambda match: match.end - match.start).pointer
    return project_files.anchors.find(item.value, revision=head).pointer
