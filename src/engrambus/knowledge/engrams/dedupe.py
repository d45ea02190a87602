"""When two claims are the same: same kind, same pointers, nearly the same words, and nothing limited or reversed.

Two engrams are repeats of each other if they have the same kind and exactly the same pointers; if no key with a digit
in it (a number, a version) is in only one of them; if both negate equally often; and if the longer claim has the words
of the shorter one in their order, with at most a quarter more between them, none of which limits or reverses the claim.
Articles, plurals, case and punctuation do not count. One word in place of another makes another claim: `disabled` for
`enabled` is one word, and so is `after` for `before`.
"""

# decision 37: a repeat is counted as a vote and not stored, so a claim wrongly taken for a repeat is lost, while one
# engram too many only costs a line.

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
"""Negations that mean nothing but `not`."""

_ARTICLES = frozenset({"a", "an", "the", "this", "that", "these", "those", "its", "their", "our", "your"})
"""Words that may be in one claim and not in the other."""

_LIMITING = frozenset(map(stem, (
    "only", "all", "every", "each", "both", "some", "any", "many", "most", "mostly", "few", "partly", "partially",
    "always", "sometimes", "often", "usually", "rarely", "seldom", "once", "again", "almost", "nearly", "hardly",
    "may", "might", "can", "could", "must", "should", "shall", "will", "would", "needs",
    "if", "when", "while", "until", "before", "after", "during", "since", "although", "but", "instead", "rather",
    "than", "more", "less", "first", "last", "formerly", "previously", "longer", "soon", "perhaps", "possibly",
)))
"""Words that change what a claim says where they are added."""
# fmt: on


def twin_key(engram: Engram) -> str:
    """Return a short hash of everything that must be equal in two repeats: all but the words.

    Few engrams about a file share it, so a store finds the candidates without reading all engrams about that file.
    """
    refs = tuple(pointer.ref for pointer in engram.pointers)
    return _twin_key(engram.kind, engram.claim, refs, tuple(engram.hash_keys))


@lru_cache(maxsize=1024)  # computed when a put is decided, and again when its fact is applied to the index
def _twin_key(kind: str, claim: str, refs: tuple[str, ...], keys: tuple[str, ...]) -> str:
    numbers = sorted(key for key in keys if "+" not in key and _has_digit(key))
    text = "\n".join((kind, str(_count_negations(claim)), *sorted(set(refs)), "", *numbers))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def is_repeat(engram: Engram, earlier: Engram) -> bool:
    """True if, of two engrams with the same twin key, one only repeats the claim of the other."""
    short, long = sorted((_words(engram.claim), _words(earlier.claim)), key=len)
    extra_words = len(long) - len(short)
    if len(short) < 4 * extra_words:
        return False
    matched = 0
    for word in long:
        if matched < len(short) and word == short[matched]:
            matched += 1
        elif not extra_words or word in _LIMITING or _has_digit(word):
            return False
        else:
            extra_words -= 1
    return True


@lru_cache(maxsize=1024)
def _words(claim: str) -> tuple[str, ...]:
    """Return the words of a claim that count: no articles, no plurals, no punctuation, one word for `not`."""
    return tuple("not" if word in _NOT else stem(word) for word in _plain(claim) if word and word not in _ARTICLES)


def _has_digit(key: str) -> bool:
    return not key.isalpha() and any(map(str.isdigit, key))


def _count_negations(claim: str) -> int:
    return sum(word in _NEGATIONS for word in _plain(claim))


def _plain(claim: str) -> list[str]:
    plain = claim.lower().replace("'", "").replace("\u2019", "")
    return [word.strip('.,;:!?()"') for word in plain.split()]
