"""Promotion beyond the project: a request that waits for an admin, and the admin's answer (decision 50).

Each rule takes a view of the store under the write lock and returns facts and an answer.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from engrambus.core import Randomness, new_ulid, only_beginning
from engrambus.errors import (
    ApprovalPending,
    EngramNotFound,
    EngramUnconfirmed,
    EngramUntrusted,
    EvidenceUnresolved,
    IdTaken,
    PromotionDecided,
    RequestNotFound,
)
from engrambus.evidence.pointers import Pointer, name_repository
from engrambus.knowledge.engrams.facts import EngramPromoted, PromotionAnswered, PromotionRequested
from engrambus.knowledge.engrams.ports import EngramView, StoredEngram
from engrambus.knowledge.engrams.values import Engram, has_evidence, unresolved_refs
from engrambus.policy import (
    ADMIN,
    SHARED_SCOPES,
    UNTRUSTED_SPACE,
    Caller,
    Policy,
    check_may_promote,
    confirmed_space,
    wider_space,
)

MAX_SEARCHED = 1000
"""Newest requests that are searched for the beginning of an id."""
MAX_LISTED_REFS = 3
"""Unresolved pointers that a refusal names."""


class StoredPromotion(msgspec.Struct, frozen=True, kw_only=True):
    """A request to promote an engram, and its answer."""

    request: PromotionRequested
    asked_us: int
    answer: PromotionAnswered | None = None
    """None while it waits for an admin."""
    answered_us: int | None = None


class PromotionReads(Protocol):
    """Reads of the requests to promote engrams beyond the project."""

    def promotion(self, request_id: str) -> StoredPromotion | None:
        """Return the request with this id."""
        ...

    def waiting_promotion(self, engram_id: str) -> StoredPromotion | None:
        """Return the newest request for an engram that has no answer yet."""
        ...

    def promotions(self, *, waiting: bool, limit: int) -> list[StoredPromotion]:
        """Return requests, newest first; only those without an answer if `waiting`."""
        ...


class PromotionView(EngramView, PromotionReads, Protocol):
    """The reads of a store that the rules of approval need."""


def needs_approval(caller: Caller, scope: str) -> bool:
    """True if an admin must approve before an engram of this caller reaches a scope."""
    # decision 50: org and global cross projects; an admin's own promotion is an approval by itself
    return scope in SHARED_SCOPES and caller.role != ADMIN


def request_promotion(
    view: PromotionView, engram: Engram, space: str, scope: str, *, caller: Caller, randomness: Randomness
) -> tuple[list[PromotionRequested], str]:
    """Ask an admin to promote an engram; return the id of the request, or of one that waits already."""
    waiting = view.waiting_promotion(engram.id)
    if waiting is not None and waiting.request.scope == scope:
        return [], waiting.request.request_id
    request_id = new_ulid(view.as_of, randomness)
    fact = PromotionRequested(
        request_id=request_id, id=engram.id, space=space, scope=scope, run=caller.run.run_id, by=caller.full_name
    )
    return [fact], request_id


def pending_notice(scope: str, stored_scope: str, request_id: str | None = None) -> ApprovalPending:
    """Return the notice about an engram that waits for an admin."""
    named = f" (request {request_id})" if request_id else ""
    return ApprovalPending(
        f"Promotion to '{scope}' is waiting for approval{named}; until then its scope is '{stored_scope}'.",
        field="scope",
        limit=stored_scope,
        used=scope,
        hint="An admin answers with `promotion.approve` or `promotion.decline`.",
    )


def pointers_for(engram: Engram, scope: str, repository: str | None) -> tuple[Pointer, ...]:
    """Return an engram's pointers as a shared scope needs them, with their repository's name; empty if unchanged.

    `repository` is the name of the project's own, which has the pointers of an engram of the project.
    """
    # decision 55: in another project a path without a repository would mean a file of that project
    if repository is None or scope not in SHARED_SCOPES or engram.scope in SHARED_SCOPES:
        return ()
    named = tuple(name_repository(pointer, repository) for pointer in engram.pointers)
    return named if named != engram.pointers else ()


def answer_promotion(
    view: PromotionView,
    request_id: str,
    *,
    approved: bool,
    caller: Caller,
    policy: Policy,
    repository: str | None = None,
) -> tuple[list[PromotionAnswered | EngramPromoted], StoredPromotion]:
    """Approve a request, which promotes the engram, or decline it; a repeated answer changes nothing."""
    stored = view.promotion(request_id)
    if stored is None:
        newest = view.promotions(waiting=False, limit=MAX_SEARCHED)
        full_id = only_beginning(request_id, (item.request.request_id for item in newest))
        stored = view.promotion(full_id) if full_id is not None else None
    if stored is None:
        raise RequestNotFound(field="id")
    request_id = stored.request.request_id
    if stored.answer is not None:
        if stored.answer.approved == approved:
            return [], stored
        decided = "approved" if stored.answer.approved else "declined"
        raise PromotionDecided(f"The request was {decided} by {stored.answer.by}.", field="id", used=decided)
    request = stored.request
    answer = PromotionAnswered(request_id=request_id, approved=approved, by=caller.full_name, run=request.run)
    facts: list[PromotionAnswered | EngramPromoted] = [answer]
    if approved:
        facts.append(_promoted(view, request, caller, policy, repository))
    return facts, msgspec.structs.replace(stored, answer=answer, answered_us=view.as_of)


def check_evidence(engram: Engram, change: str) -> None:
    """Refuse to pin or promote an engram whose pointers are all unresolved."""
    # decision 55: what nobody here can look up is shown as unresolved, and never as something the team stands on
    if not has_evidence(engram):
        refs = unresolved_refs(engram)
        raise EvidenceUnresolved(
            f"No pointer of this engram leads to content that is here, so it cannot be {change}.",
            field="id",
            used=", ".join(refs[:MAX_LISTED_REFS]) + (", …" if len(refs) > MAX_LISTED_REFS else ""),
            hint="Fetch or configure what its pointers name, then `engram.confirm` resolves them.",
        )


def check_trusted(stored: StoredEngram, change: str, field: str = "id") -> None:
    """Refuse to change an engram that was adopted or taken from prose, and that was not confirmed."""
    # decision 68: what came from elsewhere becomes the project's own by a person's decision alone
    if stored.space == UNTRUSTED_SPACE:
        raise EngramUntrusted(
            f"This engram came from elsewhere and no person here has confirmed it, so it cannot be {change}.",
            field=field,
            used=stored.engram.id,
            hint="A person confirms it with `engrambus confirm ID`; an agent puts the claim with evidence of its own.",
        )
    if confirmed_space(stored.space) is not None:
        raise EngramUnconfirmed(
            f"This claim was taken from an agent's prose and is not confirmed, so it cannot be {change}.",
            field=field,
            used=stored.engram.id,
            hint="A parent of its author, or a person, confirms it with `engrambus confirm ID`.",
        )


def answer_waiting(view: PromotionView, engram_id: str, scope: str, caller: Caller) -> list[PromotionAnswered]:
    """Return the approval of a request that an admin's own promotion of the same engram answers."""
    waiting = view.waiting_promotion(engram_id)
    if waiting is None or waiting.request.scope != scope:
        return []
    request = waiting.request
    return [PromotionAnswered(request_id=request.request_id, approved=True, by=caller.full_name, run=request.run)]


def _promoted(
    view: PromotionView, request: PromotionRequested, caller: Caller, policy: Policy, repository: str | None
) -> EngramPromoted:
    check_may_promote(policy, request.scope)
    stored = view.find((request.space,), request.id)
    if stored is None:
        raise EngramNotFound("The engram has expired or was removed since.", field="id", hint="Decline the request.")
    check_evidence(stored.engram, "promoted")
    if view.is_id_taken(wider_space(request.scope), request.id):
        raise IdTaken(field="id", used=request.id)
    return EngramPromoted(
        id=request.id,
        space=request.space,
        scope=request.scope,
        by=request.by,
        approved_by=caller.full_name,
        pointers=pointers_for(stored.engram, request.scope, repository),
    )
