"""Embeddings: the vector of a claim, which says what the claim is about (decision 88).

A vector is computed when an engram is first compared with a question, and stored under `emb:<engram id>` in a file that
may be deleted. It is only looked up for engrams that the caller's own reads have returned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engrambus.errors import FieldValue
from engrambus.knowledge.engrams.values import Engram

PREFIX = "emb:"
MILLION = 1_000_000
"""The similarity of equal vectors."""


class TextEmbedder(Protocol):
    """A model that turns a text into a vector; the same text always gets the same vector."""

    @property
    def name(self) -> str:
        """Name of the model and the form of its vectors: those of different names cannot be compared."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        ...

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vector of each text, one signed byte a number."""
        ...

    def similarities(self, vector: bytes, vectors: Sequence[bytes]) -> list[int]:
        """Return how similar a vector is to each of `vectors`: the cosine, in millionths."""
        ...


class StoredVector(NamedTuple):
    """A vector with what it was computed from."""

    ref: str
    text_digest: bytes
    vector: bytes


class VectorStore(Protocol):
    """Vectors by their ref, in a file that may be deleted: what it has lost is computed again."""

    def get(self, model: str, refs: Sequence[str]) -> dict[str, StoredVector]:
        """Return the vectors of a model that are stored under these refs."""
        ...

    def put(self, model: str, vectors: Sequence[StoredVector]) -> None:
        """Store vectors of a model."""
        ...


class EngramVectors:
    """The vectors of engrams: stored ones, and those that the model computes now."""

    def __init__(self, embedder: TextEmbedder, stored: VectorStore) -> None:
        self.embedder = embedder
        self._stored = stored

    def of_text(self, text: str) -> bytes:
        """Return the vector of a question."""
        return self.embedder.embed([text])[0]

    def of_engrams(self, engrams: Sequence[Engram], *, max_computed: int) -> dict[str, bytes]:
        """Return the vectors by the engram's id; at most `max_computed` that are not stored, of the first of them."""
        refs = {embedding_ref(engram.id): engram for engram in engrams}
        rows_by_ref = self._stored.get(self.embedder.name, list(refs))
        vectors: dict[str, bytes] = {}
        missing: dict[str, Engram] = {}
        for ref, engram in refs.items():
            row = rows_by_ref.get(ref)
            # An id may stand for another claim in another store, and a file may be damaged.
            if row is None or row.text_digest != _digest(engram) or len(row.vector) != self.embedder.dimensions:
                missing[ref] = engram
            else:
                vectors[engram.id] = row.vector
        computed = dict(list(missing.items())[:max_computed])
        new = self.embedder.embed([engram.claim for engram in computed.values()])
        rows = [
            StoredVector(ref, _digest(engram), vector)
            for (ref, engram), vector in zip(computed.items(), new, strict=True)
        ]
        if rows:
            self._stored.put(self.embedder.name, rows)
        return vectors | {engram.id: vector for engram, vector in zip(computed.values(), new, strict=True)}


def embedding_ref(engram_id: str) -> str:
    """Return the ref that an engram's vector is stored under."""
    return f"{PREFIX}{engram_id}"


def read_embedding_ref(ref: str, field: str = "embedding_ref") -> str:
    """Return the id of the engram that a ref names the vector of."""
    engram_id = ref.removeprefix(PREFIX)
    if engram_id == ref or not engram_id:
        raise FieldValue("A reference to an embedding is `emb:` and the id of an engram.", field=field, used=ref[:80])
    return engram_id


def _digest(engram: Engram) -> bytes:
    return hashlib.sha256(engram.claim.encode()).digest()[:16]
