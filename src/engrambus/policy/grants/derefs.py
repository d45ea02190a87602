"""The rules of a dereference: the turn or a grant pays for it, and each leaves a proof in the journal."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol, TypeAlias

import msgspec

from engrambus.core import estimate_tokens
from engrambus.errors import BudgetTooSmall, DerefDenied, EngramBusError, GrantRefusal
from engrambus.evidence.pointers import DerefAnswer, PointedText, Pointer, cut_to_fit
from engrambus.policy.accounts import UNLIMITED_TOKENS, Account, Payers, check_may_read, check_tokens
from engrambus.policy.facts import DerefProved, TurnCharged
from engrambus.policy.grants.facts import BlockDebited
from engrambus.policy.grants.keys import GrantKey
from engrambus.policy.grants.ports import GrantView
from engrambus.policy.grants.records import balance_of, journalled_grant, open_budget_token
from engrambus.policy.grants.rules import check_balance, debits
from engrambus.policy.grants.tokens import VerifiedGrant, check_allows, grant_use
from engrambus.policy.identity import ADMIN, Caller, lineage_of_agent
from engrambus.policy.limits import LimitChecks
from engrambus.policy.turns import TurnReads

_encode = msgspec.json.Encoder().encode


class DerefView(GrantView, TurnReads, Protocol):
    """The store at one moment, as the rules about dereferences read it."""


DerefFact: TypeAlias = DerefProved | TurnCharged | BlockDebited


class DerefCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome a dereference would have now."""

    turn: int
    tokens_left: int
    """Tokens the turn, or the grant, still pays for."""
    reads_left: int | None
    """Dereferences of this type that the turn still has; None for a person, who has no turn."""
    granted: bool
    """True if a grant would pay for it instead of the turn."""
    refusal: EngramBusError | None
    """The error it would be refused with."""


def deref(
    view: DerefView,
    pointed: PointedText,
    *,
    caller: Caller,
    payers: Payers,
    max_tokens: int,
    tail: bool,
    grant_key: GrantKey,
    budget_token: str | None,
) -> tuple[list[DerefFact], DerefAnswer]:
    """Cut the answer to what may be spent and charge it: to the given grant, to the turn, or to a grant on record."""
    payment = _Payment(view, payers)
    if budget_token is not None:
        return payment.pay(
            pointed, max_tokens, tail, open_budget_token(view, caller, grant_key, budget_token, pointed.pointer)
        )
    within_limits = _Payment(view, _enforcing_all(payers))
    try:
        return within_limits.pay(pointed, max_tokens, tail, None)
    except DerefDenied as denied:
        refusal = denied
    # decision 6: a grant also holds without its token; the agent it was made out to may simply read
    use = grant_use(view, caller, pointed.pointer)
    for issued in view.grants_for(caller.run.run_id, caller.name):
        try:
            grant = check_allows(journalled_grant(view, issued, caller.project), use)
            return within_limits.pay(pointed, max_tokens, tail, grant)
        except GrantRefusal:
            continue
        except DerefDenied as denied:  # the grant would pay; a ceiling of the run stops it
            refusal = denied
    if all(account.limits.enforces_all for account in payers.accounts):
        raise refusal
    return payment.pay(pointed, max_tokens, tail, None)


def check_deref(
    view: DerefView,
    pointer: Pointer,
    *,
    caller: Caller,
    payers: Payers,
    grant_key: GrantKey,
    budget_token: str | None,
) -> DerefCheck:
    """Tell whether a dereference would be allowed now, without charging it."""
    payment = _Payment(view, payers)
    grant: VerifiedGrant | None = None
    refusal: EngramBusError | None = None
    try:
        if budget_token is not None:
            grant = open_budget_token(view, caller, grant_key, budget_token, pointer)
            check_balance(view, grant, 1)
        else:
            try:
                payment.check_may_pay(pointer.type, None)
            except DerefDenied:
                grant = _grant_on_record(view, caller, pointer)
                if grant is None:
                    raise
        payment.check_may_pay(pointer.type, grant)
    except EngramBusError as problem:
        refusal = problem
    return DerefCheck(
        turn=payers.turn.number,
        tokens_left=payment.tokens_left(grant, enforced_only=False),
        reads_left=payers.reads_left(pointer.type),
        granted=grant is not None,
        refusal=refusal,
    )


