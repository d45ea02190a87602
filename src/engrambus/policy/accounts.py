"""Accounts: which agents pay for a read or a put, and what each of them still may spend.

A read is charged to the reader's own turn and to the ceilings of the run, never to an ancestor's turn. Only where an
agent acts for a descendant without proof that it is that descendant do both pay (decision 45).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from engrambus.errors import BudgetExceeded, DerefDenied, EngramBusError
from engrambus.policy.budgets import TurnBudget
from engrambus.policy.facts import ContentDrawn, TurnCharged
from engrambus.policy.identity import ADMIN, Agent, Caller
from engrambus.policy.limits import LimitChecks, LimitName
from engrambus.policy.turns import COUNTED_AS, Turn, TurnView, present_turn

_TURN_HINT = (
    "Report what you have and go on in the next turn, or ask to read more with `less.request_deref` and a reason; "
    "your parent, or a person with `engrambus grant approve`, decides."
)
_CEILING_HINT = "No later turn gives more. Report what you have; a person {way}, or raises `deref.{key}` in the policy."
_OTHER_RUN = "opens another run with `engrambus run new GOAL`"
_OTHER_SESSION = "starts a new session of the coding agent, which has a run of its own"
_CEILING_KEYS = {"run_tokens": "run_turns", "team_tokens": "team_turns"}
"""Ceiling → the key of the policy, under `deref`, that sets it."""
_SUBJECTS = {
    "run_tokens": "The {limit} tokens that '{agent}' may dereference in this run",
    "team_tokens": "The {limit} tokens that all agents of this run may dereference together",
    "deref_tokens": "{whose} {limit} tokens of dereferenced content",
}
UNLIMITED_TOKENS = 1 << 40
"""Tokens left where no limit is enforced."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that pays for a call."""

    run: str
    agent: str
    turn: Turn
    budget: TurnBudget
    team_tokens: int
    """Tokens that all agents of the run have read so far."""
    limits: LimitChecks
    """The limits as they apply to the agent's role."""
    in_session: bool = False
    """True if the run belongs to a client's session."""
    speaks_for: str | None = None
    """The descendant under whose name the agent acts; None for the caller itself."""

    def token_limits(self, *, granted: bool = False) -> Iterator[tuple[LimitName, str, int, int]]:
        """Yield the name, field, used tokens and amount of each limit on reading, ceilings first.

        With `granted`, a grant pays instead of the turn, and only the ceilings of the run apply.
        """
        # Ceilings first: when both are reached, the error must not promise that the next turn helps.
        yield "run_tokens", "run.tokens", self.turn.run_tokens, self.budget.run_tokens
        yield "team_tokens", "team.tokens", self.team_tokens, self.budget.team_tokens
        if not granted:
            yield "deref_tokens", "turn.tokens", self.turn.tokens, self.budget.tokens

    def tokens_left(self, *, granted: bool = False, enforced_only: bool = False) -> int:
        """Return how many tokens may still be read; with `enforced_only`, limits that only warn do not count."""
        left = [
            limit - used
            for name, _, used, limit in self.token_limits(granted=granted)
            if not enforced_only or self.limits.is_enforced(name)
        ]
        return max(0, min(left, default=UNLIMITED_TOKENS))


class Payers(msgspec.Struct, frozen=True, kw_only=True):
    """The agents that pay for a call: the caller, and an agent that speaks for it without proof; none for a person."""

    caller: Caller
    turn: Turn
    """The caller's turn, which the facts of the call name."""
    accounts: tuple[Account, ...]

    def tokens_left(self) -> int:
        """Return how many tokens may still be read; for a person, as many as wanted."""
        return min((account.tokens_left(enforced_only=True) for account in self.accounts), default=UNLIMITED_TOKENS)

    def reads_left(self, pointer_type: str) -> int | None:
        """Return how many dereferences of a type are left in the turn; None for a person."""
        count = COUNTED_AS[pointer_type]
        left = (getattr(account.budget, count) - getattr(account.turn, count) for account in self.accounts)
        return max(0, min(left)) if self.accounts else None

    def charges(
        self, *, type: str | None = None, tokens: int = 0, put_tokens: int = 0, granted: bool = False
    ) -> list[TurnCharged]:
        """Return the fact that charges the speaker; what the caller pays is part of the read's or put's own fact."""
        return [
            TurnCharged(
                run=account.run,
                agent=account.agent,
                turn=account.turn.number,
                speaks_for=account.speaks_for,
                type=type,
                tokens=tokens,
                put_tokens=put_tokens,
                granted=granted,
            )
            for account in self.accounts
            if account.speaks_for is not None
        ]


def payers_of(
    view: TurnView,
    caller: Caller,
    limits: LimitChecks,
    budget_of: Callable[[Agent], TurnBudget],
    *,
    team_tokens: int = 0,
) -> Payers:
    """Return who pays for a call; `budget_of` returns the limits of an agent of the caller's run."""
    run_id = caller.run.run_id
    agent = view.agent(run_id, caller.name) if caller.role != ADMIN else None
    turn = present_turn(view.turn(run_id, caller.name), agent, view.as_of)
    if agent is None:  # turns limit agents; a person at the machine reads without one
        return Payers(caller=caller, turn=turn, accounts=())
    own = Account(
        run=run_id,
        agent=agent.name,
        turn=turn,
        budget=budget_of(agent),
        team_tokens=team_tokens,
        limits=limits,
        in_session=caller.run.session is not None,
    )
    speaker = _speaker(view, caller)
    if speaker is None:
        return Payers(caller=caller, turn=turn, accounts=(own,))
    also = Account(
        run=run_id,
        agent=speaker.name,
        turn=present_turn(view.turn(run_id, speaker.name), speaker, view.as_of),
        budget=budget_of(speaker),
        team_tokens=team_tokens,
        limits=limits.for_role(speaker.role),
        in_session=own.in_session,
        speaks_for=caller.name,
    )
    return Payers(caller=caller, turn=turn, accounts=(own, also))


