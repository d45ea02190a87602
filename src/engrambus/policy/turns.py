"""Turns: how much an agent may dereference before it has to report.

A turn belongs to one agent in one run. It closes on an accepted message, on a boundary that a hook reports, or after
ten idle minutes; the next one opens at once with a fresh budget. A ceiling for the whole run limits how often closing a
turn gives a new budget.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from engrambus.core import SECOND_US
from engrambus.errors import DerefDenied
from engrambus.policy.budgets import DerefBudget
from engrambus.policy.facts import ContentDrawn, DerefProved, TurnClosed
from engrambus.policy.identity import ADMIN, Caller, IdentityView, check_descends

IDLE_US = 600 * SECOND_US
"""Time without activity after which a turn is over."""

COUNTED_AS = {
    "repo": "repo",
    "diff": "repo",
    "artifact": "artifact",
    "test": "artifact",
    "url": "artifact",
    "sam": "sam",
}
"""Pointer type → the count of the turn that its dereferences use up."""

_HINT = (
    "Report what you have and go on in the next turn, or ask to read more with `less.request_deref` and a reason; "
    "your parent, or a person with `engrambus grant approve`, decides."
)


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's use of its budgets, in one turn and in the run."""

    number: int = 1
    last_us: int = 0
    """Time of the agent's last activity."""
    repo: int = 0
    artifact: int = 0
    sam: int = 0
    tokens: int = 0
    run_tokens: int = 0
    """Tokens dereferenced in the run so far."""

    @property
    def is_unused(self) -> bool:
        """True if nothing was read in this turn."""
        return not (self.repo or self.artifact or self.sam or self.tokens)


class TurnReads(Protocol):
    """Reads of turns and of dereferenced content."""

    def turn(self, run_id: str, agent: str) -> Turn | None:
        """Return the last turn with any activity of the agent."""
        ...

    def was_read(self, run_id: str, digest: str) -> bool:
        """True if a dereference in this run returned content with this digest."""
        ...


class TurnView(IdentityView, TurnReads, Protocol):
    """The store at one moment, as the rules about turns read it."""


def close_turn(view: TurnView, *, caller: Caller, name: str, why: str) -> tuple[list[TurnClosed], int]:
    """Close the turn of the caller or of its descendant `name`, as a client reports it."""
    agent = check_descends(view, caller, name, "name")
    return end_turn(view, agent.run, agent.name, why)


def end_turn(view: TurnView, run_id: str, agent: str, why: str) -> tuple[list[TurnClosed], int]:
    """Close an agent's turn; return the number of the turn that is open then.

    A turn in which nothing was read stays open: closing it would only use up a number.
    """
    turn = present_turn(view.turn(run_id, agent), view.as_of)
    if turn.is_unused:
        return [], turn.number
    return [TurnClosed(run=run_id, agent=agent, turn=turn.number, why=why)], turn.number + 1


def team_tokens_used(view: TurnView, run_id: str) -> int:
    """Return the tokens that all agents of a run, the admin included, have dereferenced so far."""
    # The admin is not limited, but what it reads counts for the team.
    names = (ADMIN, *(agent.name for agent in view.agents(run_id)))
    turns = (view.turn(run_id, name) for name in names)
    return sum(turn.run_tokens for turn in turns if turn is not None)


def present_turn(last: Turn | None, now_us: int) -> Turn:
    """Return the turn an agent is in: its last one, or the next one if it was idle for too long."""
    if last is None:
        return Turn(last_us=now_us)
    return _next_turn(last.number, last, now_us) if now_us - last.last_us > IDLE_US else last


def tokens_left(turn: Turn, budget: DerefBudget) -> int:
    """Return how many tokens may still be read, by the turn's budget and the run's ceiling."""
    return max(0, min(budget.tokens - turn.tokens, budget.run_tokens - turn.run_tokens))


def check_may_deref(turn: Turn, budget: DerefBudget, pointer_type: str) -> None:
    """Refuse any further dereference of this type if the turn's number of them or its tokens are used up."""
    count = COUNTED_AS[pointer_type]
    used, limit = getattr(turn, count), getattr(budget, count)
    if used >= limit:
        raise DerefDenied(
            f"This turn's {limit} {count} dereferences are used.",
            field=f"turn.{count}",
            limit=limit,
            used=used,
            hint=_HINT,
        )
    check_tokens(turn, budget, 1)


def check_tokens(turn: Turn, budget: DerefBudget, tokens: int, *, granted: bool = False) -> None:
    """Refuse content that costs more tokens than the turn or the run has left.

    With `granted`, a grant pays instead of the turn, and only the ceiling of the run applies.
    """
    for field, used, limit in (
        ("turn.tokens", turn.tokens, budget.tokens),
        ("run.tokens", turn.run_tokens, budget.run_tokens),
    ):
        if used + tokens > limit and not (granted and field == "turn.tokens"):
            period = "turn" if field == "turn.tokens" else "run"
            raise DerefDenied(
                f"This {period}'s {limit} tokens of dereferenced content are used or would be exceeded.",
                field=field,
                limit=limit,
                used=used,
                hint=_HINT,
            )


def after_deref(last: Turn | None, proved: DerefProved, now_us: int) -> Turn:
    """Return the agent's turn after a dereference."""
    run_tokens = last.run_tokens if last else 0
    if last is None or last.number != proved.turn:
        last = Turn(number=proved.turn)
    count = COUNTED_AS[proved.type]
    # A grant pays instead of the turn; the ceiling of the run counts both.
    changed = {} if proved.granted else {count: getattr(last, count) + 1, "tokens": last.tokens + proved.tokens}
    return msgspec.structs.replace(last, last_us=now_us, run_tokens=run_tokens + proved.tokens, **changed)


def after_draw(last: Turn | None, drawn: ContentDrawn, now_us: int) -> Turn:
    """Return the agent's turn after it was given content without following a pointer."""
    run_tokens = last.run_tokens if last else 0
    if last is None or last.number != drawn.turn:
        last = Turn(number=drawn.turn)
    return msgspec.structs.replace(
        last, last_us=now_us, run_tokens=run_tokens + drawn.tokens, tokens=last.tokens + drawn.tokens
    )


def after_close(last: Turn | None, closed: TurnClosed, now_us: int) -> Turn:
    """Return the turn that opens after the closed one."""
    # The fact names the closed turn because it may be a later one than `last`: a turn that idled away left no fact.
    return _next_turn(closed.turn, last, now_us)


def _next_turn(number: int, last: Turn | None, now_us: int) -> Turn:
    return Turn(number=number + 1, last_us=now_us, run_tokens=last.run_tokens if last else 0)
