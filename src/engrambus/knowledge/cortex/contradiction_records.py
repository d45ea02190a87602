"""Contradictions that wait for a decision: recorded with a put, decided by a person or a parent (decision 77).

Each rule takes a view of the store under the write lock and returns facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from engrambus.core import Randomness, new_ulid, only_beginning, parse_duration, print_duration, print_time
from engrambus.errors import (
    ClaimContradicts,
    ClaimNear,
    ContradictionDecided,
    ContradictionNotFound,
    RoleForbidden,
    ScopeForbidden,
)
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.cortex.episodes import kept_fact
from engrambus.knowledge.cortex.nearest import MAX_NEAR, EarlierClaim, names_memory
from engrambus.knowledge.cortex.ports import CortexReads
from engrambus.knowledge.cortex.review import UNVERIFIED
from engrambus.knowledge.cortex.values import (
    CHECKED_KINDS,
    Contradiction,
    ContradictionRecorded,
    ContradictionSettled,
    Episode,
    Keep,
    settle,
)
from engrambus.knowledge.engrams import (
    DEFAULTS,
    KEY_FORMAT,
    Engram,
    EngramForgotten,
    EngramPut,
    EngramReplaced,
    EngramView,
    Provenance,
    StoredEngram,
    hash_keys,
    may_decide_on,
    replaced_fact,
)
from engrambus.policy import ADMIN, PROJECT_SPACE, Caller, LimitChecks, Policy, descends, space_of, visible_spaces

MAX_SEARCHED = 1000
"""Newest contradictions that are searched for the beginning of an id."""
MAX_POINTERS_EACH = 6
"""Pointers of each side that the risk engram has: an engram has at most twelve."""
MAX_QUOTED_CHARS = 190
MAX_TOLD_CHARS = 120
MAX_TOLD = 6
"""Near claims that the answer to one call tells of."""


class ContradictionView(EngramView, CortexReads, Protocol):
    """The part of a store that the rules of contradictions read."""


def record_contradictions(
    view: ContradictionView,
    facts: Sequence[Any],
    near: Mapping[str, Sequence[EarlierClaim]],
    *,
    caller: Caller,
    policy: Policy,
    limits: LimitChecks,
    randomness: Randomness,
) -> list[Any]:
    """Return what follows from the facts of a put: contradictions of its new claims, each with its risk engram.

    `near` are the earlier claims near each new one, by its text. The author is shown them. Contradictions that
    wait are closed where one of their claims was replaced.
    """
    replaced = {fact.id for fact in facts if isinstance(fact, EngramReplaced)}
    more: list[Any] = []
    notices: list[ClaimNear | ClaimContradicts] = []
    for fact in facts:
        if not isinstance(fact, EngramPut) or fact.engram.kind not in CHECKED_KINDS:
            continue
        for claim in near.get(fact.engram.claim, ())[:MAX_NEAR]:
            if claim.near.id in replaced or _live_side(view, claim.near.id, caller) is None:
                continue
            if claim.near.verdict == "clean":
                notices.append(_near_notice(claim))
                continue
            recorded, risk = _recorded(view, fact, claim, caller, policy, randomness)
            more += [risk, recorded]
            notices.append(_contradiction_notice(claim, recorded))
    notices.sort(key=lambda notice: isinstance(notice, ClaimNear))
    for notice in notices[:MAX_TOLD]:
        limits.applied(notice)
    return [*more, *close_contradictions(view, facts, caller)]


def close_contradictions(view: ContradictionView, facts: Sequence[Any], caller: Caller) -> list[Any]:
    """Return the facts that close waiting contradictions of which the given facts end one claim."""
    ended = [fact.id for fact in facts if isinstance(fact, EngramReplaced | EngramForgotten)]
    closed: dict[str, list[Any]] = {}
    for engram_id in ended:
        for waiting in view.waiting_contradictions(engram_id):
            if waiting.risk == engram_id:
                _check_may_end_risk(caller, waiting)
            elif waiting.contradiction_id not in closed:
                keep: Keep = "old" if engram_id == waiting.newer else "new"
                closed[waiting.contradiction_id] = [
                    _settled(waiting, keep, "One of the two was replaced or forgotten.", caller),
                    *_forget_risk(view, waiting, caller, ended),
                ]
    return [fact for group in closed.values() for fact in group]


def _check_may_end_risk(caller: Caller, waiting: Contradiction) -> None:
    """Refuse that an agent takes away the risk that stands for an open contradiction, such as its own."""
    if caller.role != ADMIN:
        raise RoleForbidden(
            "This risk stands for a contradiction that nobody has decided yet.",
            field="replaces",
            used=waiting.risk,
            limit=waiting.contradiction_id,
            hint="A parent or a person decides it with `contradiction.decide`; the risk ends with it.",
        )


def decide_between(
    view: ContradictionView, contradiction_id: str, keep: Keep, reason: str, *, caller: Caller, limits: LimitChecks
) -> tuple[list[Any], Contradiction]:
    """Decide which of two claims holds: the other one is replaced by it; `both` only closes the contradiction."""
    record = find_contradiction(view, contradiction_id, caller)
    if record.keep is not None:
        if record.keep == keep:
            return [], record
        raise ContradictionDecided(
            f"It was decided by {record.decided_by}: {record.keep}.", field="id", used=record.keep
        )
    newer, older = _live_side(view, record.newer, caller), _live_side(view, record.older, caller)
    author = newer.engram.provenance.created_by if isinstance(newer, StoredEngram) else record.found_by
    if not _may_change_both(view, caller, newer, older):
        _check_may_settle(view, caller, author)
    changes: list[Any] = []
    if newer is not None and older is not None:
        if keep == "new":
            changes = _replace_older(view, newer, older, caller)
        elif keep == "old":
            changes = [_replaced(view, newer, record.older, caller)]
    settled = _settled(record, keep, reason, caller)
    others = [fact for fact in close_contradictions(view, changes, caller) if not _is_of(fact, record)]
    facts = [*changes, settled, *_forget_risk(view, record, caller, ()), *others]
    return facts, settle(record, settled, view.as_of)


def find_contradiction(view: ContradictionView, contradiction_id: str, caller: Caller) -> Contradiction:
    """Return a contradiction; one that the caller may not see looks absent."""
    record = view.contradiction(contradiction_id)
    if record is None:
        newest = view.contradictions(waiting=False, limit=MAX_SEARCHED, before=None)
        seen = (item.contradiction_id for item in newest if may_see_contradiction(view, item, caller))
        full_id = only_beginning(contradiction_id, seen)
        record = view.contradiction(full_id) if full_id is not None else None
    if record is None or not may_see_contradiction(view, record, caller):
        raise ContradictionNotFound(field="id")
    return record


def may_see_contradiction(view: ContradictionView, record: Contradiction, caller: Caller) -> bool:
    """True if the caller sees both claims of a contradiction, or what is left of them."""
    spaces = visible_spaces(caller)
    return record.space in spaces and all(
        names_memory(side) or view.find(spaces, side) is not None or view.find_past(spaces, side) is not None
        for side in (record.newer, record.older)
    )


def is_waiting(view: ContradictionView, record: Contradiction, caller: Caller) -> bool:
    """True if it is undecided and both claims are still live."""
    return record.keep is None and all(
        _live_side(view, side, caller) is not None for side in (record.newer, record.older)
    )


def _may_change_both(
    view: EngramView, caller: Caller, newer: StoredEngram | Episode | None, older: StoredEngram | Episode | None
) -> bool:
    """True if the caller could let either claim replace the other by putting it again, such as two of its own."""
    return (
        isinstance(newer, StoredEngram)
        and isinstance(older, StoredEngram)
        and may_decide_on(view, caller, newer.engram)
        and may_decide_on(view, caller, older.engram)
    )


def _check_may_settle(view: EngramView, caller: Caller, author: str) -> None:
    run, _, name = author.rpartition("/")
    is_parent = run == caller.run.run_id and name not in (caller.name, ADMIN) and descends(view, caller, name)
    if caller.role != ADMIN and not is_parent:
        raise RoleForbidden(
            f"A parent of the author of the newer claim, {author}, or a person decides a contradiction.",
            field="id",
            limit=author,
            used=caller.full_name,
        )


def _replace_older(
    view: ContradictionView, newer: StoredEngram | Episode, older: StoredEngram | Episode, caller: Caller
) -> list[Any]:
    if not isinstance(newer, StoredEngram):
        raise ContradictionNotFound(field="id")  # the newer side is always an engram
    if isinstance(older, StoredEngram):
        if not may_decide_on(view, caller, older.engram):
            raise RoleForbidden(
                "The older claim is by an agent that is not below you, so a person lets the newer one replace it.",
                field="keep",
                limit=older.engram.provenance.created_by,
                hint="Keep old or both, or leave it to a person.",
            )
        if older.space == PROJECT_SPACE and newer.space != PROJECT_SPACE:
            raise ScopeForbidden(
                "Only this run sees the newer claim, so it cannot replace one of the project.",
                field="keep",
                limit="project",
                used=newer.engram.scope,
                hint=f"Promote it first: `engram.promote` {newer.engram.id}.",
            )
        return [_replaced(view, older, newer.engram.id, caller)]
    if caller.role != ADMIN:
        raise RoleForbidden("Only a person changes a pinned memory by such a decision.", field="keep", limit=ADMIN)
    # decision 26: a memory is replaced by its next version; pointers to the earlier one still lead to its words
    episode = msgspec.structs.replace(
        older,
        version=older.version + 1,
        text=newer.engram.claim,
        pointers=newer.engram.pointers,
        created_us=view.as_of,
        by=caller.full_name,
        acceptance=None,
    )
    return [kept_fact(episode, caller)]


def _replaced(view: EngramView, side: StoredEngram | Episode, by: str, caller: Caller) -> EngramReplaced:
    if not isinstance(side, StoredEngram):
        raise ContradictionNotFound(field="id")
    return replaced_fact(side, by, caller, pinned=side.ordinal in view.pinned((side.space,)))


def _live_side(view: ContradictionView, claim_id: str, caller: Caller) -> StoredEngram | Episode | None:
    """Return a claim that still holds: a live engram, or the pinned last version of a memory."""
    if not names_memory(claim_id):
        return view.find(visible_spaces(caller), claim_id)
    _, kind, rest = claim_id.split(":", 2)
    episode = view.episode(kind, rest.partition("@")[0])
    if episode is None or episode.ref != claim_id or not episode.pinned or not episode.is_live(view.as_of):
        return None
    return episode


def _recorded(
    view: ContradictionView,
    put: EngramPut,
    claim: EarlierClaim,
    caller: Caller,
    policy: Policy,
    randomness: Randomness,
) -> tuple[ContradictionRecorded, EngramPut]:
    older = _live_side(view, claim.near.id, caller)
    newer_space = space_of(put.engram.scope, caller.run)
    run_space = space_of("run", caller.run)
    # Whoever sees the risk reads both claims, so it goes no further than the narrower of them.
    is_narrow = run_space in (newer_space, older.space if isinstance(older, StoredEngram) else PROJECT_SPACE)
    risk = _risk_engram(view, put.engram, claim, "run" if is_narrow else "project", caller, policy, randomness)
    recorded = ContradictionRecorded(
        contradiction_id=new_ulid(view.as_of, randomness),
        run=caller.run.run_id,
        by=caller.full_name,
        newer=put.engram.id,
        older=claim.near.id,
        verdict=claim.near.verdict,
        risk=risk.engram.id,
        space=run_space if is_narrow else PROJECT_SPACE,
    )
    return recorded, risk


def _risk_engram(
    view: EngramView,
    newer: Engram,
    claim: EarlierClaim,
    scope: Literal["run", "project"],
    caller: Caller,
    policy: Policy,
    randomness: Randomness,
) -> EngramPut:
    """Return the risk that points at the sources of both claims."""
    text = f"May contradict: '{_quote(newer.claim)}' against '{_quote(claim.near.claim)}'."
    pointers = _distinct([*newer.pointers[:MAX_POINTERS_EACH], *claim.pointers[:MAX_POINTERS_EACH]])
    keys = hash_keys(text, [pointer.ref for pointer in pointers], (UNVERIFIED,))
    lifetime_us = min(parse_duration(DEFAULTS["risk"].ttl), parse_duration(policy.max_ttl))
    engram = Engram(
        id=new_ulid(view.as_of, randomness),
        kind="risk",
        claim=text,
        pointers=pointers,
        confidence=DEFAULTS["risk"].confidence,
        ttl=print_duration(lifetime_us),
        scope=scope,
        tags=(UNVERIFIED,),
        hash_keys=keys.public,
        provenance=Provenance(created_at=print_time(view.as_of), created_by=caller.full_name, source="tool"),
    )
    return EngramPut(
        engram=engram,
        run=caller.run.run_id,
        expires_at=view.as_of + lifetime_us,
        more_keys=keys.extra,
        key_format=KEY_FORMAT,
    )


def _distinct(pointers: Sequence[Pointer]) -> tuple[Pointer, ...]:
    return tuple({pointer.ref: pointer for pointer in pointers}.values())


def _quote(claim: str, max_chars: int = MAX_QUOTED_CHARS) -> str:
    """Return the beginning of a claim without ends of sentences: a claim has three sentences at most."""
    plain = " ".join(claim.split()).rstrip(".!? ").replace(". ", "; ").replace("! ", "; ").replace("? ", "; ")
    return plain if len(plain) <= max_chars else plain[: max_chars - 1].rstrip() + "…"


def _forget_risk(
    view: EngramView, record: Contradiction, caller: Caller, ended: Sequence[str]
) -> list[EngramForgotten]:
    """Return the fact that the risk ends with its contradiction, unless it has ended already."""
    stored = view.find((record.space,), record.risk)
    if stored is None or record.risk in ended:
        return []
    return [EngramForgotten(id=record.risk, space=stored.space, by=caller.full_name)]


def _settled(record: Contradiction, keep: Keep, reason: str, caller: Caller) -> ContradictionSettled:
    return ContradictionSettled(
        contradiction_id=record.contradiction_id,
        run=caller.run.run_id,
        by=caller.full_name,
        keep=keep,
        reason=reason,
        space=record.space,
    )


def _is_of(fact: ContradictionSettled | EngramForgotten, record: Contradiction) -> bool:
    if isinstance(fact, ContradictionSettled):
        return fact.contradiction_id == record.contradiction_id
    return fact.id == record.risk


def _name(claim: EarlierClaim) -> str:
    pinned = "pinned " if claim.near.pinned else ""
    return f"{pinned}{claim.near.kind} {claim.near.id}: '{_quote(claim.near.claim, MAX_TOLD_CHARS)}'"


def _near_notice(claim: EarlierClaim) -> ClaimNear:
    return ClaimNear(f"Compare the {_name(claim)}.", field="claim", used=claim.near.id)


def _contradiction_notice(claim: EarlierClaim, recorded: ContradictionRecorded) -> ClaimContradicts:
    return ClaimContradicts(
        f"May contradict the {_name(claim)}. Waits for a decision: {recorded.contradiction_id}.",
        field="claim",
        limit=recorded.contradiction_id,
        used=claim.near.id,
        hint="A parent or a person decides with `contradiction.decide`; both claims stand until then.",
    )
