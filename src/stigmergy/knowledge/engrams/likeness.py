"""When two claims say the same thing: about the same places, in nearly the same words, and with nothing turned around.

Two engrams are alike when they have the same kind and exactly the same pointers, four fifths of all their single keys
are in both, no key with a digit in it (a number, a version) stands in only one of them, and both negate as often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from stigmergy.evidence.pointers import Pointer
from stigmergy.knowledge.engrams.values import Engram

# fmt: off
_NEGATIONS = frozenset({
    "not", "no", "never", "none", "nothing", "neither", "nor", "without", "cannot", "unless", "except", "fails",
    "failed", "missing", "lacks", "cant", "dont", "doesnt", "didnt", "isnt", "arent", "wasnt", "werent", "wont",
    "wouldnt", "shouldnt", "couldnt", "hasnt", "havent", "hadnt",
})
# fmt: on


def place_key(pointers: Sequence[Pointer]) -> str:
    """A short name for exactly these pointers."""
    refs = "\n".join(sorted({pointer.ref for pointer in pointers}))
    return hashlib.blake2b(refs.encode(), digest_size=8).hexdigest()


def alike(one: Engram, other: Engram) -> bool:
    """Whether a second engram with the same pointers would only say again what the first says."""
    if one.kind != other.kind:
        return False
    keys, others = _single_keys(one), _single_keys(other)
    either = keys | others
    if 5 * len(keys & others) < 4 * len(either):
        return False
    if any(letter.isdigit() for key in keys ^ others for letter in key):
        return False
    return _negations(one.claim) == _negations(other.claim)


def _single_keys(engram: Engram) -> frozenset[str]:
    return frozenset(key for key in engram.hash_keys if "+" not in key)


def _negations(claim: str) -> int:
    plain = claim.lower().replace("'", "").replace("\u2019", "")
    return sum(word.strip('.,;:!?()"') in _NEGATIONS for word in plain.split())
