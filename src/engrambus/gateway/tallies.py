"""Counters of the project's figures: which fact adds how much to whose counters.

A back end adds these up while it applies facts (decision 20): for each agent of a run, and for each role of a run in
minutes, hours and days. So reading figures never scans the journal, and costs the same however many engrams there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from engrambus.core import SECOND_US
from engrambus.errors import BudgetExceeded
from engrambus.knowledge.engrams import EngramPut, Learned, is_contradiction
from engrambus.knowledge.messages import BroadcastSent, MessageAccepted, MessageRejected
from engrambus.policy import ADMIN, CallDenied, ContentDrawn, DerefProved, DerefRequested, Turn, TurnCharged, TurnClosed
from engrambus.policy.grants import GrantIssued

BUCKET_US = {"PT1M": 60 * SECOND_US, "PT1H": 3600 * SECOND_US, "P1D": 86_400 * SECOND_US}
"""Length of each kind of time bucket; a bucket starts at a multiple of its length since 1970."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """A set of counters; two are added field by field."""

    turns: int = 0
    """Turns with any activity of the agent."""
    messages: int = 0
    """Accepted reports."""
    broadcasts: int = 0
    inline_tokens: int = 0
    """Tokens of those reports and broadcasts, as they were sent."""
    rejections: int = 0
    """Reports and broadcasts that were sent back because they were over their budget."""
    resends: int = 0
    """Accepted reports and broadcasts that replace a rejected one."""
    derefs: int = 0
    deref_tokens: int = 0
    """Tokens of the answers to those dereferences."""
    requests: int = 0
    """Requests to read more than a turn allows."""
    grants: int = 0
    """Grants issued."""
    engrams: int = 0
    """Put engrams; a repeated claim is not counted."""
    contradictions: int = 0
    """Put engrams that are risks with two sources; two spans of one file are one source."""
    pointed_tokens: int = 0
    """Tokens of the content behind the pointers that messages brought to the agent, each content once."""
    pointed_read_tokens: int = 0
    """Tokens that the agent then read of that content, at most its size."""
    denials: int = 0
    """Calls that were refused by a limit, a role or a grant; rejected reports and broadcasts included."""
    warnings: int = 0
    """Exceeded limits that the policy only warns about."""
    rejected_tokens: int = 0
    """Tokens of refused texts."""


Outcome = Literal["a", "r", "s"]
"""What became of a report or a broadcast: accepted, rejected over its budget, or sent again and accepted."""
MAX_OUTCOMES = 400
"""Outcomes of one agent that are remembered, the newest."""
LEAST_FOR_TREND = 4
"""Messages an agent must have sent before there is a trend."""

FIELDS: tuple[str, ...] = Tally.__struct_fields__


def total(tallies: Sequence[Tally]) -> Tally:
    """Return the sum of some tallies."""
    return Tally(**{name: sum(getattr(tally, name) for tally in tallies) for name in FIELDS})


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts that one fact adds, and the agent whose counters it adds them to."""

    run: str
    agent: str
    tally: Tally
    turn: int | None = None
    """The agent's turn; a back end counts it when it sees the number for the first time."""
    kind: str | None = None
    """Kind of the put engram."""
    code: str | None = None
    """Error code of the denials in `tally`."""
    outcome: Outcome | None = None
    """What became of the message that was sent."""


