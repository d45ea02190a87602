"""The rules of putting an engram: who may, how many a minute, and when a repeated claim confirms an existing one.

Each rule takes a view of the store under the write lock and returns facts; nothing here reads a file or writes one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

from engrambus.core import Randomness, estimate_tokens, new_ulid, print_time
from engrambus.errors import (
    ClaimConfirmed,
    EngramBusError,
    EvidenceUnresolved,
    IdTaken,
    ScopeForbidden,
    ScopeLowered,
)
from engrambus.evidence.pointers import Evidence, Origin, Pointer, Repositories, name_repository
from engrambus.knowledge.engrams.approvals import PromotionView, needs_approval, pending_notice, request_promotion
from engrambus.knowledge.engrams.dedupe import is_repeat, twin_key
from engrambus.knowledge.engrams.facts import (
    EngramConfirmed,
    EngramPut,
    EngramReplaced,
    EngramsUsed,
    PromotionRequested,
)
from engrambus.knowledge.engrams.keys import KEY_FORMAT, Keys, hash_keys
from engrambus.knowledge.engrams.lifecycle import confirmation, gain, with_gain
from engrambus.knowledge.engrams.line_words import posted_line_keys
from engrambus.knowledge.engrams.ports import EngramView, StoredEngram
from engrambus.knowledge.engrams.rates import check_rate
from engrambus.knowledge.engrams.replacing import find_older, replace_older
from engrambus.knowledge.engrams.repointing import check_digests_were_read
from engrambus.knowledge.engrams.rules import stamp
from engrambus.knowledge.engrams.used import used_facts
from engrambus.knowledge.engrams.values import CheckedEngram, Engram, Provenance, Source
from engrambus.policy import (
    ADMIN,
    SHARED_SCOPES,
    Caller,
    LimitChecks,
    Policy,
    TurnCharged,
    charge_put,
    check_may_write,
    narrower_scope,
    payers_of,
    space_of,
    unconfirmed_space,
)

MAX_COMPARED = 48
"""Existing engrams with the same twin key that a new claim is compared with."""

MAX_NAMED = 8
"""Confirmed engrams that a notice names."""

PutFact: TypeAlias = EngramPut | EngramConfirmed | TurnCharged | PromotionRequested | EngramsUsed | EngramReplaced


class PreparedEngram(msgspec.Struct, frozen=True, kw_only=True):
    """An engram that needs only a time and an id to be put."""

    checked: CheckedEngram
    pointers: tuple[Pointer, ...]
    """Stamped with the digests of their content; one without a digest is unresolved."""
    pointed_tokens: int
    """Size of the content behind the pointers."""
    keys: Keys
    tokens: int = 0
    """Size of what its author wrote: claim, tags and keys."""
    used: tuple[str, ...] = ()
    """Ids of the engrams it is based on; they exist."""
    promote_to: str | None = None
    """The scope beyond the project that its author asked for; an admin must approve it."""


def prepare(
    checked: CheckedEngram,
    *,
    caller: Caller,
    policy: Policy,
    limits: LimitChecks,
    evidence: Evidence,
    repositories: Repositories,
    used: Sequence[str] = (),
    origin: Origin = "stated",
) -> PreparedEngram:
    """Do everything a put needs no lock for: settle the scope, resolve the pointers, compute the keys."""
    checked = _settle_scope(checked, caller, policy, limits)
    promote_to = None
    if needs_approval(caller, checked.scope):
        promote_to = checked.scope
        check_may_write(policy, caller, "project")
        checked = msgspec.structs.replace(checked, scope="project")
    pointers = tuple(
        evidence.stamp_if_here(pointer, address, origin, f"pointers[{position}]")
        for position, (pointer, address) in enumerate(zip(checked.pointers, checked.addresses, strict=True))
    )
    for pointer, address in zip(pointers, checked.addresses, strict=True):
        if pointer.digest is not None:  # so that `git gc` never removes the evidence of an engram
            repositories.retain(address)
    stamped = pointers
    if (promote_to or checked.scope) in SHARED_SCOPES:
        _check_shared_evidence(pointers)
    if checked.scope in SHARED_SCOPES and (repository := repositories.shared_name()) is not None:
        # decision 55: in another project a path without a repository would mean a file of that project
        pointers = tuple(name_repository(pointer, repository) for pointer in pointers)
    keys = hash_keys(checked.claim, [pointer.ref for pointer in pointers], checked.tags, checked.hash_keys)
    pointed_tokens = sum(map(evidence.count_tokens, pointers, checked.addresses))
    words = (word for pointed in map(evidence.words, stamped, checked.addresses) for word in pointed)
    keys = keys._replace(extra=(*keys.extra, *posted_line_keys(words, {*keys.public, *keys.extra})))
    # decision 45: the keys that are computed from the claim are not its author's
    tokens = estimate_tokens("\n".join((checked.claim, *checked.tags, *checked.hash_keys)))
    return PreparedEngram(
        checked=checked,
        pointers=pointers,
        pointed_tokens=pointed_tokens,
        keys=keys,
        tokens=tokens,
        used=tuple(used),
        promote_to=promote_to,
    )


def _check_shared_evidence(pointers: Sequence[Pointer]) -> None:
    """Refuse to put an engram straight beyond the project if its pointers are all unresolved."""
    if all(pointer.digest is None for pointer in pointers):
        raise EvidenceUnresolved(
            field="scope",
            used=", ".join(pointer.ref for pointer in pointers),
            hint="Put it at 'project'; once its content is here, confirm it and promote it with `engram.promote`.",
        )


def put_one(
    view: PromotionView,
    prepared: PreparedEngram,
    *,
    caller: Caller,
    policy: Policy,
    limits: LimitChecks,
    randomness: Randomness,
    source: Source | None = None,
) -> tuple[list[PutFact], Engram]:
    """Put one engram within the caller's rate and the tokens of its turn."""
    root = check_rate(view, caller, policy, limits, 1)
    batch = PutBatch()
    older = find_older(view, prepared.checked.replaces, caller, batch.replaced)
    fact, engram = put_or_confirm(view, prepared, caller=caller, randomness=randomness, source=source, batch=batch)
    replaced = replace_older(view, older, engram, caller, limits)
    requests = _ask(view, prepared, engram, caller, limits, randomness)
    more: list[PutFact] = [*replaced, *requests, *used_facts(caller, "engram", engram.id, prepared.used)]
    if not isinstance(fact, EngramPut):
        _tell_confirmed(limits, [engram], "claim")
        return [*([fact] if fact is not None else []), *more], engram
    return [*_charge(view, [(fact, prepared.tokens)], caller, policy, limits, root), *more], engram


