"""Texts that are sent back or logged: a name, an address or a value that a caller wrote, quoted in an error."""

from __future__ import annotations

import re
from functools import cache

from engrambus.policy.secrets.check import redact
from engrambus.policy.secrets.formats import formats
from engrambus.policy.secrets.value_checks import is_random, is_readable, is_title_case, is_words

MAX_ECHO_CHARS = 20_000
"""Characters of a quoted text that are searched; a longer one is not repeated at all."""
_MIN_BODY_CHARS = 8
_MIN_RANDOM_CHARS = 16
_SURE_ANCHOR_CHARS = 5
"""A prefix as long as this begins no ordinary name, unless it is a word itself: `test_`, `live_`."""
HIDDEN = "[redacted]"


def hide_secrets(text: str) -> str:
    """Return a text without anything that may be a secret, or the beginning of one that was cut off.

    Unlike `redact`, it accuses too much rather than too little: a quoted name that is hidden does no harm.
    """
    if len(text) < _MIN_BODY_CHARS:
        return text
    if len(text) > MAX_ECHO_CHARS:
        return HIDDEN
    try:
        clean, _ = redact(text)
        return _runs().sub(_hide_run, clean)
    except Exception:
        # decision 71: a text that cannot be checked is not repeated
        return HIDDEN


@cache
def _runs() -> re.Pattern[str]:
    return re.compile(r"[A-Za-z0-9_+=.~/-]{12,}+")


def _hide_run(match: re.Match[str]) -> str:
    run = match[0].encode()
    table = formats()
    for anchor in table.anchors.finditer(run):
        body = run[anchor.end() :]
        shapes = list(table.beginning_at(anchor[0], run, anchor.start()))
        is_word = anchor[0][:-1].isalpha() and anchor[0].islower()
        is_clear = len(anchor[0]) >= _SURE_ANCHOR_CHARS and not is_word
        is_sure = is_clear and any(not shape.is_ambiguous for shape in shapes)
        if shapes and len(body) >= _MIN_BODY_CHARS and (is_sure or not _is_name(body)):
            return match[0][: anchor.start()] + HIDDEN
    if any(len(piece) >= _MIN_RANDOM_CHARS and is_random(piece) for piece in re.split(rb"[./+=~]", run)):
        return HIDDEN
    return match[0]


def _is_name(body: bytes) -> bool:
    """True if this continues an ordinary name: words in one case, in title case, or with something between them."""
    if not set(body) & set(b"_-./"):
        if len(body) >= _MIN_RANDOM_CHARS and not body.isalpha():
            return False
        if not (body.islower() or body.isupper() or is_title_case(body)):
            return False
    return is_words(body) or is_readable(body)
