"""Turns: what an agent may dereference before it has to say something.

A turn belongs to one agent in one run. It closes on an accepted message, on a boundary that a hook reports, or after
ten idle minutes; the next opens at once with a fresh budget. A ceiling over the whole run always holds, so closing
turns refills only so often.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from engrambus.core import SECOND_US
from engrambus.errors import DerefDenied
from engrambus.policy.facts import ContentDrawn, DerefProved, TurnClosed

IDLE = 600 * SECOND_US
"""How long an agent may do nothing before its turn is over."""

COUNTED_AS = {
    "repo": "repo",
    "diff": "repo",
    "artifact": "artifact",
    "test": "artifact",
    "url": "artifact",
    "sam": "sam",
}
"""Which count a type of pointer falls under."""

_IN_MESSAGES = {
    "repo": "max_repo_spans",
    "artifact": "max_artifact_sections",
    "sam": "max_sam_items",
    "tokens": "max_deref_tokens",
}
"""What a parent's message calls these limits."""

_ASK = (
    "Report what you have and go on in the next turn, or ask to read more with `less.request_deref` and a reason; "
    "your parent, or a person with `engrambus grant approve`, decides."
)


class DerefBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one turn allows, and how many turns' worth of tokens a run does."""

    repo: int = 3
    artifact: int = 2
    sam: int = 2
    tokens: int = 1200
    run_turns: int = 20
    team_turns: int = 200
    """How many turns' worth all agents of a run may read together before it takes no new ones on."""

    @property
    def team_tokens(self) -> int:
        """What all agents of a run may read together before it takes no new ones on."""
        return self.tokens * self.team_turns

    @property
    def run_tokens(self) -> int:
        """The ceiling for one agent over the whole run."""
        return self.tokens * self.run_turns

    def lowered_by(self, given: object) -> DerefBudget:
        """What the limits of a parent's message leave of a turn; nothing is raised, and the run's ceiling stays."""
        lower = {
            name: min(getattr(self, name), said)
            for name, theirs in _IN_MESSAGES.items()
            if (said := getattr(given, theirs, None)) is not None
        }
        kept = {name: getattr(self, name) for name in DerefBudget.__struct_fields__}
        return _Lowered(**kept | lower, ceiling=self.run_tokens)


class _Lowered(DerefBudget, frozen=True, kw_only=True):
    """A turn's budget that a parent lowered, under the ceiling the project set."""

    ceiling: int

    @property
    def run_tokens(self) -> int:
        return self.ceiling


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent stands in its present turn."""

    number: int = 1
    last_at: int = 0
    """When it last did something."""
    repo: int = 0
    artifact: int = 0
    sam: int = 0
    tokens: int = 0
    run_tokens: int = 0
    """Dereferenced in the run so far."""


class TurnReads(Protocol):
    """What policy asks of a back end about turns."""

    def turn(self, run_id: str, agent: str) -> Turn | None:
        """The last turn an agent did anything in."""
        ...

    def was_read(self, run_id: str, digest: str) -> bool:
        """Whether a dereference in this run gave this digest."""
        ...


def present_turn(last: Turn | None, now: int) -> Turn:
    """The turn an agent is in now: its last one, or the next if it was idle too long."""
    if last is None:
        return Turn(last_at=now)
    return _after(last.number, last, now) if now - last.last_at > IDLE else last


def tokens_left(turn: Turn, budget: DerefBudget) -> int:
    """How many tokens the turn still allows, the run's ceiling included."""
    return max(0, min(budget.tokens - turn.tokens, budget.run_tokens - turn.run_tokens))


def check_may_deref(turn: Turn, budget: DerefBudget, pointer_type: str) -> None:
    """Refuse a dereference the turn no longer allows, whatever its size."""
    count = COUNTED_AS[pointer_type]
    used, limit = getattr(turn, count), getattr(budget, count)
    if used >= limit:
        raise DerefDenied(
            f"This turn's {limit} {count} dereferences are used.",
            field=f"turn.{count}",
            limit=limit,
            used=used,
            hint=_ASK,
        )
    check_tokens(turn, budget, 1)


def check_tokens(turn: Turn, budget: DerefBudget, tokens: int, *, granted: bool = False) -> None:
    """Refuse what costs more tokens than the turn or the run has left; of what is granted, than the run has."""
    for field, used, limit in (
        ("turn.tokens", turn.tokens, budget.tokens),
        ("run.tokens", turn.run_tokens, budget.run_tokens),
    ):
        if used + tokens > limit and not (granted and field == "turn.tokens"):
            whose = "turn" if field == "turn.tokens" else "run"
            raise DerefDenied(
                f"This {whose}'s {limit} tokens of dereferenced content are used or would be exceeded.",
                field=field,
                limit=limit,
                used=used,
                hint=_ASK,
            )


def after_deref(last: Turn | None, proved: DerefProved, at: int) -> Turn:
    """Where an agent stands after a dereference in the turn the proof names."""
    run_tokens = last.run_tokens if last else 0
    if last is None or last.number != proved.turn:
        last = Turn(number=proved.turn)
    count = COUNTED_AS[proved.type]
    changed = {} if proved.granted else {count: getattr(last, count) + 1, "tokens": last.tokens + proved.tokens}
    return msgspec.structs.replace(last, last_at=at, run_tokens=run_tokens + proved.tokens, **changed)


def after_draw(last: Turn | None, drawn: ContentDrawn, at: int) -> Turn:
    """Where an agent stands after it was given content in the turn the fact names."""
    run_tokens = last.run_tokens if last else 0
    if last is None or last.number != drawn.turn:
        last = Turn(number=drawn.turn)
    return msgspec.structs.replace(
        last, last_at=at, run_tokens=run_tokens + drawn.tokens, tokens=last.tokens + drawn.tokens
    )


def after_close(last: Turn | None, closed: TurnClosed, at: int) -> Turn:
    """Where an agent stands once the turn the fact names is over; one that idled away may lie between."""
    return _after(closed.turn, last, at)


def _after(number: int, last: Turn | None, now: int) -> Turn:
    """The turn after that number: fresh counts, the same run."""
    return Turn(number=number + 1, last_at=now, run_tokens=last.run_tokens if last else 0)