def check_deref_type(view: DerefView, pointer_type: str, *, payers: Payers) -> DerefCheck:
    """Tell what the turn still has for pointers of a type; grants do not count, because each is for a pointer."""
    payment = _Payment(view, payers)
    refusal: EngramBusError | None = None
    try:
        payment.check_may_pay(pointer_type, None)
    except DerefDenied as denied:
        refusal = denied
    return DerefCheck(
        turn=payers.turn.number,
        tokens_left=payment.tokens_left(None, enforced_only=False),
        reads_left=payers.reads_left(pointer_type),
        granted=False,
        refusal=refusal,
    )


class _Payment:
    """The payers' means to pay for a dereference at the time of the view."""

    def __init__(self, view: DerefView, payers: Payers) -> None:
        self._view = view
        self._payers = payers

    def pay(
        self, pointed: PointedText, max_tokens: int, tail: bool, grant: VerifiedGrant | None
    ) -> tuple[list[DerefFact], DerefAnswer]:
        """Return the answer cut to what the grant, or else the turn, pays for, with its proof and debits."""
        pointer_type = pointed.pointer.type
        self.check_may_pay(pointer_type, grant)  # an empty budget is refused before the answer is cut to nothing
        allowed_tokens = min(max_tokens, self.tokens_left(grant, enforced_only=True))
        try:
            answer, spans = cut_to_fit(pointed, allowed_tokens, tail=tail)
        except BudgetTooSmall as problem:
            if allowed_tokens < max_tokens:  # the turn or the grant has too little left, not the request
                self._check(grant, int(problem.used or 0), None)
            raise
        # decision 5: the whole answer is charged, because the reader pays for all of it
        cost = estimate_tokens(_encode(answer))
        self._check(grant, cost, pointer_type)
        caller = self._payers.caller
        proof = DerefProved(
            run=caller.run.run_id,
            agent=caller.name,
            turn=self._payers.turn.number,
            type=pointer_type,
            ref=pointed.pointer.ref,
            digest=pointed.digest,
            tokens=cost,
            granted=grant is not None,
            spans=spans,
        )
        speaker_granted = any(
            account.speaks_for and self._is_granted(account, grant) for account in self._payers.accounts
        )
        charges = self._payers.charges(type=pointer_type, tokens=cost, granted=speaker_granted)
        return [proof, *charges, *(debits(grant, cost, caller.full_name) if grant is not None else ())], answer

    def check_may_pay(self, pointer_type: str, grant: VerifiedGrant | None) -> None:
        """Refuse a dereference that no answer is small enough for."""
        if grant is not None:
            check_balance(self._view, grant, 1)
        for account in self._payers.accounts:
            check_may_read(account, pointer_type=pointer_type, granted=self._is_granted(account, grant))

    def tokens_left(self, grant: VerifiedGrant | None, *, enforced_only: bool) -> int:
        """Return how many tokens the answer may cost."""
        left = [
            account.tokens_left(granted=self._is_granted(account, grant), enforced_only=enforced_only)
            for account in self._payers.accounts
        ]
        return min([*left, balance_of(self._view, grant).tokens if grant is not None else UNLIMITED_TOKENS])

    def _check(self, grant: VerifiedGrant | None, tokens: int, pointer_type: str | None) -> None:
        if grant is not None:
            check_balance(self._view, grant, tokens)
        for account in self._payers.accounts:
            granted = self._is_granted(account, grant)
            check_tokens(account, tokens, pointer_type=pointer_type, granted=granted)

    def _is_granted(self, account: Account, grant: VerifiedGrant | None) -> bool:
        """True if the grant pays instead of the account's turn."""
        if grant is None or account.speaks_for is None:
            return grant is not None
        # decision 45: or else an agent could grant its child what it then reads itself under the child's name
        issuer = grant.origin.parent
        return issuer == ADMIN or account.agent not in lineage_of_agent(self._view, account.run, issuer)


def _enforcing_all(payers: Payers) -> Payers:
    """Return the same payers with every limit enforced: a grant is used before a limit that only warns is exceeded."""
    strict = LimitChecks({}, payers.caller.role)
    accounts = tuple(msgspec.structs.replace(account, limits=strict) for account in payers.accounts)
    return msgspec.structs.replace(payers, accounts=accounts)


def _grant_on_record(view: DerefView, caller: Caller, pointer: Pointer) -> VerifiedGrant | None:
    """Return a grant that the caller holds and that would pay for this without its token."""
    use = grant_use(view, caller, pointer)
    for issued in view.grants_for(caller.run.run_id, caller.name):
        with suppress(GrantRefusal):
            grant = check_allows(journalled_grant(view, issued, caller.project), use)
            check_balance(view, grant, 1)
            return grant
    return None
