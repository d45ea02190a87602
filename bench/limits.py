"""Limits: what a claim costs while many tuples wait over many lanes and keys, free or held back by limits.

nice -n 10 python -m bench.limits 10000 100000 1000000
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.measure import Row, at_most, microseconds
from bench.work import PERSON, RUN, WAITING, completion, open_space
from engrambus.space.tuples import Claim, TupleSpace, read_match, set_limit

LANES, KEYS, RUNS = 100, 1_000, 10
CYCLES = 400
COMMIT = 5_000
"""Tuples put in one commit."""


def limit_rows(scratch: Path, sizes: tuple[int, ...] = WAITING) -> list[Row]:
    """Compare the processor time of a claim while few and while many tuples wait."""
    free, held = {}, {}
    for size in sizes:
        space = open_space(scratch / f"limits-{size}")
        fill(space, size)
        free[size], held[size] = measure(space)
        space.close()
    few, many = min(sizes), max(sizes)
    return [
        Row(
            "limits",
            f"{subject}, {many:,} waiting",
            f"{microseconds(times[many])} of processor time",
            f"with {few:,}: {microseconds(times[few])}",
            *at_most(times[many] / times[few], 1.5),
        )
        for subject, times in (
            ("claim and completion", free),
            (f"claim and release while {KEYS - 1} of {KEYS} keys are full", held),
        )
    ]


def fill(space: TupleSpace, size: int) -> None:
    """Put tuples of several runs over all lanes and keys, and limit both."""
    for start in range(0, size, COMMIT):
        drafts = [_draft(number) for number in range(start, min(size, start + COMMIT))]
        space.out(*drafts, authority=PERSON, run=f"{RUN[:-2]}{start // COMMIT % RUNS:02}")
    for match in (read_match(key="k*"), read_match(authority="user")):
        rate = "100000/PT1M" if match.authority else None
        running = 1 if match.key else None
        space.store.commit(partial(set_limit, match=match, running=running, rate=rate, by="a"))
    for lane in range(LANES):
        match = read_match(lane=f"lane-{lane}")
        space.store.commit(partial(set_limit, match=match, running=1000, rate=None, by="a"))


def _draft(number: int) -> dict[str, object]:
    key = (number // LANES * 7 + number) % KEYS
    return {
        "lane": f"lane-{number % LANES}",
        "payload": [{"yool": "agent.bench.nothing", "args": {"n": number}}],
        "agent_terms": {"concurrency_key": f"k{key}"},
    }


def measure(space: TupleSpace) -> tuple[float, float]:
    """Return the microseconds of processor time of a claim with its completion, and of one among full keys."""
    for claims in _claims(space, 2 * LANES):  # first every lane is seen once
        space.complete([completion(claim) for claim in claims])
    begun = time.process_time()
    for claims in _claims(space, CYCLES):
        space.complete([completion(claim) for claim in claims])
    free_us = (time.process_time() - begun) / CYCLES * 1e6
    running: list[Claim] = []
    while more := space.claim({}, worker="w", limit=2 * KEYS):
        running += more
    last = running.pop()
    lane = {"lane": last.tuple.lane}
    space.release([(last.id, last.fence)])
    begun = time.process_time()
    for _ in range(CYCLES):
        (claim,) = space.claim(lane, worker="w")
        space.release([(claim.id, claim.fence)])
    return free_us, (time.process_time() - begun) / CYCLES * 1e6


def _claims(space: TupleSpace, count: int) -> Iterator[list[Claim]]:
    for number in range(count):
        claims = space.claim({"lane": f"lane-{number % LANES}"}, worker="w")
        assert claims, number
        yield claims


def main() -> None:
    """Print the figures for the sizes given."""
    sizes = tuple(map(int, sys.argv[1:])) or WAITING
    with tempfile.TemporaryDirectory() as scratch:
        for size in sizes:
            space = open_space(Path(scratch) / str(size))
            begun = time.monotonic()
            fill(space, size)
            filled_s = time.monotonic() - begun
            free, held = measure(space)
            print(
                f"{size:>9,} waiting: claim and completion {free:.0f} us, "
                f"claim and release among full keys {held:.0f} us; put in {filled_s:.0f} s",
                flush=True,
            )
            space.close()


if __name__ == "__main__":
    main()