class MessageTrend(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an agent's messages are rejected less often than before: the first half of them against the second."""

    sent: int
    """Messages that are compared, rejected ones included."""
    earlier_rejection_rate: float
    later_rejection_rate: float
    earlier_resend_rate: float
    """Resends per accepted message."""
    later_resend_rate: float
    direction: Literal["falling", "level", "rising"]
    """How the share of rejected messages has changed; LESS asks that it falls."""


def message_trend(outcomes: str) -> MessageTrend | None:
    """Return the trend of an agent's messages, given their outcomes in order; None for too few messages."""
    if len(outcomes) < LEAST_FOR_TREND:
        return None
    halves = (outcomes[: len(outcomes) // 2], outcomes[len(outcomes) // 2 :])
    earlier, later = (ratio(half.count("r"), len(half)) for half in halves)
    earlier_resends, later_resends = (ratio(half.count("s"), len(half) - half.count("r")) for half in halves)
    return MessageTrend(
        sent=len(outcomes),
        earlier_rejection_rate=earlier,
        later_rejection_rate=later,
        earlier_resend_rate=earlier_resends,
        later_resend_rate=later_resends,
        direction="falling" if later < earlier else "rising" if later > earlier else "level",
    )


def ratio(part: int, base: int) -> float:
    """Return a share with four digits; 0 if there is nothing to divide by."""
    return round(part / base, 4) if base else 0.0


class GrantsLeft(msgspec.Struct, frozen=True, kw_only=True):
    """The unused part of the grants issued to an agent."""

    grants: int = 0
    tokens: int = 0


class TallyReads(Protocol):
    """Reads of the counters."""

    def tallies(self, run_id: str | None) -> dict[str, Tally]:
        """Return the counters of each agent of a run; without a run, of each role of the project."""
        ...

    def kinds_put(self, run_id: str | None) -> dict[str, dict[str, int]]:
        """Return put engrams by kind, for each agent of a run; without a run, for each role of the project."""
        ...

    def denials_by_code(self, run_id: str | None) -> dict[str, dict[str, int]]:
        """Return denials by error code, for each agent of a run; without a run, for each role of the project."""
        ...

    def outcomes(self, run_id: str) -> dict[str, str]:
        """Return what became of the newest messages of each agent of a run, one letter each, in order."""
        ...

    def history(self, run_id: str | None, bucket: str, since: int) -> list[tuple[int, str, Tally]]:
        """Return start, role and counters of each bucket that starts at `since` or later, oldest first."""
        ...

    def grants_left(self, run_id: str) -> dict[str, GrantsLeft]:
        """Return the unused part of a run's grants by agent; agents with nothing left are omitted."""
        ...

    def live_kinds(self, spaces: Sequence[str]) -> dict[str, int]:
        """Return the number of live engrams of each kind in these spaces."""
        ...


TurnOf = Callable[[str, str], Turn]


def count_of(fact: object, turn_of: TurnOf) -> Count | None:
    """Return what a fact adds; `turn_of` returns the turn of an agent of a run before the fact."""
    match fact:
        case EngramPut(learned=Learned()):  # the repository said it: no agent's work, and nothing saved yet
            return None
        case EngramPut():
            # decision 80: no agent has got the engram yet; what messages bring to agents is in `gateway.delivered`
            tally = Tally(engrams=1, contradictions=int(is_contradiction(fact.engram)))
            author = fact.engram.provenance.created_by.rpartition("/")[2]
            return Count(run=fact.run, agent=author, tally=tally, turn=fact.turn or None, kind=fact.engram.kind)
        case MessageAccepted():
            tally = Tally(
                messages=1,
                inline_tokens=fact.tokens,
                resends=int(fact.resends is not None),
            )
            return Count(run=fact.run, agent=fact.agent, tally=tally, outcome="a" if fact.resends is None else "s")
        case BroadcastSent():
            tally = Tally(
                broadcasts=1,
                inline_tokens=fact.tokens,
                resends=int(fact.resends is not None),
            )
            turn = turn_of(fact.run, fact.agent).number
            outcome: Outcome = "a" if fact.resends is None else "s"
            return Count(run=fact.run, agent=fact.agent, tally=tally, turn=turn, outcome=outcome)
        case MessageRejected():
            tally = Tally(rejections=1, denials=1, rejected_tokens=fact.tokens)
            return Count(run=fact.run, agent=fact.agent, tally=tally, code=BudgetExceeded.code, outcome="r")
        case CallDenied(mode="warn"):
            tally = Tally(warnings=fact.count)
        case CallDenied():
            tally = Tally(denials=fact.count, rejected_tokens=fact.tokens)
            return Count(run=fact.run, agent=fact.agent, tally=tally, code=fact.code)
        case DerefProved():
            tally = Tally(derefs=1, deref_tokens=fact.tokens)
            return Count(run=fact.run, agent=fact.agent, tally=tally, turn=fact.turn)
        case ContentDrawn():
            return Count(run=fact.run, agent=fact.agent, tally=Tally(deref_tokens=fact.tokens), turn=fact.turn)
        case TurnClosed() | TurnCharged():
            return Count(run=fact.run, agent=fact.agent, tally=Tally(), turn=fact.turn)
        case DerefRequested():
            tally = Tally(requests=1)
        case GrantIssued():
            return Count(run=fact.run, agent=fact.parent, tally=Tally(grants=1))
        case _:
            return None
    return Count(run=fact.run, agent=fact.agent, tally=tally)


def has_worked(reads: TallyReads, run_id: str, since_us: int) -> bool:
    """True if something but people's reading happened in a run in the minutes that began at a moment or later."""
    return any(
        role != ADMIN or tally.engrams or tally.messages or tally.broadcasts
        for _, role, tally in reads.history(run_id, "PT1M", since_us)
    )


def buckets_of(time_us: int) -> Iterator[tuple[str, int]]:
    """Yield the kind and the start of each time bucket that contains a moment."""
    for bucket, length_us in BUCKET_US.items():
        yield bucket, time_us - time_us % length_us
