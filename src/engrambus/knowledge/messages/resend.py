"""The template to send instead of a rejected message.

It keeps what was acceptable: engrams, pointers, requests, short texts without code, and a pointer for each pasted part
that was found in the repository. A text that the author has to write is `...`, after a comment that says so. The
template is always within the budget; it is accepted as soon as every `...` is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.core import estimate_tokens
from engrambus.knowledge.messages.budget import CountCode, find_excess, measure
from engrambus.knowledge.messages.layout import message_sections, to_yaml
from engrambus.knowledge.messages.parse import ParsedMessage
from engrambus.knowledge.messages.values import (
    STATUSES,
    ChildBudgets,
    ChildMessage,
    Message,
    Output,
    ParentMessage,
)
from engrambus.policy import InlineBudget

if TYPE_CHECKING:
    from engrambus.evidence.anchoring import Recognised

MAX_TEXT_CHARS = 400
MAX_ITEMS = 36
"""Items tried for one section: more than a message within the default budget can carry."""
PLACEHOLDER = "..."
RESERVED_TOKENS = 60
"""Tokens left free for the text that replaces a placeholder: two or three sentences."""

_CHILD_ORDER = ("engrams", "pointer_pack", "deref_requests", "used")
_PARENT_ORDER = ("grants", "instructions", "shared_brief_micro", "target_pointer_pack", "used")


def resend_template(
    parsed: ParsedMessage,
    budget: InlineBudget,
    pastes: Sequence[Recognised] = (),
    *,
    rejection_id: str | None = None,
    count_code: CountCode | None = None,
) -> str:
    """Return a message in the required form with everything acceptable from a rejected text.

    It names the rejection, so that the message that is sent instead is linked to it.
    """
    parts = dict(parsed.parts)
    notes: dict[str, str] = {}
    pack = "pointer_pack" if parsed.kind == "child" else "target_pointer_pack"
    pasted = [
        paste for paste in sorted(pastes, key=lambda paste: paste[:2]) if paste.pointer not in parts.get(pack, ())
    ]
    parts[pack] = (*dict.fromkeys(paste.pointer for paste in pasted), *parts.get(pack, ()))
    if pasted:
        lines = ", ".join(dict.fromkeys(_lines(parsed.text, paste.start, paste.end) for paste in pasted[:MAX_ITEMS]))
        notes[pack.upper()] = f"Pointers to the text you pasted (line {lines}), in this order; then your own."
    fits = _BudgetFit(budget, count_code)
    if parsed.kind == "child":
        child = msgspec.structs.replace(_child_start(parts, notes, fits), resends=rejection_id)
        return _fill(child, _CHILD_ORDER, parts, notes, fits)
    start = ParentMessage(
        role=parts.get("role", "manager"), budgets=parts.get("budgets", ChildBudgets()), resends=rejection_id
    )
    return _fill(start, _PARENT_ORDER, parts, notes, fits)


class _BudgetFit:
    """Tells what fits into a message, by the rules that the resent message will be checked with."""

    def __init__(self, budget: InlineBudget, count_code: CountCode | None) -> None:
        self._budget = budget
        self._count_code = count_code

    def __call__(self, message: Message, notes: Mapping[str, str]) -> bool:
        text = _text(message, notes)
        usage = measure(text, message, self._count_code)
        if f'"{PLACEHOLDER}"' in text:  # room for what its author writes there
            reserved = min(RESERVED_TOKENS, self._budget.max_inline_tokens // 10)
            usage = msgspec.structs.replace(usage, inline_tokens=usage.inline_tokens + reserved)
        return not find_excess(usage, self._budget)

    def accepts_text(self, text: str) -> bool:
        """True if a text is short enough to keep, and has no code."""
        # At most half of the tokens, so that a long summary does not push out the engrams.
        if not text or len(text) > MAX_TEXT_CHARS or 2 * estimate_tokens(text) > self._budget.max_inline_tokens:
            return False
        return self._count_code is None or not self._count_code(text)


def _child_start(parts: dict[str, Any], notes: dict[str, str], fits: _BudgetFit) -> ChildMessage:
    sent: Output | None = parts.get("output")
    summary = sent.summary if sent is not None else ""
    if not fits.accepts_text(summary):
        summary = PLACEHOLDER
        notes["OUTPUT"] = "Write the result in one or two sentences, and what should happen next."
    next_step = sent.next if sent is not None and sent.next and fits.accepts_text(sent.next) else None
    if "task_status" not in parts:
        notes["TASK_STATUS"] = ", ".join(STATUSES)
    return ChildMessage(
        role=parts.get("role", "programmer"),
        task_status=parts.get("task_status", "in_progress"),
        output=Output(summary=summary, next=next_step),
    )


def _fill(
    start: Message, order: Iterable[str], parts: Mapping[str, Any], notes: Mapping[str, str], fits: _BudgetFit
) -> str:
    """Return the text of the fullest message that fits, with its notes if they fit too."""
    # Greedy by section: what the reader needs most comes first, and an item that does not fit is skipped.
    message = start
    omitted = 0
    for name in order:
        sent = parts.get(name, ())
        included: tuple[Any, ...] = ()
        for item in sent[:MAX_ITEMS]:
            fuller = msgspec.structs.replace(message, **{name: (*included, item)})
            if fits(fuller, notes):
                message, included = fuller, (*included, item)
        omitted += len(sent) - len(included)
    if isinstance(message, ParentMessage) and not message.instructions:
        with_instructions = msgspec.structs.replace(message, instructions=(PLACEHOLDER,))
        with_note = {**notes, "INSTRUCTIONS": "Write what is to be done, one line for each instruction."}
        if fits(with_instructions, with_note):
            message, notes = with_instructions, with_note
    omission = f"{omitted} more did not fit or may not be sent; put what matters in a later message."
    for candidate in ({**notes, "": omission} if omitted else notes, notes, {}):
        if fits(message, candidate) and message != ParentMessage(role=message.role, resends=message.resends):
            return _text(message, candidate)
    return _text(_minimal(start), {})


def _minimal(start: Message) -> Message:
    if isinstance(start, ChildMessage):
        return msgspec.structs.replace(start, output=Output(summary=PLACEHOLDER), resends=None)
    return ParentMessage(role=start.role, instructions=(PLACEHOLDER,))


def _text(message: Message, notes: Mapping[str, str]) -> str:
    return to_yaml(message_sections(message, short=True), notes)


def _lines(text: str, start: int, end: int) -> str:
    first = text.count("\n", 0, max(start, 0)) + 1
    last = text.count("\n", 0, max(end - 1, 0)) + 1
    return f"{first}-{last}" if last > first else str(first)
