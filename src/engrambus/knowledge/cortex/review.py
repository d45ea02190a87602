"""The rules of review: who sees a contribution, who decides on it, and what becomes of an accepted one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal

import msgspec

from engrambus.core import Randomness, digest, estimate_tokens, only_beginning, print_time
from engrambus.errors import ContributionDecided, ContributionNotFound, NotYourDescendant, RoleForbidden
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.cortex.episodes import expiry, free_slug, kept_fact
from engrambus.knowledge.cortex.memory_engrams import shorten_to_claim
from engrambus.knowledge.cortex.nearest import nearest_pins
from engrambus.knowledge.cortex.ports import CortexView
from engrambus.knowledge.cortex.text_rules import slug_of
from engrambus.knowledge.cortex.values import (
    UNDECIDED,
    WAITING,
    Acceptance,
    Contribution,
    ContributionMoved,
    Episode,
    Status,
    apply_move,
)
from engrambus.knowledge.engrams import (
    EngramsUsed,
    PreparedEngram,
    PutBatch,
    check_own_words,
    hash_keys,
    put_or_confirm,
    used_facts,
    validate,
)
from engrambus.policy import ADMIN, Caller, check_descends, visible_spaces

MAX_SEARCHED = 1000
"""Newest contributions that are searched for the beginning of an id."""
PAGE_SIZE = 100
UNVERIFIED = "conflict/unverified"
"""The category of accepted contributions that contradicted a pin."""


class AcceptanceTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The properties a parent gives to the episode made from a contribution."""

    kind: str
    importance: float | None
    """None takes the contribution's confidence."""
    pinned: bool
    lifetime_us: int | None
    claims: tuple[str, ...] = ()
    """The parts of its content that become an engram each; none if it is not divided."""
    max_ttl_us: int = 0
    """The project's limit of the lifetime of engrams."""


def may_see(view: CortexView, contribution: Contribution, caller: Caller) -> bool:
    """True for a contribution of the caller or a descendant; the admin sees all."""
    if caller.role == ADMIN:
        return True
    run, _, name = contribution.from_session.rpartition("/")
    # The admin is not an agent of the run, so it has no place in the tree of parents.
    if run != caller.run.run_id or name == ADMIN:
        return False
    try:
        check_descends(view, caller, name, "id")
    except NotYourDescendant:
        return False
    return True


def visible_part(view: CortexView, contribution: Contribution, caller: Caller) -> Contribution:
    """Add the engrams it used, and remove from `similar_to` the contributions that the caller may not see."""
    similar = [view.contribution(name) for name in contribution.dedupe.similar_to]
    visible = tuple(item.contribution_id for item in similar if item is not None and may_see(view, item, caller))
    return msgspec.structs.replace(
        contribution,
        dedupe=msgspec.structs.replace(contribution.dedupe, similar_to=visible),
        used=view.used_in("contribution", contribution.contribution_id),
        review_used=view.used_in("review", contribution.contribution_id),
        # decision 77: who decides sees the nearest pins, because the rules find less than half of what contradicts
        nearest=nearest_pins(view, visible_spaces(caller), contribution.content)
        if contribution.status in UNDECIDED
        else (),
    )


def find_contribution(view: CortexView, contribution_id: str, caller: Caller) -> Contribution:
    """Return a contribution; one that the caller may not see looks absent."""
    contribution = view.contribution(contribution_id)
    if contribution is None:
        seen = visible_contributions(view, "all", caller=caller, thread=None, after=None)
        full_id = only_beginning(contribution_id, (item.contribution_id for item in islice(seen, MAX_SEARCHED)))
        contribution = view.contribution(full_id) if full_id is not None else None
    if contribution is None or not may_see(view, contribution, caller):
        raise ContributionNotFound(field="id")
    return contribution


def visible_contributions(
    view: CortexView, status: Status | Literal["all"] | None, *, caller: Caller, thread: str | None, after: str | None
) -> Iterator[Contribution]:
    """Yield the contributions the caller may see, the newest first; without a status, those that wait for review."""
    last, page_is_full = after, True
    while page_is_full:
        page = view.contributions(None if status == "all" else status, thread=thread, limit=PAGE_SIZE, before=last)
        for contribution in page:
            last = contribution.contribution_id
            if (status is not None or contribution.status in WAITING) and may_see(view, contribution, caller):
                yield contribution
        page_is_full = len(page) == PAGE_SIZE


def accept(
    view: CortexView,
    contribution_id: str,
    terms: AcceptanceTerms,
    *,
    pointers: tuple[Pointer, ...],
    prepared: Sequence[PreparedEngram],
    caller: Caller,
    randomness: Randomness,
    used: Sequence[str] = (),
) -> tuple[list[Any], Contribution]:
    """Make an episode of a contribution, and engrams where it has evidence or is to be divided."""
    contribution = _find_decidable(view, contribution_id, caller)
    check_own_words(view, contribution.content, caller, view.used_in("contribution", contribution_id))
    episode = _accepted_episode(view, contribution, terms, pointers, caller)
    batch, puts, ids = PutBatch(), [], []
    # Without other evidence, the memory itself is what its parts point at.
    for item in prepared or memory_atoms(episode, terms):
        # decision 37: a claim that repeats an engram confirms it instead of adding another.
        put, engram = put_or_confirm(view, item, caller=caller, randomness=randomness, source="sam", batch=batch)
        puts += [put] if put else []
        ids.append(engram.id)
    fact = _moved(contribution, "accepted", caller, memory_id=episode.memory_id, atoms=tuple(dict.fromkeys(ids)))
    facts: list[Any] = [fact, kept_fact(episode, caller), *puts]
    facts += used_facts(caller, "review", contribution_id, used)
    return facts, _decided(view, contribution, fact, caller, used)


