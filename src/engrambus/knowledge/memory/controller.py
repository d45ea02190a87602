"""`memory.read`: the same question to the same stores gives the same package, to the byte.

This package uses no clock, no network, no environment and no randomness, so nothing can differ between two runs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from posixpath import normpath
from typing import Protocol

import msgspec

from engrambus.core import canonical
from engrambus.errors import FieldMissing, FieldValue, MemoryStoreChanged
from engrambus.knowledge.memory.moments import parse_moment
from engrambus.knowledge.memory.ranking import (
    NO_MOMENT,
    NOTHING_RANKED,
    MergedRanking,
    RankedRecords,
    RankedStore,
    Row,
)
from engrambus.knowledge.memory.records import Segment, normalise, read_record, read_text
from engrambus.knowledge.memory.scoring import (
    DenyList,
    Question,
    explicit_terms,
    query_terms,
    read_deny_list,
    score,
)
from engrambus.knowledge.memory.values import (
    CONTROLLER_VERSION,
    ContextPackage,
    Dropped,
    MemoryInput,
    Query,
    Scoring,
    Selected,
    Selection,
    SpentBudget,
    TrustFilter,
)

BYTES_PER_TOKEN = 4
"""The specification's rule for excerpts; all other budgets use `estimate_tokens` (decision 53)."""

_SAVE_DIVISOR = 32
"""Ranked rows are saved again once one part in this many was added, so that a read which adds little writes nothing."""

_HASHED_AT_ONCE = 1000
"""Dropped records that are printed together, so that the list is never in memory as a text."""

_encode_dropped = msgspec.json.Encoder(order="sorted").encode


class RecordStore(Protocol):
    """One open store."""

    def segments(self) -> Iterator[Segment]:
        """Yield the content in file order, without the segments that loaded rows stand for."""
        ...

    def load_ranked(self, question: bytes) -> RankedRecords | None:
        """Return what was saved for a question, if the store still begins with the segments that it stands for."""
        ...

    def save_ranked(self, question: bytes, ranked: RankedRecords) -> None:
        """Save the ranked lines of all full segments."""
        ...


class Stores(Protocol):
    """JSONL files, open for reading only."""

    def open_store(self, path: str) -> RecordStore | None:
        """Open a store; None if the same file is open under another path."""
        ...

    def line(self, path: str, start: int, end: int) -> bytes:
        """Read a line of an open store again."""
        ...

    def snapshot(self, path: str) -> bytes:
        """Read a trust snapshot."""
        ...


def read_memory(request: MemoryInput, stores: Stores) -> ContextPackage:
    """Select the best records of the stores within the budget, and list every other record as dropped."""
    question, paths = check_input(request)
    ranking = _Ranking(question, _deny_list(request.trust_filter, stores))
    # All stores are opened before the first is read, so that a missing one fails at once.
    for path, store in [(path, stores.open_store(path)) for path in paths]:
        if store is not None:  # decision 108: one file by several paths is read once, under the first of them
            ranking.add(path, store)
    merged = ranking.merge()
    selected, reason = _select(request, stores, ranking.paths, merged)
    dropped = [*ranking.invalid, *ranking.denied, *merged.drop_after(len(selected), reason)]
    return _package(request, selected, dropped)


def count_dropped(package: ContextPackage) -> ContextPackage:
    """Replace the list of dropped records by their number per reason; the package hash still covers the list."""
    counts = Counter(record.reason for record in package.selection.dropped or ())
    selection = Selection(selected=package.selection.selected, dropped_counts=dict(sorted(counts.items())))
    return msgspec.structs.replace(package, selection=selection)


def check_input(request: MemoryInput) -> tuple[Question, list[str]]:
    """Return the question to score by and the store paths in reading order, or refuse the request."""
    if not request.query.strip():
        raise FieldMissing("The query is empty.", field="query")
    if not request.store_paths:
        raise FieldMissing("No store is named.", field="store_paths")
    for index, path in enumerate(request.store_paths):
        if not path or "\0" in path:
            raise FieldValue("The path of a store is empty or contains a NUL.", field=f"store_paths[{index}]")
    now_us = None
    if request.now_utc is not None:
        now_us = parse_moment(request.now_utc)
        if now_us is None:
            raise FieldValue("now_utc is not a UTC timestamp.", field="now_utc", hint="As 2026-01-31T12:00:00Z.")
    scoring = request.scoring or Scoring()
    terms = query_terms(request.query) if scoring.query_terms is None else explicit_terms(scoring.query_terms)
    question = Question(
        terms=terms,
        count_tags=scoring.enable_tag_overlap,
        now_us=now_us if scoring.enable_recency_weight else None,
        half_life_days=scoring.recency_half_life_days,
    )
    return question, sorted({normpath(path) for path in request.store_paths})


def _deny_list(trust_filter: TrustFilter | None, stores: Stores) -> DenyList:
    if trust_filter is None or trust_filter.trust_snapshot_path is None:
        return DenyList()
    return read_deny_list(stores.snapshot(trust_filter.trust_snapshot_path), trust_filter.deny_classifications)


class _Scored(msgspec.Struct, frozen=True):
    """The lines of some segments of a store."""

    rows: list[Row]
    invalid: list[str]
    """Hashes of the lines that hold no valid record."""


