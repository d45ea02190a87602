"""Work: out → in → receipt compared with other queues, wake-ups, many waiting tuples, the cache, journal replay.

Every queue syncs what it acknowledges. Each peer runs with its best settings, several items at once if it can.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.measure import Row, at_least, at_most, microseconds, per_second, percentile, sample
from engrambus.backends.sqlite.work import SqliteWork, create_work
from engrambus.core import SystemClock, print_time
from engrambus.evidence.receipts import EMPTY_DIGEST, BodyFolder, new_receipt
from engrambus.space.tuples import Claim, Completion, SpaceSettings, TupleSpace, read_pattern, tuple_receipt
from engrambus.space.work import damaged_body
from engrambus.testing.harness import KEY

PROJECT = "01KDVP9R00STGMERGYBENCH000"
RUN = "01KDVP9R00STGMERGYRUN00000"
PERSON = {"user": "admin", "agent": None, "ci": False}
LANE = read_pattern({"lane": "bench"})
SETTINGS = SpaceSettings(queue_maxsize=10_000_000)
BATCH = 64
CYCLES = 8_000
UNBATCHED = 600
PEER_CYCLES = 600
ROUNDS = 3
WAITING = (10_000, 100_000, 1_000_000)


def open_space(folder: Path, *, indexed: tuple[str, ...] = ()) -> TupleSpace:
    """Open a tuple space in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    create_work(folder, KEY, project=PROJECT, now_us=SystemClock().now())
    settings = msgspec.structs.replace(SETTINGS, indexed_fields=indexed)
    return TupleSpace(SqliteWork(folder, KEY, SystemClock(), indexed=indexed), settings=settings)


def cycle(space: TupleSpace, count: int, batch: int, worker: str = "w") -> int:
    """Put, claim and complete `count` tuples, `batch` at once; return how many were completed.

    As in a worker, completing tuples and claiming the next ones is one commit.
    """
    done = 0
    claims: list[Claim] = []
    for start in range(0, count, batch):
        drafts = [
            {"lane": "bench", "payload": [{"yool": "agent.bench.nothing", "args": {"n": n}}]}
            for n in range(start, min(count, start + batch))
        ]
        space.out(*drafts, authority=PERSON, run=RUN)
        _, claims = space.complete([completion(claim) for claim in claims], claim_more=(LANE, worker, batch))
        done += len(claims)
    space.complete([completion(claim) for claim in claims])
    return done


def completion(claim: Claim) -> Completion:
    """Return the completion of a tuple whose only step did nothing."""
    now = print_time(SystemClock().now())
    receipt = new_receipt(
        yool="agent.bench.nothing.v1",
        tuple_id=claim.id,
        started_at=now,
        ended_at=now,
        exit=0,
        step=0,
        attempt=claim.attempt,
        worker=claim.worker,
    )
    final = tuple_receipt(
        claim.id, executed=[receipt], receipts=[receipt.id], exit=0, now=now, attempt=claim.attempt, worker=claim.worker
    )
    return Completion(id=claim.id, fence=claim.fence, receipts=(receipt,), final_receipt=final)


def best(work: Callable[[], int], rounds: int = ROUNDS) -> float:
    """Return the rate per second of the best round; others are slowed down by other work on the machine."""
    rates = []
    for _ in range(rounds):
        start = time.perf_counter()
        count = work()
        rates.append(count / (time.perf_counter() - start))
    return max(rates)


# Peers: each puts, takes and acknowledges `count` items


def _huey(folder: Path, count: int) -> int:
    from huey import SqliteHuey

    huey = SqliteHuey(filename=str(folder / "huey.db"), fsync=True)

    @huey.task()  # type: ignore[untyped-decorator]
    def nothing(n: int) -> int:
        return n

    for n in range(count):
        nothing(n)
        huey.execute(huey.dequeue())
    return count


def _litequeue(folder: Path, count: int) -> int:
    from litequeue import LiteQueue

    queue = LiteQueue(str(folder / "litequeue.db"))
    queue.conn.execute("PRAGMA synchronous = FULL")
    for n in range(count):
        queue.put(str(n))
        queue.done(queue.pop().message_id)
    return count


def _persist_queue(folder: Path, count: int) -> int:
    from persistqueue import SQLiteAckQueue

    queue: Any = SQLiteAckQueue(str(folder / "persist"), auto_commit=True)
    queue._putter.execute("PRAGMA synchronous = FULL")
    queue._getter.execute("PRAGMA synchronous = FULL")
    for n in range(count):
        queue.put(n)
        queue.ack(queue.get())
    return count


def _diskcache(folder: Path, count: int) -> int:
    from diskcache import Deque, Index

    queue = Deque.fromcache(_cache(folder / "deque"))
    results = Index.fromcache(_cache(folder / "results"))
    for start in range(0, count, BATCH):
        with queue.transact():
            for n in range(start, start + BATCH):
                queue.append(n)
        with queue.transact(), results.transact():
            for _ in range(BATCH):
                n = queue.popleft()
                results[n] = "done"
    return count


