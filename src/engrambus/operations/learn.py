"""Learning from the repository: put what it says, withdraw what it no longer says. The rule: `knowledge/engrams`."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from msgspec import Meta, Struct

from engrambus.core import check_visible, digest, parse_duration, print_duration
from engrambus.errors import EngramBusError, FieldValue, ScopeForbidden
from engrambus.evidence.pointers import check_pointer, parse_ref
from engrambus.evidence.pointers.addresses import DiffAddress
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, PEOPLE, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.engrams import (
    LearnableEngram,
    Learned,
    LearnedOutcome,
    day_of,
    prepare,
    put_learned,
    validate,
)
from engrambus.knowledge.engrams.learned import LearnFact
from engrambus.knowledge.learning import (
    CLAUDE_MEMORY,
    DEFAULT_CONFIDENCE,
    LEARNED_CONFIDENCE,
    LEARNED_TTL,
    MAX_LEARNED,
    LearnedClaim,
    MemoryFile,
    text_problem,
)
from engrambus.knowledge.messages import artifact_body
from engrambus.operations.artifacts import store_bodies
from engrambus.policy import ADMIN
from engrambus.policy.secrets import check_no_secrets

AT_THE_MACHINE = "a person at the machine learns: engrambus learn"


class LearnRepository(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the repository says at a commit, the best first; it takes the place of what was learned before."""

    commit: Annotated[str, Meta(pattern="^[0-9a-f]{40,64}$", description="The commit that was read")]
    claims: Annotated[list[LearnedClaim], Meta(description=f"At most {MAX_LEARNED}")] = []
    memory: Annotated[
        list[MemoryFile] | None,
        Meta(description="Files of Claude's memory that claims point at; without it, what was learned from it stays"),
    ] = None


class LearnAnswer(Struct, frozen=True, kw_only=True):
    """What learning changed."""

    outcome: LearnedOutcome
    skipped: dict[str, int]
    """Claims that break a rule of this project, counted by the code of the refusal."""


@operation(
    "repository.learn",
    roles=ADMINS,
    writes=True,
    redacts=True,
    raw_fields=("claims", "memory"),
    absent_from=dict.fromkeys(("http", "mcp", "client"), AT_THE_MACHINE)
    | {"cli": "engrambus learn reads the repository and sends what it says"},
    span="create_memory",
)
def learn_repository(context: Context, request: LearnRepository) -> LearnAnswer:
    """Make the store hold what the repository says at a commit."""
    if len(request.claims) > MAX_LEARNED:
        raise FieldValue(field="claims", limit=MAX_LEARNED, used=len(request.claims))
    with context.store.read() as view:
        live = {row.learned.key for row in view.learned_engrams()}
    new_claims = [claim for claim in request.claims if claim.key not in live]
    skipped = _store_memory(context, request.memory or [], new_claims)
    _prefetch(context, request.commit, new_claims)
    new: dict[str, LearnableEngram] = {}
    for claim in new_claims:
        try:
            new[claim.key] = _learnable(context, claim, request.commit)
        except EngramBusError as refusal:  # told by its code; the others are learned
            skipped[refusal.code] += 1
    chosen_keys = [claim.key for claim in request.claims if claim.key in live or claim.key in new]

    def decide(view: View) -> tuple[list[LearnFact], LearnAnswer]:
        facts, outcome = put_learned(
            view,
            chosen_keys,
            new,
            commit=request.commit,
            ttl=_ttl(context),
            caller=context.caller,
            unread_sources=frozenset() if request.memory is not None else frozenset({CLAUDE_MEMORY}),
        )
        return facts, LearnAnswer(outcome=outcome, skipped=dict(sorted(skipped.items())))

    return context.commit(decide, LearnAnswer)


