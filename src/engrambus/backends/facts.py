"""Everything that can stand in the journal, and how it is read back."""

from __future__ import annotations

from functools import cache

import msgspec

from engrambus.errors import FormatUnknown
from engrambus.gateway.ports import RequestAnswered
from engrambus.knowledge.brief import BriefMade
from engrambus.knowledge.cortex import ContributionMoved, ContributionSubmitted, EpisodeKept, SnapshotTaken
from engrambus.knowledge.engrams import (
    EngramConfirmed,
    EngramDelivered,
    EngramForgotten,
    EngramPinned,
    EngramPromoted,
    EngramPut,
    EngramReceived,
    EngramUnpinned,
)
from engrambus.knowledge.memory import MemoryRead
from engrambus.knowledge.messages import BroadcastSent, MessageAccepted, MessageRejected
from engrambus.policy import (
    AgentAdded,
    ContentDrawn,
    DerefAnswered,
    DerefProved,
    DerefRequested,
    PolicyApplied,
    RunEnded,
    RunOpened,
    TurnClosed,
)
from engrambus.policy.grants import GrantIssued, GrantRevoked, GrantSpent

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
    | EngramPinned
    | EngramUnpinned
    | DerefProved
    | ContentDrawn
    | MemoryRead
    | EpisodeKept
    | SnapshotTaken
    | ContributionSubmitted
    | ContributionMoved
    | TurnClosed
    | DerefRequested
    | DerefAnswered
    | GrantIssued
    | GrantSpent
    | GrantRevoked
    | MessageAccepted
    | MessageRejected
    | BroadcastSent
    | BriefMade
    | RequestAnswered
)


@cache
def _decoder() -> msgspec.json.Decoder[list[Fact]]:
    """Made when the first line is read: most commands read none."""
    return msgspec.json.Decoder(list[Fact])


MINUTE = 60_000_000
"""A minute, in microseconds."""

REMEMBERED_FOR = 86_400_000_000
"""How long an idempotency key is honoured: a day, in microseconds."""


def decode_facts(text: bytes) -> list[Fact]:
    """A commit's facts."""
    try:
        return _decoder().decode(text)
    except msgspec.ValidationError as problem:
        raise FormatUnknown(f"The journal holds something this version does not know: {problem}.") from None


def mail_of(fact: Fact) -> list[tuple[str, str, str, str, str, str]]:
    """What a fact puts into inboxes: run, recipient, kind, item, sender and text of each piece."""
    match fact:
        case MessageAccepted():
            return [(fact.run, fact.to, "message", fact.message_id, fact.agent, fact.text)]
        case BroadcastSent():
            return [(fact.run, child, "broadcast", fact.broadcast_id, fact.agent, fact.text) for child in fact.to]
        case DerefRequested():
            text = f"{fact.ref}: {fact.reason}"
            return [(fact.run, fact.to, "request", fact.request_id, fact.agent, text)]
        case GrantIssued():
            what = fact.pointer or fact.prefix or ""
            uses = f"{fact.uses} use{'s' * (fact.uses != 1)}"
            text = f"You may read {what}: {fact.cap_tokens} tokens, {uses}."
            return [(fact.run, fact.child, "grant", fact.grant_id, fact.parent, text)]
        case _:
            return []
