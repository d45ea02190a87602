"""When two claims say the same thing: about the same places, in nearly the same words, and with nothing turned around.

Two engrams are alike when they have the same kind and exactly the same pointers, four fifths of all their words are in
both, and neither a negation nor a number nor a version stands in only one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from stigmergy.evidence.pointers import Pointer
from stigmergy.knowledge.engrams.values import Engram
from stigmergy.knowledge.engrams.words import tokens

# fmt: off
_NEGATIONS = frozenset({
    "not", "no", "never", "none", "nothing", "neither", "nor", "without", "cannot", "unless", "except", "fails",
    "failed", "missing", "lacks", "cant", "dont", "doesnt", "didnt", "isnt", "arent", "wasnt", "werent", "wont",
    "wouldnt", "shouldnt", "couldnt", "hasnt", "havent", "hadnt",
})
# fmt: on


def place_key(pointers: Sequence[Pointer]) -> str:
    """The key that engrams with exactly these pointers are posted under."""
    refs = "\n".join(sorted({pointer.ref for pointer in pointers}))
    return "at=" + hashlib.blake2b(refs.encode(), digest_size=8).hexdigest()


def alike(one: Engram, other: Engram) -> bool:
    """Whether a second engram would only say again what the first says."""
    if one.kind != other.kind or place_key(one.pointers) != place_key(other.pointers):
        return False
    words, others = _words(one.claim), _words(other.claim)
    if _telling(words) != _telling(others) or _negations(one.claim) != _negations(other.claim):
        return False
    return 5 * len(words & others) >= 4 * len(words | others)


def _words(claim: str) -> frozenset[str]:
    return frozenset(word for token in tokens(claim) for word in token.words)


def _telling(words: frozenset[str]) -> frozenset[str]:
    """Words with a digit in them: numbers, versions, numbered names."""
    return frozenset(word for word in words if any("0" <= letter <= "9" for letter in word))


def _negations(claim: str) -> int:
    plain = claim.lower().replace("'", "").replace("\u2019", "")
    return sum(word.strip('.,;:!?()"') in _NEGATIONS for word in plain.split())
