"""The shared cortex: keeping and pinning memories, and contributing to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from engrambus.core import parse_duration
from engrambus.errors import EngramBusError, InputNotFound, NoRepository, NotFound
from engrambus.evidence.pointers import Pointer, check_pointer
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, Tool, operation
from engrambus.gateway.pointer_fields import Place, PointerOrRef
from engrambus.gateway.ports import View
from engrambus.knowledge.cortex import (
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
    check_draft,
    check_kind,
    check_label,
    check_slug,
    check_text,
    compare_with_pins,
    keep,
    log_line,
    names_snapshot,
    pin,
    redact_draft,
    submit,
    visible_takings,
)
from engrambus.knowledge.engrams import find_shown
from engrambus.operations.engram_uses import UsedIds, resolve_used

HOW_TO_SWITCH_ON = "An admin switches it on in .catalog/policy.yaml and runs `engrambus policy apply`."
DEFAULT_KIND = "fact"
DEFAULT_IMPORTANCE = 0.5

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
        Meta(max_length=32, description="What it is based on: a snapshot's id, a memory, an engram or a pointer"),
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
        hidden=("inputs_used", "proposed_categories", "thread_id", "used"),
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
        for index, name in enumerate(redacted.draft.inputs):
            _check_input(context, name, f"inputs_used[{index}]")
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


def _check_input(context: Context, name: str, field: str) -> None:
    """Refuse an input that does not exist, or that the caller may not see: both look the same."""
    refusal = InputNotFound(
        field=field, hint="`inherit` prints the id of its snapshot; memories, engrams and pointers have ids, too."
    )
    try:
        if names_snapshot(name):
            with context.store.read() as view:
                takings = visible_takings(view, name, context.caller)
            if not takings:
                raise refusal
        elif ":" in name:
            ref = name if name.startswith("sam:") or not _is_memory(context, name) else f"sam:{name}"
            context.evidence.stamp(*check_pointer(context.completer.complete(ref, field), field), field)
        else:
            with context.present_stores() as stores:
                find_shown(stores, name, field)
    except NotFound:
        raise refusal from None
    except EngramBusError as problem:  # one field, whatever part of the pointer is wrong
        problem.field = field
        raise


def _is_memory(context: Context, name: str) -> bool:
    """True if a text is the `memory_id` of a memory."""
    kind, _, rest = name.partition(":")
    slug, _, version = rest.rpartition("@")
    with context.store.read() as view:
        return version.isdecimal() and view.episode(kind, slug, version=int(version[:9])) is not None


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
