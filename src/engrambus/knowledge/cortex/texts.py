"""What may stand in a memory or a contribution: text, and labels of one line."""

from __future__ import annotations

import re

from engrambus.errors import FieldValue
from engrambus.knowledge.cortex.episodes import is_slug

MAX_KIND = 32
MAX_LABEL = 64
"""A category, a thread."""
MAX_INPUT = 512
"""A snapshot's id, or a reference."""

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")
_CONTROL_OR_BREAK = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_plain(text: str, field: str) -> None:
    """Refuse a text that holds characters which are no text, or nothing else; lines and tabs are fine."""
    _check(text, field, _CONTROL)


def check_label(text: str, field: str) -> None:
    """The same for a text of one line."""
    _check(text, field, _CONTROL_OR_BREAK)


def check_kind(kind: str, field: str = "kind") -> None:
    """Refuse a kind that could not stand in a pointer."""
    if not is_slug(kind) or len(kind) > MAX_KIND:
        raise FieldValue("A kind is a lower-case word.", field=field, used=kind[:MAX_KIND], limit=MAX_KIND)


def _check(text: str, field: str, unwanted: re.Pattern[str]) -> None:
    found = unwanted.search(text)
    if found:
        raise FieldValue(
            "The text holds a control character.",
            field=field,
            used=f"U+{ord(found.group()):04X}",
            hint="Write plain text, without colours and other escape sequences.",
        )
    if not text.strip():
        raise FieldValue("The text says nothing.", field=field)
