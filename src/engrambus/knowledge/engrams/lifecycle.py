"""The rules of an engram after it was put: confirm, forget, promote, pin, and deliver to a shared store.

Each rule takes a view of the store under the write lock and returns facts and an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from engrambus.core import Randomness, parse_duration, print_time
from engrambus.errors import EngramBusError, EngramUnconfirmed, IdTaken, RoleForbidden, ScopeForbidden
from engrambus.evidence.pointers import Evidence, Pointer, Repositories, check_pointer
from engrambus.knowledge.engrams.approvals import (
    PromotionView,
    answer_waiting,
    check_evidence,
    check_trusted,
    needs_approval,
    pending_notice,
    pointers_for,
    request_promotion,
)
from engrambus.knowledge.engrams.facts import (
    EngramConfirmed,
    EngramDelivered,
    EngramForgotten,
    EngramPinned,
    EngramPromoted,
    EngramReceived,
    EngramReplaced,
    EngramTrusted,
    EngramUnpinned,
    PromotionAnswered,
    PromotionRequested,
)
from engrambus.knowledge.engrams.finding import find_engram, find_ever
from engrambus.knowledge.engrams.keys import KEY_FORMAT, hash_keys, renew_keys
from engrambus.knowledge.engrams.line_words import posted_line_keys
from engrambus.knowledge.engrams.ports import EngramReads, EngramView, StoredEngram
from engrambus.knowledge.engrams.postings import is_line_key
from engrambus.knowledge.engrams.repointing import Renewal, check_digests_were_read, needs_lines
from engrambus.knowledge.engrams.values import Engram, has_evidence, unresolved_refs
from engrambus.policy import (
    ADMIN,
    PROJECT_SPACE,
    SHARED_SCOPES,
    UNTRUSTED_SPACE,
    Caller,
    IdentityReads,
    LimitChecks,
    Policy,
    Scope,
    check_descends,
    check_may_promote,
    confirmed_space,
    descends,
    parent_of,
    root_of,
    unconfirmed_space,
    wider_space,
)

PromotionFact: TypeAlias = EngramPromoted | PromotionRequested | PromotionAnswered

MAX_TAGS = 12
"""Most tags that the schema allows an engram."""

_NEXT_SCOPE = {"run": "project", "project": "org", "org": "global"}


class ForgetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    forgotten: bool = True


class ConfirmAnswer(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    votes: int
    """Roots of the agent hierarchy that have confirmed it; an agent and all its descendants are one vote."""
    expires_at: str
    resolved: list[str] = []
    """Refs that were unresolved and whose content is here now."""
    unresolved: list[str] = []
    """Refs whose content is still not here."""
    pointers: list[str] = []
    """Refs it points at from now on, if they are others than before."""
    trusted: bool = False
    """True if it had been adopted from elsewhere, and is one of the project's own from now on."""
    accepted: bool = False
    """True if it had been taken from an agent's prose, and is one of the team's own from now on."""
    pinned: bool = False
    """True if it was pinned where it came from, and now is here."""
    replaced: list[str] = []
    """Ids of the engrams of this project that it takes the place of, as it did where it came from."""


