"""A message to send instead of one that was refused: its form, filled with what could be kept.

What is kept is what was fine: engrams, pointers, requests, short texts without code, and a pointer for each piece of
pasted text that was recognised. What the author has to write stands as `...` after a comment. Nothing is added that
would take the message over its budget, so it can be read, and sent, as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from engrambus.core import estimate_tokens
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.engrams import CheckedEngram
from engrambus.knowledge.messages.budget import CodeChars, find_excess, measure
from engrambus.knowledge.messages.parse import Reading
from engrambus.knowledge.messages.printing import lay_out, message_object
from engrambus.knowledge.messages.values import (
    STATUSES,
    Budgets,
    ChildMessage,
    Message,
    Output,
    ParentMessage,
)
from engrambus.policy import InlineBudget

Recognised: TypeAlias = tuple[int, int, Pointer]
"""Where pasted text starts and ends in the message as sent, in characters, and what it was pasted from."""

MAX_TEXT = 400
MAX_ITEMS = 36
"""Of one section: enough to fill a message."""
FILL_IN = "..."

_CHILD_ORDER = ("engrams", "pointer_pack", "deref_requests")
_PARENT_ORDER = ("grants", "instructions", "shared_brief_micro", "target_pointer_pack")


def resend_template(
    reading: Reading,
    budget: InlineBudget,
    recognised: Sequence[Recognised] = (),
    *,
    kept: Sequence[CheckedEngram] | None = None,
    code_chars: CodeChars | None = None,
) -> str:
    """A message in the required form with what could be kept of a reading.

    `kept` are the engrams to keep when not all that could be read may stay.
    """
    parts = dict(reading.parts)
    if kept is not None:
        parts["engrams"] = tuple(kept)
    notes: dict[str, str] = {}
    pack = "pointer_pack" if reading.kind == "child" else "target_pointer_pack"
    pasted = [each for each in sorted(recognised, key=lambda each: each[:2]) if each[2] not in parts.get(pack, ())]
    parts[pack] = (*dict.fromkeys(pointer for _, _, pointer in pasted), *parts.get(pack, ()))
    if pasted:
        where = ", ".join(dict.fromkeys(_lines(reading.text, start, end) for start, end, _ in pasted[:MAX_ITEMS]))
        notes[pack.upper()] = f"These lead to what you pasted (line {where}), in this order; then your own."
    fits = _Fits(budget, code_chars)
    if reading.kind == "child":
        return _fill(_child_start(parts, notes, fits), _CHILD_ORDER, parts, notes, fits)
    start = ParentMessage(role=parts.get("role", "manager"), budgets=parts.get("budgets", Budgets()))
    return _fill(start, _PARENT_ORDER, parts, notes, fits)


class _Fits:
    """Whether something may stand in the message, by the same rules it will be judged by."""

    def __init__(self, budget: InlineBudget, code_chars: CodeChars | None) -> None:
        self._budget = budget
        self._code_chars = code_chars

    def __call__(self, message: Message, notes: Mapping[str, str]) -> bool:
        usage = measure(_text(message, notes), message, self._code_chars)
        return not find_excess(usage, self._budget)

    def alone(self, text: str) -> bool:
        """Whether a text is short enough to be worth keeping, and free of code."""
        if not text or len(text) > MAX_TEXT or 2 * estimate_tokens(text) > self._budget.max_inline_tokens:
            return False
        return self._code_chars is None or not self._code_chars(text)


def _child_start(parts: dict[str, Any], notes: dict[str, str], fits: _Fits) -> ChildMessage:
    sent: Output | None = parts.get("output")
    summary = sent.summary if sent is not None else ""
    if not fits.alone(summary):
        summary = FILL_IN
        notes["OUTPUT"] = "Say in one or two sentences what came out of it, and what should happen next."
    following = sent.next if sent is not None and sent.next and fits.alone(sent.next) else None
    if "task_status" not in parts:
        notes["TASK_STATUS"] = ", ".join(STATUSES)
    return ChildMessage(
        role=parts.get("role", "programmer"),
        task_status=parts.get("task_status", "in_progress"),
        output=Output(summary=summary, next=following),
    )


def _fill(start: Message, order: Iterable[str], parts: Mapping[str, Any], notes: Mapping[str, str], fits: _Fits) -> str:
    """The fullest message that fits; when its notes do not, without them."""
    message = start
    left_out = 0
    for name in order:
        sent = parts.get(name, ())
        kept: tuple[Any, ...] = ()
        for item in sent[:MAX_ITEMS]:
            fuller = msgspec.structs.replace(message, **{name: (*kept, item)})
            if fits(fuller, notes):
                message, kept = fuller, (*kept, item)
        left_out += len(sent) - len(kept)
    if isinstance(message, ParentMessage) and not message.instructions:
        asked = msgspec.structs.replace(message, instructions=(FILL_IN,))
        noted = {**notes, "INSTRUCTIONS": "Say what is to be done, a line each."}
        if fits(asked, noted):
            message, notes = asked, noted
    more = f"{left_out} more did not fit or may not be sent; put what matters in a later message."
    for tried in ({**notes, "": more} if left_out else notes, notes, {}):
        if fits(message, tried) and message != ParentMessage(role=message.role):
            return _text(message, tried)
    return _text(_bare(start), {})


def _bare(start: Message) -> Message:
    """The least that is a message at all."""
    if isinstance(start, ChildMessage):
        return msgspec.structs.replace(start, output=Output(summary=FILL_IN))
    return ParentMessage(role=start.role, instructions=(FILL_IN,))


def _text(message: Message, notes: Mapping[str, str]) -> str:
    return lay_out(message_object(message, short=True), notes)


def _lines(text: str, start: int, end: int) -> str:
    first = text.count("\n", 0, max(start, 0)) + 1
    last = text.count("\n", 0, max(end - 1, 0)) + 1
    return f"{first}-{last}" if last > first else str(first)
