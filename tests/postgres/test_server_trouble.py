"""A server that is not there, dies, is full, busy or read-only: a clear error, and nothing lost. # YT-19"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from engrambus.backends.postgres import open_database
from engrambus.backends.postgres.store import PostgresStore
from engrambus.errors import (
    CommitUnknown,
    DiskPressure,
    EngramBusError,
    StoreBusy,
    StoreReadOnly,
    StoreUnreachable,
    StoreUrlInvalid,
)
from engrambus.testing.client import GatewayClient, catch_refusal
from engrambus.testing.harness import KEY, PROJECT
from tests.harness.postgres_server import MEMBER, PostgresServer
from tests.harness.postgres_stores import PostgresHarness

SECRET = "s3cret-word"


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://me:{SECRET}@127.0.0.1/db",
        f"postgresql://me:{SECRET}@[127.0.0.1/db",
        f"postgresql://me:{SECRET}@127.0.0.1/db?no_such_option=1",
        f"me:{SECRET}@127.0.0.1/db",
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(StoreUrlInvalid) as refusal:
        open_database(url, lock_seconds=1)
    assert refusal.value.field == "ENGRAMBUS_STORE"
    assert SECRET not in str(refusal.value.problem())


def test_a_server_that_is_not_there_is_named_without_a_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(StoreUnreachable) as refusal:
        open_database(f"postgresql://me:{SECRET}@127.0.0.1:{port}/db", lock_seconds=1)
    assert f"postgresql://me@127.0.0.1:{port}/db" in str(refusal.value)
    assert SECRET not in str(refusal.value.problem())


def test_a_database_that_does_not_exist_is_named(postgres_server: PostgresServer) -> None:
    with pytest.raises(StoreUnreachable, match='"nowhere" does not exist'):
        open_database(postgres_server.url("nowhere"), lock_seconds=1)


@pytest.mark.parametrize("kill", [False, True])
def test_an_open_store_survives_a_restart_of_its_server(own_server: PostgresServer, kill: bool) -> None:
    with closing(PostgresHarness(own_server.url(own_server.new_database()))) as harness:
        client = GatewayClient(harness)
        client.put("Before")
        own_server.stop(kill=kill)
        for call in (lambda: client.put("Meanwhile"), lambda: client.query_claims()):
            assert catch_refusal(call).code == "STORE_UNREACHABLE"
        own_server.start()
        client.put("Afterwards")
        assert client.query_claims() == ["Afterwards", "Before"]
        assert harness.gateway.store.verify() == []


def test_a_connection_that_the_server_closed_is_replaced(
    harness: PostgresHarness, postgres_server: PostgresServer
) -> None:
    client = GatewayClient(harness)
    client.put("Before")
    postgres_server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    client.put("Afterwards")
    assert client.query_claims() == ["Afterwards", "Before"]


def test_a_connection_lost_while_a_change_decides_costs_nothing(
    harness: PostgresHarness, postgres_server: PostgresServer
) -> None:
    calls: list[object] = []

    def decide(view: object) -> tuple[list[object], int]:
        calls.append(view)
        if len(calls) == 1:
            postgres_server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in%'"
            )
        view.counts()  # type: ignore[attr-defined]
        return [], len(calls)

    assert harness.gateway.store.commit(decide) == 2


class Proxy:
    """A proxy before a server's socket that, when armed, cuts every connection at the next COMMIT.

    The COMMIT reaches the server if `deliver` is set; with `refuse`, no further connection is taken then.
    """

    def __init__(self, server: PostgresServer, *, deliver: bool, refuse: bool = False) -> None:
        self._socket = str(server.folder / ".s.PGSQL.5432")
        self._deliver = deliver
        self._refuse = refuse
        self.is_armed = False
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    def url(self, database: str) -> str:
        """Return the URL of a database behind the proxy."""
        return f"postgresql://{MEMBER}@127.0.0.1:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def close(self) -> None:
        """Cut every connection and take no more."""
        self._cut(self._listener, *self._open)
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._socket)
            self._open += [client, server]
            self._start(self._forward, client, server)
            self._start(self._return, server, client)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        while data := _receive(client):
            if self.is_armed and b"COMMIT" in data:
                self.is_armed = False
                self._cut(*([self._listener] if self._refuse else []), *self._open[::2])
                if not self._deliver:
                    break
            server.sendall(data)
        self._cut(server, how=socket.SHUT_WR)

    def _return(self, server: socket.socket, client: socket.socket) -> None:
        while data := _receive(server):
            with suppress(OSError):
                client.sendall(data)
        self._cut(client)
        server.close()
        client.close()

    def _cut(self, *sockets: socket.socket, how: int = socket.SHUT_RDWR) -> None:
        for one in sockets:
            with suppress(OSError):
                one.shutdown(how)
            if one is self._listener:
                one.close()


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except OSError:
        return b""


@pytest.mark.parametrize("deliver", [False, True])
def test_a_connection_cut_at_the_commit_stores_the_change_once(postgres_server: PostgresServer, deliver: bool) -> None:
    with (
        closing(Proxy(postgres_server, deliver=deliver)) as proxy,
        closing(PostgresHarness(proxy.url(postgres_server.new_database()))) as harness,
    ):
        client = GatewayClient(harness)
        client.put("Before")
        proxy.is_armed = True
        client.put("In between")
        assert not proxy.is_armed
        client.put("Afterwards")
        assert client.query_claims() == ["Afterwards", "In between", "Before"]
        assert client.counts()["commits"] == 4
        assert harness.gateway.store.verify() == []


def test_a_commit_of_which_nothing_more_can_be_learned_is_called_unknown(postgres_server: PostgresServer) -> None:
    with (
        closing(Proxy(postgres_server, deliver=True, refuse=True)) as proxy,
        closing(PostgresHarness(proxy.url(postgres_server.new_database()))) as harness,
    ):
        client = GatewayClient(harness)
        client.put("Before")
        proxy.is_armed = True
        refusal = catch_refusal(lambda: client.put("In between"))
        assert refusal.code == "COMMIT_UNKNOWN"
        assert "before you repeat" in str(refusal.hint)


def test_a_writer_that_waits_too_long_is_refused_and_stores_nothing(postgres_url: str) -> None:
    with closing(PostgresHarness(postgres_url)) as harness:
        client = GatewayClient(harness)
        client.put("Before")
        number = harness.number
        with closing(open_database(postgres_url, lock_seconds=0.2)) as impatient:
            store = PostgresStore(impatient.share(), KEY, PROJECT, harness.clock)
            with closing(store), harness.database.writing(number, {}) as other:
                other.execute("SELECT 1 FROM applied FOR UPDATE")
                with pytest.raises(StoreBusy, match="nothing was stored"):
                    store.commit(lambda view: ([], None))
                with store.read() as view:
                    assert view.counts().engrams == 1
        client.put("Afterwards")
        assert client.counts()["commits"] == 3


def test_a_read_only_server_is_named_and_answers_questions(postgres_server: PostgresServer) -> None:
    name = postgres_server.new_database()
    with closing(PostgresHarness(postgres_server.url(name))) as harness:
        client = GatewayClient(harness)
        client.put("Before")
        postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        postgres_server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        with pytest.raises(StoreReadOnly, match="read-only"):
            harness.gateway.store.commit(lambda view: ([], None))
        assert client.query_claims() == ["Before"]
        postgres_server.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        postgres_server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        client.put("Afterwards")


@pytest.fixture
def small_disk(own_server: PostgresServer) -> Iterator[Path]:
    """A file system of 14 MB for tables of the server."""
    place = own_server.folder / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size=14m,uid={own_server.folder.stat().st_uid}", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield place
    own_server.stop(kill=True)
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_at_the_server_is_named_and_loses_nothing(own_server: PostgresServer, small_disk: Path) -> None:
    own_server.execute(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
    own_server.execute("CREATE DATABASE small OWNER engrambus_test TABLESPACE small")
    with closing(PostgresHarness(own_server.url("small"))) as harness:
        client = GatewayClient(harness)
        stored = 0
        refusal: EngramBusError | None = None
        while refusal is None:
            try:
                stored += len(client.put_many([f"Matter {stored + number} {'x' * 300}" for number in range(50)]))
            except DiskPressure as problem:
                refusal = problem
        assert "no room" in str(refusal)
        assert refusal.status == 507
        assert client.counts()["engrams"] == stored
        assert len(client.query_claims(k=5)) == 5
        assert harness.gateway.store.verify() == []


def test_unknown_failures_of_the_server_keep_their_own_words(postgres_url: str) -> None:
    with (
        closing(PostgresHarness(postgres_url)) as harness,
        pytest.raises(Exception, match="division by zero") as raised,
        harness.database.writing(harness.number, {}) as session,
    ):
        session.execute("SELECT 1 / 0")
    assert not isinstance(raised.value, (CommitUnknown, StoreUnreachable))
