"""LightRAG: what a query retrieves becomes engrams that point at lines of the repository.

bridge = LightRagBridge(bus, rag)
answer = await bridge.query("ada", "Who approves a refund?")

The text of a chunk is never stored: it is searched for in the repository, and the engram points at the lines that hold
it (decision 89). Everything is put by `Hooks.on_rag_result`, in the agent's name and within its budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from engrambus.edges.sdk import Bus
from engrambus.edges.sdk.hooks import Found, FoundOutcome, Hooks, Refused, Retrieved
from engrambus.evidence.pointers import Pointer

MAX_SOURCES = 12
"""Chunks that the description of an entity or a relation may rest on: as many as an engram has pointers."""
MAX_ANCHORED_BYTES = 16 * 1024
"""Size of a chunk that is searched for."""
SEPARATOR = "<SEP>"
"""What LightRAG puts between the parts of a field: source ids, and descriptions from several chunks."""

Sort: TypeAlias = Literal["chunk", "entity", "relation"]
SkipReason: TypeAlias = Literal[
    "not in the repository", "too long", "empty", "no source", "too many sources", "over the limit"
]
"""Why nothing is put."""


class Rag(Protocol):
    """The part of `lightrag.LightRAG` that is used."""

    text_chunks: Any
    """The store of chunks: `await get_by_ids(ids)`."""

    async def aquery_data(self, query: str, param: Any = ..., /) -> dict[str, Any]:
        """Retrieve chunks, entities and relations without an answer in words."""
        ...


class RagItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a query that was put, or that the gateway refused."""

    sort: Sort
    name: str
    """The chunk's id, the entity's name, or both names of a relation."""
    outcome: FoundOutcome


class SkippedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a query that nothing was put for."""

    sort: Sort
    name: str
    reason: SkipReason


class RagAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of everything that a query retrieved; chunks first, then entities, then relations."""

    items: tuple[RagItem, ...]
    skipped: tuple[SkippedItem, ...]

    @property
    def found(self) -> list[Found]:
        """The items that were put, each with its engram and, within the budget, an excerpt."""
        return [item.outcome for item in self.items if isinstance(item.outcome, Found)]

    @property
    def refused(self) -> list[Refused]:
        """The refusals of the gateway."""
        return [item.outcome for item in self.items if isinstance(item.outcome, Refused)]

    @property
    def skip_counts(self) -> dict[str, int]:
        """The number of skipped items by reason."""
        counts: dict[str, int] = {}
        for item in self.skipped:
            counts[item.reason] = counts.get(item.reason, 0) + 1
        return counts


