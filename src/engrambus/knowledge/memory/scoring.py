"""Scores: how many terms a record's text holds, half a point for each that is a tag, and a bonus for being new."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise

import msgspec
from stringzilla import Str

from engrambus.knowledge.memory.blocks import Block, Texts
from engrambus.knowledge.memory.records import normalise, read_moment
from engrambus.knowledge.memory.rows import (
    Store,
    denied_row,
    invalid_row,
    make_rows,
    time_of,
)
from engrambus.knowledge.memory.trust import Denied

TAG_POINTS = 0.5
SHORTEST_TERM = 2
MICROSECONDS_A_SECOND = 1_000_000
SECONDS_A_DAY = 86_400


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What every record is held against."""

    terms: tuple[str, ...]
    tags: bool
    """Whether a term that is a tag counts more."""
    now: int | None = None
    """The moment recency is measured from; None to leave it out."""
    half_life_days: int = 1
    denied: Denied = Denied()
    """Which records are left out."""


def query_terms(query: str) -> tuple[str, ...]:
    """The words of a query, in order, each once, those of one character left out."""
    return tuple(dict.fromkeys(word for word in normalise(query).split() if len(word) >= SHORTEST_TERM))


def given_terms(terms: list[str]) -> tuple[str, ...]:
    """Terms as they were given, normalised, each once."""
    return tuple(dict.fromkeys(term for term in map(normalise, terms) if term))


def rank_block(block: Block, texts: Texts, question: Question, store: Store, offset: int) -> list[str]:
    """The rows of a stretch that stands at some offset of a store, in their order."""
    scores = _score(block, texts, question)
    if question.now is not None:
        _add_recency(block.whens, scores, question.now, question.half_life_days)
    rows = make_rows(scores, block.whens, block.ids, block.hashes, block.spans, store, offset)
    if question.denied:
        for position, identity in enumerate(zip(block.ids, block.hashes, strict=True)):
            if question.denied.denies(*identity):
                rows[position] = denied_row(rows[position])
    rows += [invalid_row(store, offset, *line) for line in block.invalid]
    rows.sort()
    return rows


def _score(block: Block, texts: Texts, question: Question) -> list[float]:
    points = [0.0] * len(block.tags)
    if question.tags:
        points = [TAG_POINTS * len(set(question.terms).intersection(tags)) for tags in block.tags]
    scores = [points[kind] for kind in block.tagged]
    starts = list(accumulate([size + 1 for size in texts.sizes], initial=0))
    lowered = Str(texts.lowered)
    for term in question.terms:
        if " " in term:
            _count_phrase(texts.lowered, starts, term, scores)
        else:
            _count_word(lowered, starts, term.encode(), scores)
    return scores


def _count_word(lowered: Str, starts: list[int], term: bytes, scores: list[float]) -> None:
    """A point for each text a word stands in, found by one search over all of them: no word reaches into the next."""
    at = lowered.find(term)
    while at >= 0:
        position = bisect_right(starts, at)
        scores[position - 1] += 1.0
        at = lowered.find(term, starts[position])


def _count_phrase(lowered: bytes, starts: list[int], term: str, scores: list[float]) -> None:
    """The same for a term of several words: white space between them counts as one space."""
    for position, (start, end) in enumerate(pairwise(starts)):
        if term in normalise(lowered[start:end].decode()):
            scores[position] += 1.0


def _add_recency(whens: list[str], scores: list[float], now: int, half_life_days: int) -> None:
    for position, when in enumerate(whens):
        time = time_of(when)
        moment = read_moment(time) if time else None
        if moment is not None:
            age_days = (now - moment) / MICROSECONDS_A_SECOND / SECONDS_A_DAY
            try:
                weight = 0.5 ** (age_days / half_life_days)
            except OverflowError:  # far in the future
                weight = 1.0
            scores[position] += min(1.0, weight)
