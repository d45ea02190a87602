"""Decoding journalled facts, and what both back ends derive from them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from engrambus.core.journal import JournalGap
from engrambus.core.project_clock import ClockChange
from engrambus.errors import FormatUnknown
from engrambus.evidence.pointers import pointed_path
from engrambus.gateway.ports import RequestAnswered
from engrambus.knowledge.brief import BriefMade
from engrambus.knowledge.cortex import (
    ContradictionRecorded,
    ContradictionSettled,
    ContributionMoved,
    ContributionSubmitted,
    EpisodeKept,
    SnapshotTaken,
)
from engrambus.knowledge.engrams import (
    EngramAdopted,
    EngramCaptured,
    EngramConfirmed,
    EngramDelivered,
    EngramForgotten,
    EngramPinned,
    EngramPromoted,
    EngramPut,
    EngramReceived,
    EngramReplaced,
    EngramsListed,
    EngramsRecalled,
    EngramsUsed,
    EngramTrusted,
    EngramUnpinned,
    PromotionAnswered,
    PromotionRequested,
    RecallForgotten,
    RepositoryLearned,
    TaskRecalled,
)
from engrambus.knowledge.gate import GateOverridden
from engrambus.knowledge.memory import MemoryRead
from engrambus.knowledge.messages import BroadcastSent, MailHandedOver, MessageAccepted, MessageRejected, with_packs
from engrambus.policy import (
    ADMIN,
    LEARN,
    AgentAdded,
    AgentDismissed,
    CallDenied,
    ContentDrawn,
    DerefAnswered,
    DerefProved,
    DerefRequested,
    PolicyApplied,
    RunClosed,
    RunOpened,
    TokenIssued,
    TokenWithdrawn,
    TurnCharged,
    TurnClosed,
)
from engrambus.policy.grants import BlockDebited, BlockRevoked, GrantIssued
from engrambus.policy.reservations import ReservationChanged, ReservationMade, ReservationReleased

if TYPE_CHECKING:
    from engrambus.space.schedules import ScheduleFact
    from engrambus.space.tuples import Fact as TupleFact

T = TypeVar("T")

EngramChange = (
    EngramPromoted
    | EngramForgotten
    | EngramConfirmed
    | EngramReceived
    | EngramReplaced
    | EngramAdopted
    | EngramCaptured
    | EngramTrusted
    | EngramDelivered
    | EngramPinned
    | EngramUnpinned
    | EngramsUsed
    | EngramsListed
    | PromotionRequested
    | PromotionAnswered
    | RepositoryLearned
)
IdentityChange = RunOpened | RunClosed | AgentAdded | AgentDismissed | TokenIssued | TokenWithdrawn | PolicyApplied
ReservationChange = ReservationMade | ReservationChanged | ReservationReleased
RecallChange = EngramsRecalled | TaskRecalled | RecallForgotten
CortexChange = (
    EpisodeKept
    | SnapshotTaken
    | ContributionSubmitted
    | ContributionMoved
    | ContradictionRecorded
    | ContradictionSettled
)
GrantChange = DerefRequested | DerefAnswered | GrantIssued | BlockDebited | BlockRevoked

Fact = (
    IdentityChange
    | EngramPut
    | EngramChange
    | GrantChange
    | ReservationChange
    | DerefProved
    | CallDenied
    | ContentDrawn
    | MemoryRead
    | CortexChange
    | TurnCharged
    | TurnClosed
    | MessageAccepted
    | MessageRejected
    | BroadcastSent
    | MailHandedOver
    | BriefMade
    | RecallChange
    | RequestAnswered
    | GateOverridden
    | JournalGap
    | ClockChange
)


MINUTE_US = 60_000_000
RATE_WINDOW_SECONDS = 60
"""Seconds of puts that are kept for the rate limit."""
IDEMPOTENCY_WINDOW_US = 86_400_000_000
"""How long an idempotency key is honoured: a day."""


# Decoders are made when the first line is read: most commands read none.
@cache
def _decoder() -> msgspec.json.Decoder[list[Fact]]:
    return msgspec.json.Decoder(list[Fact])


@cache
def _work_decoder() -> msgspec.json.Decoder[list[TupleFact | ScheduleFact]]:
    from engrambus.space.schedules import ScheduleFact  # slow to import, and only work stores need it
    from engrambus.space.tuples import Fact as TupleFact

    return msgspec.json.Decoder(list[TupleFact | ScheduleFact])


def decode_facts(text: bytes) -> list[Fact]:
    """Decode the facts of one commit of `memory.jsonl`."""
    return _decode(_decoder(), text)


def decode_work_facts(text: bytes) -> list[TupleFact | ScheduleFact]:
    """Decode the facts of one commit of `tuples.jsonl`."""
    return _decode(_work_decoder(), text)


def _decode(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as problem:
        raise FormatUnknown(f"The journal holds a fact that this version does not know: {problem}.") from None


def used_paths_of(fact: Fact) -> tuple[str, str, list[str]] | None:
    """Return the run, the agent and the paths of the files that it read or pointed at in a fact."""
    match fact:
        case DerefProved():
            agent, refs = fact.agent, [fact.ref]
        case EngramPut(learned=None):
            agent = fact.engram.provenance.created_by.rpartition("/")[2]
            refs = [pointer.ref for pointer in fact.engram.pointers]
        case _:
            return None
    if agent == ADMIN:  # a person's brief is its role's
        return None
    return fact.run, agent, [path for ref in refs if (path := pointed_path(ref)) is not None]


class Delivery(NamedTuple):
    """One piece of mail that a fact delivers."""

    run: str
    recipient: str
    kind: str
    item: str
    sender: str
    text: str
    engrams: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()


def mail_of(fact: Fact) -> list[Delivery]:
    """Return the mail that a fact delivers."""
    match fact:
        case MessageAccepted():
            kind = "note" if fact.is_note else "answer" if fact.is_known else "message"
            sender = fact.agent if fact.to_run is None else f"{fact.run}/{fact.agent}"
            holds = (fact.engrams, fact.requests)
            return [Delivery(fact.to_run or fact.run, fact.to, kind, fact.message_id, sender, fact.text, *holds)]
        case BroadcastSent():
            return [
                Delivery(
                    *(fact.run, child, "broadcast", fact.broadcast_id, fact.agent, with_packs(fact, child)),
                    grants=fact.grants,
                )
                for child in fact.to
            ]
        case DerefRequested():
            text = f"{fact.ref}: {fact.reason}"
            return [Delivery(fact.run, fact.to, "request", fact.request_id, fact.agent, text)]
        case DerefAnswered(grant_id=None, agent=str(asker)):
            text = f"You may not read {fact.ref}."
            return [Delivery(fact.run, asker, "denial", fact.request_id, fact.by.rpartition("/")[2], text)]
        case EngramReplaced(pinned=True):
            sender = fact.by.rpartition("/")[2]
            if sender == ADMIN:  # who replaced it was told in the answer
                return []
            text = f"The pinned engram {fact.id} was replaced by {fact.replaced_by}, which is not pinned."
            return [Delivery(fact.run, ADMIN, "note", fact.replaced_by, sender, text)]
        case GrantIssued():
            target = fact.pointer or fact.prefix or ""
            uses = f"{fact.uses} use{'s' * (fact.uses != 1)}"
            text = f"You may read {target}: {fact.cap_tokens} tokens, {uses}."
            return [Delivery(fact.run, fact.child, "grant", fact.grant_id, fact.parent, text)]
        case _:
            return []


def rate_keys(fact: EngramPut | EngramCaptured) -> tuple[str, str] | None:
    """Return the names of the root and the author whose rates a put counts for; None for the admin and `learn`."""
    author = fact.engram.provenance.created_by
    run, _, name = author.rpartition("/")
    if name in (ADMIN, LEARN):
        return None
    return (f"{run}/{fact.root}" if fact.root else author), author
