"""What is counted: which fact adds what to whose figures. A back end adds these up as facts are applied.

Figures are kept for each agent of a run and, in minutes, hours and days, for each role of a run. So no question about
them reads the journal, and none costs more when there are more engrams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from engrambus.core import SECOND_US
from engrambus.knowledge.engrams import EngramPut, is_contradiction
from engrambus.knowledge.messages import BroadcastSent, MessageAccepted, MessageRejected
from engrambus.policy import ContentDrawn, DerefProved, DerefRequested, Turn, TurnClosed, present_turn
from engrambus.policy.grants import GrantIssued

SPANS = {"PT1M": 60 * SECOND_US, "PT1H": 3600 * SECOND_US, "P1D": 86_400 * SECOND_US}
"""The lengths of time figures are kept for, in microseconds; each starts at a multiple of itself since 1970."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted. Two of them can be added field by field."""

    turns: int = 0
    """Turns in which the agent read or said something."""
    messages: int = 0
    """Reports that were accepted."""
    broadcasts: int = 0
    inline_tokens: int = 0
    """What those reports and broadcasts cost, as they were sent."""
    rejections: int = 0
    """Reports and broadcasts that were over their budget and sent back."""
    resends: int = 0
    """Reports and broadcasts accepted in place of one that was sent back."""
    derefs: int = 0
    deref_tokens: int = 0
    """What those dereferences gave, as they were answered."""
    requests: int = 0
    """Times more was asked for than a turn allows."""
    grants: int = 0
    """Grants issued."""
    engrams: int = 0
    """Engrams put; saying one again puts none."""
    contradictions: int = 0
    """Of those, risks that point at two sources."""
    pointed_tokens: int = 0
    """What stands behind the pointers that were handed on, once for each reader they were handed to."""


FIELDS: tuple[str, ...] = Tally.__struct_fields__


def total(tallies: Sequence[Tally]) -> Tally:
    """All of them, added up."""
    return Tally(**{name: sum(getattr(each, name) for each in tallies) for name in FIELDS})


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """What one fact adds, and to whose figures."""

    run: str
    agent: str
    tally: Tally
    turn: int | None = None
    """The turn the agent acted in: it is counted the first time it is named."""
    kind: str | None = None
    """The kind of the engram that was put."""


class GrantsLeft(msgspec.Struct, frozen=True, kw_only=True):
    """What may still be used of the grants made out to an agent."""

    grants: int = 0
    tokens: int = 0


class TallyReads(Protocol):
    """What figures ask of a back end."""

    def tallies(self, run_id: str | None) -> dict[str, Tally]:
        """What was counted for each agent of a run; without one, for each role of the whole project."""
        ...

    def kinds_put(self, run_id: str | None) -> dict[str, dict[str, int]]:
        """How many engrams of each kind each agent of a run put; without one, each role of the whole project."""
        ...

    def history(self, run_id: str | None, bucket: str, since: int) -> list[tuple[int, str, Tally]]:
        """Start, role and what was counted in each bucket that starts at `since` or later, oldest first."""
        ...

    def grants_left(self, run_id: str) -> dict[str, GrantsLeft]:
        """What is left of the grants of a run, by the agent they were made out to; nothing left, no entry."""
        ...

    def live_kinds(self, spaces: Sequence[str]) -> dict[str, int]:
        """How many live engrams of each kind lie in these spaces."""
        ...


TurnOf = Callable[[str, str], Turn | None]


def count_of(fact: object, at: int, turn_of: TurnOf) -> Count | None:
    """What a fact adds; `turn_of` tells the last turn of an agent of a run before it."""
    match fact:
        case EngramPut():
            tally = Tally(
                engrams=1, contradictions=int(is_contradiction(fact.engram)), pointed_tokens=fact.pointed_tokens
            )
            author = fact.engram.provenance.created_by.rpartition("/")[2]
            return Count(run=fact.run, agent=author, tally=tally, kind=fact.engram.kind)
        case MessageAccepted():
            tally = Tally(
                messages=1,
                inline_tokens=fact.tokens,
                resends=int(fact.resends is not None),
                pointed_tokens=fact.pointed_tokens,
            )
        case BroadcastSent():
            tally = Tally(
                broadcasts=1,
                inline_tokens=fact.tokens,
                resends=int(fact.resends is not None),
                pointed_tokens=fact.pointed_tokens,
            )
            turn = present_turn(turn_of(fact.run, fact.agent), at).number
            return Count(run=fact.run, agent=fact.agent, tally=tally, turn=turn)
        case MessageRejected():
            tally = Tally(rejections=1)
        case DerefProved():
            tally = Tally(derefs=1, deref_tokens=fact.tokens)
            return Count(run=fact.run, agent=fact.agent, tally=tally, turn=fact.turn)
        case ContentDrawn():
            return Count(run=fact.run, agent=fact.agent, tally=Tally(deref_tokens=fact.tokens), turn=fact.turn)
        case TurnClosed():
            return Count(run=fact.run, agent=fact.agent, tally=Tally(), turn=fact.turn)
        case DerefRequested():
            tally = Tally(requests=1)
        case GrantIssued():
            return Count(run=fact.run, agent=fact.parent, tally=Tally(grants=1))
        case _:
            return None
    return Count(run=fact.run, agent=fact.agent, tally=tally)


def buckets_of(at: int) -> Iterator[tuple[str, int]]:
    """The bucket of each length that a moment falls in, and when it starts."""
    for bucket, length in SPANS.items():
        yield bucket, at - at % length
