"""When two statements cannot both hold, told without a model.

They must be about the same thing: most of their telling words are the same. Then they conflict when one says what the
other denies, or when they give a different number, version or value for the same thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Verdict = Literal["clean", "potential_conflict", "conflict"]
_SEVERITY: tuple[Verdict, ...] = ("clean", "potential_conflict", "conflict")

# fmt: off
_NEGATIONS = frozenset({
    "not", "no", "never", "none", "nothing", "neither", "nor", "without", "cannot", "cant", "dont", "doesnt", "didnt",
    "isnt", "arent", "wasnt", "werent", "wont", "wouldnt", "shouldnt", "couldnt", "mustnt", "hasnt", "havent", "hadnt",
})
_EMPTY = frozenset({
    "a", "an", "the", "of", "in", "on", "at", "to", "for", "by", "with", "from", "and", "or", "as", "is", "are", "was",
    "were", "be", "been", "it", "its", "that", "this", "these", "those", "we", "our", "they", "their", "do", "does",
    "did", "has", "have", "had", "will", "would", "should", "can", "could", "must", "may", "might", "now", "then",
})
_OPPOSITES = (
    "enable disable", "enabled disabled", "allow forbid", "allowed forbidden", "allow deny", "allowed denied",
    "required optional", "always never", "safe unsafe", "public private", "before after", "increase decrease",
    "synchronous asynchronous", "sync async", "mutable immutable", "accept reject", "accepts rejects",
    "accepted rejected", "true false", "include exclude", "includes excludes", "keep drop", "keeps drops",
    "start stop", "open closed", "fast slow", "first last", "supported unsupported", "stable unstable",
    "sorted unsorted", "valid invalid", "blocking nonblocking", "encrypted plaintext", "strict lenient",
    "passes fails", "pass fail", "succeeds fails", "minimum maximum", "min max", "ascending descending",
    "stateless stateful", "optimistic pessimistic", "eager lazy", "up down", "above below", "more less",
)
# fmt: on
_OPPOSITE: dict[str, frozenset[str]] = {}
for _pair in _OPPOSITES:
    _one, _other = _pair.split()
    _OPPOSITE[_one] = _OPPOSITE.get(_one, frozenset()) | {_other}
    _OPPOSITE[_other] = _OPPOSITE.get(_other, frozenset()) | {_one}

_WORD = re.compile(r"[a-z][a-z0-9_+#-]*|\d+(?:[.,:]\d+)*%?|[^\W\d_]+")


def find_conflicts(content: str, held: Iterable[tuple[str, str]]) -> tuple[Verdict, tuple[str, ...]]:
    """The worst verdict of a content against statements, each with an id, and the ids it is about."""
    found = {name: contradicts(content, text) for name, text in held}
    worst: Verdict = max(found.values(), key=_SEVERITY.index, default="clean")
    return worst, tuple(name for name, verdict in found.items() if verdict != "clean")


def contradicts(one: str, other: str) -> Verdict:
    """Whether two statements contradict each other."""
    words, others = _words(one), _words(other)
    about, others_about = _about(words), _about(others)
    shared = about & others_about
    smaller = min(len(about), len(others_about))
    if not shared or 5 * len(shared) < 3 * smaller:
        return "clean"
    close = 4 * len(shared) >= 3 * max(len(about), len(others_about))
    turned = (_negations(words) % 2) != (_negations(others) % 2)
    opposed = any(_OPPOSITE.get(word, frozenset()) & set(others) for word in words)
    numbers, other_numbers = _numbers(words), _numbers(others)
    valued = bool(numbers) and bool(other_numbers) and not numbers & other_numbers
    if (turned != opposed) or valued:
        return "conflict" if close else "potential_conflict"
    return "clean"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("'", "").replace("\u2019", ""))


def _about(words: list[str]) -> frozenset[str]:
    """The words that tell what a statement is about."""
    return frozenset(
        _stem(word)
        for word in words
        if word not in _EMPTY and word not in _NEGATIONS and word not in _OPPOSITE and not word[0].isdigit()
    )


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def _negations(words: list[str]) -> int:
    return sum(word in _NEGATIONS for word in words)


def _numbers(words: list[str]) -> frozenset[str]:
    return frozenset(word for word in words if word[0].isdigit())