def put_all(
    view: PromotionView,
    prepared: Sequence[PreparedEngram],
    *,
    caller: Caller,
    policy: Policy,
    limits: LimitChecks,
    randomness: Randomness,
    field: str,
    in_message: bool = False,
) -> tuple[list[PutFact], list[str]]:
    """Put several engrams in one commit, all or none; return the ids that now state the claims, in order.

    A refusal names the engram as `field[position]`. The tokens of engrams in a message are part of the message's.
    """
    root = check_rate(view, caller, policy, limits, len(prepared))
    facts: list[PutFact] = []
    puts: list[tuple[EngramPut, int]] = []
    ids: list[str] = []
    more: list[PutFact] = []
    batch = PutBatch()
    confirmed: dict[int, Engram] = {}
    for position, item in enumerate(prepared):
        with prefix_field(f"{field}[{position}]", limits):
            older = find_older(view, item.checked.replaces, caller, batch.replaced)
            fact, engram = put_or_confirm(view, item, caller=caller, randomness=randomness, batch=batch)
            more += replace_older(view, older, engram, caller, limits)
            if engram.id not in ids:  # a repeated claim of the same commit is asked for once
                more += _ask(view, item, engram, caller, limits, randomness)
            more += used_facts(caller, "engram", engram.id, item.used)
        if isinstance(fact, EngramPut):
            puts.append((fact, 0 if in_message else item.tokens))
        else:
            facts += [fact] if fact is not None else []
            confirmed[position] = engram
        ids.append(engram.id)
    if confirmed:
        first = next(iter(confirmed))
        _tell_confirmed(limits, list(confirmed.values()), f"{field}[{first}].claim" if len(confirmed) == 1 else field)
    puts = [(batch.with_repeats(fact), tokens) for fact, tokens in puts]
    return [*_charge(view, puts, caller, policy, limits, root), *facts, *more], ids


