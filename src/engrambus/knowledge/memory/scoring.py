"""Scores of records, and the trust snapshot that excludes some of them.

A record scores one point for each term in its text, half a point for each term that is one of its tags, and up to one
point for being recent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from engrambus.core import SECOND_US, canonical, read_json
from engrambus.errors import EngramBusError, TrustSnapshotInvalid
from engrambus.knowledge.memory.records import StoreLine, normalise

TAG_POINTS = 0.5
MIN_TERM_CHARS = 2
DAY_SECONDS = 86_400
MAX_SNAPSHOT_BYTES = 64 * 1024 * 1024
SNAPSHOT_FIELD = "trust_filter.trust_snapshot_path"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request, as far as scoring is concerned."""

    terms: frozenset[str]
    count_tags: bool
    now_us: int | None = None
    """The moment recency is measured from; None switches recency off."""
    half_life_days: int = 1

    @property
    def has_phrase(self) -> bool:
        """True if a term has several words, so that white space in texts must be collapsed to find it."""
        return any(" " in term for term in self.terms)

    def key(self) -> bytes:
        """Return the same bytes for every question that scores all records alike."""
        return canonical([sorted(self.terms), self.count_tags, str(self.now_us), self.half_life_days])


def query_terms(query: str) -> frozenset[str]:
    """Return the words of a query, without those of a single character."""
    return frozenset(word for word in normalise(query).split() if len(word) >= MIN_TERM_CHARS)


def explicit_terms(terms: list[str]) -> frozenset[str]:
    """Return the terms of a request, normalised, without empty ones."""
    return frozenset(map(normalise, terms)) - {""}


def score(line: StoreLine, text: str, question: Question) -> float:
    """Score a valid record whose text is lower-cased."""
    points = 0.0
    for term in question.terms:
        if term in text:
            points += 1.0
    if question.count_tags and line.tags:
        # Half points and whole points add up exactly, so the order of the terms never changes a score.
        points += TAG_POINTS * len(question.terms.intersection(line.tags))
    if question.now_us is not None and line.moment_us is not None:
        points += _recency(question.now_us - line.moment_us, question.half_life_days)
    return points


def _recency(age_us: int, half_life_days: int) -> float:
    age_days = age_us / SECOND_US / DAY_SECONDS
    try:
        return min(1.0, float(0.5 ** (age_days / half_life_days)))
    except OverflowError:  # far in the future
        return 1.0


class DenyList(msgspec.Struct, frozen=True):
    """The records that a trust snapshot excludes."""

    ids: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """True if it excludes nothing."""
        return not self.ids and not self.hashes

    def denies(self, memory_id: str, record_hash: str) -> bool:
        return memory_id in self.ids or record_hash in self.hashes


def read_deny_list(snapshot: bytes, classifications: Iterable[str]) -> DenyList:
    """Read the records that a trust snapshot puts in one of these classes, and infer nothing else from it."""
    try:
        value = read_json(snapshot, max_bytes=MAX_SNAPSHOT_BYTES)
    except EngramBusError as problem:
        raise _invalid(f"The trust snapshot cannot be read: {problem.detail}") from None
    items = value.get("items") if isinstance(value, dict) else None
    if not isinstance(items, list):
        raise _invalid("The trust snapshot has no list `items`.")
    denied = frozenset(classifications)
    ids: set[str] = set()
    hashes: set[str] = set()
    for index, item in enumerate(items):
        if not _names_record(item):
            raise _invalid(f"items[{index}] of the trust snapshot names no record, or no classification.")
        if item["classification"] in denied:
            ids.update(name for name in (item.get("memory_id"),) if isinstance(name, str))
            hashes.update(name for name in (item.get("record_hash"),) if isinstance(name, str))
    return DenyList(frozenset(ids), frozenset(hashes))


def _names_record(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("classification"), str)
        and any(isinstance(item.get(name), str) for name in ("memory_id", "record_hash"))
    )


def _invalid(detail: str) -> TrustSnapshotInvalid:
    return TrustSnapshotInvalid(detail, field=SNAPSHOT_FIELD)
