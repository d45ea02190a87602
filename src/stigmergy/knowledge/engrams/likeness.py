"""When two claims say the same thing: about the same places, in nearly the same words, and with nothing turned around.

Two engrams are alike when they have the same kind and exactly the same pointers, four fifths of all their single keys
are in both, no key with a digit in it (a number, a version) stands in only one of them, and both negate as often.
"""

from __future__ import annotations

import hashlib

from stigmergy.knowledge.engrams.values import Engram

# fmt: off
_NEGATIONS = frozenset({
    "not", "no", "never", "none", "nothing", "neither", "nor", "without", "cannot", "unless", "except", "fails",
    "failed", "missing", "lacks", "cant", "dont", "doesnt", "didnt", "isnt", "arent", "wasnt", "werent", "wont",
    "wouldnt", "shouldnt", "couldnt", "hasnt", "havent", "hadnt",
})
# fmt: on


def twin_key(engram: Engram) -> str:
    """A short name for everything that must be the same in two engrams that are alike: all but the words.

    Few engrams about a place share it, so a store finds the twins of a new one without reading all its neighbours.
    """
    refs = sorted({pointer.ref for pointer in engram.pointers})
    numbers = sorted(key for key in engram.hash_keys if "+" not in key and _has_digit(key))
    said = "\n".join((engram.kind, str(_negations(engram.claim)), *refs, "", *numbers))
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def alike(one: Engram, other: Engram) -> bool:
    """Whether the second of two engrams with the same twin key would only say again what the first says."""
    keys, others = _single_keys(one), _single_keys(other)
    return 5 * len(keys & others) >= 4 * len(keys | others)


def _single_keys(engram: Engram) -> frozenset[str]:
    return frozenset(key for key in engram.hash_keys if "+" not in key)


def _has_digit(key: str) -> bool:
    return not key.isalpha() and any(map(str.isdigit, key))


def _negations(claim: str) -> int:
    plain = claim.lower().replace("'", "").replace("\u2019", "")
    return sum(word.strip('.,;:!?()"') in _NEGATIONS for word in plain.split())