def _cache(folder: Path) -> Any:
    from diskcache import Cache

    return Cache(str(folder), sqlite_synchronous=2, eviction_policy="none")


_DBOS = """
import sys, time
from dbos import DBOS
DBOS(config={"name": "bench", "system_database_url": "sqlite:///" + sys.argv[1], "log_level": "ERROR",
             "run_admin_server": False})
@DBOS.workflow()
def nothing(n):
    return n
DBOS.launch()
queue = DBOS.register_queue("bench", polling_interval_sec=0.005)
queue.enqueue(nothing, 0).get_result()
count = int(sys.argv[2])
start = time.perf_counter()
handles = [queue.enqueue(nothing, n) for n in range(count)]
for handle in handles:
    handle.get_result()
print(count / (time.perf_counter() - start))
DBOS.destroy()
"""


def _dbos_rate(folder: Path, count: int) -> float:
    connection = sqlite3.connect(folder / "dbos.db")
    connection.execute("PRAGMA journal_mode = WAL")  # DBOS does not set it, and is 50 % faster with it
    connection.close()
    done = subprocess.run(
        [sys.executable, "-c", _DBOS, str(folder / "dbos.db"), str(count)], capture_output=True, text=True, check=True
    )
    return float(done.stdout.strip().splitlines()[-1])


_PEERS: tuple[tuple[str, Callable[[Path, int], int], float | None], ...] = (
    ("huey (SQLite)", _huey, 10),
    ("litequeue", _litequeue, 10),
    ("persist-queue", _persist_queue, 10),
    ("diskcache deque, 64 at once", _diskcache, None),
)


