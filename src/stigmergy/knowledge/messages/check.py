"""The whole judgement on a message: taken, or refused with everything its author needs to send it again."""

from __future__ import annotations

from typing import Any

import msgspec

from stigmergy.errors import BudgetExceeded, StigmergyError
from stigmergy.knowledge.messages.budget import CodeChars, Usage, budget_refusal, find_excess, measure
from stigmergy.knowledge.messages.parse import Reading, read_message
from stigmergy.knowledge.messages.values import Message, MessageKind
from stigmergy.policy import InlineBudget


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A message in its form and within its budget."""

    message: Message
    usage: Usage


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What would be said about a message if it were sent."""

    ok: bool
    usage: Usage
    budget: InlineBudget
    problems: tuple[dict[str, Any], ...] = ()
    """Each as every edge shows a refusal; the first is the one that sending would give."""


def accept_message(
    text: str,
    kind: MessageKind,
    budget: InlineBudget,
    *,
    max_ttl: int,
    role: str | None = None,
    code_chars: CodeChars | None = None,
) -> Accepted:
    """The message, or the refusal of it."""
    reading = read_message(text, kind, max_ttl=max_ttl, role=role)
    usage, problems = judge(reading, budget, code_chars)
    if reading.message is None or problems:
        raise problems[0]
    return Accepted(message=reading.message, usage=usage)


def validate_message(
    text: str,
    kind: MessageKind,
    budget: InlineBudget,
    *,
    max_ttl: int,
    role: str | None = None,
    code_chars: CodeChars | None = None,
) -> Verdict:
    """What `accept_message` would find, all of it, without raising."""
    usage, problems = judge(read_message(text, kind, max_ttl=max_ttl, role=role), budget, code_chars)
    shown = tuple(problem.problem() for problem in problems)
    return Verdict(ok=not problems, usage=usage, budget=budget, problems=shown)


def judge_prose(text: str, budget: InlineBudget, code_chars: CodeChars) -> tuple[Usage, BudgetExceeded | None]:
    """What an answer in no form of ours holds, and its refusal if that is more than a message may."""
    usage = Usage(inline_tokens=measure(text).inline_tokens, inline_code_chars=code_chars(text))
    excess = find_excess(usage, budget)
    return usage, budget_refusal(excess, {}) if excess else None


def judge(
    reading: Reading, budget: InlineBudget, code_chars: CodeChars | None = None
) -> tuple[Usage, tuple[StigmergyError, ...]]:
    """What a reading holds and everything wrong with it; a budget that is exceeded comes first.

    A text too large for its budget is told so even when it cannot be read: that is what its author has to change.
    """
    usage = measure(reading.text, reading.message, code_chars)
    if reading.message is None:
        usage = msgspec.structs.replace(usage, engrams=reading.sent.get("ENGRAMS", 0))
    excess = find_excess(usage, budget, reading.message, code_chars)
    refusals: tuple[BudgetExceeded, ...] = (budget_refusal(excess, reading.lines),) if excess else ()
    return usage, (*refusals, *reading.problems)
