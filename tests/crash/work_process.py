"""A process that puts tuples and works on them until it is killed, and logs what was acknowledged.

    python -m tests.crash.work_process FOLDER|URL LOG PARENT TUPLES

It puts TUPLES of its own, children of PARENT, and claims any that wait. The log is a file of lines:
`out ID` for what was acknowledged, `end ID RECEIPT` for an acknowledged last receipt. Then it goes on until nothing is
left.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from engrambus.backends.sqlite.work import SqliteWork
from engrambus.core import SECOND_US, SystemClock, print_time
from engrambus.errors import StoreUnreachable
from engrambus.evidence.receipts import Cost, new_receipt
from engrambus.space.tuples import Claim, Completion, Price, SpaceSettings, TupleSpace, read_pattern, tuple_receipt
from engrambus.testing.harness import KEY

T = TypeVar("T")

PERSON = {"user": "admin", "agent": None, "ci": False}
RUN = "01KDVP9R00STGMERGYRUN00000"
SETTINGS = SpaceSettings(queue_maxsize=1_000_000, lease_us=1 * SECOND_US, max_retries=1_000, alarm_pct=0)
WORK = read_pattern({"lane": "work"})
BATCH = 8
STEP_MICROS = 1_000


LOCK_SECONDS = 600.0


def open_space(place: Path | str) -> TupleSpace:
    """Open the space in a folder, with the system clock; or that in a database, with the server's."""
    if not isinstance(place, Path):
        from engrambus.backends.postgres import open_database
        from engrambus.backends.postgres.work import PostgresWork
        from engrambus.testing.harness import PROJECT

        store = PostgresWork(open_database(place, lock_seconds=LOCK_SECONDS), KEY, PROJECT)
        return TupleSpace(store, settings=SETTINGS, boot=store.boot)
    # The test deletes the index now and then: on a busy machine it takes long to build it again, under the lock.
    return TupleSpace(SqliteWork(place, KEY, SystemClock(), lock_seconds=LOCK_SECONDS), settings=SETTINGS)


def do(space: TupleSpace, claim: Claim) -> Completion:
    """Execute one tuple; some of them spend while they run."""
    number = claim.tuple.payload[0].args["n"]
    if number % 4 == 0:
        space.start_step(claim, 0, Price(micros=1_500))
        space.record_cost(claim.id, claim.fence, 0, Price(micros=500))
    now = print_time(SystemClock().now())
    done = new_receipt(
        yool="agent.lint.ruff.v1",
        tuple_id=claim.id,
        started_at=now,
        ended_at=now,
        exit=0,
        step=0,
        attempt=claim.attempt,
        worker=claim.worker,
        cost=Cost(usd=STEP_MICROS / 1_000_000),
    )
    last = tuple_receipt(
        claim.id,
        executed=[done],
        receipts=[done.id],
        exit=0,
        now=now,
        attempt=claim.attempt,
        worker=claim.worker,
    )
    return Completion(id=claim.id, fence=claim.fence, receipts=(done,), final_receipt=last)


def again(call: Callable[[], T]) -> T:
    """Repeat a call whose reading a lost connection has ended; what it was to commit is the store's to repeat."""
    while True:
        try:
            return call()
        except StoreUnreachable:
            time.sleep(0.1)


def turn_clock(seconds: int) -> None:
    """Have this process's clock show another time, as that of another host may."""
    machine_ns = time.time_ns
    time.time_ns = lambda: machine_ns() + seconds * 1_000_000_000


def main(place: Path | str, log: int, parent: str, tuples: int) -> None:
    """Put tuples and work on some, in turn."""
    space = open_space(place)
    worker = f"w{os.getpid()}"
    claims: list[Claim] = []
    put, idle = 0, 0
    while idle < 3:
        if put < tuples:
            step = {"yool": "agent.lint.ruff"}
            drafts = [
                {"lane": "work", "parent_id": parent, "payload": [{**step, "args": {"n": put + tuple_id}}]}
                for tuple_id in range(min(BATCH, tuples - put))
            ]
            answers = again(partial(space.out, *drafts, authority=PERSON, run=RUN))
            os.write(log, "".join(f"out {answer.id}\n" for answer in answers).encode())
            put += len(answers)
        results = []
        for claim in claims:
            try:
                results.append(again(partial(do, space, claim)))
            except Exception as refusal:
                if getattr(refusal, "code", None) != "STALE_FENCE":
                    raise
        answered, claims = again(partial(space.complete, results, claim_more=(WORK, worker, BATCH)))
        ended = [result.id for result, refused in zip(results, answered, strict=True) if refused is None]
        last = [again(partial(space.public_tuple, item))["receipts"][-1] for item in ended]
        os.write(log, "".join(f"end {item} {final}\n" for item, final in zip(ended, last, strict=True)).encode())
        if not claims and put >= tuples:
            claims = again(partial(space.claim, WORK, worker=worker, limit=BATCH, timeout=1.5))
            idle = 0 if claims else idle + 1
    space.close()


if __name__ == "__main__":
    path, wrote, above, count = sys.argv[1:5]
    turn_clock(int(os.environ.get("WORK_PROCESS_CLOCK", "0")))
    main(
        path if path.startswith("postgresql:") else Path(path),
        os.open(wrote, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        above,
        int(count),
    )