def _speaker(view: TurnView, caller: Caller) -> Agent | None:
    """Return the agent that speaks for the caller without proof, if it is not a person."""
    if caller.spoken_by is None:
        return None
    run_id, _, name = caller.spoken_by.rpartition("/")
    # An agent speaks for descendants, which are in its own run; only the admin reaches other runs.
    return view.agent(run_id, name) if run_id == caller.run.run_id and name != ADMIN else None


def check_tokens(account: Account, tokens: int, *, pointer_type: str | None = None, granted: bool = False) -> None:
    """Report every limit that reading so many tokens exceeds: enforced ones refuse it, others warn.

    With `granted`, a grant pays instead of the turn, and only the ceilings of the run apply.
    """
    for limit, refusal in _exceeded(account, tokens, pointer_type, granted=granted):
        account.limits.exceeded(limit, refusal)


def draw_content(payers: Payers, tokens: int) -> list[ContentDrawn | TurnCharged]:
    """Charge content that the caller is given without following a pointer; return the facts."""
    for account in payers.accounts:
        check_tokens(account, tokens)
    caller = payers.caller
    drawn = ContentDrawn(run=caller.run.run_id, agent=caller.name, turn=payers.turn.number, tokens=tokens)
    return [drawn, *payers.charges(tokens=tokens)]


def check_may_read(account: Account, *, pointer_type: str | None = None, granted: bool = False) -> None:
    """Refuse a read for which an enforced limit leaves nothing; limits that only warn are reported with its cost."""
    for limit, refusal in _exceeded(account, 1, pointer_type, granted=granted):
        if account.limits.is_enforced(limit):
            raise refusal


def charge_put(payers: Payers, tokens: int) -> list[TurnCharged]:
    """Report engrams beyond the tokens that a turn has for them; return what a speaker is charged."""
    for account in payers.accounts:
        used, limit = account.turn.put_tokens, account.budget.put_tokens
        if used + tokens > limit:
            whose = "A turn" if account.speaks_for is None else f"The turn of '{account.agent}'"
            refusal = BudgetExceeded(
                f"{whose} has {limit} tokens for engrams, artifacts and messages to peers, of which {used} are used; "
                f"this needs {tokens}.",
                field="turn.put_tokens",
                limit=limit,
                used=used + tokens,
                hint=_put_hint(account, tokens),
            )
            account.limits.exceeded("put_tokens", refusal)
    return payers.charges(put_tokens=tokens)


def charge_text(payers: Payers, tokens: int) -> list[TurnCharged]:
    """Charge an artifact, or a message that ends no turn, to the tokens a turn has for engrams; return the facts."""
    charges = charge_put(payers, tokens)
    if not payers.accounts:
        return charges
    caller = payers.caller
    own = TurnCharged(
        run=caller.run.run_id,
        agent=caller.name,
        turn=payers.turn.number,
        speaks_for=caller.name,
        put_tokens=tokens,
    )
    return [own, *charges]


def _put_hint(account: Account, tokens: int) -> str:
    if tokens > account.budget.put_tokens:
        return "It never fits: send fewer engrams at a time, or shorter texts."
    if account.speaks_for is not None:
        return _speaker_hint(account)
    return "Report with `less.message`, which opens the next turn, and go on there; or put shorter texts."


def _exceeded(
    account: Account, tokens: int, pointer_type: str | None, *, granted: bool
) -> Iterator[tuple[LimitName, EngramBusError]]:
    """Yield the limits that a read of so many tokens exceeds, each with its refusal."""
    for name, field, used, limit in account.token_limits(granted=granted):
        if name == "deref_tokens" and pointer_type is not None:
            yield from _exceeded_count(account, COUNTED_AS[pointer_type])
        if used + tokens > limit:
            detail = _SUBJECTS[name].format(agent=account.agent, limit=limit, whose=_whose_turn(account))
            hint = _turn_hint(account) if name == "deref_tokens" else _ceiling_hint(account, _CEILING_KEYS[name])
            yield (
                name,
                DerefDenied(f"{detail} are used or would be exceeded.", field=field, limit=limit, used=used, hint=hint),
            )


def _exceeded_count(account: Account, count: str) -> Iterator[tuple[LimitName, EngramBusError]]:
    used, limit = getattr(account.turn, count), getattr(account.budget, count)
    if used >= limit:
        detail = f"{_whose_turn(account)} {limit} {count} dereferences are used."
        refusal = DerefDenied(detail, field=f"turn.{count}", limit=limit, used=used, hint=_turn_hint(account))
        yield "deref_count", refusal


def _turn_hint(account: Account) -> str:
    return _TURN_HINT if account.speaks_for is None else _speaker_hint(account)


def _ceiling_hint(account: Account, key: str) -> str:
    return _CEILING_HINT.format(way=_OTHER_SESSION if account.in_session else _OTHER_RUN, key=key)


def _whose_turn(account: Account) -> str:
    return "This turn's" if account.speaks_for is None else f"In the turn of '{account.agent}', its"


def _speaker_hint(account: Account) -> str:
    return (
        f"'{account.agent}' called as '{account.speaks_for}' without proof that it is '{account.speaks_for}', so both "
        f"pay. '{account.speaks_for}' has a budget of its own when it calls with its own token."
    )
