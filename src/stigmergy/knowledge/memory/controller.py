"""`memory.read`: the same question to the same stores gives the same package, to the byte.

No clock, no network, no environment and no randomness: what could differ between two runs is not in this room.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from posixpath import normpath

import msgspec

from stigmergy.core import BYTES_PER_TOKEN, canonical, estimate_tokens
from stigmergy.errors import FieldMissing, FieldValue, MemoryStoreChanged
from stigmergy.knowledge.memory.ports import Stores
from stigmergy.knowledge.memory.ranking import Found
from stigmergy.knowledge.memory.records import normalise, read_moment, read_record
from stigmergy.knowledge.memory.scoring import Question, given_terms, query_terms
from stigmergy.knowledge.memory.trust import Denied, read_denied
from stigmergy.knowledge.memory.values import (
    ContextPackage,
    Dropped,
    MemoryInput,
    Query,
    Scoring,
    Selected,
    Selection,
    Spent,
    TrustFilter,
)

CHUNK = 10_000

_encode = msgspec.json.Encoder(order="sorted").encode


def read_memory(asked: MemoryInput, stores: Stores) -> ContextPackage:
    """What the stores hold on a question, within its budget."""
    question, paths = check_input(asked)
    trust = asked.trust_filter or TrustFilter()
    denied = Denied()
    if trust.trust_snapshot_path is not None:
        denied = read_denied(stores.snapshot(trust.trust_snapshot_path), trust.deny_classifications)
    found = Found(denied)
    for path in paths:
        for scored in stores.scan(path, question):
            found.take(path, scored)
    order = found.ranked()
    selected, reason = _select(asked, stores, found, order)
    dropped = [*found.invalid, *found.denied, *found.dropped(order[len(selected) :], reason)]
    return _package(asked, selected, dropped)


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


def _select(asked: MemoryInput, stores: Stores, found: Found, order: list[int]) -> tuple[list[Selected], str]:
    """The first rows that fit, and why the next one did not."""
    budget = asked.budget
    left, item_bytes = budget.max_excerpt_tokens, _item_tokens(asked) * BYTES_PER_TOKEN
    selected: list[Selected] = []
    for row in order:
        if len(selected) == budget.max_items:
            return selected, "max_items_reached"
        excerpt = _excerpt(stores, found, row, item_bytes)
        tokens = estimate_tokens(excerpt)
        if tokens > left:
            break
        left -= tokens
        selected.append(
            Selected(
                memory_id=found.ids[row],
                record_hash=found.hashes[row],
                store_path=found.paths[row],
                score=found.scores[row],
                excerpt=excerpt,
                excerpt_tokens=tokens,
            )
        )
    return selected, "budget_exhausted"


def _excerpt(stores: Stores, found: Found, row: int, item_bytes: int) -> str:
    """The beginning of a record's text, cut where a character ends. The record is read again, and must be the same."""
    path = found.paths[row]
    record = read_record(stores.line(path, found.starts[row], found.ends[row]))
    if record is None or record.hash.hex() != found.hashes[row]:
        raise MemoryStoreChanged(f"{path} changed while it was read.", field="store_paths")
    return record.text.strip().encode()[:item_bytes].decode(errors="ignore")


def _item_tokens(asked: MemoryInput) -> int:
    budget = asked.budget
    return min(budget.per_item_max_excerpt_tokens or budget.max_excerpt_tokens, budget.max_excerpt_tokens)


def _package(asked: MemoryInput, selected: list[Selected], dropped: list[Dropped]) -> ContextPackage:
    budget = asked.budget
    used = sum(item.excerpt_tokens for item in selected)
    package = ContextPackage(
        query=Query(raw=asked.query, query_hash=hashlib.sha256(normalise(asked.query).encode()).hexdigest()),
        budget=Spent(
            max_excerpt_tokens=budget.max_excerpt_tokens,
            used_excerpt_tokens=used,
            remaining_excerpt_tokens=budget.max_excerpt_tokens - used,
            per_item_max_excerpt_tokens=_item_tokens(asked),
            max_items=budget.max_items,
        ),
        selection=Selection(selected=selected, dropped=dropped),
        package_hash="",
    )
    hashed = hashlib.sha256()
    for piece in _canonical_pieces(package, dropped):
        hashed.update(piece)
    return msgspec.structs.replace(package, package_hash=hashed.hexdigest())


def _canonical_pieces(package: ContextPackage, dropped: list[Dropped]) -> Iterator[bytes]:
    """The canonical package without its hash, piece by piece: what was dropped may be the whole store."""
    few = {
        "budget": msgspec.to_builtins(package.budget),
        "controller_version": package.controller_version,
        "query": msgspec.to_builtins(package.query),
    }
    yield canonical(few)[:-1] + b',"selection":{"dropped":['
    for start in range(0, len(dropped), CHUNK):
        yield b"," * (start > 0) + _encode(dropped[start : start + CHUNK])[1:-1]
    yield b'],"selected":' + canonical(msgspec.to_builtins(package.selection.selected)) + b"}}"
