"""The hooks themselves, over a bus in process or remote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from engrambus.core import estimate_tokens
from engrambus.edges.hooks.outcomes import (
    Accepted,
    ChildOutcome,
    Found,
    FoundOutcome,
    Refused,
    Sent,
    SentOutcome,
    rejected,
)
from engrambus.edges.hooks.retrieved import Retrieved
from engrambus.edges.sdk import Bus
from engrambus.errors import BudgetExceeded, EngramBusError, Trouble, Unauthorized
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.engrams import Engram
from engrambus.knowledge.messages import ParentMessage, print_message, read_message

BRIEF_TOKENS = 300
"""What an attached brief may cost."""
FOUND_SCOPE: Literal["run"] = "run"
"""What was looked up is for the run; a parent promotes what should be seen further."""

_encode = msgspec.json.Encoder().encode


class Hooks:
    """What an orchestrator calls while it drives a team.

    Each hook speaks in the name of the agent it is about, so the bus must belong to an ancestor of it, or to the admin.
    What the protocol foresees comes back as an outcome; only a missing token and trouble with the gateway are raised.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def on_child_response(self, child: str, text: str, *, budget_token: str | None = None) -> ChildOutcome:
        """Take what a child answered, in the form of a message; `budget_token` is a grant that allows inline code."""
        try:
            answer = self._bus.speak_as(child).send_message(text, budget_token=budget_token)
        except BudgetExceeded as problem:
            return rejected(problem)
        except EngramBusError as problem:
            return _refused(problem)
        return Accepted(
            message_id=answer.message_id,
            to=answer.to,
            engrams=tuple(answer.engrams),
            requests=tuple(answer.requests),
            turn=answer.turn,
            resends=answer.resends,
        )

    def on_parent_broadcast(self, parent: str, text: str, *, to: Sequence[str] = ()) -> SentOutcome:
        """Send a parent's message to its children, or to those named.

        One that has no SHARED_BRIEF_MICRO is sent with what the team knows, where that fits.
        """
        bus = self._bus.speak_as(parent)
        try:
            answer = bus.broadcast(_with_brief(bus, text), to=tuple(to))
        except BudgetExceeded as problem:
            return rejected(problem)
        except EngramBusError as problem:
            return _refused(problem)
        return Sent(broadcast_id=answer.broadcast_id, to=tuple(answer.to))

    def on_rag_result(
        self, agent: str, results: Sequence[Retrieved], *, max_tokens: int = 0
    ) -> tuple[FoundOutcome, ...]:
        """Turn what retrieval found for an agent into engrams, in the order given: pointers first.

        Excerpts are dereferenced for the agent, the best score first, while `max_tokens` and its turn allow.
        """
        bus = self._bus.speak_as(agent)
        outcomes = [self._put(bus, "rag", result.claim(), result.evidence()) for result in results]
        left = max_tokens
        for position in sorted(range(len(outcomes)), key=lambda each: -results[each].score):
            outcome = outcomes[position]
            if isinstance(outcome, Found):
                read = _with_excerpt(bus, outcome.engram, max(left, 1) if max_tokens > 0 else 0)
                if read.excerpt is not None:
                    left -= estimate_tokens(_encode(read.excerpt))
                outcomes[position] = read
        return tuple(outcomes)

    def on_sam_read(self, agent: str, pointer: Pointer | str, statement: str, *, max_tokens: int = 0) -> FoundOutcome:
        """Tell an agent what the memory holds: a short statement and its pointer; the whole entry only under budget."""
        bus = self._bus.speak_as(agent)
        entry = Retrieved(text=statement, pointer=pointer)
        outcome = self._put(bus, "sam", statement, entry.evidence())
        return _with_excerpt(bus, outcome.engram, max_tokens) if isinstance(outcome, Found) else outcome

    def _put(self, bus: Bus, source: Literal["rag", "sam"], claim: str, evidence: dict[str, Any]) -> FoundOutcome:
        try:
            engram = bus.put_found(claim=claim, source=source, scope=FOUND_SCOPE, **evidence)
        except EngramBusError as problem:
            return _refused(problem)
        return Found(engram=engram)


def _with_brief(bus: Bus, text: str) -> str:
    """A parent's message with the team's brief in it, unless it has one, cannot be read or would become too large."""
    message = read_message(text, "parent", max_ttl=0).message
    if not isinstance(message, ParentMessage) or message.shared_brief_micro:
        return text
    brief = bus.brief(max_tokens=BRIEF_TOKENS)
    lines = brief.lines if brief.truncated else brief.lines[:-1]  # the last tells what is left of the parent's own turn
    longer = print_message(msgspec.structs.replace(message, shared_brief_micro=tuple(lines)))
    return longer if bus.validate_message(longer, kind="parent").ok else text


def _with_excerpt(bus: Bus, engram: Engram, max_tokens: int) -> Found:
    """An engram with what its pointer leads to, when that may be read for so many tokens."""
    if max_tokens <= 0:
        return Found(engram=engram)
    try:
        return Found(engram=engram, excerpt=bus.deref_pointer(engram.pointers[0].ref, max_tokens=max_tokens))
    except EngramBusError as problem:
        return Found(engram=engram, withheld=_refused(problem).problem)


def _refused(problem: EngramBusError) -> Refused:
    """The outcome of a refusal; what no other message would mend is raised."""
    if isinstance(problem, (Unauthorized, Trouble)):
        raise problem
    return Refused(problem=problem)
