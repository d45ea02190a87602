"""When two claims are the same: same kind, same places, nearly the same words, and nothing limited or reversed.

Two engrams are repeats of each other if they have the same kind; if their pointers lead to the same places, and those
into a file to lines that overlap; if no number is in only one of them; if both negate equally often; and if the longer
claim has the words of the shorter one in their order, with at most a quarter more between them, none of which limits or
reverses the claim. Articles, plurals, case, punctuation, quotes, backticks, hyphens and the commas of `1,000` do not
count. One word in place of another makes another claim: `disabled` for `enabled`, `after` for `before`.
"""

# decisions 37, 47: a repeat is counted as a vote and not stored, so a claim wrongly taken for a repeat is lost, while
# one engram too many only costs a line.

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import NamedTuple

from engrambus.knowledge.engrams.values import Engram, is_memory


def _singular(word: str) -> str:
    """Return the approximate singular of an English word: Harman's S-stemmer, and plurals in -es after a sibilant."""
    # decision 86: not the stem of keys, by which `enabling` and `enabled`, or `deploy` and `deployment`, are one word
    if word[-1:] != "s" or len(word) < 4:
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "tches", "nches", "rches", "xes")):
        return word[:-2]
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word if word.endswith(("us", "ss")) else word[:-1]


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

_LIMITING = frozenset(map(_singular, (
    "only", "all", "every", "each", "both", "some", "any", "many", "most", "mostly", "few", "partly", "partially",
    "always", "sometimes", "often", "usually", "rarely", "seldom", "once", "again", "almost", "nearly", "hardly",
    "may", "might", "can", "could", "must", "should", "shall", "will", "would", "needs",
    "if", "when", "while", "until", "before", "after", "during", "since", "although", "but", "instead", "rather",
    "than", "more", "less", "first", "last", "formerly", "previously", "longer", "soon", "perhaps", "possibly",
)))
"""Words that change what a claim says where they are added."""
# fmt: on

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_HYPHEN = re.compile(r"(?<=\w)[-\u2010\u2011](?=[^\W\d])")
_QUOTES = str.maketrans("", "", "'\u2019`\"\u201c\u201d\u2018\u00ab\u00bb")
_SPAN = re.compile(r"#L(\d+)-L(\d+)")
_PIN = re.compile(r"@[0-9a-f]{40,64}$")


class _Place(NamedTuple):
    """What a pointer leads to, and the lines of it; None stands for all of them."""

    name: str
    lines: tuple[int, int] | None


def twin_key(engram: Engram) -> str:
    """Return a short hash of everything that must be equal in two repeats: all but the words and the lines.

    Few engrams about a file share it, so a store finds the candidates without reading all engrams about that file.
    """
    # decision 81: an accepted contribution becomes a memory and an engram that is a fact about the same evidence
    kind = "fact" if is_memory(engram.id) else engram.kind
    return _twin_key(kind, engram.claim, tuple(_refs(engram)))


@lru_cache(maxsize=1024)  # computed when a put is decided, and again when its fact is applied to the index
def _twin_key(kind: str, claim: str, refs: tuple[str, ...]) -> str:
    names = sorted({_place(ref).name for ref in refs})
    text = "\n".join((kind, str(count_negations(claim)), *names, "", *numbers(claim)))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def is_repeat(engram: Engram, earlier: Engram) -> bool:
    """True if, of two engrams with the same twin key, one only repeats the claim of the other."""
    return _is_same_place(engram, earlier) and is_same_statement(engram.claim, earlier.claim)


def is_same_statement(text: str, earlier: str) -> bool:
    """True if one text only repeats the other: the same words in their order, nothing limited, reversed or counted."""
    if count_negations(text) != count_negations(earlier) or numbers(text) != numbers(earlier):
        return False
    short, long = sorted((_words(text), _words(earlier)), key=len)
    extra_words = len(long) - len(short)
    if len(short) < 4 * extra_words:
        return False
    matched = 0
    for word in long:
        if matched < len(short) and word == short[matched]:
            matched += 1
        elif not extra_words or word in _LIMITING:
            return False
        else:
            extra_words -= 1
    return True


def numbers(text: str) -> tuple[str, ...]:
    """Return the numbers, versions and other words with a digit of a text, sorted."""
    return tuple(sorted(word for word in _words(text) if _has_digit(word)))


def count_negations(text: str) -> int:
    """Return how often a text negates."""
    return sum(word in _NEGATIONS for word in _plain(text))


def _refs(engram: Engram) -> list[str]:
    """Return the refs of an engram's evidence; a memory's own pointer is none."""
    return [pointer.ref for pointer in engram.pointers if pointer.ref != engram.id]


def _is_same_place(engram: Engram, earlier: Engram) -> bool:
    """True if each pointer of one engram overlaps one of the other, and the other way round."""
    places, others = [_place(ref) for ref in _refs(engram)], [_place(ref) for ref in _refs(earlier)]
    return all(any(_overlap(place, other) for other in others) for place in places) and all(
        any(_overlap(place, other) for place in places) for other in others
    )


def _overlap(place: _Place, other: _Place) -> bool:
    if place.name != other.name:
        return False
    if place.lines is None or other.lines is None:
        return True
    return place.lines[0] <= other.lines[1] and other.lines[0] <= place.lines[1]


@lru_cache(maxsize=1024)
def _place(ref: str) -> _Place:
    """Return the place of a pointer: of a file in the repository its path, without the commit."""
    name = _PIN.sub("", ref) if ref.startswith("repo:") else ref
    span = _SPAN.search(name)
    if span is None:
        return _Place(name, None)
    return _Place(name[: span.start()] + name[span.end() :], (int(span[1]), int(span[2])))


@lru_cache(maxsize=1024)
def _words(claim: str) -> tuple[str, ...]:
    """Return the words of a claim that count: no articles, no plurals, no punctuation, one word for `not`."""
    return tuple("not" if word in _NOT else _singular(word) for word in _plain(claim) if word and word not in _ARTICLES)


def _has_digit(word: str) -> bool:
    return not word.isalpha() and any(map(str.isdigit, word))


@lru_cache(maxsize=1024)
def _plain(claim: str) -> tuple[str, ...]:
    plain = _HYPHEN.sub(" ", _THOUSANDS.sub("", claim.lower().translate(_QUOTES)))
    return tuple(word.strip(".,;:!?()") for word in plain.split())
