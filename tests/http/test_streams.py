"""Streams end with the server, and stalled readers do not count against the limit forever."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack

import pytest

from engrambus.edges.http.tuple_events import TUPLE_LIMITS, TupleEventsEndpoint
from engrambus.gateway import Gateway
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from tests.events.reader import Reader, open_stream
from tests.http.running_server import RunningServer, run_server
from tests.projects import Repository

LINT = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane="build")
STEPS = [{"yool": LINT.name, "args": {"path": f"src/{number}"}} for number in range(256)]


def with_heartbeat(gateway: Gateway, seconds: float) -> TupleEventsEndpoint:
    """Return the endpoint with another heartbeat."""
    return TupleEventsEndpoint(gateway, TUPLE_LIMITS._replace(heartbeat_seconds=seconds))


def stream_paths(bus: RunningServer) -> list[str]:
    """Return every path but /mcp that answers with a stream according to the OpenAPI document."""
    paths = bus.call("GET", "/openapi.json", token=None).json["paths"]
    paths_with_streams = [
        path
        for path, methods in paths.items()
        if path != "/mcp"
        and "text/event-stream" in methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
    ]
    assert {"/events", "/tuple/{id}/events"} <= set(paths_with_streams)
    tuple_id = bus.call("POST", "/tuple", {"lane": "idle"}).json["id"]
    return [path.replace("{id}", tuple_id) for path in paths_with_streams]


def test_the_server_stops_while_a_stream_of_every_kind_is_open(
    gateway: Gateway, repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        with run_server(gateway, repository) as bus:
            readers = {path: stack.enter_context(open_stream(bus, path=path)) for path in stream_paths(bus)}
            for path, reader in readers.items():
                assert reader.block() is not None, path
        for reader in readers.values():
            _read_to_end(reader)  # raises if a stream ends inside an event
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def _read_to_end(reader: Reader) -> None:
    while reader.block() is not None:
        pass


@pytest.mark.parametrize("ended", [False, True])
def test_a_stalled_reader_of_a_tuple_no_longer_counts_against_the_limit(
    gateway: Gateway, repository: Repository, ended: bool
) -> None:
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT]))
    tuple_events = TupleEventsEndpoint(gateway, TUPLE_LIMITS._replace(max_open=2, stall_seconds=1.0))
    with run_server(gateway, repository, tuple_events=tuple_events, send_buffer=4096) as bus, ExitStack() as stack:
        first, second = (bus.call("POST", "/tuple", {"lane": lane, "payload": STEPS}).json["id"] for lane in "ab")
        slow = stack.enter_context(open_stream(bus, path=f"/tuple/{first}/events", receive_buffer=2048))
        quick = stack.enter_context(open_stream(bus, path=f"/tuple/{first}/events"))
        assert (slow.status, quick.status) == (200, 200)
        assert quick.block() is not None
        _change(gateway, quick, 40)  # more than the socket buffers hold
        if ended:
            gateway.tuple_space.space.cancel(first)
            _read_to_end(quick)
            _open_when_possible(stack, bus, second)
        _open_when_possible(stack, bus, second)


@pytest.mark.parametrize("changes", [3, 40])
def test_the_server_stops_without_waiting_for_a_stalled_reader(
    gateway: Gateway, repository: Repository, changes: int, caplog: pytest.LogCaptureFixture
) -> None:
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT]))
    with ExitStack() as stack, run_server(gateway, repository, send_buffer=4096) as bus:
        tuple_id = bus.call("POST", "/tuple", {"lane": "a", "payload": STEPS}).json["id"]
        slow = stack.enter_context(open_stream(bus, path=f"/tuple/{tuple_id}/events", receive_buffer=2048))
        assert slow.status == 200
        with open_stream(bus, path=f"/tuple/{tuple_id}/events") as quick:
            assert quick.block() is not None
            _change(gateway, quick, changes)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_the_server_stops_without_waiting_for_a_client_that_reads_no_response(
    gateway: Gateway, repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        with run_server(gateway, repository, send_buffer=4096) as bus:
            silent.connect(("127.0.0.1", bus.port))
            silent.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % bus.port * 3)
            assert silent.recv(4) == b"HTTP"
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def _change(gateway: Gateway, quick: Reader, times: int) -> None:
    """Change a tuple several times; wait after each change until a reader has got it."""
    space = gateway.tuple_space.space
    for number in range(times):
        if number % 2 == 0:
            (claim,) = space.claim({"lane": "a"}, worker="w")
        else:
            space.release([(claim.id, claim.fence)])
        assert quick.block() is not None


def _open_when_possible(stack: ExitStack, bus: RunningServer, tuple_id: str) -> None:
    """Open a stream as soon as the limit allows it."""
    deadline = time.monotonic() + 60
    while stack.enter_context(open_stream(bus, path=f"/tuple/{tuple_id}/events")).status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_tuples_stream_gets_heartbeats_while_other_tuples_change(gateway: Gateway, repository: Repository) -> None:
    with run_server(gateway, repository, tuple_events=with_heartbeat(gateway, 0.5)) as bus:
        tuple_id = bus.call("POST", "/tuple", {"lane": "idle"}).json["id"]
        done = threading.Event()

        def busy() -> None:
            while not done.is_set():
                bus.call("POST", "/tuple", {"lane": "other"})

        client = threading.Thread(target=busy)
        with open_stream(bus, path=f"/tuple/{tuple_id}/events") as reader:
            assert reader.block() is not None
            client.start()
            try:
                beat = reader.block()
            finally:
                done.set()
                client.join()
    assert beat is not None
    assert (beat.comment, beat.type) == (True, None)


def test_a_tuples_stream_ends_when_its_token_expires(gateway: Gateway, repository: Repository) -> None:
    with run_server(gateway, repository, tuple_events=with_heartbeat(gateway, 0.2)) as bus:
        path = f"/tuple/{bus.call('POST', '/tuple', {'lane': 'idle'}).json['id']}/events"
        token = bus.sign(seconds=2)
        with open_stream(bus, path=path, token=token) as reader:
            assert reader.status == 200
            _read_to_end(reader)
        with open_stream(bus, path=path, token=token) as second:
            assert second.problem() == "TOKEN_EXPIRED", "the stream did not end earlier"
