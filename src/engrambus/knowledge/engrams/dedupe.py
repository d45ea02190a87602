"""When two claims say the same thing: about the same places, in nearly the same words, and with nothing turned around.

Two engrams are alike when they have the same kind and exactly the same pointers, no key with a digit in it (a number, a
version) stands in only one of them, both negate as often, and the longer claim says the shorter one's words in their
order with at most a quarter more between them, none of which limits or turns what is said. Articles, plurals, case and
punctuation do not count. A word in place of another is another claim: `disabled` for `enabled` is one word, and so is
`after` for `before`.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from engrambus.knowledge.engrams.values import Engram
from engrambus.knowledge.engrams.words import stem

# fmt: off
_NEGATIONS = frozenset({
    "not", "no", "never", "none", "nothing", "neither", "nor", "without", "cannot", "unless", "except", "fails",
    "failed", "missing", "lacks", "cant", "dont", "doesnt", "didnt", "isnt", "arent", "wasnt", "werent", "wont",
    "wouldnt", "shouldnt", "couldnt", "hasnt", "havent", "hadnt",
})
_NOT = frozenset({
    "not", "never", "dont", "doesnt", "didnt", "isnt", "arent", "wasnt", "werent", "hasnt", "havent", "hadnt",
})
"""Negations that say nothing else."""

_POINTING = frozenset({"a", "an", "the", "this", "that", "these", "those", "its", "their", "our", "your"})
"""Words that may stand in one claim and not in the other."""

_TURNING = frozenset(map(stem, (
    "only", "all", "every", "each", "both", "some", "any", "many", "most", "mostly", "few", "partly", "partially",
    "always", "sometimes", "often", "usually", "rarely", "seldom", "once", "again", "almost", "nearly", "hardly",
    "may", "might", "can", "could", "must", "should", "shall", "will", "would", "needs",
    "if", "when", "while", "until", "before", "after", "during", "since", "although", "but", "instead", "rather",
    "than", "more", "less", "first", "last", "formerly", "previously", "longer", "soon", "perhaps", "possibly",
)))
"""Words that change what is said where they are added."""
# fmt: on


def twin_key(engram: Engram) -> str:
    """A short name for everything that must be the same in two engrams that are alike: all but the words.

    Few engrams about a place share it, so a store finds the twins of a new one without reading all its neighbours.
    """
    refs = tuple(pointer.ref for pointer in engram.pointers)
    return _twin_key(engram.kind, engram.claim, refs, tuple(engram.hash_keys))


@lru_cache(maxsize=1024)
def _twin_key(kind: str, claim: str, refs: tuple[str, ...], keys: tuple[str, ...]) -> str:
    """Asked for when an engram is decided upon, and again when it is written down."""
    numbers = sorted(key for key in keys if "+" not in key and _has_digit(key))
    said = "\n".join((kind, str(_negations(claim)), *sorted(set(refs)), "", *numbers))
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def is_repeat(one: Engram, other: Engram) -> bool:
    """Whether the second of two engrams with the same twin key would only say again what the first says."""
    short, long = sorted((_words(one.claim), _words(other.claim)), key=len)
    more = len(long) - len(short)
    if len(short) < 4 * more:
        return False
    said = 0
    for word in long:
        if said < len(short) and word == short[said]:
            said += 1
        elif not more or word in _TURNING or _has_digit(word):
            return False
        else:
            more -= 1
    return True


@lru_cache(maxsize=1024)
def _words(claim: str) -> tuple[str, ...]:
    """What a claim says, word by word: no articles, no plurals, no punctuation around words, one word for `not`."""
    return tuple("not" if word in _NOT else stem(word) for word in _plain(claim) if word and word not in _POINTING)


def _has_digit(key: str) -> bool:
    return not key.isalpha() and any(map(str.isdigit, key))


def _negations(claim: str) -> int:
    return sum(word in _NEGATIONS for word in _plain(claim))


def _plain(claim: str) -> list[str]:
    plain = claim.lower().replace("'", "").replace("\u2019", "")
    return [word.strip('.,;:!?()"') for word in plain.split()]
