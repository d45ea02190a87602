"""The rule of adopting memories: those of another project become contributions that wait for a person (decision 68)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from engrambus.core import print_time
from engrambus.errors import FieldType, FieldValue
from engrambus.knowledge.cortex.ports import CortexView
from engrambus.knowledge.cortex.submission import (
    ContributionDraft,
    RedactedDraft,
    check_draft,
    compare_with_pins,
    find_similar,
    redact_draft,
)
from engrambus.knowledge.cortex.text_rules import MAX_CATEGORIES, MAX_LABEL_CHARS, MAX_TEXT_CHARS
from engrambus.knowledge.cortex.values import ConflictCheck, Contribution, ContributionSubmitted, Dedupe, Security
from engrambus.knowledge.engrams import Adoption, author_name, id_from_elsewhere
from engrambus.policy import Caller
from engrambus.policy.secrets import SecretRules

THREAD = "adopted"
"""The thread of contributions that came from elsewhere."""
DEFAULT_CONFIDENCE = 0.5


class ForeignMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory or an accepted contribution as another project has it; nothing in it is checked."""

    key: str
    """What that project names it by."""
    text: Any
    categories: Any = ()
    confidence: Any = None
    by: Any = None
    made_us: int = 0
    pinned: bool = False


class AdoptableMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory of another project that keeps the rules of a contribution, without secrets."""

    redacted: RedactedDraft
    foreign: ForeignMemory


def check_foreign_memory(foreign: ForeignMemory, rules: SecretRules) -> AdoptableMemory:
    """Check a memory of another project by the rules of a contribution, and remove its secrets."""
    if not isinstance(foreign.text, str):
        raise FieldType("A memory is a text.", field="content", limit="string")
    if len(foreign.text) > MAX_TEXT_CHARS:
        raise FieldValue("The memory is too long.", field="content", limit=MAX_TEXT_CHARS, used=len(foreign.text))
    categories = foreign.categories if isinstance(foreign.categories, list | tuple) else ()
    confidence = foreign.confidence
    is_confidence = isinstance(confidence, int | float) and not isinstance(confidence, bool) and 0 <= confidence <= 1
    draft = ContributionDraft(
        content=foreign.text,
        confidence=float(confidence) if is_confidence else DEFAULT_CONFIDENCE,
        thread_id=THREAD,
        categories=tuple(
            name for name in categories[:MAX_CATEGORIES] if isinstance(name, str) and 0 < len(name) <= MAX_LABEL_CHARS
        ),
        evidence=(),
        inputs=(),
    )
    check_draft(draft)
    return AdoptableMemory(redacted=redact_draft(draft, rules), foreign=foreign)


def adopt_memories(
    view: CortexView, items: Sequence[AdoptableMemory], *, origin: str, caller: Caller
) -> tuple[list[ContributionSubmitted], list[str]]:
    """Submit memories of another project for review, without those that were submitted before; return their ids."""
    facts: dict[str, ContributionSubmitted] = {}
    for item in items:
        contribution_id = id_from_elsewhere(origin, item.foreign.key, item.foreign.made_us)
        if contribution_id not in facts and view.contribution(contribution_id) is None:
            contribution = _contribution(view, item, contribution_id, origin, caller)
            facts[contribution_id] = ContributionSubmitted(
                run=caller.run.run_id, agent=caller.name, contribution=contribution
            )
    return list(facts.values()), list(facts)


def _contribution(
    view: CortexView, item: AdoptableMemory, contribution_id: str, origin: str, caller: Caller
) -> Contribution:
    redacted, foreign, now = item.redacted, item.foreign, print_time(view.as_of)
    verdict, against = compare_with_pins(view, redacted.draft.content)
    return Contribution(
        contribution_id=contribution_id,
        submitted_at=now,
        # The person who adopts it: no agent sees the contributions of a person, or decides on them.
        from_session=caller.full_name,
        thread_id=redacted.draft.thread_id,
        content=redacted.draft.content,
        proposed_categories=redacted.draft.categories,
        confidence=redacted.draft.confidence,
        evidence=(),
        inputs_used=(),
        conflict_check=ConflictCheck(status=verdict, against=against),
        dedupe=Dedupe(
            content_hash=redacted.content_hash,
            similarity_key=redacted.similarity_key,
            similar_to=tuple(find_similar(view, redacted)),
        ),
        security=Security(redacted=bool(redacted.redaction_notes), redaction_notes=redacted.redaction_notes),
        status="submitted" if verdict == "clean" else "flagged",
        untrusted=Adoption(
            origin=origin,
            by=author_name(foreign.by),
            made_at=print_time(min(foreign.made_us, view.as_of)),
            adopted_at=now,
            pinned=foreign.pinned,
        ),
    )
