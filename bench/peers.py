"""The same questions put to LangGraph's SqliteStore and to chromadb, with the same number of records."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.corpus import Corpus
from bench.measure import Row, at_least, microseconds, percentile, sample

DIMENSIONS = 64
ASKED = 40


def embed(text: str) -> list[float]:
    """A vector for a text that needs no model: each word adds its hash. It gives the peers real work to do and
    costs them next to nothing, so what is timed is their search."""
    total = [0.0] * DIMENSIONS
    for word in text.lower().split():
        for position, value in enumerate(struct.unpack(f"{DIMENSIONS}b", hashlib.sha512(word.encode()).digest())):
            total[position] += value / 128
    return total


def peer_rows(corpus: Corpus, size: int, ours: float, scratch: Path, told: Callable[[str], None]) -> list[Row]:
    """How much faster recall is than each peer; `ours` is our p95 at this size."""
    claims = [corpus.claim() for _ in range(size)]
    questions = [corpus.question() for _ in range(ASKED)]
    rows = []
    for name, measure in (("LangGraph SqliteStore", _langgraph), ("chromadb", _chroma)):
        told(f"{name}: {size:,} records")
        p95 = percentile(measure(claims, questions, scratch), 0.95)
        rows.append(
            Row("recall", f"against {name}, {size:,}, p95", microseconds(ours), microseconds(p95),
                *at_least(p95 / ours, 20))
        )  # fmt: skip
    return rows


def _langgraph(claims: list[str], questions: list[str], scratch: Path) -> list[float]:
    from langgraph.store.base import PutOp
    from langgraph.store.sqlite import SqliteStore
    from pysqlite3 import dbapi2 as sqlite3  # the interpreter's own may not load extensions, which the store needs

    connection = sqlite3.connect(scratch / "langgraph.db", check_same_thread=False, isolation_level=None)
    store = SqliteStore(
        connection,
        index={"dims": DIMENSIONS, "embed": lambda texts: [embed(text) for text in texts], "fields": ["claim"]},
    )
    store.setup()
    for start in range(0, len(claims), 1000):
        part = claims[start : start + 1000]
        store.batch([PutOp(("team",), f"{start + at}", {"claim": claim}) for at, claim in enumerate(part)])
    times = sample([partial(store.search, ("team",), query=question, limit=12) for question in questions])
    connection.close()
    return times


def _chroma(claims: list[str], questions: list[str], scratch: Path) -> list[float]:
    import chromadb
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(scratch / "chroma"), Settings(anonymized_telemetry=False))
    collection = client.create_collection("team", embedding_function=None)
    for start in range(0, len(claims), 5000):
        part = claims[start : start + 5000]
        collection.add(
            ids=[str(start + at) for at in range(len(part))],
            embeddings=[embed(claim) for claim in part],
            documents=part,
        )

    def ask(question: str) -> None:
        collection.query(query_embeddings=[embed(question)], n_results=12)

    return sample([partial(ask, question) for question in questions])
