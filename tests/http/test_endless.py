"""Answers that do not end by themselves: all of them end with the server, and nobody holds a place for ever."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack

import pytest

from engrambus.edges.http.tuple_events import TupleStreams
from engrambus.gateway import Gateway
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from tests.events.reader import Reader, reading
from tests.http.served import Served, serving
from tests.projects import Repository

LINT = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane="build")
STEPS = [{"yool": LINT.name, "args": {"path": f"src/{number}"}} for number in range(256)]


def endless(bus: Served) -> list[str]:
    """Every address that the document says may answer with a stream."""
    paths = bus.call("GET", "/openapi.json", token=None).json["paths"]
    found = [
        path
        for path, methods in paths.items()
        if "text/event-stream" in methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
    ]
    assert {"/events", "/tuple/{id}/events"} <= set(found)
    one = bus.call("POST", "/tuple", {"lane": "nobody"}).json["id"]
    return [path.replace("{id}", one) for path in found]


def test_the_server_ends_with_a_stream_of_every_kind_open(
    gateway: Gateway, repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        with serving(gateway, repository) as bus:
            readers = {path: stack.enter_context(reading(bus, path=path)) for path in endless(bus)}
            for path, reader in readers.items():
                assert reader.block() is not None, path
        for reader in readers.values():
            _read_out(reader)  # the stream ends whole
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def _read_out(reader: Reader) -> None:
    while reader.block() is not None:
        pass


@pytest.mark.parametrize("ended", [False, True])
def test_a_follower_of_a_tuple_that_takes_nothing_gives_its_place_back(
    gateway: Gateway, repository: Repository, ended: bool
) -> None:
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT]))
    tuples = TupleStreams(gateway, most=2, stall_seconds=1.0)
    with serving(gateway, repository, tuples=tuples, send_buffer=4096) as bus, ExitStack() as stack:
        one, other = (bus.call("POST", "/tuple", {"lane": lane, "payload": STEPS}).json["id"] for lane in "ab")
        slow = stack.enter_context(reading(bus, path=f"/tuple/{one}/events", receive_buffer=2048))
        quick = stack.enter_context(reading(bus, path=f"/tuple/{one}/events"))
        assert (slow.status, quick.status) == (200, 200)
        assert quick.block() is not None
        _change(gateway, quick, 40)  # more than fits between the server and who does not read
        if ended:
            gateway.tuple_space.space.cancel(one)
            _read_out(quick)
            _let_in(stack, bus, other)
        _let_in(stack, bus, other)


@pytest.mark.parametrize("changes", [3, 40])
def test_the_server_does_not_wait_for_a_reader_that_takes_nothing(
    gateway: Gateway, repository: Repository, changes: int, caplog: pytest.LogCaptureFixture
) -> None:
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT]))
    with ExitStack() as stack, serving(gateway, repository, send_buffer=4096) as bus:
        one = bus.call("POST", "/tuple", {"lane": "a", "payload": STEPS}).json["id"]
        slow = stack.enter_context(reading(bus, path=f"/tuple/{one}/events", receive_buffer=2048))
        assert slow.status == 200
        with reading(bus, path=f"/tuple/{one}/events") as quick:
            assert quick.block() is not None
            _change(gateway, quick, changes)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_the_server_does_not_wait_for_somebody_who_takes_no_answer(
    gateway: Gateway, repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        with serving(gateway, repository, send_buffer=4096) as bus:
            silent.connect(("127.0.0.1", bus.port))
            silent.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % bus.port * 3)
            assert silent.recv(4) == b"HTTP"
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def _change(gateway: Gateway, quick: Reader, times: int) -> None:
    """Have a tuple change so many times, each of them told to a reader who takes it."""
    space = gateway.tuple_space.space
    for number in range(times):
        if number % 2 == 0:
            (claim,) = space.claim({"lane": "a"}, worker="w")
        else:
            space.release([(claim.id, claim.fence)])
        assert quick.block() is not None


def _let_in(stack: ExitStack, bus: Served, tuple_id: str) -> None:
    """Follow a tuple as soon as there is a place."""
    deadline = time.monotonic() + 60
    while stack.enter_context(reading(bus, path=f"/tuple/{tuple_id}/events")).status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_tuples_stream_is_kept_alive_while_other_work_goes_on(gateway: Gateway, repository: Repository) -> None:
    with serving(gateway, repository, tuples=TupleStreams(gateway, heartbeat_seconds=0.5)) as bus:
        one = bus.call("POST", "/tuple", {"lane": "nobody"}).json["id"]
        done = threading.Event()

        def busy() -> None:
            while not done.is_set():
                bus.call("POST", "/tuple", {"lane": "other"})

        working = threading.Thread(target=busy)
        with reading(bus, path=f"/tuple/{one}/events") as reader:
            assert reader.block() is not None
            working.start()
            try:
                beat = reader.block()
            finally:
                done.set()
                working.join()
    assert beat is not None
    assert (beat.comment, beat.type) == (True, None)


def test_a_tuples_stream_ends_when_its_token_does(gateway: Gateway, repository: Repository) -> None:
    with serving(gateway, repository, tuples=TupleStreams(gateway, heartbeat_seconds=0.2)) as bus:
        path = f"/tuple/{bus.call('POST', '/tuple', {'lane': 'nobody'}).json['id']}/events"
        token = bus.sign(seconds=2)
        with reading(bus, path=path, token=token) as reader:
            assert reader.status == 200
            _read_out(reader)
        with reading(bus, path=path, token=token) as again:
            assert again.problem() == "TOKEN_EXPIRED", "it did not end before"
