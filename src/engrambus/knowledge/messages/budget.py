"""The inline budget of a message: measuring a text, comparing it with the budget, and the refusal.

Tokens are counted on the text as it was sent, because its reader pays for all of it. Code is counted in the texts that
the author was free to write; the caller passes in the function that counts it (see `pastes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from engrambus.core import estimate_tokens
from engrambus.errors import BudgetExceeded, EngramBusError
from engrambus.knowledge.messages.source import ProblemList
from engrambus.knowledge.messages.values import ChildMessage, Message, free_texts
from engrambus.policy import InlineBudget, LimitChecks

if TYPE_CHECKING:  # prose is checked without loading the parser: a hook waits for it (decision 39)
    from engrambus.knowledge.messages.granted_code import GrantedCode
    from engrambus.knowledge.messages.parse import ParsedMessage
    from engrambus.policy import LimitName

CountCode: TypeAlias = Callable[[str], int]
"""Returns how many characters of a text are code."""

_LABELS = {
    "inline_tokens": "tokens",
    "engrams": "engrams",
    "engram_chars": "characters in a claim",
    "inline_code_chars": "characters of code",
    "brief_lines": "lines of brief",
    "granted_code_chars": "characters of granted code",
}

_LIMITS: dict[str, LimitName] = {
    "inline_tokens": "message_tokens",
    "engrams": "message_engrams",
    "engram_chars": "claim_chars",
    "inline_code_chars": "inline_code",
    "brief_lines": "brief_lines",
    "granted_code_chars": "inline_code",
}
"""Field of `MessageUsage` → the limit whose mode decides what happens when it is exceeded."""


class MessageUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a message, in the quantities that its budget limits."""

    inline_tokens: int
    engrams: int = 0
    engram_chars: int = 0
    """Length of the longest claim."""
    inline_code_chars: int = 0
    """Characters of code, without those that a grant allows."""
    brief_lines: int = 0
    granted_code_chars: int = 0
    """Characters of code that is text of the file a grant is for."""


class Excess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One quantity that is over its limit."""

    quantity: str = msgspec.field(name="what")
    """A field name of `MessageUsage`."""
    limit: int
    used: int
    field: str | None = None
    """The field of the message that contributes most, if it is a single one."""


def check_budget(
    parsed: ParsedMessage,
    budget: InlineBudget,
    limits: LimitChecks,
    count_code: CountCode | None = None,
    granted: GrantedCode | None = None,
) -> tuple[MessageUsage, tuple[EngramBusError, ...]]:
    """Return the size of a parsed text and all its problems; an exceeded budget comes first.

    A text over its budget gets that refusal even if it cannot be parsed: its author has to shorten it in any case.
    An exceeded limit that is not enforced is reported to `limits` and is no problem. `granted` counts the code that a
    grant allows, which is none of the message's own.
    """
    usage = measure(parsed.text, parsed.message, count_code)
    if parsed.message is None:
        usage = msgspec.structs.replace(usage, engrams=parsed.item_counts.get("ENGRAMS", 0))
    if granted is not None and parsed.message is not None:
        chars = sum(granted.count(text) for _, text in free_texts(parsed.message))
        usage = msgspec.structs.replace(
            usage, inline_code_chars=usage.inline_code_chars - chars, granted_code_chars=chars
        )
    excess = find_excess(usage, budget, parsed.message, count_code)
    if granted is not None and usage.granted_code_chars > granted.limit_chars:
        used = usage.granted_code_chars
        excess += (Excess(quantity="granted_code_chars", limit=granted.limit_chars, used=used),)
    refusal = _apply_limits(excess, limits, parsed.lines)
    return usage, (*([refusal] if refusal is not None else []), *parsed.problems)


def check_prose_budget(
    text: str, budget: InlineBudget, limits: LimitChecks, count_code: CountCode
) -> tuple[MessageUsage, BudgetExceeded | None]:
    """Return the size of an answer in plain prose, and the refusal if it is over the budget of a message."""
    usage = MessageUsage(inline_tokens=measure(text).inline_tokens, inline_code_chars=count_code(text))
    return usage, _apply_limits(find_excess(usage, budget), limits, {})


def measure(text: str, message: Message | None = None, count_code: CountCode | None = None) -> MessageUsage:
    """Return the size of a message; of a text that could not be parsed, only its tokens."""
    # decision 5: a budget counts everything that its reader is sent, not only the content
    tokens = estimate_tokens(text.encode("utf-8", "replace"))
    if message is None:
        return MessageUsage(inline_tokens=tokens)
    code_chars = sum(count_code(free_text) for _, free_text in free_texts(message)) if count_code is not None else 0
    if isinstance(message, ChildMessage):
        return MessageUsage(
            inline_tokens=tokens,
            engrams=len(message.engrams),
            engram_chars=max((len(engram.claim) for engram in message.engrams), default=0),
            inline_code_chars=code_chars,
        )
    brief_lines = sum(line.count("\n") + 1 for line in message.shared_brief_micro)
    return MessageUsage(inline_tokens=tokens, inline_code_chars=code_chars, brief_lines=brief_lines)


def find_excess(
    usage: MessageUsage, budget: InlineBudget, message: Message | None = None, count_code: CountCode | None = None
) -> tuple[Excess, ...]:
    """Return every quantity that is over its limit, in the order of the budget's fields."""
    excess = []
    for quantity in usage.__struct_fields__:
        if quantity == "granted_code_chars":  # limited by the grant
            continue
        used, limit = getattr(usage, quantity), getattr(budget, f"max_{quantity}")
        if used > limit:
            field = _largest_field(quantity, message, count_code)
            excess.append(Excess(quantity=quantity, limit=limit, used=used, field=field))
    return tuple(excess)


def _apply_limits(excess: tuple[Excess, ...], limits: LimitChecks, lines: Mapping[str, int]) -> BudgetExceeded | None:
    """Return the refusal for the limits that are enforced; report the others, unless the text is refused anyway."""
    enforced = tuple(item for item in excess if limits.is_enforced(_LIMITS[item.quantity]))
    if enforced:
        return _refusal(enforced, lines)
    for item in excess:
        limits.exceeded(_LIMITS[item.quantity], _refusal((item,), lines))
    return None


def _refusal(excess: tuple[Excess, ...], lines: Mapping[str, int]) -> BudgetExceeded:
    """Build the error that names every exceeded limit, with the first one's field, limit and use."""
    first = excess[0]
    amounts = "; ".join(f"{_LABELS[item.quantity]} {item.used} of {item.limit}" for item in excess)
    # decision 6: all exceeded limits at once, so that one correction is enough
    exceeded: list[dict[str, Any]] = [msgspec.to_builtins(item) for item in excess]
    return BudgetExceeded(
        f"The message is larger than its budget: {amounts}.",
        field=first.field,
        line=ProblemList(lines).line(first.field) if first.field else None,
        limit=first.limit,
        used=first.used,
        hint="Send engrams and pointers instead of text; a reader gets the rest through a pointer.",
        exceeded=exceeded,
    )


def _largest_field(quantity: str, message: Message | None, count_code: CountCode | None) -> str | None:
    if quantity == "engrams":
        return "ENGRAMS"
    if message is None or quantity == "inline_tokens":
        return None
    if quantity == "inline_code_chars":
        return max(((count_code or len)(text), field) for field, text in free_texts(message))[1]
    if isinstance(message, ChildMessage):
        lengths = [len(engram.claim) for engram in message.engrams]
        return f"ENGRAMS[{lengths.index(max(lengths))}].claim"
    return "SHARED_BRIEF_MICRO"
