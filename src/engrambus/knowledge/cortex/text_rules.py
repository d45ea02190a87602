"""Rules for the texts of the shared cortex: contents, one-line labels, slugs and log lines."""

from __future__ import annotations

import re

from engrambus.errors import FieldValue

MAX_TEXT_CHARS = 8_000
MAX_KIND_CHARS = 32
MAX_SLUG_CHARS = 64
MAX_LABEL_CHARS = 64
"""Length of a category or a thread."""
MAX_INPUT_CHARS = 512
"""Length of a snapshot's id or a reference."""
MAX_CATEGORIES = 16
MAX_LOG_VALUE_CHARS = 120

# Contents are printed on terminals, so control characters are refused; a carriage return only before a line feed.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")
_CONTROL_OR_BREAK = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NOT_IN_SLUGS = re.compile(r"[^a-z0-9]+")
_NOT_IN_LOG_VALUES = re.compile(r"[^A-Za-z0-9_.:/@,+-]")


def check_text(text: str, field: str) -> None:
    """Refuse a text that is blank or contains control characters other than line breaks and tabs."""
    _check(text, field, _CONTROL)


def check_label(text: str, field: str) -> None:
    """Refuse a label that is blank or contains control characters, line breaks included."""
    _check(text, field, _CONTROL_OR_BREAK)


def check_kind(kind: str, field: str = "kind") -> None:
    """Refuse a kind that is not a slug, because it becomes part of a pointer."""
    if not is_slug(kind) or len(kind) > MAX_KIND_CHARS:
        raise FieldValue("A kind is a lower-case word.", field=field, used=kind[:MAX_KIND_CHARS], limit=MAX_KIND_CHARS)


def check_slug(slug: str, field: str = "slug") -> None:
    """Refuse a text that is not a slug."""
    if not is_slug(slug):
        raise FieldValue("A slug is lower-case words with dashes.", field=field, used=slug, limit=MAX_SLUG_CHARS)


def is_slug(text: str) -> bool:
    """True if a text consists of lower-case words joined by dashes."""
    return 0 < len(text) <= MAX_SLUG_CHARS and slug_of(text) == text


def slug_of(text: str) -> str:
    """Make a slug of the first words of a text."""
    words = _NOT_IN_SLUGS.sub("-", text.lower()).strip("-")
    return words[:MAX_SLUG_CHARS].rstrip("-") or "entry"


def log_line(event: str, **values: object) -> str:
    """Format `SHARED_CORTEX_INHERIT_DONE snapshot_id=… items=40 chars=9120`.

    Values are ids and counts. Characters that could break the line or forge another value are replaced.
    """
    pairs = [
        f"{name}={_NOT_IN_LOG_VALUES.sub('_', str(value))[:MAX_LOG_VALUE_CHARS]}" for name, value in values.items()
    ]
    return " ".join([f"SHARED_CORTEX_{event}", *pairs])


def _check(text: str, field: str, unwanted: re.Pattern[str]) -> None:
    match = unwanted.search(text)
    if match:
        raise FieldValue(
            "The text contains a control character.",
            field=field,
            used=f"U+{ord(match.group()):04X}",
            hint="Write plain text, without colours and other escape sequences.",
        )
    if not text.strip():
        raise FieldValue("The text is blank.", field=field)