class LightRagBridge:
    """Puts what a LightRAG index retrieves for an agent on the bus, as pointers into the repository."""

    def __init__(self, bus: Bus, rag: Rag, *, revision: str | None = None) -> None:
        """The bus belongs to an ancestor of the agents that are asked for, or to the admin.

        `revision` is the commit whose files were inserted into the index; HEAD by default.
        """
        self._bus = bus
        self._hooks = Hooks(bus)
        self._rag = rag
        self._revision = revision

    async def query(
        self,
        agent: str,
        question: str,
        param: Any = None,
        *,
        max_tokens: int = 0,
        max_chunks: int = 8,
        max_entities: int = 4,
        max_relations: int = 4,
    ) -> RagAnswer:
        """Retrieve with the agent's question, and put an engram for each chunk, entity and relation that has evidence.

        `param` is LightRAG's `QueryParam`. With `max_tokens`, lines are read within that sum and the agent's turn. The
        other limits say how many of each sort are put, those first that LightRAG ranks highest.
        """
        answer = await (self._rag.aquery_data(question) if param is None else self._rag.aquery_data(question, param))
        data = answer.get("data") or {}
        items = [item for name in ("chunks", "entities", "relationships") for item in data.get(name) or ()]
        texts = await self._source_texts(items)
        limits: dict[Sort, int] = {"chunk": max_chunks, "entity": max_entities, "relation": max_relations}
        # the bus waits for a disk or a server, which must not hold up the event loop
        return await asyncio.to_thread(self._put, agent, items, texts, limits, max_tokens)

    async def _source_texts(self, items: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Return the chunks that the items rest on, by id; those that were retrieved are not read again."""
        texts = {str(item["chunk_id"]): item for item in items if item.get("chunk_id")}
        missing = [
            chunk_id
            for item in items
            for chunk_id in _source_ids(item)[:MAX_SOURCES]
            if chunk_id and chunk_id not in texts
        ]
        missing = list(dict.fromkeys(missing))
        if missing:
            rows = await self._rag.text_chunks.get_by_ids(missing)
            texts |= {chunk_id: row for chunk_id, row in zip(missing, rows, strict=True) if row}
        return texts

    def _put(
        self,
        agent: str,
        items: Sequence[Mapping[str, Any]],
        texts: Mapping[str, Mapping[str, Any]],
        limits: dict[Sort, int],
        max_tokens: int,
    ) -> RagAnswer:
        anchors = _Anchors(self._bus.speak_as(agent), self._revision)
        taken: list[tuple[Sort, str, Retrieved]] = []
        skipped: list[SkippedItem] = []
        for item in items:
            sort, name = _sort_of(item), _name_of(item)
            result = _retrieved(item, texts, anchors) if limits[sort] > 0 else "over the limit"
            if isinstance(result, Retrieved):
                taken.append((sort, name, result))
                limits[sort] -= 1
            else:
                skipped.append(SkippedItem(sort=sort, name=name, reason=result))
        outcomes = self._hooks.on_rag_result(agent, [result for _, _, result in taken], max_tokens=max_tokens)
        put = [
            RagItem(sort=sort, name=name, outcome=outcome)
            for (sort, name, _), outcome in zip(taken, outcomes, strict=True)
        ]
        return RagAnswer(items=tuple(put), skipped=tuple(skipped))


class _Anchors:
    """Where chunks are in the repository, each searched for once, as far as the agent may see it."""

    def __init__(self, bus: Bus, revision: str | None) -> None:
        self._bus = bus
        self._revision = revision
        self._places: dict[str, Pointer | SkipReason] = {}

    def place(self, chunk_id: str, chunk: Mapping[str, Any]) -> Pointer | SkipReason:
        """Return the lines that hold a chunk, or why there are none."""
        if chunk_id not in self._places:
            self._places[chunk_id] = self._find(str(chunk.get("content") or ""), str(chunk.get("file_path") or ""))
        return self._places[chunk_id]

    def _find(self, text: str, path: str) -> Pointer | SkipReason:
        if not text.strip():
            return "empty"
        if len(text.encode(errors="replace")) > MAX_ANCHORED_BYTES:
            return "too long"
        answer = self._bus.anchor_text(text, path=path or None, revision=self._revision)
        # Places with the same text are equal as evidence; the likeliest comes first.
        places = [answer.pointer] if answer.pointer is not None else answer.candidates
        return places[0] if places else "not in the repository"


def _retrieved(
    item: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]], anchors: _Anchors
) -> Retrieved | SkipReason:
    """Return what is put for an item, or why nothing is."""
    if _sort_of(item) == "chunk":
        place = anchors.place(str(item["chunk_id"]), item)
        return Retrieved(text=str(item["content"]), pointer=place) if isinstance(place, Pointer) else place
    source_ids = _source_ids(item)
    if len(source_ids) > MAX_SOURCES:
        return "too many sources"
    statement = _statement(item)
    if not statement:
        return "empty"
    places = [anchors.place(source, texts[source]) if source in texts else "no source" for source in source_ids]
    pointers = [place for place in places if isinstance(place, Pointer)]
    # A description merges what all its chunks say, so each of them must be there for the agent to check.
    if not pointers or len(pointers) < len(places):
        return next((place for place in places if not isinstance(place, Pointer)), "no source")
    return Retrieved(text=statement, pointer=pointers[0], more_pointers=tuple(dict.fromkeys(pointers[1:])))


def _statement(item: Mapping[str, Any]) -> str:
    """Return the description of an entity or a relation, with the names that it leaves out."""
    parts = str(item.get("description") or "").split(SEPARATOR)
    description = " ".join(part.strip() for part in parts if part.strip())
    if not description:
        return ""
    names = [str(item[field]) for field in ("entity_name", "src_id", "tgt_id") if item.get(field)]
    absent = [name for name in names if name.casefold() not in description.casefold()]
    return f"{' and '.join(names)}: {description}" if absent else description


def _sort_of(item: Mapping[str, Any]) -> Sort:
    return "chunk" if "chunk_id" in item else "entity" if "entity_name" in item else "relation"


def _name_of(item: Mapping[str, Any]) -> str:
    if "chunk_id" in item:
        return str(item["chunk_id"])
    return str(item.get("entity_name") or f"{item.get('src_id', '')} - {item.get('tgt_id', '')}")


def _source_ids(item: Mapping[str, Any]) -> list[str]:
    """Return the ids of the chunks that an entity or a relation was taken from."""
    return [source for source in str(item.get("source_id") or "").split(SEPARATOR) if source]
