"""Turns: how much an agent may read and put before it has to report.

A turn belongs to one agent in one run. It closes on an accepted message, on a boundary that a hook or a parent
reports, or when the agent was idle for too long; the next one opens at once with a fresh budget. Ceilings for the whole
run limit how often closing a turn gives a new budget (`accounts.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from engrambus.core import SECOND_US
from engrambus.errors import RoleForbidden
from engrambus.evidence.pointers import ReadSpan, all_of
from engrambus.policy.facts import ContentDrawn, DerefProved, TurnCharged, TurnClosed
from engrambus.policy.identity import Agent, Caller, IdentityView, check_descends

IDLE_US = 600 * SECOND_US
"""Time without activity after which a turn is over."""
SESSION_IDLE_US = 60 * SECOND_US
"""The same for an agent that stands for a client's whole session, where no hook reports a boundary (decision 45)."""

COUNTED_AS = {
    "repo": "repo",
    "diff": "repo",
    "artifact": "artifact",
    "test": "artifact",
    "url": "artifact",
    "sam": "sam",
}
"""Pointer type → the count of the turn that its dereferences use up."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's use of its budgets, in one turn and in the run."""

    number: int = 1
    last_us: int = 0
    """Time of the last activity that was charged to the agent, or of the end of the previous turn."""
    repo: int = 0
    artifact: int = 0
    sam: int = 0
    tokens: int = 0
    """Tokens read in this turn."""
    run_tokens: int = 0
    """Tokens read in the run so far."""
    put_tokens: int = 0
    """Tokens of the engrams put in this turn."""
    spoken_tokens: int = 0
    """Tokens of `run_tokens` that were read under the names of descendants; the team's total has them as theirs."""

    @property
    def is_unused(self) -> bool:
        """True if nothing was read or put in this turn."""
        return not (self.repo or self.artifact or self.sam or self.tokens or self.put_tokens)


class RecordedRead(NamedTuple):
    """A part of a content that a dereference returned to an agent."""

    run: str
    agent: str
    span: ReadSpan


class TurnReads(Protocol):
    """Reads of turns and of dereferenced content."""

    def turn(self, run_id: str, agent: str) -> Turn | None:
        """Return the last turn with any activity of the agent."""
        ...

    def team_tokens(self, run_id: str) -> int:
        """Return the tokens that all agents of a run have read so far; the admin's reads are not among them."""
        ...

    def was_read(self, run_id: str, digest: str) -> bool:
        """True if a dereference in this run returned this digest: of all the content, or of the returned lines."""
        ...

    def reads_of(self, contents: Sequence[str], runs: Sequence[str]) -> list[RecordedRead]:
        """Return the recorded reads of these contents by agents of these runs, and by the admin in any run."""
        ...


class TurnView(IdentityView, TurnReads, Protocol):
    """The store at one moment, as the rules about turns read it."""


def close_turn(view: TurnView, *, caller: Caller, name: str, why: str) -> tuple[list[TurnClosed], int]:
    """Close the turn of one of the caller's descendants, as a client reports it."""
    agent = check_descends(view, caller, name, "name")
    if agent.name == caller.name and caller.spoken_by is None:
        raise RoleForbidden(
            "An agent does not close its own turn.",
            field="name",
            hint="A turn closes when you report with `less.message`; a parent or a hook closes it otherwise.",
        )
    return end_turn(view, agent.run, agent.name, why)


def end_turn(view: TurnView, run_id: str, agent: str, why: str) -> tuple[list[TurnClosed], int]:
    """Close an agent's turn; return the number of the turn that is open then.

    A turn in which nothing was read or put stays open: closing it would only use up a number.
    """
    turn = turn_of(view, run_id, agent)
    if turn.is_unused:
        return [], turn.number
    return [TurnClosed(run=run_id, agent=agent, turn=turn.number, why=why)], turn.number + 1


def turn_of(view: TurnView, run_id: str, name: str) -> Turn:
    """Return the turn that an agent, or the admin, is in now."""
    return present_turn(view.turn(run_id, name), view.agent(run_id, name), view.as_of)


def present_turn(last: Turn | None, agent: Agent | None, now_us: int) -> Turn:
    """Return the turn an agent is in: its last one, or the next one if it was idle for too long."""
    if last is None:
        return Turn(last_us=now_us)
    return _next_turn(last.number, last, now_us) if now_us - last.last_us > idle_limit_us(agent) else last


def idle_limit_us(agent: Agent | None) -> int:
    """Return how long an agent may be idle before its turn is over."""
    return SESSION_IDLE_US if agent is not None and agent.session_turns > 1 else IDLE_US


def after_deref(last: Turn | None, proved: DerefProved, now_us: int) -> Turn:
    """Return the agent's turn after a dereference."""
    return _after_read(last, proved.turn, proved.tokens, now_us, type=proved.type, granted=proved.granted)


def spans_of(proved: DerefProved) -> tuple[ReadSpan, ...]:
    """Return every part of a content that a dereference returned."""
    # Proofs of older journals have no spans: they stand for all of the content.
    if any(span.of == proved.digest for span in proved.spans):
        return proved.spans
    return (all_of(proved.digest), *proved.spans)


def after_draw(last: Turn | None, drawn: ContentDrawn, now_us: int) -> Turn:
    """Return the agent's turn after it was given content without following a pointer."""
    return _after_read(last, drawn.turn, drawn.tokens, now_us)


def after_put(last: Turn | None, number: int, put_tokens: int, now_us: int) -> Turn:
    """Return the agent's turn after it put engrams."""
    turn = _enter(last, number)
    return msgspec.structs.replace(turn, last_us=now_us, put_tokens=turn.put_tokens + put_tokens)


def after_charge(last: Turn | None, charged: TurnCharged, now_us: int) -> Turn:
    """Return the speaker's turn after it read or put something under the name of a descendant."""
    turn = _after_read(last, charged.turn, charged.tokens, now_us, type=charged.type, granted=charged.granted)
    return msgspec.structs.replace(
        turn,
        put_tokens=turn.put_tokens + charged.put_tokens,
        spoken_tokens=turn.spoken_tokens + charged.tokens,
    )


def after_close(last: Turn | None, closed: TurnClosed, now_us: int) -> Turn:
    """Return the turn that opens after the closed one."""
    # The fact names the closed turn because it may be a later one than `last`: a turn that idled away left no fact.
    return _next_turn(closed.turn, last, now_us)


def _after_read(
    last: Turn | None, number: int, tokens: int, now_us: int, *, type: str | None = None, granted: bool = False
) -> Turn:
    turn = _enter(last, number)
    changed: dict[str, int] = {}
    if not granted:  # a grant pays instead of the turn; the ceiling of the run counts both
        changed["tokens"] = turn.tokens + tokens
        if type is not None:
            count = COUNTED_AS[type]
            changed[count] = getattr(turn, count) + 1
    return msgspec.structs.replace(turn, last_us=now_us, run_tokens=turn.run_tokens + tokens, **changed)


def _enter(last: Turn | None, number: int) -> Turn:
    """Return the turn of this number: the last one, or a new one that keeps the totals of the run."""
    if last is None:
        return Turn(number=number)
    return last if last.number == number else _next_turn(number - 1, last, last.last_us)


def _next_turn(number: int, last: Turn | None, now_us: int) -> Turn:
    if last is None:
        return Turn(number=number + 1, last_us=now_us)
    return Turn(number=number + 1, last_us=now_us, run_tokens=last.run_tokens, spoken_tokens=last.spoken_tokens)