def reject(
    view: CortexView, contribution_id: str, reason: str, *, caller: Caller, used: Sequence[str] = ()
) -> tuple[list[ContributionMoved | EngramsUsed], Contribution]:
    """Reject a contribution of a descendant."""
    contribution = _find_decidable(view, contribution_id, caller)
    fact = _moved(contribution, "rejected", caller, reason=reason)
    facts: list[ContributionMoved | EngramsUsed] = [fact, *used_facts(caller, "review", contribution_id, used)]
    return facts, _decided(view, contribution, fact, caller, used)


def _decided(
    view: CortexView, contribution: Contribution, fact: ContributionMoved, caller: Caller, used: Sequence[str]
) -> Contribution:
    decided = visible_part(view, apply_move(contribution, fact, view.as_of), caller)
    return msgspec.structs.replace(decided, review_used=tuple(used))


def withdraw(view: CortexView, contribution_id: str, *, caller: Caller) -> tuple[list[ContributionMoved], Contribution]:
    """Withdraw a contribution of the caller's own."""
    contribution = find_contribution(view, contribution_id, caller)
    if contribution.from_session != caller.full_name:
        raise ContributionNotFound(field="id")
    _check_undecided(contribution)
    fact = _moved(contribution, "withdrawn", caller)
    return [fact], visible_part(view, apply_move(contribution, fact, view.as_of), caller)


def evidence_pointers(contribution: Contribution) -> tuple[Pointer, ...]:
    """Return the distinct pointers of a contribution's evidence."""
    return tuple(dict.fromkeys(item.pointer for item in contribution.evidence if item.pointer is not None))


def memory_atoms(episode: Episode, terms: AcceptanceTerms) -> list[PreparedEngram]:
    """Return an engram that points at a memory for each part of its text."""
    pointer = Pointer(type="sam", ref=episode.ref, digest=digest(episode.text.encode()))
    atoms = []
    for claim in terms.claims:
        checked = validate(_draft(claim, (pointer,), episode.confidence or 0.0), max_ttl_us=terms.max_ttl_us)
        atoms.append(
            PreparedEngram(
                checked=checked,
                pointers=(pointer,),
                pointed_tokens=estimate_tokens(episode.text),
                keys=hash_keys(claim, [pointer.ref], checked.tags),
                tokens=estimate_tokens(claim),
            )
        )
    return atoms


def engram_drafts(
    contribution: Contribution, pointers: tuple[Pointer, ...], claims: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the engrams that tell the team about an accepted contribution, to be validated like any other."""
    texts = claims or (shorten_to_claim(contribution.content),)
    return [_draft(text, pointers, contribution.confidence) for text in texts]


def _draft(claim: str, pointers: tuple[Pointer, ...], confidence: float) -> dict[str, Any]:
    return {
        "claim": claim,
        "kind": "fact",
        "pointers": [{"type": pointer.type, "ref": pointer.ref} for pointer in pointers],
        "confidence": confidence,
        "scope": "project",
    }


def _accepted_episode(
    view: CortexView,
    contribution: Contribution,
    terms: AcceptanceTerms,
    pointers: tuple[Pointer, ...],
    caller: Caller,
) -> Episode:
    categories = list(contribution.proposed_categories)
    if contribution.conflict_check.status != "clean":
        categories.append(UNVERIFIED)
    return Episode(
        kind=terms.kind,
        # decision 26: an accepted contribution never replaces an episode, so it gets a slug of its own.
        slug=free_slug(view, terms.kind, slug_of(contribution.content)),
        version=1,
        text=contribution.content,
        categories=tuple(dict.fromkeys(categories)),
        importance=contribution.confidence if terms.importance is None else terms.importance,
        confidence=contribution.confidence,
        pinned=terms.pinned,
        created_us=view.as_of,
        expires_us=expiry(view.as_of, terms.lifetime_us),
        by=contribution.from_session,
        pointers=pointers,
        acceptance=Acceptance(
            contribution_id=contribution.contribution_id,
            accepted_by=caller.full_name,
            accepted_at=print_time(view.as_of),
        ),
    )


def _find_decidable(view: CortexView, contribution_id: str, caller: Caller) -> Contribution:
    contribution = find_contribution(view, contribution_id, caller)
    if contribution.from_session == caller.full_name and caller.role != ADMIN:
        raise RoleForbidden("Only a parent of its author decides on a contribution.", field="id")
    _check_undecided(contribution)
    return contribution


def _check_undecided(contribution: Contribution) -> None:
    if contribution.status not in UNDECIDED:
        status = contribution.status
        raise ContributionDecided(f"The contribution is already {status}.", field="id", used=status)


def _moved(
    contribution: Contribution,
    status: Status,
    caller: Caller,
    *,
    reason: str = "",
    memory_id: str | None = None,
    atoms: tuple[str, ...] = (),
) -> ContributionMoved:
    return ContributionMoved(
        run=caller.run.run_id,
        by=caller.full_name,
        contribution_id=contribution.contribution_id,
        status=status,
        reason=reason,
        memory_id=memory_id,
        atoms=atoms,
    )
