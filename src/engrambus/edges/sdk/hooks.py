"""Hooks for orchestrators, called when a child answers, a parent broadcasts, or knowledge was retrieved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from engrambus.core import estimate_tokens
from engrambus.edges.sdk.bus import Bus
from engrambus.errors import BudgetExceeded, EngramBusError, Trouble, Unauthorized
from engrambus.evidence.pointers import DerefAnswer, Pointer
from engrambus.knowledge.engrams import Engram, count_sentences
from engrambus.knowledge.messages import ParentMessage, find_code, parse_message, print_message

BRIEF_TOKENS = 600
"""Limit of a brief that is attached to a broadcast."""
FOUND_SCOPE: Literal["run"] = "run"
"""Retrieved knowledge is put for the run; a parent promotes what the project should keep."""
MAX_CLAIM_CHARS = 500
MAX_CLAIM_SENTENCES = 3

_encode = msgspec.json.Encoder().encode


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The parent received the message, and the child's next turn began."""

    message_id: str
    to: str
    """The parent that received it."""
    engrams: tuple[str, ...]
    """Ids of the engrams it put or confirmed, in order."""
    requests: tuple[str, ...]
    """Ids of its requests to read more, in order; the parent approves or denies each."""
    turn: int
    """Number of the turn that is open now."""
    resends: str | None = None
    """Id of the rejection that this message replaces."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The children received the message."""

    broadcast_id: str
    to: tuple[str, ...]


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """The message exceeds its budget; give `reason` and `resend` back to its author."""

    reason: str
    """Which limits were exceeded, and by how much."""
    resend: str
    """A message within the limits, with everything that could be kept; `...` marks text to fill in."""
    exceeded: tuple[dict[str, Any], ...]
    """Every exceeded limit with its name, limit and use."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway refused, and nothing changed."""

    problem: EngramBusError

    @property
    def code(self) -> str:
        """The error's stable code."""
        return self.problem.code


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A retrieved item: the engram put for it, and as much of its content as the budget allowed."""

    engram: Engram
    excerpt: DerefAnswer | None = None
    """Content behind the engram's first pointer."""
    withheld: EngramBusError | None = None
    """The reason why there is no excerpt, if one was requested."""


ChildOutcome: TypeAlias = Accepted | Rejected | Refused
SentOutcome: TypeAlias = Sent | Rejected | Refused
FoundOutcome: TypeAlias = Found | Refused


