"""The whole judgement on a message: taken, or refused with everything its author needs to send it again."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.knowledge.messages.budget import CodeChars, Usage
from engrambus.knowledge.messages.judging import judge
from engrambus.knowledge.messages.parse import read_message
from engrambus.knowledge.messages.values import Message, MessageKind
from engrambus.policy import InlineBudget


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
