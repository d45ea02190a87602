"""Garbage collection of a million receipts while workers go on: what it costs, and how long it makes a worker wait.

`python -m bench.gc` measures this alone. The collection runs in a process of its own, as `engrambus gc` does; a worker
in this one puts, claims and completes tuples one at a time before and during it. The receipts are of two years, so
most of the bodies they name go.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.measure import Row, at_most, microseconds, percentile
from bench.work import LANE, PERSON, RUN, completion, open_space
from engrambus.core import SystemClock, digest, print_time
from engrambus.evidence.receipts import DAY_US, Artifact, BodyFolder, ReceiptFolder, new_receipt
from engrambus.policy.guardrails import Retention
from engrambus.space.tuples import Claim, Completion, TupleSpace, tuple_receipt
from engrambus.space.work import GarbageCollector

RECEIPTS = 1_000_000
BODIES = 20_000
FILL_BATCH = 1000
OLDEST_DAYS = 730
QUIET_SECONDS = 20.0


class Collection(NamedTuple):
    """What one collection took."""

    processor_seconds: float
    seconds: float
    peak_bytes: int
    receipts: int
    deleted: int


def fill(folder: Path, receipts: int = RECEIPTS) -> None:
    """Complete tuples with two receipts each, of the last two years, that name one of some bodies; write the files."""
    space = open_space(folder)
    bodies = _write_bodies(folder / "cas")
    now_us = SystemClock().now()
    tuples = receipts // 2
    for start in range(0, tuples, FILL_BATCH):
        count = min(FILL_BATCH, tuples - start)
        drafts = [
            {"lane": "bench", "payload": [{"yool": "agent.bench.nothing", "args": {"n": start + n}}]}
            for n in range(count)
        ]
        space.out(*drafts, authority=PERSON, run=RUN)
        done = []
        for n, claim in enumerate(space.claim(LANE, worker="w", limit=count)):
            age_days = OLDEST_DAYS * (1 - (start + n) / tuples)
            body = bodies[(start + n) * BODIES // tuples]
            done.append(_completion(claim, body, now_us - round(age_days * DAY_US)))
        space.complete(done)
    space.write_receipts(_receipts(folder))
    space.close()


def _write_bodies(cas: Path) -> list[str]:
    """Write the files of bodies, without syncing each; return their digests."""
    digests = []
    for number in range(BODIES):
        body = f"the report of steps {number}\n".encode() * 20
        sha = digest(body)
        path = cas / sha[7:9] / sha[9:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        digests.append(sha)
    return digests


def _completion(claim: Claim, body: str, at_us: int) -> Completion:
    at = print_time(at_us)
    step = new_receipt(
        yool="agent.bench.nothing.v1",
        tuple_id=claim.id,
        started_at=at,
        ended_at=at,
        exit=0,
        step=0,
        attempt=claim.attempt,
        worker=claim.worker,
        artifacts=(Artifact(kind="file", path="report.txt", sha=body, size=1),),
    )
    final = tuple_receipt(
        claim.id, executed=[step], receipts=[step.id], exit=0, now=at, attempt=claim.attempt, worker=claim.worker
    )
    return Completion(id=claim.id, fence=claim.fence, receipts=(step,), final_receipt=final)


def _receipts(folder: Path) -> ReceiptFolder:
    return ReceiptFolder(folder / "receipts", folder / "derived-bench" / "receipts.written")


def collect(folder: Path) -> Collection:
    """Collect garbage in this process, as `engrambus gc` does."""
    space = open_space(folder)
    collector = GarbageCollector(
        space,
        BodyFolder(folder / "cas"),
        _receipts(folder),
        folder,
        SystemClock(),
        retention=Retention,
        pinned=frozenset,
        grace_seconds=0.0,
    )
    start, used = time.perf_counter(), time.process_time()
    report = collector.collect()
    done = Collection(
        time.process_time() - used,
        time.perf_counter() - start,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        report.receipts,
        sum(row.bodies for row in report.freed),
    )
    space.close()
    return done


def work_while(space: TupleSpace, is_over: Callable[[], bool]) -> list[float]:
    """Put, claim and complete tuples one at a time; return the durations of claims and completions in µs, sorted."""
    times: list[float] = []
    while not is_over():
        space.out({"lane": "bench", "payload": [{"yool": "agent.bench.nothing"}]}, authority=PERSON, run=RUN)
        start = time.perf_counter()
        (claim,) = space.claim(LANE, worker="w", limit=1)
        middle = time.perf_counter()
        space.complete([completion(claim)])
        times += [(middle - start) * 1e6, (time.perf_counter() - middle) * 1e6]
    return sorted(times)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def gc_rows(scratch: Path, receipts: int = RECEIPTS) -> list[Row]:
    """Measure a collection, a second one that finds nothing new, and how long claims and completions take meanwhile."""
    folder = scratch / "gc"
    if not folder.exists():
        fill(folder, receipts)
    space = open_space(folder)
    end = time.perf_counter() + QUIET_SECONDS
    quiet = work_while(space, lambda: time.perf_counter() > end)
    rows = []
    for name in ("the first collection", "the next collection"):
        process = subprocess.Popen([sys.executable, "-m", "bench.gc", str(folder)], stdout=subprocess.PIPE)
        busy = work_while(space, partial(_has_ended, process))
        output, _ = process.communicate()
        found = msgspec.json.decode(output, type=Collection)
        what = f"{name} over {found.receipts:,} receipts, {found.deleted:,} bodies deleted"
        rows += [
            Row("gc", f"{what}: processor time", f"{found.processor_seconds:.1f} s", f"{found.seconds:.1f} s passed",
                "–", "–", None),
            Row("gc", f"{what}: memory at most", f"{found.peak_bytes / 1e6:.0f} MB", "–", "–", "–", None),
            Row("gc", f"claims and completions during {name}, p50", microseconds(percentile(busy, 0.5)),
                microseconds(percentile(quiet, 0.5)),
                *at_most(percentile(busy, 0.5) / percentile(quiet, 0.5), 2)),
            Row("gc", f"{len(busy):,} claims and completions during {name}, the longest", microseconds(busy[-1]),
                f"{microseconds(quiet[-1])} of {len(quiet):,}", f"{busy[-1] / quiet[-1]:.2f} ×", "–", None),
        ]  # fmt: skip
    space.close()
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1:  # the process of one collection
        print(msgspec.json.encode(collect(Path(sys.argv[1]))).decode())
    else:
        from bench.measure import show

        place = Path(tempfile.mkdtemp(prefix="engrambus-bench-", dir=Path.cwd()))
        try:
            show(gc_rows(place))
        finally:
            shutil.rmtree(place)