class Retrieved(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a retrieval system: a text and its location."""

    text: str
    """The retrieved chunk, or a statement about it. Only a short statement is put on the bus."""
    pointer: Pointer | str | None = None
    """Where the text is; alternatively give `path`."""
    path: str | None = None
    """The file, relative to the root of the repository."""
    lines: tuple[int, int] | None = None
    """First and last line, from 1."""
    sha: str | None = None
    """The full commit id the file was indexed at; HEAD by default."""
    score: float = 0.0
    """Relevance; excerpts are read for the highest scores first."""

    def evidence(self) -> dict[str, Any]:
        """Return the location as arguments of a put."""
        if self.pointer is not None:
            pointer = self.pointer
            if isinstance(pointer, str):
                pointer = Pointer(type=pointer.partition(":")[0], ref=pointer)
            # A digest would claim that the agent has read the content.
            return {"pointers": [msgspec.structs.replace(pointer, digest=None)]}
        if self.path is None:
            return {}
        if self.sha is None:
            return {"at": [self.path + (f":{self.lines[0]}-{self.lines[1]}" if self.lines else "")]}
        span = f"#L{self.lines[0]}-L{self.lines[1]}" if self.lines else ""
        return {"pointers": [Pointer(type="repo", ref=f"repo:{self.path}{span}@{self.sha}")]}

    def claim(self) -> str:
        """Return the text if it fits a claim and is no code, else a sentence that names the location."""
        text = " ".join(self.text.split())
        short = 0 < len(text) <= MAX_CLAIM_CHARS and count_sentences(text) <= MAX_CLAIM_SENTENCES
        if short and not find_code(self.text):
            return text
        return f"Retrieval found something relevant in {self._location()}."[:MAX_CLAIM_CHARS]

    def _location(self) -> str:
        if self.path is None:
            ref = self.pointer if isinstance(self.pointer, str) else self.pointer.ref if self.pointer else ""
            return ref.partition("@")[0]
        return self.path + (f", lines {self.lines[0]} to {self.lines[1]}" if self.lines else "")


class Hooks:
    """The functions an orchestrator calls while it drives a team.

    Each acts in the name of the agent it is about, so the bus must belong to an ancestor of that agent or to the admin.
    Expected results are returned as outcomes to match on; only a missing token and a failing gateway are raised.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def on_child_response(self, child: str, text: str, *, budget_token: str | None = None) -> ChildOutcome:
        """Send a child's answer, a message, to its parent; `budget_token` is a grant that allows inline code."""
        try:
            answer = self._bus.speak_as(child).send_message(text, budget_token=budget_token)
        except BudgetExceeded as problem:
            return _rejected(problem)
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
        """Send a parent's message to all of its children, or to the named ones.

        A message without SHARED_BRIEF_MICRO gets the current brief, if that fits into the budget.
        """
        bus = self._bus.speak_as(parent)
        try:
            answer = bus.broadcast(_with_brief(bus, text), to=tuple(to))
        except BudgetExceeded as problem:
            return _rejected(problem)
        except EngramBusError as problem:
            return _refused(problem)
        return Sent(broadcast_id=answer.broadcast_id, to=tuple(answer.to))

    def on_rag_result(
        self, agent: str, results: Sequence[Retrieved], *, max_tokens: int = 0
    ) -> tuple[FoundOutcome, ...]:
        """Put an engram for each retrieved result, in the given order.

        Excerpts are read in the agent's name, highest score first, while `max_tokens` and the agent's turn allow it.
        """
        bus = self._bus.speak_as(agent)
        outcomes = [self._put(bus, "rag", result.claim(), result.evidence()) for result in results]
        remaining_tokens = max_tokens
        for index in sorted(range(len(outcomes)), key=lambda position: -results[position].score):
            outcome = outcomes[index]
            if isinstance(outcome, Found):
                # A limit of one token is refused by the gateway, so an exhausted budget is reported as `withheld`.
                limit = max(remaining_tokens, 1) if max_tokens > 0 else 0
                outcome = outcomes[index] = _with_excerpt(bus, outcome.engram, limit)
                if outcome.excerpt is not None:
                    remaining_tokens -= estimate_tokens(_encode(outcome.excerpt))
        return tuple(outcomes)

    def on_sam_read(self, agent: str, pointer: Pointer | str, statement: str, *, max_tokens: int = 0) -> FoundOutcome:
        """Put an engram for a memory entry: a short statement and its pointer; the entry itself only under a budget."""
        bus = self._bus.speak_as(agent)
        outcome = self._put(bus, "sam", statement, Retrieved(text=statement, pointer=pointer).evidence())
        return _with_excerpt(bus, outcome.engram, max_tokens) if isinstance(outcome, Found) else outcome

    def _put(self, bus: Bus, source: Literal["rag", "sam"], claim: str, evidence: dict[str, Any]) -> FoundOutcome:
        try:
            engram = bus.put_found(claim=claim, source=source, scope=FOUND_SCOPE, **evidence)
        except EngramBusError as problem:
            return _refused(problem)
        return Found(engram=engram)


def _with_brief(bus: Bus, text: str) -> str:
    """Return a parent's message with the brief added, or unchanged if it has one, is invalid or would be too large."""
    message = parse_message(text, "parent", max_ttl_us=0).message
    if not isinstance(message, ParentMessage) or message.shared_brief_micro:
        return text
    brief = bus.brief(max_tokens=BRIEF_TOKENS)
    # The last line of a whole brief reports the parent's own remaining budget, which children cannot use.
    lines = brief.lines if brief.truncated else brief.lines[:-1]
    longer = print_message(msgspec.structs.replace(message, shared_brief_micro=tuple(lines)))
    return longer if bus.validate_message(longer, kind="parent").ok else text


def _with_excerpt(bus: Bus, engram: Engram, max_tokens: int) -> Found:
    if max_tokens <= 0:
        return Found(engram=engram)
    try:
        return Found(engram=engram, excerpt=bus.deref_pointer(engram.pointers[0].ref, max_tokens=max_tokens))
    except EngramBusError as problem:
        return Found(engram=engram, withheld=_refused(problem).problem)


def _rejected(problem: BudgetExceeded) -> Rejected:
    return Rejected(
        reason=problem.detail, resend=problem.resend or "", exceeded=tuple(dict(limit) for limit in problem.exceeded)
    )


def _refused(problem: EngramBusError) -> Refused:
    """Return the outcome of a refusal; raise what no different message could fix."""
    if isinstance(problem, (Unauthorized, Trouble)):
        raise problem
    return Refused(problem=problem)
