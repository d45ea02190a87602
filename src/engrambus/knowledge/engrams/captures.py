"""The rule of claims from prose: they wait in a space of their own until they are confirmed (decision 82).

Nothing here is refused: an answer was given, and what cannot be kept of it is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from engrambus.core import SECOND_US, Randomness, new_ulid, print_time
from engrambus.knowledge.engrams.dedupe import is_repeat, twin_key
from engrambus.knowledge.engrams.facts import EngramCaptured
from engrambus.knowledge.engrams.finding import find_engram
from engrambus.knowledge.engrams.keys import KEY_FORMAT
from engrambus.knowledge.engrams.lifecycle import confirm, every_space, may_confirm
from engrambus.knowledge.engrams.ports import EngramView
from engrambus.knowledge.engrams.put import PreparedEngram, find_repeated
from engrambus.knowledge.engrams.rates import rate_left
from engrambus.knowledge.engrams.repointing import Renewal
from engrambus.knowledge.engrams.rules import stamp
from engrambus.knowledge.engrams.values import Capture, CaptureOutcome, Engram, Provenance
from engrambus.policy import (
    Caller,
    LimitChecks,
    Policy,
    TurnCharged,
    payers_of,
    space_of,
    unconfirmed_space,
)

MAX_CAPTURED = 12
"""Claims that one answer leaves: as many as a message may put."""
MAX_SEARCHED = 500
"""Waiting claims that are looked at, the newest."""
WAIT_US = 7 * 86_400 * SECOND_US
"""How long a claim waits for its confirmation: a week."""


class PreparedCapture(msgspec.Struct, frozen=True, kw_only=True):
    """A claim from prose that needs only a time and an id to be kept."""

    prepared: PreparedEngram
    answer: str | None = None
    """Pointer to the lines of the answer that say it."""
    marked: bool = False


class ClaimsConfirmed(msgspec.Struct, frozen=True, kw_only=True):
    ids: list[str]
    """The engrams that were confirmed, each once."""
    stale: list[str] = []
    """Claims of the agent that still wait, because the lines they cite have changed since."""


def capture_all(
    view: EngramView,
    captures: Sequence[PreparedCapture],
    *,
    caller: Caller,
    policy: Policy,
    limits: LimitChecks,
    randomness: Randomness,
) -> tuple[list[EngramCaptured | TurnCharged], CaptureOutcome]:
    """Keep claims from an answer, the best first, as many as its author may put now; the others are counted."""
    root, room = rate_left(view, caller, policy)
    room = min(room, MAX_CAPTURED) if limits.is_enforced("put_rate") else MAX_CAPTURED
    budget = _put_tokens_left(view, caller, policy, limits)
    facts: list[EngramCaptured] = []
    known = 0
    for capture in captures:
        fact = _captured(view, capture, caller, randomness, root)
        if _is_known(view, fact.engram, caller, [earlier.engram for earlier in facts]):
            known += 1
        elif len(facts) < room and (budget is None or capture.prepared.tokens <= budget.tokens):
            if budget is not None:
                budget = budget.less(capture.prepared.tokens)
                fact = msgspec.structs.replace(fact, turn=budget.turn, put_tokens=capture.prepared.tokens)
            facts.append(fact)
    outcome = CaptureOutcome(
        ids=[fact.engram.id for fact in facts], known=known, left_out=len(captures) - known - len(facts)
    )
    return [*facts], outcome


def waiting_claims(view: EngramView, spaces: Sequence[str], caller: Caller) -> list[Engram]:
    """Return the unconfirmed claims of a caller's descendants, newest first; for a person, of every agent."""
    ordinals = view.newest(tuple(map(unconfirmed_space, spaces)), kind=None, limit=MAX_SEARCHED, older_than=None)
    return [engram for engram in view.engrams(ordinals) if may_confirm(view, engram, caller)]


def confirm_claims(
    view: EngramView, spaces: Sequence[str], renewals: Mapping[str, Renewal], caller: Caller
) -> tuple[list[Any], ClaimsConfirmed]:
    """Confirm several engrams by their ids, each with what becomes of its pointers; all or none."""
    facts: list[Any] = []
    confirmed: list[str] = []
    for engram_id, renewal in renewals.items():
        engram = find_engram(view, every_space(spaces), engram_id, "ids").engram
        if engram.id not in confirmed:
            facts += confirm(view, spaces, engram.id, caller, renewal)[0]
            confirmed.append(engram.id)
    return facts, ClaimsConfirmed(ids=confirmed)


class _PutBudget(msgspec.Struct, frozen=True, kw_only=True):
    tokens: int
    turn: int

    def less(self, tokens: int) -> _PutBudget:
        return _PutBudget(tokens=self.tokens - tokens, turn=self.turn)


def _put_tokens_left(view: EngramView, caller: Caller, policy: Policy, limits: LimitChecks) -> _PutBudget | None:
    """Return what the caller's turn has left for engrams; None for an answer that ends the turn and cannot be repeated.

    decision 45: prose that an agent hands in itself ends no turn, so without a charge it could be handed in for ever.
    """
    if caller.spoken_by is not None:
        return None
    payers = payers_of(view, caller, limits, lambda agent: policy.turn_budget(agent.session_turns))
    left = [account.budget.put_tokens - account.turn.put_tokens for account in payers.accounts]
    tokens = max(0, min(left, default=0)) if limits.is_enforced("put_tokens") else 1 << 40
    return _PutBudget(tokens=tokens, turn=payers.turn.number)


def _captured(
    view: EngramView, capture: PreparedCapture, caller: Caller, randomness: Randomness, root: str
) -> EngramCaptured:
    prepared, now = capture.prepared, print_time(view.as_of)
    provenance = Provenance(created_at=now, created_by=caller.full_name, source="agent")
    engram = stamp(
        prepared.checked,
        id=new_ulid(view.as_of, randomness),
        provenance=provenance,
        hash_keys=prepared.keys.public,
        pointers=prepared.pointers,
    )
    return EngramCaptured(
        engram=engram,
        run=caller.run.run_id,
        expires_at=view.as_of + min(WAIT_US, prepared.checked.lifetime_us),
        capture=Capture(by=caller.full_name, at=now, answer=capture.answer, marked=capture.marked),
        more_keys=prepared.keys.extra,
        key_format=KEY_FORMAT,
        root=root if root != caller.name else "",
    )


def _is_known(view: EngramView, engram: Engram, caller: Caller, earlier: Sequence[Engram]) -> bool:
    """True if an engram states the claim already: confirmed, waiting, or from the same answer.

    A sentence in an answer is no vote: agents repeat what their brief says.
    """
    twin, space = twin_key(engram), space_of(engram.scope, caller.run)
    if any(twin_key(other) == twin and is_repeat(engram, other) for other in earlier):
        return True
    return any(find_repeated(view, engram, twin, where) is not None for where in (space, unconfirmed_space(space)))
