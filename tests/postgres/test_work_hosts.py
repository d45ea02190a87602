"""Workers on several hosts with one database: kills, cut connections, a server that goes down. # YT-06 # YT-19"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engrambus.backends.postgres import open_database
from engrambus.backends.postgres.work import create_work_in
from engrambus.core import SystemClock
from engrambus.testing.harness import KEY, PROJECT
from tests.crash.test_work_kill import check_books, drain, start_worker, wait_for_life
from tests.crash.work_process import PERSON, RUN, open_space
from tests.harness.postgres_server import PostgresServer

HOUR_SECONDS = 3600
CLOCKS = (0, HOUR_SECONDS, -HOUR_SECONDS)
"""How far the clock of each host is ahead."""
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'engrambus'"
TUPLES = 60
"""That each worker puts."""


@pytest.fixture
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """A server of its own, since it is stopped; the binaries are those of the shared one."""
    server = PostgresServer()
    yield server
    server.close()


def new_work(url: str) -> str:
    """Create a project with a parent tuple for all the work; return its id."""
    with closing(open_database(url, lock_seconds=20.0)) as database:
        create_work_in(database, KEY, project=PROJECT, now_us=SystemClock().now())
    with closing(open_space(url)) as space:
        parent = {"lane": "plan", "payload": [], "agent_terms": {"budget_usd": 1_000_000}}
        return space.out(parent, authority=PERSON, run=RUN)[0].id


@pytest.mark.timeout(300)
def test_whatever_fails_no_tuple_is_lost_and_none_ends_twice(server: PostgresServer, tmp_path: Path) -> None:
    """Budgets are exact as well, and clocks of hosts that are an hour apart end no lease."""
    dice = random.Random(19)
    url = server.url(server.new_database())
    parent = new_work(url)
    logs: list[Path] = []

    def start(host: int) -> subprocess.Popen[bytes]:
        logs.append(tmp_path / f"log-{len(logs)}")
        return start_worker(url, logs[-1], parent, TUPLES, CLOCKS[host])

    workers = [start(host) for host in range(len(CLOCKS))]
    try:
        for failure in ("kill", "cut", "crash", "kill", "cut", "restart"):
            victim = dice.randrange(len(workers))
            wait_for_life(workers[victim], logs)
            time.sleep(dice.random() * 0.2)
            if failure == "kill":
                workers[victim].send_signal(signal.SIGKILL)
                workers[victim].communicate()
                workers[victim] = start(victim)
            elif failure == "cut":
                server.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'engrambus'"
                )
            else:
                server.stop(kill=failure == "crash")
                server.start()
        for worker in workers:
            _, output = worker.communicate()
            assert worker.returncode == 0, output.decode()[-3000:]
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.communicate()
    with closing(open_space(url)) as space:
        drain(space)
        check_books(space, parent, logs, least=TUPLES)
        attempts = [record.attempts for record in space.rd_all({"lane": "work"}, limit=10_000)]
        # Only a claim of a killed worker is claimed again; a lease that a clock ended too early would be, too.
        assert sum(count - 1 for count in attempts) <= 2 * 2 * 8
