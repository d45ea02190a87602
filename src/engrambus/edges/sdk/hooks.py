"""Hooks for orchestrators, called when a child answers, a parent broadcasts, or knowledge was retrieved."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from engrambus.core import estimate_tokens
from engrambus.edges.sdk.bus import Bus
from engrambus.errors import BudgetExceeded, BudgetTooSmall, EngramBusError, Trouble, Unauthorized
from engrambus.evidence.pointers import DerefAnswer, Pointer
from engrambus.knowledge.engrams import Engram
from engrambus.knowledge.messages import (
    TargetedPointer,
    describe_found,
    extract_statement,
    print_sections,
    read_sections,
)
from engrambus.policy import ROLE_PREFIX

BRIEF_TOKENS = (600, 300)
"""Sizes of a brief that is attached to a broadcast; the smaller one leaves room for pointers."""
MAX_PACKED_CHILDREN = 16
MAX_PACKED_POINTERS = 4
"""Pointers that a child's pack has."""
_BRIEF, _PACK = "SHARED_BRIEF_MICRO", "TARGET_POINTER_PACK"
MIN_CONFIDENCE = 0.05
MAX_CONFIDENCE = 0.95
"""A score says how well something fits a question, which is never quite certain and never quite worthless."""

_LINES = re.compile(r"#L(\d+)-L(\d+)\Z")

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
    pointer: str | None = None
    """Where all of an answer in prose is, if the parent received only its first sentences."""
    pointers: tuple[str, ...] = ()
    """Where the code in an answer in prose is: lines of the repository, or an artifact that was stored."""
    cited: tuple[str, ...] = ()
    """Pointers to what an answer in prose cites and quotes, in order."""
    unconfirmed: tuple[str, ...] = ()
    """Ids of the engrams made from its sentences; they await the confirmation of a parent or a person."""


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
    more_pointers: tuple[Pointer | str, ...] = ()
    """Further places that it rests on, beside `pointer`."""
    path: str | None = None
    """The file, relative to the root of the repository."""
    lines: tuple[int, int] | None = None
    """First and last line, from 1."""
    sha: str | None = None
    """The full commit id the file was indexed at; HEAD by default."""
    score: float | None = None
    """Relevance, from 0 to 1 or on any scale where more is better; None if the system gives none."""

    def evidence(self) -> dict[str, Any]:
        """Return the location as arguments of a put."""
        if self.pointer is not None:
            places = (self.pointer, *self.more_pointers)
            pointers = [
                Pointer(type=place.partition(":")[0], ref=place) if isinstance(place, str) else place
                for place in places
            ]
            # A digest would claim that the agent has read the content.
            return {"pointers": [msgspec.structs.replace(pointer, digest=None) for pointer in pointers]}
        if self.path is None:
            return {}
        if self.sha is None:
            return {"at": [self.path + (f":{self.lines[0]}-{self.lines[1]}" if self.lines else "")]}
        span = f"#L{self.lines[0]}-L{self.lines[1]}" if self.lines else ""
        return {"pointers": [Pointer(type="repo", ref=f"repo:{self.path}{span}@{self.sha}")]}

    def claim(self) -> str:
        """Return the first sentences of the text; of code, the names it defines and what its comments say."""
        return describe_found(self.text, self.location())

    def location(self) -> str:
        """Return the location as words of a sentence."""
        if self.path is not None:
            return self.path + (f", lines {self.lines[0]} to {self.lines[1]}," if self.lines else "")
        ref = self.pointer if isinstance(self.pointer, str) else self.pointer.ref if self.pointer else ""
        name = ref.partition("@")[0].removeprefix("repo:")
        return _LINES.sub(r", lines \1 to \2,", name)


