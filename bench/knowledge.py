"""Puts, one by one, by many clients, and in bulk."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

import apsw

from bench.corpus import Corpus
from bench.measure import Row, at_least, per_second, rate
from engrambus.backends.sql.knowledge.postings import NEWEST_FIRST
from engrambus.backends.sql.knowledge.projection import decode_engram, tokens_of
from engrambus.evidence.pointers import Pointer
from engrambus.gateway import LOCAL_ADMIN, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.operations.engrams import PutEngram, PutEngrams

CLIENTS = 32
BATCH = 500
WARM = 200
TURNS = 9
IN_TURN = 150
BULK = 4 * BATCH

PUT, PUT_MANY, QUERY = (OPERATIONS[name] for name in ("put_engram", "put_engrams", "query_engrams"))


def fill(gateway: Gateway, corpus: Corpus, refs: list[str], size: int, told: Callable[[int], None]) -> float:
    """Bulk import; tells how many a second."""
    drafts = corpus.drafts(size, refs)

    def work() -> None:
        for done in range(0, size, BATCH):
            batch = [next(drafts) for _ in range(min(BATCH, size - done))]
            gateway.call(PUT_MANY, to_request({"engrams": batch}, PutEngrams), LOCAL_ADMIN)
            told(len(batch))

    return rate(size, work)


def put_rows(gateway: Gateway, journal: Path, corpus: Corpus, refs: list[str], scratch: Path) -> list[Row]:
    """Durable puts by one client and by many, against lines of the same length synced one by one.

    Ours and raw take turns, so that a busy machine hurts both.
    """
    drafts = iter(
        PutEngram(claim=corpus.claim(), kind="fact", pointers=[Pointer(type="repo", ref=refs[number % len(refs)])])
        for number in count()
    )
    before = journal.stat().st_size
    _puts(gateway, list(islice(drafts, WARM)))
    line = b"x" * ((journal.stat().st_size - before) // WARM - 1) + b"\n"
    raw, single, many = [], [], []
    for _ in range(TURNS):
        raw.append(rate(IN_TURN, partial(synced_appends, scratch / "raw", line, IN_TURN)))
        part = list(islice(drafts, IN_TURN))
        single.append(rate(IN_TURN, partial(_puts, gateway, part)))
        part = list(islice(drafts, CLIENTS * 10))
        many.append(rate(len(part), partial(_in_threads, gateway, part)))
    one, most, limit = median(single), median(many), median(raw)
    comparison = f"raw synced append {per_second(limit)}"
    return [
        Row("put", "durable, 1 client", per_second(one), comparison, *at_least(one / limit, 0.5)),
        Row("put", f"durable, {CLIENTS} clients", per_second(most), f"1 client {per_second(one)}",
            *at_least(most / one, 5)),
    ]  # fmt: skip


def synced_appends(path: Path, line: bytes, count: int) -> None:
    """Write and sync line after line: the best the disk can do."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        for _ in range(count):
            os.write(descriptor, line)
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def bulk_row(gateway: Gateway, index: Path, corpus: Corpus, refs: list[str], scratch: Path) -> Row:
    """Bulk import against FTS5 taking the very same tokens, set up in the same way, in as many commits."""
    target = apsw.Connection(str(scratch / "raw.db"))
    target.execute("PRAGMA journal_mode = WAL")
    target.execute(
        "CREATE VIRTUAL TABLE postings USING fts5 (tokens, content = '', contentless_delete = 1, detail = none, "
        "tokenize = \"ascii tokenchars '!#$%&()*+,-./:;<=>?@[\\]^_`{|}~'\")"
    )
    target.execute("INSERT INTO postings (postings, rank) VALUES ('automerge', 2)")

    def insert(rows: list[tuple[int, str]]) -> None:
        for start in range(0, len(rows), BATCH):
            with target:
                target.executemany("INSERT INTO postings (rowid, tokens) VALUES (?, ?)", rows[start : start + BATCH])

    ours, raw = [], []
    for _ in range(TURNS):
        ours.append(fill(gateway, corpus, refs, BULK, lambda _: None))
        rows = _posted(index, BULK)
        raw.append(rate(len(rows), partial(insert, rows)))
    target.close()
    ratio = at_least(median(ours) / median(raw), 0.4)
    return Row("put", "bulk import", per_second(median(ours)), f"raw FTS5 insert {per_second(median(raw))}", *ratio)


def _posted(index: Path, limit: int) -> list[tuple[int, str]]:
    """The rows and tokens the newest engrams are posted under."""
    source = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
    stored: Any = source.execute(
        "SELECT ordinal, space, more_keys, body FROM engrams ORDER BY ordinal DESC LIMIT ?", (limit,)
    )
    rows = [
        (NEWEST_FIRST - ordinal, tokens_of(space, decode_engram(body), more_keys.split()))
        for ordinal, space, more_keys, body in stored
    ]
    source.close()
    return rows


def _puts(gateway: Gateway, drafts: list[PutEngram]) -> None:
    for draft in drafts:
        gateway.call(PUT, draft, LOCAL_ADMIN)


def _in_threads(gateway: Gateway, drafts: list[PutEngram]) -> None:
    threads = [threading.Thread(target=_puts, args=(gateway, drafts[start::CLIENTS])) for start in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