def queue_rows(scratch: Path) -> list[Row]:
    """Measure cycles per second against every peer, in turns, so that both run under the same load."""
    space = open_space(scratch / "ours")
    rows: list[Row] = []
    ours: list[float] = []
    for name, peer, bar in _PEERS:
        folder = scratch / name.split()[0]
        folder.mkdir()
        batched = best(partial(cycle, space, CYCLES // 2, BATCH))
        theirs = best(partial(peer, folder, PEER_CYCLES if bar else CYCLES // 2))
        unbatched = best(partial(cycle, space, UNBATCHED, 1))
        ours.append(batched)
        met = at_least(batched / theirs, bar) if bar else (f"{batched / theirs:.2f} ×", "–", None)
        rows.append(Row("work", f"out → in → receipt, 64 at once, against {name}", per_second(batched),
                        per_second(theirs), *met))  # fmt: skip
        if bar:
            rows.append(Row("work", f"the same one at a time, against {name}", per_second(unbatched),
                            per_second(theirs), *at_least(unbatched / theirs, 2)))  # fmt: skip
    dbos = max(_dbos_rate(scratch, 200) for _ in range(2))
    rows.append(Row("work", "out → in → receipt, 64 at once, against DBOS (SQLite)", per_second(max(ours)),
                    per_second(dbos), *at_least(max(ours) / dbos, 50)))  # fmt: skip
    space.close()
    return rows


_CHILD = """
import sys, time
from pathlib import Path
from bench.work import cycle, open_space
space = open_space(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
ends, done = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < ends:
    done += cycle(space, 64, int(sys.argv[3]), sys.argv[4])
print(done, flush=True)
"""


def process_rows(scratch: Path, seconds: float = 4.0) -> list[Row]:
    """Measure cycles per second of several processes at once, and how evenly they share the work."""
    rows = []
    alone = 0.0
    for count in (1, 2, 4):
        folder = scratch / f"processes-{count}"
        open_space(folder).close()
        children = [
            subprocess.Popen(
                [sys.executable, "-c", _CHILD, str(folder), str(seconds), str(BATCH), f"w{number}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(count)
        ]
        for child in children:
            _wait_until_ready(child)
        for child in children:
            _start(child)
        done = [int(child.communicate()[0]) for child in children]
        total = sum(done) / seconds
        alone = alone or total
        share = min(done) * count / max(1, sum(done))
        rows.append(
            Row("work", f"{count} process{'es' * (count > 1)}, 64 at once; slowest's share of an even one",
                per_second(total), f"{share:.0%}", f"{total / alone:.2f} ×", "–", None)
        )  # fmt: skip
    return rows


def _wait_until_ready(child: subprocess.Popen[str]) -> None:
    if child.stdout is None or child.stdout.readline().strip() != "ready":
        raise RuntimeError("a process did not start")


def _start(child: subprocess.Popen[str]) -> None:
    if child.stdin is not None:
        child.stdin.write("go\n")
        child.stdin.flush()


_WAITER = """
import sys, time
from pathlib import Path
from bench.work import open_space
space = open_space(Path(sys.argv[1]))
print("ready", flush=True)
for _ in range(int(sys.argv[2])):
    space.in_({"lane": "wake"}, by="waiter", timeout=60)
    print(time.monotonic_ns(), flush=True)
"""


def wake_row(scratch: Path, count: int = 60) -> Row:
    """Measure the time from the acknowledged `out` until a waiting process has taken the tuple durably."""
    folder = scratch / "wake"
    space = open_space(folder)
    waiter = subprocess.Popen(
        [sys.executable, "-c", _WAITER, str(folder), str(count)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    _wait_until_ready(waiter)
    times = []
    for _ in range(count):
        time.sleep(0.03)
        space.out({"lane": "wake"}, authority=PERSON, run=RUN)
        put = time.monotonic_ns()
        if waiter.stdout is None:
            raise RuntimeError("no pipe")
        times.append((int(waiter.stdout.readline()) - put) / 1000)
    waiter.communicate()
    times.sort()
    space.close()
    return Row("work", "a blocked `in` in another process has its tuple, p50 / p95 after the `out`",
               microseconds(percentile(times, 0.5)), microseconds(percentile(times, 0.95)), "–", "–", None)  # fmt: skip


def waiting_rows(scratch: Path, sizes: tuple[int, ...] = WAITING) -> list[Row]:
    """Measure taking a tuple by lane and by an indexed field while many wait."""
    space = open_space(scratch / "waiting", indexed=("map_pos.n",))
    rows: list[Row] = []
    first: dict[str, float] = {}
    waiting = 0
    for size in sizes:
        while waiting < size:
            count = min(2_000, size - waiting)
            space.out(
                *({"lane": f"lane-{n % 10}", "map_pos": {"n": n % 100}} for n in range(waiting, waiting + count)),
                authority=PERSON,
                run=RUN,
            )
            waiting += count
        for method, pattern in (("by lane", {"lane": "lane-7"}), ("by an indexed field", {"map_pos.n": 77})):
            times = sample([partial(space.in_, pattern, by="me")] * 60)
            p50 = percentile(times, 0.5)
            first.setdefault(method, p50)
            rows.append(Row("work", f"`in` {method} of {size:,} waiting, p50", microseconds(p50),
                            microseconds(first[method]), *at_most(p50 / first[method], 2)))  # fmt: skip
    space.close()
    return rows


def cache_rows(scratch: Path, count: int = 2_000) -> list[Row]:
    """Measure cache hits, with the stored output verified, against joblib and diskcache."""
    from joblib import Memory

    space = open_space(scratch / "cache")
    bodies = BodyFolder(scratch / "cache" / "cas")
    body = bodies.put(b"the answer is 42\n")
    space.out({"lane": "bench", "payload": [{"yool": "agent.bench.nothing"}]}, authority=PERSON, run=RUN)
    (claim,) = space.claim(LANE, worker="w")
    now = print_time(SystemClock().now())
    receipt = new_receipt(
        yool="agent.bench.nothing.v1",
        tuple_id=claim.id,
        started_at=now,
        ended_at=now,
        exit=0,
        step=0,
        stdout_sha=body,
        stderr_sha=EMPTY_DIGEST,
        key="k",
    )
    space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(receipt,))])

    def hits() -> int:
        for _ in range(count):
            with space.store.read() as view:
                hit = view.cached_receipt("k")
            if hit is None or damaged_body(hit, bodies) is not None:
                raise RuntimeError("no hit")
        return count

    memory = Memory(str(scratch / "joblib"), verbose=0).cache(_answer)
    memory(1)
    diskcache = _cache(scratch / "diskcache")
    diskcache["k"] = "the answer is 42\n"

    def joblib_hits() -> int:
        for _ in range(count):
            memory(1)
        return count

    def diskcache_hits() -> int:
        for _ in range(count):
            diskcache["k"]
        return count

    ours = best(hits)
    rows = []
    for name, theirs in (("joblib", best(joblib_hits)), ("diskcache, which checks nothing", best(diskcache_hits))):
        rows.append(Row("work", f"cache hits, what was left re-hashed, against {name}", per_second(ours),
                        per_second(theirs), f"{ours / theirs:.2f} ×", "–", None))  # fmt: skip
    space.close()
    return rows


def _answer(n: int) -> str:
    return "the answer is 42\n"


def replay_row(scratch: Path) -> Row:
    """Measure rebuilding the index from the journal."""
    space = open_space(scratch / "replay")
    cycle(space, 20_000, 1_000)
    facts = 4 * 20_000
    start = time.perf_counter()
    space.store.rebuild()
    seconds = time.perf_counter() - start
    space.close()
    rate = per_second(facts / seconds)
    return Row("work", "facts replayed into a new index, every checksum verified", rate, "–", "–", "–", None)


def work_rows(scratch: Path, *, peers: bool) -> list[Row]:
    """Return all rows about work."""
    folder = scratch / "work"
    folder.mkdir()
    rows = queue_rows(folder) if peers else []
    rows += process_rows(folder)
    rows.append(wake_row(folder))
    rows += waiting_rows(folder, WAITING if peers else WAITING[:2])
    rows += cache_rows(folder) if peers else []
    rows.append(replay_row(folder))
    return rows


if __name__ == "__main__":
    import shutil
    import tempfile

    from bench.measure import show

    place = Path(tempfile.mkdtemp(prefix="engrambus-bench-", dir=Path.cwd()))
    try:
        show(work_rows(place, peers="--quick" not in sys.argv))
    finally:
        shutil.rmtree(place)
