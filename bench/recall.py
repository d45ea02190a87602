"""Recall at ten thousand, a hundred thousand and a million engrams. Alone: `python -m bench.recall [SIZE ...]`."""

from __future__ import annotations

import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.corpus import Corpus, make_repository
from bench.knowledge import QUERY, fill
from bench.measure import Row, at_most, microseconds, percentile, show
from engrambus.app import init_project, open_project
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.knowledge.engrams import query_keys
from engrambus.operations.engram_queries import QueryEngrams
from engrambus.settings import Settings

QUESTIONS = 400
SIZES = (10_000, 100_000, 1_000_000)
BARS_US = {"mixed": 10_000, "common words only": 25_000}
MAX_GROWTH = 6
MAX_RSS_MB = 150


def questions_by_kind(corpus: Corpus) -> dict[str, list[str]]:
    """Return what agents would ask, and questions of nothing but words that a tenth of all engrams have."""
    return {
        "mixed": [corpus.question() for _ in range(QUESTIONS)],
        "common words only": [corpus.common_question() for _ in range(QUESTIONS)],
    }


def recall_times(gateway: Gateway, questions: Sequence[str]) -> list[float]:
    """Return the processor times of the questions in seconds, the shortest first."""
    times = []
    for number, question in enumerate((*questions[:50], *questions)):
        started = time.process_time()
        gateway.call(QUERY, QueryEngrams(q=question, k=12), LOCAL_ADMIN)
        if number >= 50:
            times.append(time.process_time() - started)
    return sorted(times)


def found_share(gateway: Gateway, claims: Sequence[str]) -> float:
    """Return the share of engrams that a question of six of their words finds among twelve."""
    hits = 0
    for claim in claims:
        words = random.Random(claim).sample([word for word in claim.strip(".").split() if query_keys(word)], 6)
        answer = gateway.call(QUERY, QueryEngrams(q=" ".join(words), k=12), LOCAL_ADMIN)
        hits += claim in [engram.claim for engram in answer.engrams]
    return hits / len(claims)


def recall_rows(times: dict[tuple[int, str], list[float]]) -> list[Row]:
    """Compare processor times with their bars, and with themselves at other sizes."""
    rows = []
    for (size, kind), seconds in times.items():
        p95 = percentile(seconds, 0.95) * 1e6
        p50 = microseconds(percentile(seconds, 0.5) * 1e6)
        measured = f"k=12, {kind}, {size:,} engrams, p95 of processor time (p50 {p50})"
        bar = BARS_US[kind]
        rows.append(Row("recall", measured, microseconds(p95), f"bar {microseconds(bar)}", *at_most(p95 / bar, 1)))
    sizes = sorted({size for size, _ in times})
    if len(sizes) > 1:
        small, large = (percentile(times[size, "mixed"], 0.95) * 1e6 for size in (sizes[0], sizes[-1]))
        measured = f"growth of p95 from {sizes[0]:,} to {sizes[-1]:,}, mixed"
        rows.append(
            Row("recall", measured, microseconds(large), microseconds(small), *at_most(large / small, MAX_GROWTH))
        )
    return rows


def main() -> None:
    """Fill a store and measure recall at each size."""
    sizes = tuple(map(int, sys.argv[1:])) or SIZES
    scratch = Path(tempfile.mkdtemp(prefix="engrambus-bench-", dir=Path.cwd()))
    try:
        settings = Settings.from_environment({"HOME": str(scratch), "XDG_STATE_HOME": str(scratch / "state")})
        project = scratch / "project"
        refs = make_repository(project)
        init_project(project, settings)
        gateway = open_project(project, settings)
        corpus = Corpus()
        asked = questions_by_kind(corpus)
        times: dict[tuple[int, str], list[float]] = {}
        imported = 0
        claims: list[str] = []
        for size in sizes:
            speed = fill(gateway, corpus, refs, size - imported, lambda count: None)
            claims += [engram.claim for engram in gateway.call(QUERY, QueryEngrams(k=100), LOCAL_ADMIN).engrams]
            os.sync()
            imported = size
            gateway.close()
            gateway = open_project(project, settings)  # what the import left in memory is not part of serving
            for kind, questions in asked.items():
                times[size, kind] = recall_times(gateway, questions)
            index = next(project.glob(".catalog/derived-*/index.db"))
            sizes_b = [path.stat().st_size // size for path in (project / ".catalog" / "memory.jsonl", index)]
            print(f"{size:,}: {speed:,.0f} imported a second, journal {sizes_b[0]} B, index {sizes_b[1]} B an engram")
            print(f"{found_share(gateway, claims):.0%} of {len(claims)} engrams are found by six of their words")
            show(recall_rows(times))
        print(f"peak memory with the import {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
        gateway.close()
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