class ReadLearned(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to choose."""


class LearnedState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was learned so far."""

    commit: str | None = None
    """The commit that was learned from last."""
    keys: list[str] = []
    """Names of what was learned and is live."""
    from_memory: int = 0
    """How many of these were learned from Claude's memory."""
    engrams: int = 0
    """Live engrams of the project that a person or an agent stated."""


@operation(
    "repository.learned",
    roles=PEOPLE,
    absent_from=dict.fromkeys(("http", "mcp", "client"), AT_THE_MACHINE)
    | {"cli": "engrambus learn says what it learned before"},
)
def read_learned(context: Context, request: ReadLearned) -> LearnedState:
    """Return what was learned from the repository so far."""
    view = context.view
    rows = view.learned_engrams()
    total = sum(view.live_kinds(("p",)).values())
    return LearnedState(
        commit=view.learned_commit(),
        keys=[row.learned.key for row in rows],
        from_memory=sum(row.learned.source == CLAUDE_MEMORY for row in rows),
        engrams=max(0, total - len(rows)),
    )


def _store_memory(context: Context, memory: list[MemoryFile], claims: list[LearnedClaim]) -> Counter[str]:
    """Store the files that new claims point at as artifacts, without those that hold a secret; count these."""
    refused: Counter[str] = Counter()
    bodies = []
    for file in memory:
        body = artifact_body(file.text)
        prefix = f"artifact:{digest(body)}"
        if not any(claim.ref.startswith(prefix) for claim in claims):
            continue
        try:
            check_visible({"text": file.text})
            check_no_secrets({"text": file.text}, rules=context.policy.secrets)
        except EngramBusError as refusal:
            refused[refusal.code] += 1
        else:
            bodies.append(body)
    if bodies:
        store_bodies(context, bodies, "claude-memory.md")
    return refused


def _prefetch(context: Context, commit: str, claims: list[LearnedClaim]) -> None:
    """Compute the digests of all pointers with few reads, and keep the commit with its history from being pruned."""
    pointers = []
    commits: set[str] = set()
    for claim in claims:
        try:
            pointer, address = check_pointer(claim.ref)
        except EngramBusError:
            continue
        pointers.append((pointer, address))
        if isinstance(address, DiffAddress):
            commits |= {address.base, address.head}
    if commits:
        context.project_files.repositories.select().retain_history(commit, commits)
    context.evidence.prefetch(pointers)


def _learnable(context: Context, claim: LearnedClaim, commit: str) -> LearnableEngram:
    """Check a claim as a put of the admin, and prepare it."""
    limits = context.policy.checks(ADMIN)
    draft = {
        "kind": claim.kind,
        "claim": claim.claim,
        "pointers": [{"type": claim.ref.partition(":")[0], "ref": claim.ref}],
        "confidence": LEARNED_CONFIDENCE.get(claim.source, DEFAULT_CONFIDENCE),
        "scope": "project",
        "ttl": _ttl(context),
        "tags": [claim.source],
    }
    checked = validate(draft, max_ttl_us=parse_duration(context.policy.max_ttl))
    texts = {"claim": checked.claim, "place": claim.place, "pointers": [pointer.ref for pointer in checked.pointers]}
    check_visible(texts)
    check_no_secrets(texts, rules=context.policy.secrets)
    if problem := text_problem(checked.claim):
        raise FieldValue(f"The claim may not be quoted: {problem}.", field="claim")
    prepared = prepare(
        checked,
        caller=context.caller,
        policy=context.policy,
        limits=limits,
        evidence=context.evidence,
        repositories=context.project_files.repositories,
        origin="imported",
    )
    if prepared.checked.scope != "project":
        raise ScopeForbidden(field="confidence", limit=context.policy.floor("project"), used=checked.confidence)
    learned = Learned(
        source=claim.source,
        at=claim.place or _place(claim.ref),
        commit=commit,
        since=day_of(claim.since_s) if claim.since_s else "",
        key=claim.key,
    )
    return LearnableEngram(prepared=prepared, learned=learned)


def _place(ref: str) -> str:
    """Return the place of a ref as people call it: a path, or the beginning of a commit's id."""
    address = parse_ref(ref)
    if isinstance(address, DiffAddress):
        return address.head[:10]
    return str(getattr(address, "path", ref))


def _ttl(context: Context) -> str:
    """Return the ttl of what is learned: half a year, or less where the policy allows only less."""
    max_us = parse_duration(context.policy.max_ttl)
    return LEARNED_TTL if parse_duration(LEARNED_TTL) <= max_us else print_duration(max_us)
