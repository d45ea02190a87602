"""Reading a large memory store: the first time, again, and after it has grown, next to DuckDB ranking the same records.

Each read is a process of its own, `python -m bench.memory ours STORE CACHE`, `… duckdb STORE` or `… loop STORE`: no one
pays for the memory of another.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.measure import Row, at_most

BAR = 2.0
QUERY = "gateway budget retry lease journal"
TEXT_BYTES = 880
"""With the rest of its line, a record has about a thousand bytes."""
GROWN = 100
"""The store grows by one part in so many."""
LOOPED = 5
"""The obvious loop reads one part in so many: it takes long."""
TURNS = 3
"""How often each read is made, in turns; the median counts."""

_RANKED = """
CREATE TEMP TABLE ranked AS
SELECT memory_id, {scores} AS score, ts_utc
FROM (
    SELECT memory_id, ts_utc, lower(text) AS said, list_transform(tags, lambda tag: lower(tag)) AS labels
    FROM read_json('{store}', format = 'newline_delimited', maximum_object_size = 16777216,
        columns = {{memory_id: 'VARCHAR', ts_utc: 'VARCHAR', text: 'VARCHAR', tags: 'VARCHAR[]'}})
)
ORDER BY score DESC, ts_utc DESC, memory_id
"""
_SCORE = "contains(said, '{term}')::DOUBLE + 0.5 * list_contains(labels, '{term}')::DOUBLE"


class Read(NamedTuple):
    """One read, in a process of its own."""

    seconds: float
    peak: int
    """The most memory it had, in bytes, with its workers."""
    records: int


def memory_rows(scratch: Path, records: int) -> list[Row]:
    """A store of so many records, a kilobyte each."""
    store = scratch / "store.jsonl"
    write_store(store, records)
    size = f"{records:,} records, {store.stat().st_size / 1e9:.2f} GB"
    _read("duckdb", store)  # so that whoever comes first does not pay for the disk
    first, peer, again, grown, peer_grown = [], [], [], [], []
    for turn in range(TURNS):
        cache = scratch / f"memory-cache-{turn}"
        first.append(_read("ours", store, cache))
        peer.append(_read("duckdb", store))
        again.append(_read("ours", store, cache))
    for turn in range(TURNS):
        more = records // GROWN
        write_store(store, more, first=records + turn * more)
        grown.append(_read("ours", store, cache))
        peer_grown.append(_read("duckdb", store))
    added = f"{records // GROWN:,} records added"
    rows = [
        _row(f"first read, {size}", first, peer),
        _row("second read", again, peer),
        _row(f"{added}, read again", grown, peer_grown),
    ]
    few = scratch / "few.jsonl"
    write_store(few, records // LOOPED)
    ours, loop = _read("ours", few, scratch / "memory-cache-few"), _read("loop", few)
    looped = f"first read of {records // LOOPED:,} records, against the obvious loop"
    rows.append(
        Row("memory.read", looped, f"{ours.seconds:.2f} s", f"{loop.seconds:.2f} s",
            f"{loop.seconds / ours.seconds:.1f} ×", "–", None)
    )  # fmt: skip
    most, theirs = (max(read.peak for read in reads) for reads in (first, peer))
    rows.append(
        Row(
            "memory.read",
            "peak memory of the first read, all processes",
            f"{most / 1e6:.0f} MB",
            f"DuckDB {theirs / 1e6:.0f} MB",
            f"{most / theirs:.2f} ×",
            "–",
            None,
        )
    )
    store.unlink()
    few.unlink()
    return rows


def _row(what: str, ours: list[Read], peer: list[Read]) -> Row:
    """The median turn of each."""
    mine, theirs = (median(read.seconds for read in reads) for reads in (ours, peer))
    return Row("memory.read", what, f"{mine:.2f} s", f"DuckDB {theirs:.2f} s", *at_most(mine / theirs, BAR))


def write_store(store: Path, records: int, first: int = 0) -> None:
    """Add records to a store: English enough to search, in no order of time."""
    chance = random.Random(first)
    common = ["the", "worker", "reads", "a", "line", "and", "writes", "it", "when", "server", "asks", "for", "more"]
    words = [*common * 40, *QUERY.split(), *(f"word{number}" for number in range(400))]
    pool = [" ".join(chance.choices(words, k=12)).capitalize() + "." for _ in range(4000)]
    with store.open("a", encoding="utf-8") as file:
        for number in range(first, first + records):
            said = ""
            while len(said) < TEXT_BYTES:
                said += chance.choice(pool) + " "
            day = f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
            stamp = f"{day}T{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}Z"
            record = {"memory_id": f"m{number}", "ts_utc": stamp, "text": said[:TEXT_BYTES], "tags": ["Bench", "lease"]}
            file.write(json.dumps(record, separators=(",", ":")) + "\n")


def _read(who: str, *places: Path) -> Read:
    os.sync()  # what the reader before still has to write must not delay this one
    done = subprocess.run(
        [sys.executable, "-m", "bench.memory", who, *map(str, places)], check=True, capture_output=True, text=True
    )
    return Read(*json.loads(done.stdout))


def _ours(store: str, cache: str) -> int:
    from engrambus.backends.episodes import FileStores
    from engrambus.knowledge.memory import Budget, MemoryInput, read_memory

    asked = MemoryInput(query=QUERY, store_paths=[store], budget=Budget(max_excerpt_tokens=1000))
    with FileStores(Path.cwd(), cache=Path(cache), workers=os.cpu_count() or 1) as stores:
        reading = read_memory(asked, stores)
    return len(reading.selected) + len(reading.dropped)


def _loop(store: str) -> int:
    """The contract read line by line, as the tests do it to hold the controller against."""
    from tests.memory.literal import package

    asked = {"query": QUERY, "store_paths": [store], "budget": {"max_excerpt_tokens": 1000}}
    found = package(asked, Path.cwd())["selection"]
    return len(found["selected"]) + len(found["dropped"])


def _duckdb(store: str) -> int:
    import duckdb

    scores = " + ".join(_SCORE.format(term=term) for term in QUERY.split())
    connection = duckdb.connect()
    connection.execute(_RANKED.format(scores=scores, store=store))
    found: tuple[int] = connection.execute("SELECT count(*) FROM ranked").fetchall()[0]
    return found[0]


def _peak() -> int:
    """The most memory this process had, in kilobytes: its own account, for usage begins with what its parent had."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    """Read once and print what it took."""
    start = time.perf_counter()
    readers: dict[str, Callable[..., int]] = {"ours": _ours, "duckdb": _duckdb, "loop": _loop}
    records = readers[sys.argv[1]](*sys.argv[2:])
    seconds = time.perf_counter() - start
    own = _peak()
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (os.cpu_count() or 1)
    print(json.dumps([seconds, (own + workers) * 1024, records]))


if __name__ == "__main__":
    main()
