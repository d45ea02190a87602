"""Everything that can stand in the journal, and how it is read back."""

from __future__ import annotations

import msgspec

from stigmergy.errors import FormatUnknown
from stigmergy.knowledge.brief import BriefMade
from stigmergy.knowledge.engrams import (
    EngramConfirmed,
    EngramDelivered,
    EngramForgotten,
    EngramPromoted,
    EngramPut,
    EngramReceived,
)
from stigmergy.operations.ports import RequestAnswered
from stigmergy.policy import AgentAdded, DerefProved, PolicyApplied, RunEnded, RunOpened, TurnClosed

Fact = (
    RunOpened
    | RunEnded
    | AgentAdded
    | PolicyApplied
    | EngramPut
    | EngramPromoted
    | EngramForgotten
    | EngramConfirmed
    | EngramReceived
    | EngramDelivered
    | DerefProved
    | TurnClosed
    | BriefMade
    | RequestAnswered
)

_decoder = msgspec.json.Decoder(list[Fact])

MINUTE = 60_000_000
"""A minute, in microseconds."""

REMEMBERED_FOR = 86_400_000_000
"""How long an idempotency key is honoured: a day, in microseconds."""


def decode_facts(text: bytes) -> list[Fact]:
    """A commit's facts."""
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as problem:
        raise FormatUnknown(f"The journal holds something this version does not know: {problem}.") from None
