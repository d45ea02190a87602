"""The work store on PostgreSQL when a connection is lost in the middle, and how hosts wake each other. # YT-19"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from engrambus.backends.postgres import open_database
from engrambus.backends.postgres.work import PostgresWork
from engrambus.errors import StoreUnreachable
from engrambus.space.tuples import TupleSpace
from engrambus.testing.harness import KEY, PROJECT
from engrambus.testing.work import PERSON, RUN, draft
from engrambus.testing.work.harness import completion, put, take
from tests.harness.postgres_server import PostgresServer
from tests.harness.postgres_work import PostgresWorkHarness


class CuttingProxy:
    """Stands between a store and its server, and cuts the connection at the next COMMIT."""

    def __init__(self, server: Path) -> None:
        self._server = str(server / ".s.PGSQL.5432")
        self.folder = Path(tempfile.mkdtemp(prefix="engrambus-cut-", dir=server.parent))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self.cut: str | None = None
        """`before` the server sees the next COMMIT, or `after` it has committed and before the client knows."""
        self.cuts = 0
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        """End every connection, and take no more."""
        _end(self._listener, *self._ends)
        for thread in self._threads:
            thread.join(20.0)
        for end in (self._listener, *self._ends):
            end.close()
        (self.folder / ".s.PGSQL.5432").unlink()
        self.folder.rmdir()

    def _start(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                upstream = socket.socket(socket.AF_UNIX)
                self._ends += [client, upstream]
                upstream.connect(self._server)
                self._start(self._pump, client, upstream)

    def _pump(self, client: socket.socket, upstream: socket.socket) -> None:
        swallow = threading.Event()
        self._start(self._answer, client, upstream, swallow)
        with suppress(OSError):
            while data := client.recv(65536):
                if b"COMMIT" in data and self.cut is not None:
                    cut, self.cut = self.cut, None
                    self.cuts += 1
                    if cut == "before":
                        break
                    swallow.set()
                upstream.sendall(data)
        if not swallow.is_set():
            _end(client, upstream)

    def _answer(self, client: socket.socket, upstream: socket.socket, swallow: threading.Event) -> None:
        with suppress(OSError):
            while data := upstream.recv(65536):
                if swallow.is_set():
                    if b"COMMIT\0" in data:
                        break
                    continue
                client.sendall(data)
        _end(client, upstream)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def harness(postgres_url: str) -> Iterator[PostgresWorkHarness]:
    """The work of a new project."""
    harness = PostgresWorkHarness(postgres_url)
    yield harness
    harness.close()


def another_host(harness: PostgresWorkHarness, url: str | None = None) -> TupleSpace:
    """Open the work as another host does; over another URL if one is given."""
    if url is None:
        return TupleSpace(harness.open_store(), boot="first")
    store = PostgresWork(open_database(url, lock_seconds=20.0), KEY, PROJECT, harness.clock)
    return TupleSpace(store, boot="first")


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_commit_whose_answer_is_lost_happens_exactly_once(
    postgres_server: PostgresServer, postgres_url: str, harness: PostgresWorkHarness, cut: str
) -> None:
    """The journal says whether it happened: it is repeated only if not."""
    with closing(CuttingProxy(postgres_server.folder)) as proxy:
        url = postgres_url.replace(f"host={postgres_server.folder}", f"host={proxy.folder}")
        with closing(another_host(harness, url)) as space:
            proxy.cut = cut
            (tuple_id,) = (answer.id for answer in space.out(draft(), authority=PERSON, run=RUN))
            proxy.cut = cut
            (claim,) = space.claim({"lane": "build"}, worker="w1")
            proxy.cut = cut
            answered, _ = space.complete([completion(harness, claim)])
            assert proxy.cuts == 3
    assert answered == [None]
    assert harness.space.get(tuple_id).state == "done"
    assert harness.space.get(tuple_id).attempts == 1
    assert [line.seq for line in harness.space.store.lines_after(0, 100)] == [1, 2, 3]
    assert harness.space.store.verify() == []


def test_a_commit_wakes_waiters_of_other_hosts(harness: PostgresWorkHarness) -> None:
    """By NOTIFY: they look again from time to time in any case."""
    with closing(another_host(harness)) as other, other.store.wait_on("work") as waiter:
        woken = threading.Event()

        def wait() -> None:
            waiter.wait(60.0)
            woken.set()

        thread = threading.Thread(target=wait)
        thread.start()
        put(harness)
        assert woken.wait(20.0), "it was not woken"
        thread.join()


def test_a_commit_wakes_nobody_who_waits_for_something_else(
    postgres_server: PostgresServer, postgres_url: str, harness: PostgresWorkHarness
) -> None:
    """Nothing is sent for kinds that nobody waits for: a notification is one more thing that commits wait for."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"LISTEN engrambus_work_{harness.number}")
        put(harness)
        with closing(another_host(harness)) as other, other.store.wait_on("room"):
            put(harness, draft("other"))
            take(harness)
        payloads = [note.payload for note in connection.notifies(timeout=5.0, stop_after=1)]
    assert payloads == ["room"]


def test_other_hosts_see_claims_limits_and_ends_at_once(harness: PostgresWorkHarness) -> None:
    """What a process remembers of the tables holds only while nobody else writes."""
    with closing(another_host(harness)) as other:
        ids = put(harness, draft("build", 1), draft("build", 2), draft("build", 3))
        first = take(harness)
        (second,) = other.claim({"lane": "build"}, worker="w2")
        assert [first[0].id, second.id] == ids[:2]
        assert other.complete([completion(harness, first[0])])[0] == [None]
        assert harness.space.complete([completion(harness, first[0])])[0] == ["STALE_FENCE"]
        (third,) = take(harness, worker="w3")
        assert third.id == ids[2]
        assert other.claim({"lane": "build"}, worker="w2") == []


@pytest.mark.usefixtures("postgres_server")
def test_a_server_that_does_not_come_back_is_named() -> None:
    """A call ends after the time that it may wait for a lock."""
    server = PostgresServer()
    try:
        url = server.url(server.new_database())
        harness = PostgresWorkHarness(url)
        harness.database.lock_seconds = 0.3
        server.stop()
        with pytest.raises(StoreUnreachable):
            put(harness)
        with pytest.raises(StoreUnreachable):
            harness.space.rd({"lane": "build"})
        harness.close()
    finally:
        server.close()
