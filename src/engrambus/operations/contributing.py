"""Learnings on their way in: redacted, anchored, held against what was said before and against the pins."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from engrambus.core import new_ulid, parse_duration, print_time
from engrambus.errors import EngramBusError, NotYourDescendant
from engrambus.evidence.pointers import Pointer, check_pointer
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.gateway.project_files import ProjectFiles
from engrambus.knowledge.cortex import (
    MAX_CATEGORIES,
    MAX_CONTENT,
    MAX_EVIDENCE,
    MAX_INPUT,
    MAX_LABEL,
    MAX_VALUE,
    ConflictCheck,
    Contribution,
    ContributionSubmitted,
    Dedupe,
    EvidenceItem,
    EvidenceKind,
    Security,
    Status,
    Verdict,
    check_label,
    check_plain,
    content_hash,
    find_conflicts,
    signature,
    similarity_key,
)
from engrambus.operations.remembering import Label, telling
from engrambus.policy import ADMIN, Caller, check_descends
from engrambus.policy.secrets import redact

MAX_PINS = 1000


class EvidenceGiven(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a learning stands on."""

    kind: EvidenceKind
    value: Annotated[str, Meta(max_length=MAX_VALUE)]


class Contribute(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learning for the parent to decide on."""

    content: Annotated[str, Meta(min_length=1, max_length=MAX_CONTENT, description="What was learned")]
    confidence: Annotated[float, Meta(ge=0, le=1, description="How sure, 0 to 1")] = 0.7
    thread_id: Annotated[str, Meta(max_length=MAX_LABEL, description="The task it belongs to")] = "default"
    proposed_categories: Annotated[
        list[Label], Meta(max_length=MAX_CATEGORIES, description="What to file it under")
    ] = []
    evidence: Annotated[
        list[EvidenceGiven],
        Meta(max_length=MAX_EVIDENCE, description="path, url, command_output or note, with a value"),
    ] = []
    inputs_used: Annotated[
        list[Annotated[str, Meta(max_length=MAX_INPUT)]],
        Meta(max_length=32, description="Snapshots it was made from"),
    ] = []


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
    tool=Tool(hidden=("inputs_used", "thread_id"), explained=("evidence",)),
)
def contribute(context: Context, request: Contribute) -> Contribution:
    """Propose something you learned; your parent decides if the team keeps it."""
    caller = context.caller
    with telling(context, "CONTRIBUTION_FAIL"):
        _check(request)
        clean = _redacted(context, request)
        evidence = tuple(_anchored(context, item) for item in clean.evidence)
        hashed, fuzzy = content_hash(clean.content), similarity_key(clean.content)
        window = parse_duration(context.policy.cortex.dedupe_window)

        with context.store.read() as now:  # pins are taken apart, and remembered so, before anyone has to wait for it
            _held_against_pins(clean.content, now)

        def decide(view: View) -> tuple[list[ContributionSubmitted], Contribution]:
            before = view.contributed(caller.full_name, hashed, view.as_of - window)
            verdict, against = _held_against_pins(clean.content, view)
            status: Status = "duplicate" if before else "flagged" if verdict != "clean" else "submitted"
            contribution = Contribution(
                contribution_id=new_ulid(view.as_of, context.randomness),
                submitted_at=print_time(view.as_of),
                from_session=caller.full_name,
                thread_id=clean.thread_id,
                content=clean.content,
                proposed_categories=clean.categories,
                confidence=request.confidence,
                evidence=evidence,
                inputs_used=clean.inputs,
                conflict_check=ConflictCheck(status=verdict, against=against),
                dedupe=Dedupe(
                    content_hash=hashed,
                    similarity_key=fuzzy,
                    duplicate_of=before,
                    similar_to=tuple(each for each in view.contributed_alike(fuzzy, limit=8) if each != before),
                ),
                security=Security(redacted=bool(clean.notes), redaction_notes=clean.notes),
                status=status,
            )
            fact = ContributionSubmitted(run=caller.run.run_id, agent=caller.name, contribution=contribution)
            return [fact], shown_to(caller, contribution, view)

        contribution = context.commit(decide, Contribution)
    context.note(
        signature(
            "CONTRIBUTION_SUBMIT",
            contribution_id=contribution.contribution_id,
            hash=hashed,
            confidence=request.confidence,
            status=contribution.status,
        )
    )
    if contribution.conflict_check.against:
        context.note(
            signature(
                "CONFLICT_DETECTED",
                contribution_id=contribution.contribution_id,
                pins=len(contribution.conflict_check.against),
                against=",".join(contribution.conflict_check.against[:8]),
            )
        )
    return contribution


def _check(request: Contribute) -> None:
    """Refuse a contribution that holds anything but text."""
    check_plain(request.content, "content")
    check_label(request.thread_id, "thread_id")
    for number, category in enumerate(request.proposed_categories):
        check_label(category, f"proposed_categories[{number}]")
    for number, item in enumerate(request.evidence):
        check_plain(item.value, f"evidence[{number}].value")
    for number, each in enumerate(request.inputs_used):
        check_label(each, f"inputs_used[{number}]")


def _held_against_pins(content: str, view: View) -> tuple[Verdict, tuple[str, ...]]:
    """Whether a content contradicts what is pinned, and which of it."""
    return find_conflicts(content, ((pin.memory_id, pin.text) for pin in view.pins(limit=MAX_PINS)))


class _Clean(Struct, frozen=True, kw_only=True):
    """A contribution with secrets taken out of everything it says."""

    content: str
    thread_id: str
    categories: tuple[str, ...]
    evidence: tuple[EvidenceGiven, ...]
    inputs: tuple[str, ...]
    notes: tuple[str, ...]


def _redacted(context: Context, request: Contribute) -> _Clean:
    notes: list[str] = []

    def clean(text: str, field: str) -> str:
        without, secrets = redact(text)
        notes.extend(f"{field}: {secret.kind}" for secret in secrets)
        return without

    try:
        return _Clean(
            content=clean(request.content, "content"),
            thread_id=clean(request.thread_id, "thread_id"),
            categories=tuple(clean(each, "proposed_categories") for each in request.proposed_categories),
            evidence=tuple(
                msgspec.structs.replace(each, value=clean(each.value, f"evidence[{number}].value"))
                for number, each in enumerate(request.evidence)
            ),
            inputs=tuple(clean(each, "inputs_used") for each in request.inputs_used),
            notes=tuple(dict.fromkeys(notes)),
        )
    except EngramBusError as problem:
        context.note(signature("REDACTION_FAIL", error=problem.code))
        raise


def _anchored(context: Context, given: EvidenceGiven) -> EvidenceItem:
    """Evidence with its pointer, where the repository holds it."""
    return EvidenceItem(kind=given.kind, value=given.value, pointer=_pointer(context, given))


def _pointer(context: Context, given: EvidenceGiven) -> Pointer | None:
    try:
        found = _place(context.project_files, given)
        if found is None:
            return None
        pointer, address = check_pointer(found)
        stamped = context.evidence.stamp(pointer, address)
        context.project_files.keep((address,))
    except EngramBusError:  # it stays what it was: words
        return None
    return stamped


def _place(project_files: ProjectFiles, given: EvidenceGiven) -> Pointer | None:
    """Where evidence stands: the path it names, or the longest stretch of a file that was pasted."""
    if given.kind == "url":
        return None
    if given.kind == "path":
        return project_files.point_at(given.value, "evidence")
    head = project_files.head()
    pasted = project_files.anchors.recognise(given.value, revision=head)
    if pasted:
        return max(pasted, key=lambda each: each.end - each.start).pointer
    return project_files.anchors.find(given.value, revision=head).pointer


def may_see(caller: Caller, it: Contribution, view: View) -> bool:
    """Whether it is the caller's own or a descendant's; the admin sees all."""
    if caller.role == ADMIN:
        return True
    run, _, name = it.from_session.rpartition("/")
    if run != caller.run.run_id or name == ADMIN:
        return False
    try:
        check_descends(view, caller, name, "id")
    except NotYourDescendant:
        return False
    return True


def shown_to(caller: Caller, it: Contribution, view: View) -> Contribution:
    """A contribution as the caller may see it: of those alike, the ones it could look at."""
    alike = [each for name in it.dedupe.similar_to if (each := view.contribution(name)) is not None]
    seen = tuple(each.contribution_id for each in alike if may_see(caller, each, view))
    return msgspec.structs.replace(it, dedupe=msgspec.structs.replace(it.dedupe, similar_to=seen))
