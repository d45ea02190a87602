"""What a text holds, held against its budget; whoever asks this of prose needs nothing of a message's form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from engrambus.errors import BudgetExceeded, EngramBusError
from engrambus.knowledge.messages.budget import CodeChars, Usage, budget_refusal, find_excess, measure
from engrambus.policy import InlineBudget

if TYPE_CHECKING:
    from engrambus.knowledge.messages.parse import Reading


def judge_prose(text: str, budget: InlineBudget, code_chars: CodeChars) -> tuple[Usage, BudgetExceeded | None]:
    """What an answer in no form of ours holds, and its refusal if that is more than a message may."""
    usage = Usage(inline_tokens=measure(text).inline_tokens, inline_code_chars=code_chars(text))
    excess = find_excess(usage, budget)
    return usage, budget_refusal(excess, {}) if excess else None


def judge(
    reading: Reading, budget: InlineBudget, code_chars: CodeChars | None = None
) -> tuple[Usage, tuple[EngramBusError, ...]]:
    """What a reading holds and everything wrong with it; a budget that is exceeded comes first.

    A text too large for its budget is told so even when it cannot be read: that is what its author has to change.
    """
    usage = measure(reading.text, reading.message, code_chars)
    if reading.message is None:
        usage = msgspec.structs.replace(usage, engrams=reading.sent.get("ENGRAMS", 0))
    excess = find_excess(usage, budget, reading.message, code_chars)
    refusals: tuple[BudgetExceeded, ...] = (budget_refusal(excess, reading.lines),) if excess else ()
    return usage, (*refusals, *reading.problems)
