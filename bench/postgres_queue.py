"""Work on PostgreSQL beside other queues on the same server: out → in → receipt, many at once and one at a time.

    python -m bench.postgres_queue

The server is started for this, on a disk, with fsync and synchronous_commit on. Each queue has a database of its own
and runs in turn with ours, so that both run under the same load. A peer runs in a process of its own, as fast as its
documentation says it can: in batches where it has them, else with many tasks at once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from tests.harness.postgres_server import PostgresServer

from bench.measure import Row, at_least, per_second, show
from bench.work import BATCH, PROJECT, SETTINGS, cycle
from engrambus.backends.postgres import open_database
from engrambus.backends.postgres.work import PostgresWork, create_work_in
from engrambus.core import SystemClock
from engrambus.space.tuples import TupleSpace
from engrambus.testing.harness import KEY

ROUNDS = 3
BATCHED = 1_280
UNBATCHED = 150
DBOS_CYCLES = 100
DBOS_UNBATCHED = 10
ON_DISK = "/var/tmp"
"""A folder that is on a disk, and that the server's account can reach."""

_PROCRASTINATE = """
import asyncio, sys, time
from procrastinate import App, PsycopgConnector
url, count, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
app = App(connector=PsycopgConnector(conninfo=url))
@app.task(name="nothing", queue="bench")
async def nothing(n):
    return n
async def main():
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        start = time.perf_counter()
        for first in range(0, count, batch):
            if batch == 1:
                await nothing.defer_async(n=first)
            else:
                await nothing.batch_defer_async(*({"n": n} for n in range(first, first + batch)))
            if batch == 1:
                continue
        await app.run_worker_async(wait=False, concurrency=min(batch, 16), install_signal_handlers=False,
                                   listen_notify=False, delete_jobs="never")
        print(count / (time.perf_counter() - start))
asyncio.run(main())
"""

_PGQUEUER = """
import asyncio, sys, time
import asyncpg
from pgqueuer import AsyncpgDriver, PgQueuer, Queries
from pgqueuer.types import QueueExecutionMode
url, count, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
async def main():
    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    if not await queries.has_table("pgqueuer"):
        await queries.install()
    pgq = PgQueuer(driver)
    @pgq.entrypoint("nothing")
    async def nothing(job):
        return None
    start = time.perf_counter()
    for first in range(0, count, batch):
        if batch == 1:
            await queries.enqueue("nothing", b"0")
        else:
            await queries.enqueue(["nothing"] * batch, [b"0"] * batch, [0] * batch)
    await pgq.run(batch_size=batch, mode=QueueExecutionMode.drain)
    print(count / (time.perf_counter() - start))
asyncio.run(main())
"""

_DBOS = """
import sys, time
from dbos import DBOS
url, count, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR", "run_admin_server": False})
@DBOS.workflow()
def nothing(n):
    return n
DBOS.launch()
queue = DBOS.register_queue("bench", polling_interval_sec=0.005)
queue.enqueue(nothing, 0).get_result()
start = time.perf_counter()
if batch == 1:
    for n in range(count):
        queue.enqueue(nothing, n).get_result()
else:
    for handle in [queue.enqueue(nothing, n) for n in range(count)]:
        handle.get_result()
print(count / (time.perf_counter() - start))
DBOS.destroy()
"""

_PEERS = (
    ("Procrastinate", _PROCRASTINATE, BATCHED, UNBATCHED),
    ("PgQueuer", _PGQUEUER, BATCHED, UNBATCHED),
    ("DBOS", _DBOS, DBOS_CYCLES, DBOS_UNBATCHED),
)


def postgres_queue_rows() -> list[Row]:
    """Measure cycles per second against every peer."""
    server = PostgresServer(fsync=True, scratch=ON_DISK)
    try:
        (level,) = server.execute("SHOW synchronous_commit")[0]
        if level != "on":
            raise RuntimeError(f"synchronous_commit is {level}")
        return _measure(server)
    finally:
        server.close()


def _measure(server: PostgresServer) -> list[Row]:
    database = open_database(server.url(server.new_database()), lock_seconds=30.0)
    create_work_in(database, KEY, project=PROJECT, now_us=SystemClock().now())
    store = PostgresWork(database, KEY, PROJECT)
    rows: list[Row] = []
    with closing(TupleSpace(store, settings=SETTINGS, boot=store.boot)) as space:
        cycle(space, 4 * BATCH, BATCH)
        cycle(space, 32, 1)
        for name, script, batched, unbatched in _PEERS:
            url = server.url(server.new_database())
            for count, batch, bar in ((batched, BATCH, 3.0), (unbatched, 1, 1.2)):
                ours, theirs = _in_turns(
                    partial(_rate, lambda count=count, batch=batch: cycle(space, count, batch)),  # type: ignore[misc]
                    partial(_peer_rate, name, script, url, count, batch),
                )
                measured = "64 at once" if batch > 1 else "one at a time"
                rows.append(
                    Row("work on PostgreSQL", f"out → in → receipt, {measured}, against {name}", per_second(ours),
                        per_second(theirs), *at_least(ours / theirs, bar))
                )  # fmt: skip
    return rows


def _in_turns(*rates: Callable[[], float]) -> list[float]:
    """Return the best rate of each of several over some rounds; others are slowed down by other work on the machine."""
    measured = [[rate() for rate in rates] for _ in range(ROUNDS)]
    return [max(column) for column in zip(*measured, strict=True)]


def _rate(work: Callable[[], int]) -> float:
    start = time.perf_counter()
    count = work()
    return count / (time.perf_counter() - start)


def _peer_rate(name: str, script: str, url: str, count: int, batch: int) -> float:
    done: Any = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, url, str(count), str(batch)], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return float(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    show(postgres_queue_rows())
