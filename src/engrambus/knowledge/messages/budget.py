"""How much a message may hold, how much it does, and the refusal when that is too much.

Tokens are counted on the text as it was sent, everything in it: that is what its reader pays. Code is counted in the
texts a reader would see; what counts as code is for the function handed in to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from engrambus.core import estimate_tokens
from engrambus.errors import BudgetExceeded
from engrambus.knowledge.messages.source import Sheet
from engrambus.knowledge.messages.values import ChildMessage, Message
from engrambus.policy import InlineBudget

CodeChars: TypeAlias = Callable[[str], int]
"""How many characters of a text are code."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a message holds, counted as its budget is."""

    inline_tokens: int
    engrams: int = 0
    engram_chars: int = 0
    """Of the longest claim."""
    inline_code_chars: int = 0
    brief_lines: int = 0


class Excess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing there is too much of."""

    what: str
    """A name in `Usage`."""
    limit: int
    used: int
    field: str | None = None
    """Where the most of it stands, when that is one place."""


def measure(text: str, message: Message | None = None, code_chars: CodeChars | None = None) -> Usage:
    """What a message holds; of a text that could not be read as one, its tokens."""
    tokens = estimate_tokens(text.encode("utf-8", "replace"))
    if message is None:
        return Usage(inline_tokens=tokens)
    code = sum(code_chars(said) for _, said in texts_of(message)) if code_chars is not None else 0
    if isinstance(message, ChildMessage):
        longest = max((len(engram.claim) for engram in message.engrams), default=0)
        return Usage(inline_tokens=tokens, engrams=len(message.engrams), engram_chars=longest, inline_code_chars=code)
    lines = sum(line.count("\n") + 1 for line in message.shared_brief_micro)
    return Usage(inline_tokens=tokens, inline_code_chars=code, brief_lines=lines)


def find_excess(
    usage: Usage, budget: InlineBudget, message: Message | None = None, code_chars: CodeChars | None = None
) -> tuple[Excess, ...]:
    """Everything a message has too much of, in the order the budget names it."""
    found = []
    for what in usage.__struct_fields__:
        used, limit = getattr(usage, what), getattr(budget, f"max_{what}")
        if used > limit:
            found.append(Excess(what=what, limit=limit, used=used, field=_place(what, message, code_chars)))
    return tuple(found)


def budget_refusal(excess: tuple[Excess, ...], lines: Mapping[str, int]) -> BudgetExceeded:
    """The refusal that names everything in excess, the first in full."""
    first = excess[0]
    said = "; ".join(f"{_NAMES[each.what]} {each.used} of {each.limit}" for each in excess)
    return BudgetExceeded(
        f"The message is larger than its budget: {said}.",
        field=first.field,
        line=Sheet(lines).line(first.field) if first.field else None,
        limit=first.limit,
        used=first.used,
        hint="Send engrams and pointers instead of text; the rest can be read through a pointer.",
        exceeded=[_shown(each) for each in excess],
    )


def texts_of(message: Message) -> Iterator[tuple[str, str]]:
    """Every text in a message that its author was free to write, with its field; a list of lines is one text."""
    if isinstance(message, ChildMessage):
        for position, engram in enumerate(message.engrams):
            yield f"ENGRAMS[{position}].claim", engram.claim
            for name in ("tags", "hash_keys"):
                for place, word in enumerate(getattr(engram, name)):
                    yield f"ENGRAMS[{position}].{name}[{place}]", word
        for position, request in enumerate(message.deref_requests):
            yield f"DEREF_REQUESTS[{position}].reason", request.reason
            if request.intended_use is not None:
                yield f"DEREF_REQUESTS[{position}].intended_use", request.intended_use
        yield "OUTPUT.summary", message.output.summary
        if message.output.next is not None:
            yield "OUTPUT.next", message.output.next
    else:
        for name, said in (("SHARED_BRIEF_MICRO", message.shared_brief_micro), ("INSTRUCTIONS", message.instructions)):
            if said:
                yield name, "\n".join(said)


_NAMES = {
    "inline_tokens": "tokens",
    "engrams": "engrams",
    "engram_chars": "characters in a claim",
    "inline_code_chars": "characters of code",
    "brief_lines": "lines of brief",
}


def _place(what: str, message: Message | None, code_chars: CodeChars | None) -> str | None:
    if what == "engrams":
        return "ENGRAMS"
    if message is None or what == "inline_tokens":
        return None
    if what == "inline_code_chars":
        return max(((code_chars or len)(said), field) for field, said in texts_of(message))[1]
    if isinstance(message, ChildMessage):
        claims = [len(engram.claim) for engram in message.engrams]
        return f"ENGRAMS[{claims.index(max(claims))}].claim"
    return "SHARED_BRIEF_MICRO"


def _shown(excess: Excess) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(excess)
    return shown
