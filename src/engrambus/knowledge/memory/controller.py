"""`memory.read`: the same question to the same stores gives the same package, to the byte.

No clock, no network, no environment and no randomness: what could differ between two runs is not in this room.
"""

from __future__ import annotations

import hashlib
from posixpath import normpath

import msgspec

from engrambus.core import BYTES_PER_TOKEN, canonical, estimate_tokens
from engrambus.errors import FieldMissing, FieldValue, MemoryStoreChanged
from engrambus.knowledge.memory.ports import Stores
from engrambus.knowledge.memory.ranking import DroppedList, merge_runs
from engrambus.knowledge.memory.records import normalise, read_moment, read_record
from engrambus.knowledge.memory.rows import Row, Store, read_row
from engrambus.knowledge.memory.scoring import Question, given_terms, query_terms
from engrambus.knowledge.memory.trust import read_denied
from engrambus.knowledge.memory.values import (
    CONTROLLER_VERSION,
    ContextPackage,
    MemoryInput,
    Query,
    Scoring,
    Selected,
    Selection,
    Spent,
    TrustFilter,
)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a read found: a package that may list as many dropped records as the stores hold."""

    query: Query
    budget: Spent
    selected: list[Selected]
    dropped: DroppedList
    package_hash: str

    def package(self) -> ContextPackage:
        """The package, with every dropped record in it."""
        return self._package(Selection(selected=self.selected, dropped=self.dropped.records()))

    def counted(self) -> ContextPackage:
        """The package with dropped records only counted."""
        return self._package(
            Selection(selected=self.selected, dropped_counts=dict(sorted(self.dropped.counts.items())))
        )

    def _package(self, selection: Selection) -> ContextPackage:
        return ContextPackage(query=self.query, budget=self.budget, selection=selection, package_hash=self.package_hash)


def read_memory(asked: MemoryInput, stores: Stores) -> Reading:
    """What the stores hold on a question, within its budget."""
    question, paths = check_input(asked)
    trust = asked.trust_filter or TrustFilter()
    if trust.trust_snapshot_path is not None:
        denied = read_denied(stores.snapshot(trust.trust_snapshot_path), trust.deny_classifications)
        question = msgspec.structs.replace(question, denied=denied)
    runs = stores.scan([Store(number, path) for number, path in enumerate(paths)], question)
    choice, dropped, package = _Choice(asked, stores, paths), DroppedList(paths), None
    for rows in merge_runs(runs):
        ranked = dropped.add_unranked(rows)
        dropped.add(choice.take(ranked), choice.reason)
        if choice.reason:  # nothing more is selected: what there is of the list is hashed while others find the rest
            package = package or _Package(asked, choice.selected)
            package.hash(dropped)
    package = package or _Package(asked, choice.selected)
    return package.reading(dropped)


def check_input(asked: MemoryInput) -> tuple[Question, list[str]]:
    """What is to be scored against, and the stores in the order they are read."""
    if not asked.query.strip():
        raise FieldMissing("The query is empty.", field="query")
    if not asked.store_paths:
        raise FieldMissing("No store is named.", field="store_paths")
    for position, path in enumerate(asked.store_paths):
        if not path or "\0" in path:
            raise FieldValue("A store's path is empty or holds a NUL.", field=f"store_paths[{position}]")
    now = None
    if asked.now_utc is not None:
        now = read_moment(asked.now_utc)
        if now is None:
            raise FieldValue("now_utc is not a UTC timestamp.", field="now_utc", hint="As 2026-01-31T12:00:00Z.")
    scoring = asked.scoring or Scoring()
    terms = query_terms(asked.query) if scoring.query_terms is None else given_terms(scoring.query_terms)
    question = Question(
        terms=terms,
        tags=scoring.enable_tag_overlap,
        now=now if scoring.enable_recency_weight else None,
        half_life_days=scoring.recency_half_life_days,
    )
    return question, sorted({normpath(path) for path in asked.store_paths})


class _Choice:
    """The first rows that fit, and why the next one did not."""

    def __init__(self, asked: MemoryInput, stores: Stores, paths: list[str]) -> None:
        self._stores = stores
        self._paths = paths
        self._left = asked.budget.max_excerpt_tokens
        self._item_bytes = _item_tokens(asked) * BYTES_PER_TOKEN
        self._max_items = asked.budget.max_items
        self.selected: list[Selected] = []
        self.reason = ""

    def take(self, rows: list[str]) -> list[str]:
        """Select of the next rows what fits; the others."""
        for position, row in enumerate(rows):
            if not self.reason:
                self._consider(read_row(row))
            if self.reason:
                return rows[position:]
        return []

    def _consider(self, row: Row) -> None:
        if len(self.selected) == self._max_items:
            self.reason = "max_items_reached"
            return
        path = self._paths[row.store]
        excerpt = self._excerpt(row, path)
        tokens = estimate_tokens(excerpt)
        if tokens > self._left:
            self.reason = "budget_exhausted"
            return
        self._left -= tokens
        self.selected.append(
            Selected(
                memory_id=row.memory_id,
                record_hash=row.record_hash,
                store_path=path,
                score=row.score,
                excerpt=excerpt,
                excerpt_tokens=tokens,
            )
        )

    def _excerpt(self, row: Row, path: str) -> str:
        """The beginning of a record's text, cut where a character ends. It is read again, and must be the same."""
        record = read_record(self._stores.line(path, row.start, row.end))
        if record is None or record.hash.hex() != row.record_hash:
            raise MemoryStoreChanged(f"{path} changed while it was read.", field="store_paths")
        return record.text.strip().encode()[: self._item_bytes].decode(errors="ignore")


def _item_tokens(asked: MemoryInput) -> int:
    budget = asked.budget
    return min(budget.per_item_max_excerpt_tokens or budget.max_excerpt_tokens, budget.max_excerpt_tokens)


class _Package:
    """A package of which only the list of dropped records is still growing."""

    def __init__(self, asked: MemoryInput, selected: list[Selected]) -> None:
        budget, used = asked.budget, sum(item.excerpt_tokens for item in selected)
        self._query = Query(raw=asked.query, query_hash=hashlib.sha256(normalise(asked.query).encode()).hexdigest())
        self._budget = Spent(
            max_excerpt_tokens=budget.max_excerpt_tokens,
            used_excerpt_tokens=used,
            remaining_excerpt_tokens=budget.max_excerpt_tokens - used,
            per_item_max_excerpt_tokens=_item_tokens(asked),
            max_items=budget.max_items,
        )
        self._selected = selected
        few = {
            "budget": msgspec.to_builtins(self._budget),
            "controller_version": CONTROLLER_VERSION,
            "query": msgspec.to_builtins(self._query),
        }
        self._hashed = hashlib.sha256(canonical(few)[:-1] + b',"selection":{"dropped":[')
        self._pieces = 0

    def hash(self, dropped: DroppedList) -> None:
        """Hash what has been added to the list."""
        for piece in dropped.pieces[self._pieces :]:
            self._hashed.update(piece)
        self._pieces = len(dropped.pieces)

    def reading(self, dropped: DroppedList) -> Reading:
        """The package with the whole list. Its hash is that of the canonical package without it."""
        self.hash(dropped)
        self._hashed.update(b'],"selected":' + canonical(msgspec.to_builtins(self._selected)) + b"}}")
        return Reading(
            query=self._query,
            budget=self._budget,
            selected=self._selected,
            dropped=dropped,
            package_hash=self._hashed.hexdigest(),
        )
