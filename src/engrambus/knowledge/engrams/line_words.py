"""The words of the lines that pointers lead to, as keys (decision 86).

Identifiers are split like the names of a claim, and prose is read like a claim, but there are no phrases, no dotted
names and no concepts: lines have many more words than claims. Work is bounded, because lines may be minified code or
data.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from engrambus.knowledge.engrams.postings import LINE, LONG_LINE
from engrambus.knowledge.engrams.words import clean, read_token

MAX_LINE_KEYS = 256
MAX_CHARS_READ = 40_000
"""Characters of all texts together that are read."""
MANY_WORDS = 150
"""Lines with more different words are those of a whole class or chapter, where some words of any question stand."""
MAX_TOKEN_CHARS = 40
"""Longer tokens are hashes and encoded data."""

_NAME = "[^\\x00-/:-@\\[-^`{-\\x7f]+"  # alphanumeric or `_`: by excluding ASCII's other characters
_IDENTIFIER = re.compile(f"{_NAME}(?:-(?=[A-Za-z]){_NAME})*")
_CONTRACTION = re.compile("(?<=[A-Za-z])'(?:(?:s|re|ve|ll|d|m)\\b|(?=t\\b))")


def line_keys(texts: Iterable[str], known_keys: Collection[str], limit: int = MAX_LINE_KEYS) -> tuple[str, ...]:
    """Return the words of pointed lines and their joined names that are not `known_keys`, in order of appearance."""
    known_keys = frozenset(known_keys)
    keys: dict[str, None] = {}
    chars_left = MAX_CHARS_READ
    for text in texts:
        for identifier in dict.fromkeys(_IDENTIFIER.findall(_readable(text[:chars_left]))):
            if len(identifier) <= MAX_TOKEN_CHARS:
                token = read_token(identifier)
                for key in token.words + token.joined:
                    if key not in known_keys and not _is_digit(key):
                        keys[key] = None
                if len(keys) >= limit:
                    return tuple(keys)[:limit]
        chars_left -= len(text) + 1  # so that the number of texts is bounded too
        if chars_left <= 0:
            break
    return tuple(keys)


def posted_line_keys(words: Iterable[str], known_keys: Collection[str]) -> tuple[str, ...]:
    """Return the keys that an engram is posted under for the words of its lines that are not `known_keys`."""
    distinct = dict.fromkeys(words)
    prefix = LONG_LINE if len(distinct) > MANY_WORDS else LINE
    return tuple(prefix + word for word in distinct if word not in known_keys)[:MAX_LINE_KEYS]


def _readable(text: str) -> str:
    if not text.isascii():
        text = clean(text)
    return _CONTRACTION.sub("", text) if "'" in text else text


def _is_digit(key: str) -> bool:
    return len(key) == 1 and key.isdigit()