def _ask(
    view: PromotionView,
    prepared: PreparedEngram,
    engram: Engram,
    caller: Caller,
    limits: LimitChecks,
    randomness: Randomness,
) -> list[PromotionRequested]:
    """Ask an admin for the scope beyond the project that the author wanted, and tell the author so."""
    if prepared.promote_to is None:
        return []
    requests, request_id = request_promotion(
        view,
        engram,
        space_of(engram.scope, caller.run),
        prepared.promote_to,
        caller=caller,
        randomness=randomness,
    )
    limits.applied(pending_notice(prepared.promote_to, engram.scope, request_id))
    return requests


def _charge(
    view: EngramView,
    puts: Sequence[tuple[EngramPut, int]],
    caller: Caller,
    policy: Policy,
    limits: LimitChecks,
    root: str,
) -> list[PutFact]:
    """Charge new engrams and their tokens to the turn of their author, and of an agent that speaks for it."""
    tokens = sum(tokens for _, tokens in puts)
    named_root = root if root != caller.name else ""
    if caller.role == ADMIN or not tokens:
        return (
            [msgspec.structs.replace(fact, root=named_root) for fact, _ in puts]
            if named_root
            else [fact for fact, _ in puts]
        )
    payers = payers_of(view, caller, limits, lambda agent: policy.turn_budget(agent.session_turns))
    charges = charge_put(payers, tokens)
    turn = payers.turn.number
    charged = [msgspec.structs.replace(fact, root=named_root, turn=turn, put_tokens=tokens) for fact, tokens in puts]
    return [*charged, *charges]


