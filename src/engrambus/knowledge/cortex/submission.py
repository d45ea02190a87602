"""The rules of contributing: secrets are removed, then the content is compared with earlier ones and with the pins."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from engrambus.core import Randomness, new_ulid, print_time
from engrambus.knowledge.cortex.contradiction import find_conflicts
from engrambus.knowledge.cortex.nearest import ClaimReads
from engrambus.knowledge.cortex.ports import CortexReads, CortexView
from engrambus.knowledge.cortex.review import visible_part
from engrambus.knowledge.cortex.text_rules import check_label, check_text
from engrambus.knowledge.cortex.values import (
    ConflictCheck,
    Contribution,
    ContributionSubmitted,
    Dedupe,
    EvidenceItem,
    Security,
    Status,
    Verdict,
)
from engrambus.knowledge.engrams import EngramsUsed, count_negations, is_same_statement, numbers, used_facts
from engrambus.knowledge.memory import normalise
from engrambus.policy import PROJECT_SPACE, Caller
from engrambus.policy.secrets import SecretRules, redact

MAX_CONTENT_CHARS = 4_000
MAX_EVIDENCE = 12
"""The number of pointers that an engram may have."""
MAX_EVIDENCE_CHARS = 2_000
MAX_PINS = 1000
MAX_SIMILAR = 8
MAX_COMPARED = 64
"""Contributions with the same similarity key whose words are compared."""


class ContributionDraft(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a contribution, before it has an id, a time and a status."""

    content: str
    confidence: float
    thread_id: str
    categories: tuple[str, ...]
    evidence: tuple[EvidenceItem, ...]
    inputs: tuple[str, ...]


class RedactedDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A draft without secrets, and what it is recognised by."""

    draft: ContributionDraft
    redaction_notes: tuple[str, ...]
    content_hash: str
    similarity_key: str


def check_draft(draft: ContributionDraft) -> None:
    """Refuse a draft with a blank text or control characters, naming the field of the request."""
    check_text(draft.content, "content")
    check_label(draft.thread_id, "thread_id")
    for index, category in enumerate(draft.categories):
        check_label(category, f"proposed_categories[{index}]")
    for index, item in enumerate(draft.evidence):
        check_text(item.value, f"evidence[{index}].value")
    for index, name in enumerate(draft.inputs):
        check_label(name, f"inputs_used[{index}]")


def redact_draft(draft: ContributionDraft, rules: SecretRules) -> RedactedDraft:
    """Remove secrets from every text of a draft."""
    # decision 26: other texts with a secret are refused, but the author of a contribution may not be there any more
    # to send it again.
    notes: list[str] = []

    def clean(text: str, field: str) -> str:
        redacted, secrets = redact(text, rules)
        notes.extend(f"{field}: {secret.kind}" for secret in secrets)
        return redacted

    redacted_draft = ContributionDraft(
        content=clean(draft.content, "content"),
        confidence=draft.confidence,
        thread_id=clean(draft.thread_id, "thread_id"),
        categories=tuple(clean(category, "proposed_categories") for category in draft.categories),
        evidence=tuple(
            msgspec.structs.replace(item, value=clean(item.value, f"evidence[{index}].value"))
            for index, item in enumerate(draft.evidence)
        ),
        inputs=tuple(clean(name, "inputs_used") for name in draft.inputs),
    )
    return RedactedDraft(
        draft=redacted_draft,
        redaction_notes=tuple(dict.fromkeys(notes)),
        content_hash=content_hash(redacted_draft.content),
        similarity_key=similarity_key(redacted_draft.content),
    )


def submit(
    view: CortexView,
    redacted: RedactedDraft,
    evidence: tuple[EvidenceItem, ...],
    *,
    caller: Caller,
    randomness: Randomness,
    dedupe_window_us: int,
    used: Sequence[str] = (),
) -> tuple[list[ContributionSubmitted | EngramsUsed], Contribution]:
    """Record a contribution: a duplicate, flagged for contradicting a pin, or waiting for review."""
    draft = redacted.draft
    duplicate_of = view.find_duplicate(caller.full_name, redacted.content_hash, view.as_of - dedupe_window_us)
    verdict, against = compare_with_pins(view, draft.content)
    status: Status = "duplicate" if duplicate_of else "flagged" if verdict != "clean" else "submitted"
    similar = find_similar(view, redacted)
    contribution = Contribution(
        contribution_id=new_ulid(view.as_of, randomness),
        submitted_at=print_time(view.as_of),
        from_session=caller.full_name,
        thread_id=draft.thread_id,
        content=draft.content,
        proposed_categories=draft.categories,
        confidence=draft.confidence,
        evidence=evidence,
        inputs_used=draft.inputs,
        conflict_check=ConflictCheck(status=verdict, against=against),
        dedupe=Dedupe(
            content_hash=redacted.content_hash,
            similarity_key=redacted.similarity_key,
            duplicate_of=duplicate_of,
            similar_to=tuple(name for name in similar if name != duplicate_of),
        ),
        security=Security(redacted=bool(redacted.redaction_notes), redaction_notes=redacted.redaction_notes),
        status=status,
    )
    fact = ContributionSubmitted(run=caller.run.run_id, agent=caller.name, contribution=contribution)
    facts: list[ContributionSubmitted | EngramsUsed] = [
        fact,
        *used_facts(caller, "contribution", contribution.contribution_id, used),
    ]
    return facts, msgspec.structs.replace(visible_part(view, contribution, caller), used=tuple(used))


def compare_with_pins(reads: ClaimReads, content: str) -> tuple[Verdict, tuple[str, ...]]:
    """Return the worst verdict of a content against the project's pins, and the ids of those it contradicts."""
    # decision 26: only pins are compared, because they are what the team has said it holds to.
    memories = ((pin.memory_id, pin.text) for pin in reads.pins(limit=MAX_PINS))
    engrams = ((engram.id, engram.claim) for engram in reads.engrams(reads.pinned((PROJECT_SPACE,))))
    return find_conflicts(content, (*memories, *engrams))


def content_hash(content: str) -> str:
    """Return the sha256 of the content trimmed, white space collapsed, lower-cased."""
    return hashlib.sha256(normalise(content).encode()).hexdigest()


def similarity_key(content: str) -> str:
    """Return a key that similar contents share: how often they negate, and their numbers."""
    parts = (str(count_negations(content)), *numbers(content))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def find_similar(view: CortexReads, redacted: RedactedDraft) -> list[str]:
    """Return the ids of earlier contributions that say the same, the newest first."""
    # decision 47: the rule for engrams; the same words in another order are often the opposite
    similar: list[str] = []
    for name in view.similar_contributions(redacted.similarity_key, limit=MAX_COMPARED):
        earlier = view.contribution(name)
        if earlier is not None and is_same_statement(redacted.draft.content, earlier.content):
            similar.append(name)
    return similar[:MAX_SIMILAR]