class PinAnswer(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    pinned: bool


def every_space(spaces: Sequence[str]) -> tuple[str, ...]:
    """Return these spaces and those of unconfirmed knowledge."""
    return (*spaces, UNTRUSTED_SPACE, *map(unconfirmed_space, spaces))


def forget(
    view: EngramView, spaces: Sequence[str], engram_id: str, caller: Caller
) -> tuple[list[EngramForgotten], ForgetAnswer]:
    """Take an engram off the bus; only the admin may, or a tool that the admin added without a parent."""
    # decision 43: a parent can speak for its tool, so the tool deletes only what its parent could: nothing
    if caller.role != ADMIN and parent_of(view, caller) != ADMIN:
        raise RoleForbidden(
            "A tool deletes only what its parent could delete.",
            field="id",
            limit=ADMIN,
            used=parent_of(view, caller),
            hint="The admin deletes it, or a tool that the admin added without a parent.",
        )
    # Also one that was replaced or has expired: a question about the past would still find it.
    stored = find_ever(view, every_space(spaces), engram_id)
    engram_id = stored.engram.id
    return [EngramForgotten(id=engram_id, space=stored.space, by=caller.full_name)], ForgetAnswer(id=engram_id)


def resolve_again(engram: Engram, evidence: Evidence, repositories: Repositories) -> tuple[Pointer, ...]:
    """Return the unresolved pointers of an engram whose content has become available, with its digest."""
    resolved = []
    for pointer in engram.pointers:
        if pointer.digest is None:
            with suppress(EngramBusError):
                checked, address = check_pointer(pointer)
                resolved.append(evidence.stamp(checked, address))
                repositories.retain(address)
    return tuple(resolved)


def confirm(
    view: EngramView, spaces: Sequence[str], engram_id: str, caller: Caller, renewal: Renewal | None = None
) -> tuple[list[Any], ConfirmAnswer]:
    """Confirm an engram by its id, as repeating its claim does; `renewal` says what becomes of its pointers.

    A person's confirmation makes an adopted engram one of the project's own, and its pin takes effect. A person's or a
    parent's makes a claim from prose one of the team's own.
    """
    renewal = renewal or Renewal()
    check_digests_were_read(view, renewal.sent, caller)
    stored = find_engram(view, every_space(spaces), engram_id)
    is_untrusted = stored.space == UNTRUSTED_SPACE
    trusted: list[EngramTrusted] = []
    if is_untrusted:
        stored = _trust(view, stored, caller)
        trusted.append(EngramTrusted(id=stored.engram.id, by=caller.full_name))
    is_captured = confirmed_space(stored.space) is not None
    if is_captured:
        _check_may_confirm(view, stored, caller)
    if renewal.stale is not None and not is_untrusted:
        raise needs_lines(stored.engram.id, renewal.stale)
    # Somebody else may have renewed its pointers since; then what was worked out is about earlier ones.
    is_current = renewal.engram is not None and renewal.engram.pointers == stored.engram.pointers
    pointers = renewal.pointers if is_current else ()
    fact = confirmation(view, stored, caller, resolved=renewal.resolved, pointers=pointers, words=renewal.words)
    engram = with_gain(stored.engram, fact)
    pins: list[EngramPinned] = []
    if is_untrusted and view.adoptions((engram.id,))[engram.id].pinned and has_evidence(engram):
        pins.append(EngramPinned(id=engram.id, space=stored.space, by=caller.full_name))
    votes = view.votes(stored.ordinal, except_root=fact.root) + 1
    replaced = _replaced_by_trusted(view, engram, caller) if is_untrusted else []
    return [*trusted, fact, *pins, *replaced], ConfirmAnswer(
        id=engram.id,
        votes=votes,
        expires_at=print_time(fact.expires_at),
        resolved=[pointer.ref for pointer in fact.resolved],
        unresolved=unresolved_refs(engram),
        pointers=[pointer.ref for pointer in fact.pointers],
        trusted=is_untrusted,
        accepted=is_captured,
        pinned=bool(pins),
        replaced=[older.id for older in replaced],
    )


def _replaced_by_trusted(view: EngramView, engram: Engram, caller: Caller) -> list[EngramReplaced]:
    """Return that an engram from elsewhere takes the place of those that it was put in place of, as a person agrees."""
    facts = []
    for older_id in view.adoptions((engram.id,))[engram.id].replaces:
        older = view.find((PROJECT_SPACE,), older_id)
        if older is not None and older.engram.id != engram.id:
            facts.append(
                EngramReplaced(
                    id=older.engram.id,
                    space=PROJECT_SPACE,
                    replaced_by=engram.id,
                    by=caller.full_name,
                    run=caller.run.run_id,
                    pinned=older.ordinal in view.pinned((PROJECT_SPACE,)),
                )
            )
    return facts


def may_confirm(view: IdentityReads, engram: Engram, caller: Caller) -> bool:
    """True for a person, and for a parent of the author of a claim from prose, in the run they share."""
    if caller.role == ADMIN:
        return True
    run, _, name = engram.provenance.created_by.rpartition("/")
    return run == caller.run.run_id and name != caller.name and descends(view, caller, name)


def _check_may_confirm(view: IdentityReads, stored: StoredEngram, caller: Caller) -> None:
    """Refuse an agent's confirmation of a claim from prose, unless the agent is a parent of its author."""
    if not may_confirm(view, stored.engram, caller):
        author = stored.engram.provenance.created_by
        raise EngramUnconfirmed(
            f"This claim was taken from the answer of {author}, and only a parent of it or a person confirms it.",
            field="id",
            used=stored.engram.id,
            hint="Read its evidence and put the claim with `at`: that confirms it, too.",
        )


def repoint(
    view: EngramView,
    spaces: Sequence[str],
    engram: Engram,
    caller: Caller,
    pointers: Sequence[Pointer],
    words: Sequence[str],
) -> tuple[list[EngramConfirmed], Engram]:
    """Give an engram the pointers of a claim that repeats it, unless another agent has renewed them since.

    `words` are those of the lines that the pointers lead to.
    """
    stored = find_engram(view, spaces, engram.id)
    if stored.engram.pointers != engram.pointers:
        return [], stored.engram
    fact = confirmation(view, stored, caller, pointers=pointers, words=words)
    return [fact], with_gain(stored.engram, fact)


def _trust(view: EngramView, stored: StoredEngram, caller: Caller) -> StoredEngram:
    """Return an adopted engram where a person's confirmation puts it; refuse anybody else's."""
    if caller.role != ADMIN:
        check_trusted(stored, "confirmed by an agent")
    if view.is_id_taken(PROJECT_SPACE, stored.engram.id):
        raise IdTaken(field="id", used=stored.engram.id)
    return msgspec.structs.replace(stored, space=PROJECT_SPACE)


def confirmation(
    view: EngramView,
    stored: StoredEngram,
    caller: Caller,
    repeat: Engram | None = None,
    resolved: Sequence[Pointer] = (),
    pointers: Sequence[Pointer] = (),
    words: Sequence[str] = (),
) -> EngramConfirmed:
    """Return the fact that `caller` confirms an engram: its ttl starts over, and its root of the hierarchy votes.

    An engram that repeats the claim also leaves its tags, its confidence if that is higher, and the digests of
    pointers that were unresolved. `pointers` are all its pointers from now on, if they are others than before, and
    `words` those of their lines.
    """
    engram = stored.engram
    merged, more_keys = gain(engram, repeat, stored.more_keys) if repeat is not None else (engram, ())
    if pointers:
        names = hash_keys("", [pointer.ref for pointer in pointers])
        present_keys = {*engram.hash_keys, *stored.more_keys, *more_keys}
        more_keys = (*more_keys, *(key for key in (*names.public, *names.extra) if key not in present_keys))
        known = {key for key in (*engram.hash_keys, *stored.more_keys, *more_keys) if not is_line_key(key)}
        more_keys = (*more_keys, *posted_line_keys(words, known))
    stamped = {pointer.ref: pointer for pointer in (*resolved, *(repeat.pointers if repeat else ())) if pointer.digest}
    accepted_space = confirmed_space(stored.space)
    return EngramConfirmed(
        id=engram.id,
        space=accepted_space or stored.space,
        captured_in=stored.space if accepted_space else "",
        by=caller.full_name,
        # One vote per root: a parent with fifty children must not outvote another team.
        root=root_of(view, caller),
        # A confirmation never shortens a lifetime.
        expires_at=max(stored.expires_at, view.as_of + parse_duration(engram.ttl)),
        confidence=merged.confidence if merged.confidence > engram.confidence else None,
        tags=merged.tags[len(engram.tags) :],
        more_keys=more_keys,
        key_format=KEY_FORMAT if more_keys else 1,
        resolved=tuple(stamped[ref] for ref in unresolved_refs(engram) if ref in stamped),
        pointers=tuple(pointers),
    )


def gain(engram: Engram, repeat: Engram, known_keys: Sequence[str] = ()) -> tuple[Engram, tuple[str, ...]]:
    """Return an engram with the higher confidence and all tags of a repeat, and the keys of the tags it gained."""
    new = tuple(dict.fromkeys(tag for tag in repeat.tags if tag not in engram.tags))
    new = new[: max(MAX_TAGS - len(engram.tags), 0)]
    keys = hash_keys("", tags=new).public if new else ()
    known = {*engram.hash_keys, *known_keys}
    merged = msgspec.structs.replace(
        engram, confidence=max(engram.confidence, repeat.confidence), tags=(*engram.tags, *new)
    )
    return merged, tuple(key for key in keys if key not in known)


def with_gain(engram: Engram, fact: EngramConfirmed) -> Engram:
    """Return an engram as its confirmation leaves it."""
    if fact.confidence is None and not fact.tags and not fact.resolved and not fact.pointers:
        return engram
    # Several repeats may be confirmed in one commit, each compared with the engram as it was before.
    tags = tuple(dict.fromkeys((*engram.tags, *fact.tags)))[:MAX_TAGS]
    resolved = {pointer.ref: pointer for pointer in fact.resolved}
    return msgspec.structs.replace(
        engram,
        confidence=max(engram.confidence, fact.confidence or 0.0),
        tags=tags,
        pointers=fact.pointers or tuple(resolved.get(pointer.ref, pointer) for pointer in engram.pointers),
    )


def keys_after(engram: Engram, more_keys: Sequence[str], fact: EngramConfirmed) -> tuple[str, ...]:
    """Return the keys beyond `hash_keys` that a confirmed engram has; new lines have new words."""
    has_new_lines = any(map(is_line_key, fact.more_keys))
    kept = [key for key in more_keys if not (has_new_lines and is_line_key(key))]
    keys = tuple(dict.fromkeys((*kept, *fact.more_keys)))
    return renew_keys(engram, keys, fact.key_format) if fact.more_keys else keys


def as_promoted(engram: Engram, fact: EngramPromoted) -> Engram:
    """Return an engram as its promotion leaves it."""
    return msgspec.structs.replace(engram, scope=fact.scope, pointers=fact.pointers or engram.pointers)


def promote(
    view: PromotionView,
    spaces: Sequence[str],
    engram_id: str,
    scope: Scope,
    *,
    caller: Caller,
    policy: Policy,
    limits: LimitChecks,
    randomness: Randomness,
    repository: str | None = None,
) -> tuple[list[PromotionFact], Engram]:
    """Widen an engram's scope by one step; only the admin or a parent of its author may.

    A parent's promotion beyond the project waits for an admin; until then the engram stays as it is. `repository` is
    the name that other projects know the project's own by.
    """
    stored = find_engram(view, every_space(spaces), engram_id)
    engram = stored.engram
    check_trusted(stored, "promoted")
    if caller.role != ADMIN:
        _check_parent(view, caller, engram.provenance.created_by)
    if engram.scope == scope:
        return [], engram
    next_scope = _NEXT_SCOPE.get(engram.scope)
    if next_scope != scope:
        message = (
            f"From '{engram.scope}' the next scope is '{next_scope}'." if next_scope else "There is no wider scope."
        )
        raise ScopeForbidden(message, field="scope", limit=next_scope)
    _check_confidence(policy, limits, scope, engram)
    check_evidence(engram, "promoted")
    # Earlier versions let an id be used once in each space, so the wider one may have another engram of this id.
    if view.is_id_taken(wider_space(scope), engram.id):
        raise IdTaken(field="id", used=engram.id)
    if needs_approval(caller, scope):
        requests, request_id = request_promotion(
            view, engram, stored.space, scope, caller=caller, randomness=randomness
        )
        limits.applied(pending_notice(scope, engram.scope, request_id))
        return [*requests], engram
    fact = EngramPromoted(
        id=engram.id,
        space=stored.space,
        scope=scope,
        by=caller.full_name,
        approved_by=caller.full_name if scope in SHARED_SCOPES else None,
        pointers=pointers_for(engram, scope, repository),
    )
    return [*answer_waiting(view, engram.id, scope, caller), fact], as_promoted(engram, fact)


def set_pinned(
    view: EngramView, spaces: Sequence[str], engram_id: str, caller: Caller, *, pinned: bool
) -> tuple[list[EngramPinned | EngramUnpinned], PinAnswer]:
    """Pin an engram, so that it comes first in its section of every brief, or unpin it."""
    stored = find_engram(view, every_space(spaces), engram_id)
    engram_id = stored.engram.id
    if pinned:
        check_trusted(stored, "pinned")
        check_evidence(stored.engram, "pinned")
    answer = PinAnswer(id=engram_id, pinned=pinned)
    if pinned == (stored.ordinal in view.pinned((stored.space,))):
        return [], answer
    fact = EngramPinned if pinned else EngramUnpinned
    return [fact(id=engram_id, space=stored.space, by=caller.full_name)], answer


# decision 10: an engram leaves its project through an outbox. Both steps are idempotent by the engram's id, so a
# process may die between them and the next delivery repeats them.


def receive(view: EngramReads, stored: StoredEngram, *, origin: str) -> tuple[list[EngramReceived], None]:
    """Take an engram of the project `origin` into a shared store, unless the store already has it."""
    if view.find((PROJECT_SPACE,), stored.engram.id) is not None:
        return [], None
    fact = EngramReceived(
        engram=stored.engram,
        run=stored.run,
        expires_at=stored.expires_at,
        origin=origin,
        more_keys=stored.more_keys,
        key_format=KEY_FORMAT,  # the store renewed older keys when it read them
    )
    return [fact], None


def mark_delivered(view: EngramReads, stored: StoredEngram) -> tuple[list[EngramDelivered], None]:
    """Remove an engram from the project's outbox once the shared store has it."""
    if not any(waiting.engram.id == stored.engram.id for waiting in view.outbox()):
        return [], None
    return [EngramDelivered(id=stored.engram.id)], None


def _check_parent(view: IdentityReads, caller: Caller, author: str) -> None:
    """Refuse a promotion by anyone but a parent of the author in the run they share."""
    run, _, name = author.rpartition("/")
    if run != caller.run.run_id or name in (caller.name, ADMIN):
        raise RoleForbidden("Only a parent of its author promotes an engram.", field="id")
    check_descends(view, caller, name, "id")


def _check_confidence(policy: Policy, limits: LimitChecks, scope: Scope, engram: Engram) -> None:
    check_may_promote(policy, scope)
    floor = policy.floor(scope)
    if engram.confidence < floor:
        refusal = ScopeForbidden(
            f"An engram needs a confidence of at least {floor} for the scope '{scope}'.",
            field="confidence",
            limit=floor,
            used=engram.confidence,
            hint="Put the claim again with the `confidence` that you have now, or wait for more evidence.",
        )
        limits.exceeded("promotion_floor", refusal)
