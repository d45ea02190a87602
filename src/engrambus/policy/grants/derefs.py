"""The rules of a dereference: the turn or a grant pays for it, and each leaves a proof in the journal."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol, TypeAlias

import msgspec

from engrambus.core import estimate_tokens
from engrambus.errors import BudgetTooSmall, DerefDenied, EngramBusError, GrantRefusal
from engrambus.evidence.pointers import DerefAnswer, Pointer, cut_to_fit
from engrambus.policy.budgets import DerefBudget
from engrambus.policy.facts import DerefProved
from engrambus.policy.grants.facts import BlockDebited
from engrambus.policy.grants.keys import GrantKey
from engrambus.policy.grants.ports import GrantReads, GrantView
from engrambus.policy.grants.rules import check_balance, debits
from engrambus.policy.grants.tokens import VerifiedGrant, check_allows, grant_from_journal, grant_use, verify_token
from engrambus.policy.identity import ADMIN, Caller
from engrambus.policy.turns import Turn, TurnReads, check_may_deref, check_tokens, present_turn, tokens_left

_encode = msgspec.json.Encoder().encode


class DerefView(GrantView, TurnReads, Protocol):
    """The store at one moment, as the rules about dereferences read it."""


DerefFact: TypeAlias = DerefProved | BlockDebited


class DerefCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome a dereference would have now."""

    turn: int
    tokens_left: int
    """Tokens the turn, or the grant, still pays for."""
    granted: bool
    """True if a grant would pay for it instead of the turn."""
    refusal: EngramBusError | None
    """The error it would be refused with."""


def deref(
    view: DerefView,
    full: DerefAnswer,
    *,
    caller: Caller,
    budget: DerefBudget,
    max_tokens: int,
    tail: bool,
    grant_key: GrantKey,
    budget_token: str | None,
) -> tuple[list[DerefFact], DerefAnswer]:
    """Cut the answer to what may be spent and charge it: to the given grant, to the turn, or to a grant on record."""
    use = grant_use(view, caller, full.pointer)
    payment = _Payment(view, caller, budget)
    if budget_token is not None:
        return payment.pay(full, max_tokens, tail, verify_token(grant_key, budget_token, use))
    try:
        return payment.pay(full, max_tokens, tail, None)
    except DerefDenied:
        # decision 6: a grant also holds without its token; a child that was granted something may simply read it
        for issued in view.grants_for(caller.run.run_id, use.lineage):
            with suppress(GrantRefusal, DerefDenied):
                return payment.pay(
                    full, max_tokens, tail, check_allows(grant_from_journal(issued, caller.project), use)
                )
        raise


def check_deref(
    view: DerefView,
    pointer: Pointer,
    *,
    caller: Caller,
    budget: DerefBudget,
    grant_key: GrantKey,
    budget_token: str | None,
) -> DerefCheck:
    """Tell whether a dereference would be allowed now, without charging it."""
    turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)
    remaining_tokens = tokens_left(turn, budget)
    grant: VerifiedGrant | None = None
    refusal: EngramBusError | None = None
    try:
        if budget_token is not None:
            grant = verify_token(grant_key, budget_token, grant_use(view, caller, pointer))
            check_balance(view, grant, 1)
        elif caller.role != ADMIN:
            try:
                check_may_deref(turn, budget, pointer.type)
            except DerefDenied:
                grant = _grant_on_record(view, caller, pointer)
                if grant is None:
                    raise
        if grant is not None:
            remaining_tokens = _grant_tokens_left(view, turn, budget, grant)
            if caller.role != ADMIN:
                check_tokens(turn, budget, 1, granted=True)
    except EngramBusError as problem:
        refusal = problem
    return DerefCheck(turn=turn.number, tokens_left=remaining_tokens, granted=grant is not None, refusal=refusal)


class _Payment:
    """A caller's means to pay for a dereference at the time of the view."""

    def __init__(self, view: DerefView, caller: Caller, budget: DerefBudget) -> None:
        self._view = view
        self._caller = caller
        self._budget = budget
        self._turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)

    def pay(
        self, full: DerefAnswer, max_tokens: int, tail: bool, grant: VerifiedGrant | None
    ) -> tuple[list[DerefFact], DerefAnswer]:
        """Return the answer cut to what the grant, or else the turn, pays for, with its proof and debits."""
        caller = self._caller
        if grant is None and caller.role != ADMIN:
            check_may_deref(self._turn, self._budget, full.pointer.type)
        self._check(grant, 1)  # an empty budget is refused before the answer is cut to nothing
        allowed_tokens = min(max_tokens, self._tokens_left(grant)) if caller.role != ADMIN else max_tokens
        try:
            answer = cut_to_fit(full, allowed_tokens, tail=tail)
        except BudgetTooSmall as problem:
            if allowed_tokens < max_tokens:  # the turn or the grant has too little left, not the request
                self._check(grant, int(problem.used or 0))
            raise
        # decision 5: the whole answer is charged, because the reader pays for all of it
        cost = estimate_tokens(_encode(answer))
        self._check(grant, cost)
        proof = DerefProved(
            run=caller.run.run_id,
            agent=caller.name,
            turn=self._turn.number,
            type=full.pointer.type,
            ref=full.pointer.ref,
            digest=full.content_digest,
            tokens=cost,
            granted=grant is not None,
        )
        return [proof, *(debits(grant, cost, caller.full_name) if grant is not None else ())], answer

    def _check(self, grant: VerifiedGrant | None, tokens: int) -> None:
        if grant is not None:
            check_balance(self._view, grant, tokens)
        if self._caller.role != ADMIN:  # turns limit agents; a person at the machine reads without one
            check_tokens(self._turn, self._budget, tokens, granted=grant is not None)

    def _tokens_left(self, grant: VerifiedGrant | None) -> int:
        if grant is None:
            return tokens_left(self._turn, self._budget)
        return _grant_tokens_left(self._view, self._turn, self._budget, grant)


def _grant_on_record(view: DerefView, caller: Caller, pointer: Pointer) -> VerifiedGrant | None:
    """Return a grant issued to the caller or an ancestor that would pay for this without its token."""
    use = grant_use(view, caller, pointer)
    for issued in view.grants_for(caller.run.run_id, use.lineage):
        with suppress(GrantRefusal):
            grant = check_allows(grant_from_journal(issued, caller.project), use)
            check_balance(view, grant, 1)
            return grant
    return None


def _grant_tokens_left(view: GrantReads, turn: Turn, budget: DerefBudget, grant: VerifiedGrant) -> int:
    """Return how many tokens a grant still pays for; the run's ceiling holds for it too."""
    spent = view.spent([block.block_id for block in grant.blocks])
    caps = [
        block.cap_tokens - (spent[block.block_id].tokens if block.block_id in spent else 0)
        for block in grant.blocks
        if block.cap_tokens is not None
    ]
    return max(0, min([*caps, budget.run_tokens - turn.run_tokens]))
