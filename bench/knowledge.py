"""Recall and put, from ten thousand engrams to a million."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec

from bench.corpus import Corpus
from bench.measure import Row, at_least, at_most, microseconds, per_second, percentile, rate, sample
from stigmergy.evidence.pointers import Pointer
from stigmergy.knowledge.engrams import DEPTH, Engram, query_keys
from stigmergy.operations import LOCAL_ADMIN, OPERATIONS, Gateway, to_request
from stigmergy.operations.asking import QueryEngrams
from stigmergy.operations.engrams import PutEngram, PutEngrams

QUESTIONS = 400
DURABLE_PUTS = 1500
CLIENTS = 32
BATCH = 500

PUT, PUT_MANY, QUERY = (OPERATIONS[name] for name in ("put_engram", "put_engrams", "query_engrams"))


def fill(gateway: Gateway, corpus: Corpus, refs: list[str], count: int, told: Callable[[int], None]) -> float:
    """Bulk import; tells how many a second."""
    drafts = corpus.drafts(count, refs)

    def work() -> None:
        for done in range(0, count, BATCH):
            batch = [next(drafts) for _ in range(min(BATCH, count - done))]
            gateway.call(PUT_MANY, to_request({"engrams": batch}, PutEngrams), LOCAL_ADMIN)
            told(len(batch))

    return rate(count, work)


def recall_times(gateway: Gateway, index: Path, questions: list[str]) -> tuple[list[float], list[float]]:
    """Recall through the gateway, and the same keys read raw from the same index, alternately."""
    connection = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.execute("PRAGMA cache_size = -4000")
    keys = [query_keys(question) for question in questions]

    def raw(asked: tuple[str, ...]) -> None:
        connection.execute("BEGIN")
        for key in asked:
            connection.execute(
                "SELECT rowid FROM postings WHERE postings MATCH ? ORDER BY rowid LIMIT ?", (f'"p:{key}"', DEPTH)
            ).fetchall()
        connection.execute("COMMIT")

    def ours(question: str) -> None:
        gateway.call(QUERY, QueryEngrams(q=question, k=12), LOCAL_ADMIN)

    for question, asked in zip(questions[:50], keys[:50], strict=True):
        ours(question)
        raw(asked)
    times = sample([partial(ours, question) for question in questions])
    raw_times = sample([partial(raw, asked) for asked in keys])
    connection.close()
    return times, raw_times


def recall_rows(measured: dict[int, tuple[list[float], list[float]]]) -> list[Row]:
    """How recall compares with the raw read, and how it grows."""
    rows = []
    for size, (times, raw) in measured.items():
        p95, raw95 = percentile(times, 0.95), percentile(raw, 0.95)
        ratio = at_most(p95 / raw95, 5)
        what = f"k=12, {size:,} engrams, p95 (p50 {microseconds(percentile(times, 0.5))})"
        rows.append(Row("recall", what, microseconds(p95), f"raw index read {microseconds(raw95)}", *ratio))
    sizes = sorted(measured)
    small, large = (percentile(measured[size][0], 0.95) for size in (sizes[0], sizes[-1]))
    what = f"growth of p95 from {sizes[0]:,} to {sizes[-1]:,}"
    rows.append(Row("recall", what, microseconds(large), microseconds(small), *at_most(large / small, 2)))
    return rows


def put_rows(gateway: Gateway, corpus: Corpus, refs: list[str], scratch: Path) -> list[Row]:
    """Durable puts by one client and by many, against appends synced one by one."""
    drafts = [
        PutEngram(claim=corpus.claim(), kind="fact", pointers=[Pointer(type="repo", ref=refs[number % len(refs)])])
        for number in range(DURABLE_PUTS + CLIENTS * 100)
    ]
    for draft in drafts[:200]:
        gateway.call(PUT, draft, LOCAL_ADMIN)
    line = b"x" * 1100 + b"\n"
    halves = []
    for half in range(2):  # ours and raw in turns, so that a busy disk hurts both
        raw = rate(DURABLE_PUTS // 2, lambda: synced_appends(scratch / "raw", line, DURABLE_PUTS // 2))
        part = drafts[half * DURABLE_PUTS // 2 : (half + 1) * DURABLE_PUTS // 2]
        halves.append((raw, rate(len(part), partial(_puts, gateway, part))))
    raw = sum(pair[0] for pair in halves) / 2
    single = sum(pair[1] for pair in halves) / 2
    many = rate(CLIENTS * 100, lambda: _in_threads(gateway, drafts[DURABLE_PUTS:]))
    beside = f"raw synced append {per_second(raw)}"
    return [
        Row("put", "durable, 1 client", per_second(single), beside, *at_least(single / raw, 0.5)),
        Row("put", f"durable, {CLIENTS} clients", per_second(many), f"1 client {per_second(single)}",
            *at_least(many / single, 5)),
    ]  # fmt: skip


def synced_appends(path: Path, line: bytes, count: int) -> None:
    """What the disk gives at best: a line, a sync, a line, a sync."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        for _ in range(count):
            os.write(descriptor, line)
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def bulk_row(gateway: Gateway, index: Path, scratch: Path, ours: float) -> Row:
    """Bulk import against FTS5 taking the very same keys."""
    source = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
    stored: Any = source.execute("SELECT ordinal, space, body FROM engrams ORDER BY ordinal DESC LIMIT 50000")
    decode = msgspec.json.Decoder(Engram).decode
    rows = [(ordinal, " ".join(f"{space}:{key}" for key in decode(body).hash_keys)) for ordinal, space, body in stored]
    rows.reverse()
    source.close()
    target = apsw.Connection(str(scratch / "raw.db"))
    target.execute("PRAGMA journal_mode = WAL")
    target.execute(
        "CREATE VIRTUAL TABLE postings USING fts5 (tokens, content = '', contentless_delete = 1, detail = none, "
        "tokenize = \"ascii tokenchars '!#$%&()*+,-./:;<=>?@[\\]^_`{|}~'\")"
    )

    def work() -> None:
        for start in range(0, len(rows), BATCH):
            with target:
                target.executemany("INSERT INTO postings (rowid, tokens) VALUES (?, ?)", rows[start : start + BATCH])

    raw = rate(len(rows), work)
    target.close()
    return Row("put", "bulk import", per_second(ours), f"raw FTS5 insert {per_second(raw)}", *at_least(ours / raw, 0.4))


def _puts(gateway: Gateway, drafts: list[PutEngram]) -> None:
    for draft in drafts:
        gateway.call(PUT, draft, LOCAL_ADMIN)


def _in_threads(gateway: Gateway, drafts: list[PutEngram]) -> None:
    threads = [threading.Thread(target=_puts, args=(gateway, drafts[start::CLIENTS])) for start in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