class PutBatch:
    """The engrams put so far in one commit, which the view does not show yet."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.replaced: set[str] = set()
        """Ids of the engrams that those of this commit replace."""
        self._twins: dict[tuple[str, str], list[Engram]] = {}
        self._merged: dict[str, tuple[Engram, tuple[str, ...]]] = {}

    def add(self, engram: Engram, twin: str) -> None:
        """Record an engram under its twin key."""
        self.ids.add(engram.id)
        self._twins.setdefault((engram.scope, twin), []).append(engram)

    def merge(self, engram: Engram, repeat: Engram, twin: str) -> Engram:
        """Give an engram of this commit the tags and the confidence of one that repeats it; return the result."""
        merged, keys = gain(engram, repeat)
        twins = self._twins[engram.scope, twin]
        twins[twins.index(engram)] = merged
        self._merged[engram.id] = (merged, (*self._merged.get(engram.id, (None, ()))[1], *keys))
        return merged

    def with_repeats(self, fact: EngramPut) -> EngramPut:
        """Return a fact with what the engrams that repeat its claim added."""
        merged = self._merged.get(fact.engram.id)
        if merged is None:
            return fact
        return msgspec.structs.replace(fact, engram=merged[0], more_keys=(*fact.more_keys, *merged[1]))

    def find_repeated(self, engram: Engram, twin: str) -> Engram | None:
        """Return the engram of this commit that `engram` repeats."""
        return next(
            (earlier for earlier in self._twins.get((engram.scope, twin), ()) if is_repeat(engram, earlier)), None
        )


def put_or_confirm(
    view: EngramView,
    prepared: PreparedEngram,
    *,
    caller: Caller,
    randomness: Randomness,
    source: Source | None = None,
    batch: PutBatch | None = None,
) -> tuple[PutFact | None, Engram]:
    """Put an engram, or confirm the one whose claim it repeats; return the engram that now states the claim.

    Repeating a claim of the same commit produces no fact. An engram whose author chose its id is always put.
    """
    batch = batch or PutBatch()
    fact = put_fact(view, prepared, caller, randomness, source, batch)
    engram, twin = fact.engram, twin_key(fact.engram)
    if not prepared.checked.id:  # an author that chose an id wants to find the engram under it
        repeated = batch.find_repeated(engram, twin)
        if repeated is not None:
            return None, batch.merge(repeated, engram, twin)
        # decision 82: a put has evidence of its own, so it confirms the claim that was taken from prose
        space = space_of(engram.scope, caller.run)
        stored = find_repeated(view, engram, twin, space, batch.replaced) or find_repeated(
            view, engram, twin, unconfirmed_space(space)
        )
        if stored is not None:
            confirmed = confirmation(view, stored, caller, engram)
            return confirmed, with_gain(stored.engram, confirmed)
    batch.add(engram, twin)
    return fact, engram


def _tell_confirmed(limits: LimitChecks, engrams: Sequence[Engram], field: str) -> None:
    """Tell the author of repeated claims which engrams they confirmed, in one notice."""
    # decision 47: a merge that nobody is told of looks like a lost engram
    ids = list(dict.fromkeys(engram.id for engram in engrams))
    named = ", ".join(ids[:MAX_NAMED])
    more = f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
    if len(engrams) == 1:
        author, confidence = engrams[0].provenance.created_by, engrams[0].confidence
        reason = f"This claim repeats that engram of {author}, whose confidence is {confidence:g}; it was not"
    else:
        reason = f"{len(engrams)} claims repeat engrams; they were not"
    detail = f"confirmed: {named}{more}. {reason} stored a second time."
    limits.applied(ClaimConfirmed(detail, field=field, used=named))


@contextmanager
def prefix_field(prefix: str, limits: LimitChecks | None = None) -> Iterator[None]:
    """Put `prefix` before the field of a refusal or a warning, so that it names one engram of several."""
    warnings = limits.warnings if limits is not None else []
    first = len(warnings)
    try:
        yield
    except EngramBusError as refusal:
        _prefix(refusal, prefix)
        raise
    for warning in warnings[first:]:
        _prefix(warning, prefix)


def _prefix(problem: EngramBusError, prefix: str) -> None:
    problem.field = prefix + (f".{problem.field}" if problem.field else "")


def _settle_scope(checked: CheckedEngram, caller: Caller, policy: Policy, limits: LimitChecks) -> CheckedEngram:
    """Return the engram with the widest scope up to its own whose promotion floor its confidence reaches."""
    check_may_write(policy, caller, checked.scope)
    scope = narrower_scope(policy, checked.scope, checked.confidence)
    if scope == checked.scope:
        return checked
    floor = policy.floor(checked.scope)
    needed = f"A confidence of {checked.confidence} is below the {floor} that the scope '{checked.scope}' needs"
    if not limits.is_enforced("promotion_floor"):
        refusal = ScopeForbidden(f"{needed}.", field="confidence", limit=floor, used=checked.confidence)
        limits.exceeded("promotion_floor", refusal)
        return checked
    check_may_write(policy, caller, scope)
    # decision 45: kept where it can be confirmed and promoted, instead of being refused and lost
    hint = "A parent promotes it with `engram.promote` once more is known; put it again with a higher `confidence`."
    detail = f"{needed}, so it was stored at '{scope}'."
    limits.applied(ScopeLowered(detail, field="confidence", limit=floor, used=checked.confidence, hint=hint))
    return msgspec.structs.replace(checked, scope=scope)


def put_fact(
    view: EngramView,
    prepared: PreparedEngram,
    caller: Caller,
    randomness: Randomness,
    source: Source | None,
    batch: PutBatch,
) -> EngramPut:
    """Return the fact that an engram is put, with an id and a time."""
    checked = prepared.checked
    engram_id = checked.id or new_ulid(view.as_of, randomness)
    check_digests_were_read(view, checked.pointers, caller)
    if checked.id in batch.ids:
        raise IdTaken("Two engrams of the same commit have the same id.", field="id", used=checked.id)
    # decision 69: an id belongs to its first engram, so one look-up answers for every space and every caller alike
    if checked.id and view.is_id_used(checked.id):
        raise IdTaken(
            field="id", used=checked.id, hint="Leave `id` out: the gateway gives the engram one that is free."
        )
    provenance = Provenance(
        created_at=print_time(view.as_of),
        created_by=caller.full_name,
        source=source or ("tool" if caller.role == "tool" else "agent"),
    )
    return EngramPut(
        engram=stamp(
            checked, id=engram_id, provenance=provenance, hash_keys=prepared.keys.public, pointers=prepared.pointers
        ),
        run=caller.run.run_id,
        expires_at=view.as_of + checked.lifetime_us,
        more_keys=prepared.keys.extra,
        key_format=KEY_FORMAT,
        pointed_tokens=prepared.pointed_tokens,
    )


def find_repeated(
    view: EngramView, engram: Engram, twin: str, space: str, replaced: Set[str] = frozenset()
) -> StoredEngram | None:
    """Return the live engram of the same space whose claim `engram` repeats; never one that this commit replaces."""
    # decision 13: only engrams with the same twin key are compared, so a crowded file costs no more than an empty one
    for candidate in view.engrams(view.twins(space, twin, limit=MAX_COMPARED)):
        if candidate.id not in replaced and is_repeat(engram, candidate):
            return view.find((space,), candidate.id)
    return None
