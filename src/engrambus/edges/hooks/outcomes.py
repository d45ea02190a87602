"""What can come of a hook. Nothing the protocol foresees is an exception: match on the outcome instead."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from engrambus.errors import BudgetExceeded, EngramBusError
from engrambus.evidence.pointers import DerefAnswer
from engrambus.knowledge.engrams import Engram


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The parent has the message, and the child's next turn has begun."""

    message_id: str
    to: str
    """The parent who has it."""
    engrams: tuple[str, ...]
    """The engrams it put or confirmed, in order."""
    requests: tuple[str, ...]
    """What it asked to read, in order; the parent approves or denies each."""
    turn: int
    """The turn that is open now."""
    resends: str | None = None
    """The rejection it makes good."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The children have the message."""

    broadcast_id: str
    to: tuple[str, ...]


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """The message is over its budget; hand `reason` and `resend` back to whoever wrote it."""

    reason: str
    """What was exceeded, by how much."""
    resend: str
    """A message in the required form with all that could be kept; `...` stands where something has to be written."""
    exceeded: tuple[dict[str, Any], ...]
    """Everything that was exceeded: what, limit and used."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway said no, and nothing changed."""

    problem: EngramBusError

    @property
    def code(self) -> str:
        """The refusal's stable code."""
        return self.problem.code


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was looked up: the engram that says so, and as much of its content as was paid for."""

    engram: Engram
    excerpt: DerefAnswer | None = None
    """The content behind its pointer, if the budget allowed any."""
    withheld: EngramBusError | None = None
    """Why there is no excerpt, if one was asked for."""


ChildOutcome: TypeAlias = Accepted | Rejected | Refused
SentOutcome: TypeAlias = Sent | Rejected | Refused
FoundOutcome: TypeAlias = Found | Refused


def rejected(problem: BudgetExceeded) -> Rejected:
    """A refusal for its size, as an outcome."""
    return Rejected(
        reason=problem.detail, resend=problem.resend or "", exceeded=tuple(dict(each) for each in problem.exceeded)
    )
