"""Reading a large memory store: the first time, again, and after it has grown, in seconds of processor time.

Each read is a process of its own, `python -m bench.memory product STORE CACHE` or `… literal STORE`, so that no read
profits from the memory of another.
"""

from __future__ import annotations

import json
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

FIRST_READ_BAR_S = 3.0
GROWN_BAR = 0.1
QUERY = "gateway budget retry lease journal"
OTHER_QUERY = "worker policy segment cache token"
TEXT_BYTES = 880
"""With the other fields of its line, a record has about a thousand bytes."""
GROWTH_DIVISOR = 100
"""The store grows by one part in this many."""
LITERAL_DIVISOR = 10
"""The literal reader, which is slow, reads one part in this many."""
TURNS = 3
"""Each read is made this often; the median counts."""


class Read(NamedTuple):
    """One read, in a process of its own."""

    cpu_s: float
    peak_bytes: int


def memory_rows(scratch: Path, records: int) -> list[Row]:
    """Measure a store of this many records, a kilobyte each."""
    store = scratch / "store.jsonl"
    write_store(store, records)
    size = f"{records:,} records, {store.stat().st_size / 1e6:.0f} MB"
    first, again, second, grown = [], [], [], []
    for turn in range(TURNS):
        cache = scratch / f"memory-cache-{turn}"
        first.append(_read("product", store, cache, QUERY))
        again.append(_read("product", store, cache, QUERY))
        second.append(_read("product", store, cache, OTHER_QUERY))
    for turn in range(TURNS):
        added = records // GROWTH_DIVISOR
        write_store(store, added, first=records + turn * added)
        grown.append(_read("product", store, cache, QUERY))
    small = scratch / "small.jsonl"
    write_store(small, records // LITERAL_DIVISOR)
    product = _read("product", small, scratch / "memory-cache-small", QUERY)
    literal = _read("literal", small, scratch / "no-cache", QUERY)
    store.unlink()
    small.unlink()
    first_s, again_s, second_s, grown_s = (
        median(read.cpu_s for read in reads) for reads in (first, again, second, grown)
    )
    met_first = first_s <= FIRST_READ_BAR_S
    bar = f"≤ {FIRST_READ_BAR_S:g} s"
    peak_mb = max(read.peak_bytes for read in (*first, *again, *second, *grown)) / 1e6
    comparison = f"first read {first_s:.2f} s"
    few = f"first read of {records // LITERAL_DIVISOR:,} records, beside the literal reader of the tests"
    ratio = f"{literal.cpu_s / product.cpu_s:.1f} ×"
    return [
        Row("memory.read", f"first read, {size}, processor time", f"{first_s:.2f} s", "–", "–", bar, met_first),
        Row("memory.read", "unchanged, the same question again", f"{again_s:.2f} s", comparison,
            f"{again_s / first_s:.2f} ×", "–", None),
        Row("memory.read", "unchanged, another question", f"{second_s:.2f} s", comparison,
            f"{second_s / first_s:.2f} ×", "–", None),
        Row("memory.read", f"{records // GROWTH_DIVISOR:,} records added, the same question again",
            f"{grown_s:.2f} s", comparison, *at_most(grown_s / first_s, GROWN_BAR)),
        Row("memory.read", few, f"{product.cpu_s:.2f} s", f"{literal.cpu_s:.2f} s", ratio, "–", None),
        Row("memory.read", "peak memory of a read", f"{peak_mb:.0f} MB", "–", "–", "–", None),
    ]  # fmt: skip


def write_store(store: Path, records: int, first: int = 0) -> None:
    """Append records to a store: English enough to search, in no order of time."""
    chance = random.Random(first)
    common = ["the", "worker", "reads", "a", "line", "and", "writes", "it", "when", "server", "asks", "for", "more"]
    words = [*common * 40, *QUERY.split(), *(f"word{number}" for number in range(400))]
    pool = [" ".join(chance.choices(words, k=12)).capitalize() + "." for _ in range(4000)]
    with store.open("a", encoding="utf-8") as file:
        for number in range(first, first + records):
            text = ""
            while len(text) < TEXT_BYTES:
                text += chance.choice(pool) + " "
            day = f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
            stamp = f"{day}T{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}Z"
            record = {"memory_id": f"m{number}", "ts_utc": stamp, "text": text[:TEXT_BYTES], "tags": ["Bench", "lease"]}
            file.write(json.dumps(record, separators=(",", ":")) + "\n")


def _read(reader: str, store: Path, cache: Path, query: str) -> Read:
    words = [sys.executable, "-m", "bench.memory", reader, str(store), str(cache), query]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return Read(*json.loads(done.stdout))


def _product(store: str, cache: str, query: str) -> Callable[[], object]:
    from engrambus.backends.jsonl_stores import FileStores
    from engrambus.knowledge.memory import Budget, ContextPackage, MemoryInput, read_memory

    request = MemoryInput(query=query, store_paths=[store], budget=Budget(max_excerpt_tokens=1000))

    def read() -> ContextPackage:
        with FileStores(Path.cwd(), cache=Path(cache)) as stores:
            return read_memory(request, stores)

    return read


def _literal(store: str, cache: str, query: str) -> Callable[[], object]:
    from tests.memory.literal import package

    return lambda: package({"query": query, "store_paths": [store], "budget": {"max_excerpt_tokens": 1000}}, Path.cwd())


def main() -> None:
    """Read once and print the processor time and the peak memory."""
    read = {"product": _product, "literal": _literal}[sys.argv[1]](*sys.argv[2:])
    start = time.process_time()  # the imports are behind us: a process pays for them once, not with each read
    read()
    cpu_s = time.process_time() - start
    print(json.dumps([cpu_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))


if __name__ == "__main__":
    main()
