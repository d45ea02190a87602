"""The rule of invisible text: which characters people do not see and models read, and how they are shown.

decision 72: refused where a caller writes them, shown as `\\u{202E}` where they come from elsewhere.
Joiners, variation selectors and a few others are part of ordinary writing, so those count as invisible only outside of
the places where writing needs them. The tables follow UAX #31, UTS #39 and UTS #51.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

# In these tables a range is written as in a regular expression's class.
_NEVER = (
    "\u00ad\u061c\u115f\u1160\u17b4\u17b5\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ue000-\uf8ff\ufdd0-\ufdef"
    "\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
    + "".join(chr(plane + last) for plane in range(0x10000, 0xE0000, 0x10000) for last in (0xFFFE, 0xFFFF))
)
"""Invisible wherever they stand: bidi controls, tags, fillers, deprecated formats, private use, no characters at all.

Ideographic variation selectors (U+E0100 and up) are among them: each hides eight bits, for the rare shape of a name."""
_CURSIVE = (
    "\u0610-\u061a\u0620-\u07bf\u07ca-\u07f5\u0840-\u085b\u0860-\u0dff\u0f00-\u0fff\u1000-\u109f\u1700-\u17b3\u17b6-\u17ff"
    "\u1800-\u180a\u1810-\u18af\u1900-\u1aaf\u1b00-\u1c4f\u1cd0-\u1cff\ua800-\uaaff\uabc0-\uabff\ufb50-\ufdcf\ufdf0-\ufdff"
    "\ufe70-\ufefc\U00010ac0-\U00010aff\U00010d00-\U00010d3f\U00010f30-\U00010fdf\U00011000-\U00011dff\U0001e900-\U0001e95f"
)
"""Letters and marks of scripts that need joiners: Arabic and its relatives, Mongolian, and the scripts of India."""
_UNSPACED = (
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f"
    "\ua980-\ua9ff\uaa00-\uaadf"
)
"""Letters and marks of scripts without spaces, where U+200B ends a word: Thai, Lao, Khmer, Burmese and others."""
_SYMBOL = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
"""Symbols that are shown as text or as emoji."""
_IDEOGRAPH = (
    "0\u1000-\u109f\u2200-\u22ff\u2a00-\u2aff\u3001\u3002\u3400-\u9fff\ua840-\ua877\uaa60-\uaa7f\uf900-\ufaff\uff01-\uff1f"
    "\U00010ac0-\U00010aff\U00020000-\U000323af"
)
"""Characters with standardised variants: CJK, mathematical symbols, and some letters."""
_HIEROGLYPH = "\U00013000-\U0001345f"
_MONGOLIAN = "\u1820-\u18aa"
_ACCENT = "\u0300-\u034e\u0350-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_POINTED = "\u0300-\u034e\u0350-\u036f\u0591-\u05ea"
"""Accents, and the letters and points of Hebrew."""
MAX_ACCENTS = 8
"""Accents on one letter; what is stacked higher covers other lines."""

_FLAGS = "|".join(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
"""The three flags that are written with tag characters."""


class Invisible(NamedTuple):
    """A character of a text that people do not see."""

    position: int
    """Characters before it."""
    character: str
    """`U+202E RIGHT-TO-LEFT OVERRIDE`"""


@cache
def _suspects() -> re.Pattern[str]:
    """Return the pattern of every character that can be invisible; almost no text has one, so it is tried first."""
    return re.compile(f"[\u034f\u180b-\u180f\u200b-\u200d\ufe00-\ufe0f{_NEVER}]|[{_ACCENT}]{{{MAX_ACCENTS},}}")


@cache
def _rule() -> re.Pattern[str]:
    """Return the pattern of a whole flag, or of one invisible character as its first group."""
    return re.compile(
        rf"""{_FLAGS}|(
        [{_NEVER}]
        | (?<=[\u200b-\u200d])[\u200b-\u200d]                                             # never two in a row
        | (?<![{_CURSIVE}])\u200c(?![{_CURSIVE}])
        | (?<![{_CURSIVE}{_SYMBOL}\ufe0f])\u200d(?![{_CURSIVE}])
        | (?<![{_CURSIVE}])\u200d(?![{_CURSIVE}{_SYMBOL}])                                # emoji on both sides
        | (?<![{_UNSPACED}])\u200b | \u200b(?![{_UNSPACED}])
        | (?<![{_SYMBOL}0-9\#*])[\ufe0e\ufe0f]
        | (?<![{_IDEOGRAPH}{_HIEROGLYPH}])[\ufe00-\ufe02]
        | (?<![{_HIEROGLYPH}])[\ufe03-\ufe06]
        | [\ufe07-\ufe0d]
        | (?<![{_MONGOLIAN}])[\u180b-\u180f] | \u180e(?![{_MONGOLIAN}])
        | (?<![{_POINTED}])\u034f | \u034f(?![{_POINTED}])
        | (?<=[{_ACCENT}]{{{MAX_ACCENTS}}})[{_ACCENT}]
        )""",
        re.VERBOSE,
    )


def find_invisible(text: str) -> Invisible | None:
    """Return the first character of a text that people do not see; None if there is none."""
    for found in _matches(text):
        return Invisible(found.start(), _describe(found[1]))
    return None


def count_invisible(text: str) -> int:
    """Return how many characters of a text are shown as escapes."""
    escaped = 0

    def count(character: str) -> str:
        nonlocal escaped
        escaped += 1
        return brace_escape(character)

    _replace(text, count)
    return escaped


def brace_escape(character: str) -> str:
    """Return the escape of a character as texts show it: `\\u{202E}`."""
    return f"\\u{{{ord(character):04X}}}"


def make_visible(text: str, escape: Callable[[str], str] = brace_escape) -> str:
    """Return the text with an escape in place of each invisible character."""
    return _replace(text, escape)


def make_json_visible(document: bytes) -> bytes:
    """Return JSON whose values have escapes, such as `\\u{202E}`, in place of invisible characters."""
    # Only strings hold characters outside of ASCII, so the document can be searched as one text.
    return _replace_in(document, lambda character: "\\" + brace_escape(character))


def escape_json(document: bytes) -> bytes:
    """Return JSON of the same value, with the escapes of JSON in place of invisible characters."""
    return _replace_in(document, _json_escape)


def _json_escape(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000  # JSON writes these as a surrogate pair
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _replace_in(document: bytes, escape: Callable[[str], str]) -> bytes:
    """Return the document, the same object if nothing in it is invisible."""
    if document.isascii():
        return document
    text = document.decode()
    visible = _replace(text, escape)
    return document if visible is text else visible.encode()


def _replace(text: str, escape: Callable[[str], str]) -> str:
    if text.isascii() or not _suspects().search(text):
        return text
    # An escape is no neighbour that a joiner may stand at, so what it leaves behind is looked at again.
    while any(found[1] for found in _rule().finditer(text)):
        text = _rule().sub(lambda found: escape(found[1]) if found[1] else found[0], text)
    return text


def _matches(text: str) -> Iterator[re.Match[str]]:
    if text.isascii() or not _suspects().search(text):
        return iter(())
    return (found for found in _rule().finditer(text) if found[1])


def _describe(character: str) -> str:
    import unicodedata  # a library of its own, and almost no text needs it

    code = ord(character)
    unnamed = "a private-use character" if unicodedata.category(character) == "Co" else "no character"
    return f"U+{code:04X} {unicodedata.name(character, unnamed)}"
