"""Scores: how many terms a record's text holds, half a point for each that is a tag, and a bonus for being new."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

import msgspec

from stigmergy.knowledge.memory.blocks import MISSING, Block
from stigmergy.knowledge.memory.records import normalise

TAG_POINTS = 0.5
SHORTEST_TERM = 2
SAMPLE = 65_536
RARE = 30
"""A letter is rare if it is at most one in so many."""
MICROSECONDS_A_SECOND = 1_000_000
SECONDS_A_DAY = 86_400


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What every record is scored against."""

    terms: tuple[str, ...]
    tags: bool
    """Whether a term that is a tag counts more."""
    now: int | None = None
    """The moment recency is measured from; None to leave it out."""
    half_life_days: int = 1


class Scored(msgspec.Struct, kw_only=True, gc=False):
    """The records of one stretch with their scores, in the order of their lines."""

    ids: list[str]
    hashes: bytes
    moments: list[int]
    scores: list[float]
    starts: list[int]
    """Where each record's line begins in the store."""
    ends: list[int]
    invalid: bytes


def query_terms(query: str) -> tuple[str, ...]:
    """The words of a query, in order, each once, those of one character left out."""
    return tuple(dict.fromkeys(word for word in normalise(query).split() if len(word) >= SHORTEST_TERM))


def given_terms(terms: list[str]) -> tuple[str, ...]:
    """Terms as they were given, normalised, each once."""
    return tuple(dict.fromkeys(term for term in map(normalise, terms) if term))


def score_block(block: Block, data: bytes, question: Question, offset: int) -> Scored:
    """The scores of a stretch that stands at some offset of its store."""
    scores = [0.0] * len(block.ids)
    lowered = data.lower()
    for term in question.terms:
        written = term.encode()
        if " " in term:
            _count_phrase(block, lowered, written, scores)
        else:
            _count_word(block, lowered, written, scores)
        for position, text in block.folded.items():
            if written in text:
                scores[position] += 1.0
        if question.tags:
            for position in block.tagged.get(term, ()):
                scores[position] += TAG_POINTS
    if question.now is not None:
        _add_recency(block.moments, scores, question.now, question.half_life_days)
    return Scored(
        ids=block.ids,
        hashes=block.hashes,
        moments=block.moments,
        scores=scores,
        starts=[offset + start for start in block.starts],
        ends=[offset + end for end in block.ends],
        invalid=block.invalid,
    )


def _count_word(block: Block, lowered: bytes, term: bytes, scores: list[float]) -> None:
    """A point for each plain text the term stands in, found by one search over the whole stretch."""
    starts, ends, size = block.text_starts, block.text_ends, len(term)
    last, find = len(starts) - 1, _finder(lowered, term)
    at = find(0)
    while at >= 0:
        position = bisect_right(starts, at) - 1
        if position >= 0 and at + size <= ends[position]:
            scores[position] += 1.0
        if position == last:
            return
        at = find(starts[position + 1])


def _finder(text: bytes, term: bytes) -> Callable[[int], int]:
    """Where a term next stands from a place on. A pattern leaps to its first letter: faster while that is rare."""
    if text.count(term[:1], 0, SAMPLE) * RARE > min(len(text), SAMPLE):
        return lambda start: text.find(term, start)
    search = re.compile(re.escape(term)).search

    def find(start: int) -> int:
        found = search(text, start)
        return found.start() if found else -1

    return find


def _count_phrase(block: Block, lowered: bytes, term: bytes, scores: list[float]) -> None:
    """The same for a term of several words: white space between them counts as one space."""
    for position, (start, end) in enumerate(zip(block.text_starts, block.text_ends, strict=True)):
        if term in b" ".join(lowered[start:end].split()):
            scores[position] += 1.0


def _add_recency(moments: list[int], scores: list[float], now: int, half_life_days: int) -> None:
    for position, moment in enumerate(moments):
        if moment != MISSING:
            age_days = (now - moment) / MICROSECONDS_A_SECOND / SECONDS_A_DAY
            try:
                weight = 0.5 ** (age_days / half_life_days)
            except OverflowError:  # far in the future
                weight = 1.0
            scores[position] += min(1.0, weight)