class _Ranking:
    """Every line read so far: invalid and denied ones in reading order, the others as rows to sort."""

    def __init__(self, question: Question, deny_list: DenyList) -> None:
        self._question = question
        self._deny_list = deny_list
        self._stores: list[RankedStore] = []
        self._rows: list[Row] = []
        self.paths: list[str] = []
        self.invalid: list[Dropped] = []
        self.denied: list[Dropped] = []

    def add(self, path: str, store: RecordStore) -> None:
        """Score the lines of a store, except those that were ranked for the same question before."""
        number = len(self.paths)
        self.paths.append(path)
        # What a snapshot denies may change with every read.
        key = self._question.key() if self._deny_list.is_empty else None
        stored = store.load_ranked(key) if key is not None else None
        ranked = RankedStore(number, stored or NOTHING_RANKED)
        full = _Scored(rows=[], invalid=[])
        partial = _Scored(rows=[], invalid=[])
        for segment in store.segments():
            self._score(number, segment, full if segment.is_full else partial)
        if key is not None and len(full.rows) > len(ranked) // _SAVE_DIVISOR:
            ranked = RankedStore(number, ranked.with_rows(sorted(full.rows), full.invalid))
            store.save_ranked(key, ranked.records)
            full = _Scored(rows=[], invalid=[])
        self._stores.append(ranked)
        self._rows += full.rows + partial.rows
        for line_hash in (*ranked.records.invalid, *full.invalid, *partial.invalid):
            self.invalid.append(Dropped("", line_hash, path, "invalid_record_schema"))

    def _score(self, number: int, segment: Segment, scored: _Scored) -> None:
        """Add the lines of a segment of the store with this number."""
        offset, path = segment.offset, self.paths[number]
        question, has_phrase = self._question, self._question.has_phrase
        for line in segment.lines:
            memory_id, record_hash = line.memory_id, line.record_hash
            if memory_id is None:
                scored.invalid.append(record_hash)
            elif self._deny_list.denies(memory_id, record_hash):
                self.denied.append(Dropped(memory_id, record_hash, path, "trust_denied"))
            else:
                text = read_text(segment.line(line))
                points = score(line, normalise(text) if has_phrase else text.lower(), question)
                moment = NO_MOMENT if line.moment_us is None else -line.moment_us
                scored.rows.append(
                    (-points, moment, number, memory_id, record_hash, offset + line.start, offset + line.end)
                )

    def merge(self) -> MergedRanking:
        """Return all records that may be selected, in their order."""
        return MergedRanking(self._stores, self._rows, self.paths)


def _select(request: MemoryInput, stores: Stores, paths: list[str], rows: Iterable[Row]) -> tuple[list[Selected], str]:
    """Select rows until one does not fit; return them and the reason that applies to all others."""
    budget, remaining_tokens = request.budget, request.budget.max_excerpt_tokens
    excerpt_bytes = _item_tokens(request) * BYTES_PER_TOKEN
    selected: list[Selected] = []
    for points, _, number, memory_id, record_hash, start, end in rows:
        if len(selected) == budget.max_items:
            return selected, "max_items_reached"
        record = read_record(stores.line(paths[number], start, end))
        # The line is read a second time for its excerpt; it must still be the one that was ranked.
        if record is None or record.record_hash != record_hash:
            raise MemoryStoreChanged(f"{paths[number]} changed while it was read. Try again.", field="store_paths")
        # A cut inside a character drops its first bytes too.
        excerpt = record.text.strip().encode()[:excerpt_bytes].decode(errors="ignore")
        tokens = count_memory_tokens(excerpt)
        if tokens > remaining_tokens:
            return selected, "budget_exhausted"
        remaining_tokens -= tokens
        selected.append(
            Selected(
                memory_id=memory_id,
                record_hash=record_hash,
                store_path=paths[number],
                score=-points,
                excerpt=excerpt,
                excerpt_tokens=tokens,
            )
        )
    return selected, ""


def count_memory_tokens(excerpt: str) -> int:
    """Return ceil(UTF-8 bytes / 4)."""
    return -(-len(excerpt.encode()) // BYTES_PER_TOKEN)


def _item_tokens(request: MemoryInput) -> int:
    budget = request.budget
    return min(budget.per_item_max_excerpt_tokens or budget.max_excerpt_tokens, budget.max_excerpt_tokens)


def _package(request: MemoryInput, selected: list[Selected], dropped: list[Dropped]) -> ContextPackage:
    used = sum(item.excerpt_tokens for item in selected)
    query = Query(raw=request.query, query_hash=hashlib.sha256(normalise(request.query).encode()).hexdigest())
    spent = SpentBudget(
        max_excerpt_tokens=request.budget.max_excerpt_tokens,
        used_excerpt_tokens=used,
        remaining_excerpt_tokens=request.budget.max_excerpt_tokens - used,
        per_item_max_excerpt_tokens=_item_tokens(request),
        max_items=request.budget.max_items,
    )
    return ContextPackage(
        query=query,
        budget=spent,
        selection=Selection(selected=selected, dropped=dropped),
        package_hash=_package_hash(query, spent, selected, dropped),
    )


def _package_hash(query: Query, spent: SpentBudget, selected: list[Selected], dropped: list[Dropped]) -> str:
    """Hash the canonical package, in the sorted order of its keys.

    Dropped records may be as many as the stores hold. They consist of texts only, which every encoder prints alike, so
    they are printed without the checks of `canonical`.
    """
    head = canonical(msgspec.to_builtins({"budget": spent, "controller_version": CONTROLLER_VERSION, "query": query}))
    package_hash = hashlib.sha256(head[:-1] + b',"selection":{"dropped":')
    package_hash.update(b"[")
    for first in range(0, len(dropped), _HASHED_AT_ONCE):
        part = _encode_dropped(dropped[first : first + _HASHED_AT_ONCE])
        package_hash.update(part[1:-1] if first == 0 else b"," + part[1:-1])
    package_hash.update(b"]")
    package_hash.update(b',"selected":' + canonical(msgspec.to_builtins(selected)) + b"}}")
    return package_hash.hexdigest()
