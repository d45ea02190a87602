"""Text that a caller writes: refused where it is invisible, and composed where two spellings are one name."""

from __future__ import annotations

from collections.abc import Iterator

from engrambus.errors import InvisibleText
from engrambus.visible_text import find_invisible

MAX_FIELD_CHARS = 120
"""Characters of a field's path that an error repeats."""


def check_visible(value: object, field: str = "") -> None:
    """Refuse a JSON value if a string in it, keys included, has a character that people do not see."""
    for location, text in _non_ascii(value, field):
        if found := find_invisible(text):
            raise InvisibleText(
                f"The text contains {found.character} after {found.position} characters; people do not see it.",
                field=location[:MAX_FIELD_CHARS] or None,
                character=found.character,
                position=found.position,
                hint="Write the text without it, or name the character, as in this error. "
                "In a pointer's path, write it as the percent-encoding of its UTF-8.",
            )


def nfc(text: str) -> str:
    """Return the composed form (NFC) of a text, in which equal names compare equal."""
    if text.isascii():
        return text
    import unicodedata  # a library of its own, and almost no name needs it

    return unicodedata.normalize("NFC", text)


def _non_ascii(value: object, field: str) -> Iterator[tuple[str, str]]:
    """Yield field and text of each string outside of ASCII, in order; a key comes before its value."""
    if isinstance(value, str):
        if not value.isascii():
            yield field, value
    elif isinstance(value, dict):
        for key, item in value.items():
            location = f"{field}.{key}" if field else str(key)
            yield from _non_ascii(key, location)
            yield from _non_ascii(item, location)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from _non_ascii(item, f"{field}[{position}]")