def confidences(scores: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return the confidence for each score of one retrieval; None, the default of its source, for a missing one.

    Scores from 0 to 1 are taken as they are. If one is larger, the scale is unknown: all are divided by the largest.
    Negative scores count as 0. The result is kept within 0.05 and 0.95: a higher score never has less confidence.
    """
    known = [score for score in scores if score is not None and math.isfinite(score)]
    largest = max(known, default=0.0)
    scale = largest if largest > 1 else 1.0
    return tuple(
        round(min(max(score / scale, MIN_CONFIDENCE), MAX_CONFIDENCE), 2)
        if score is not None and math.isfinite(score)
        else None
        for score in scores
    )


class Hooks:
    """The functions an orchestrator calls while it drives a team.

    Each acts in the name of the agent it is about, so the bus must belong to an ancestor of that agent or to the admin.
    Expected results are returned as outcomes to match on; only a missing token and a failing gateway are raised.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def on_child_response(self, child: str, text: str, *, budget_token: str | None = None) -> ChildOutcome:
        """Send a child's answer to its parent: a message, or plain prose, which is kept and summed up.

        `budget_token` is a grant that allows inline code in a message.
        """
        try:
            answer = self._bus.speak_as(child).take_answer(text, budget_token=budget_token)
        except BudgetExceeded as problem:
            return _rejected(problem)
        except EngramBusError as problem:
            return _refused(problem)
        return Accepted(
            message_id=answer.message_id or "",
            to=answer.to or "",
            engrams=tuple(answer.engrams),
            requests=tuple(answer.requests),
            turn=answer.turn,
            resends=answer.resends,
            pointer=answer.pointer,
            pointers=tuple(answer.pointers),
            cited=tuple(answer.cited),
            unconfirmed=tuple(answer.unconfirmed),
        )

    def on_parent_broadcast(self, parent: str, text: str, *, to: Sequence[str] = ()) -> SentOutcome:
        """Send a parent's message to all of its children, or to those with the given names or roles.

        What the message leaves out is added as far as it fits: SHARED_BRIEF_MICRO is the team's brief,
        TARGET_POINTER_PACK what each child's own brief points at, BUDGETS the limits in force.
        """
        bus = self._bus.speak_as(parent)
        try:
            answer = bus.broadcast(_with_attachments(bus, parent, text, to), to=tuple(to), with_limits=True)
        except BudgetExceeded as problem:
            return _rejected(problem)
        except EngramBusError as problem:
            return _refused(problem)
        return Sent(broadcast_id=answer.broadcast_id, to=tuple(answer.to))

    def on_rag_result(
        self, agent: str, results: Sequence[Retrieved], *, max_tokens: int = 0
    ) -> tuple[FoundOutcome, ...]:
        """Put an engram for each retrieved result, in the given order; its claim is what the text says.

        Excerpts are read in the agent's name, highest score first, while `max_tokens` and the agent's turn allow it.
        """
        bus = self._bus.speak_as(agent)
        scores = confidences([result.score for result in results])
        outcomes = [
            self._put_result(bus, result, confidence) for result, confidence in zip(results, scores, strict=True)
        ]
        remaining_tokens = max_tokens
        for index in sorted(range(len(outcomes)), key=lambda position: -_rank(results[position].score)):
            outcome = outcomes[index]
            if isinstance(outcome, Found):
                # A limit of one token is refused by the gateway, so an exhausted budget is reported as `withheld`.
                limit = max(remaining_tokens, 1) if max_tokens > 0 else 0
                outcome = outcomes[index] = _with_excerpt(bus, outcome.engram, limit)
                if outcome.excerpt is not None:
                    remaining_tokens -= estimate_tokens(_encode(outcome.excerpt))
        return tuple(outcomes)

    def on_sam_read(
        self,
        agent: str,
        pointer: Pointer | str,
        statement: str,
        *,
        score: float | None = None,
        max_tokens: int = 0,
    ) -> FoundOutcome:
        """Put an engram for a memory entry: what it says and its pointer; the entry itself only under a budget.

        `statement` is the entry's text or a statement about it; its first sentences become the claim.
        """
        bus = self._bus.speak_as(agent)
        (confidence,) = confidences([score])
        claim = extract_statement(statement) or statement
        outcome = self._put(bus, "sam", claim, confidence, Retrieved(text=statement, pointer=pointer).evidence())
        return _with_excerpt(bus, outcome.engram, max_tokens) if isinstance(outcome, Found) else outcome

    def _put_result(self, bus: Bus, result: Retrieved, confidence: float | None) -> FoundOutcome:
        outcome = self._put(bus, "rag", result.claim(), confidence, result.evidence())
        if isinstance(outcome, Refused) and isinstance(outcome.problem, BudgetExceeded):
            # Only the gateway knows that a sentence is a line of a file: it is not copied, only its place is named.
            return self._put(bus, "rag", describe_found("", result.location()), confidence, result.evidence())
        return outcome

    def _put(
        self,
        bus: Bus,
        source: Literal["rag", "sam"],
        claim: str,
        confidence: float | None,
        evidence: dict[str, Any],
    ) -> FoundOutcome:
        stated = msgspec.UNSET if confidence is None else confidence
        try:
            engram = bus.put_found(claim=claim, source=source, confidence=stated, **evidence)
        except EngramBusError as problem:
            return _refused(problem)
        return Found(engram=engram)


def _rank(score: float | None) -> float:
    return score if score is not None and not math.isnan(score) else -math.inf


def _with_attachments(bus: Bus, parent: str, text: str, to: Sequence[str]) -> str:
    """Return a parent's message with the brief and pointer packs added that it lacks, as far as they fit.

    A message that is invalid is returned unchanged: sending it says what is wrong.
    """
    sections = read_sections(text)
    if sections is None:
        return text
    pack = () if sections.get(_PACK) else _pointer_packs(bus, parent.rpartition("/")[2], to)
    briefs = [()] if sections.get(_BRIEF) else [_brief_lines(bus, tokens) for tokens in BRIEF_TOKENS]
    choices = [*((lines, pack) for lines in briefs), (briefs[0], ()), ((), pack)]
    for lines, pointers in choices:
        added = {_BRIEF: list(lines), _PACK: msgspec.to_builtins(list(pointers))}
        longer = print_sections({**sections, **{name: sections.get(name) or new for name, new in added.items()}})
        if (lines or pointers) and bus.validate_message(longer, kind="parent").ok:
            return longer
    return text


def _brief_lines(bus: Bus, max_tokens: int) -> tuple[str, ...]:
    try:
        brief = bus.brief(max_tokens=max_tokens)
    except BudgetTooSmall:
        return ()
    # The last lines report the parent's own budget and grants, which children cannot use.
    return tuple(brief.lines[: len(brief.lines) - brief.own_lines])


def _pointer_packs(bus: Bus, parent: str, to: Sequence[str]) -> tuple[Pointer, ...]:
    """Return what the briefs of the children point at; a pointer of only some of them is for those."""
    children = [agent for agent in bus.list_agents().agents if agent.parent == parent]
    wanted = {target.removeprefix(ROLE_PREFIX) for target in to}
    receivers = [agent for agent in children if not to or wanted & {agent.agent_id, agent.role}][:MAX_PACKED_CHILDREN]
    readers: dict[str, list[str]] = {}
    for agent in receivers:
        briefed = bus.list_briefs(for_agent=agent.agent_id).engrams
        for ref in list(dict.fromkeys(engram.ref for engram in briefed))[:MAX_PACKED_POINTERS]:
            readers.setdefault(ref, []).append(agent.agent_id)
    return tuple(
        TargetedPointer(type=ref.partition(":")[0], ref=ref, targets=tuple(names))
        if len(names) < len(receivers)
        else Pointer(type=ref.partition(":")[0], ref=ref)
        for ref, names in readers.items()
    )


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
