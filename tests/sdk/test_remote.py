"""The client when the other end misbehaves: hangs up, is not there, or is something else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from engrambus import Bus
from engrambus.errors import FieldValue, Internal, TokenExpired, Unreachable

AGENTS = b'{"run_id":"r","goal":"g","agents":[]}'
RUN = b'{"run_id":"r"}'


def answer(body: bytes, kind: str = "application/json", status: str = "200 OK") -> bytes:
    """An HTTP answer as it goes over the wire."""
    return b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (
        status.encode(), kind.encode(), len(body), body,
    )  # fmt: skip


@contextmanager
def peer(*behaviours: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that meets each connection with the next behaviour; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)

        def serve() -> None:
            for behave in behaviours:
                connection, _ = listening.accept()
                with connection:
                    connection.settimeout(60)
                    behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(60)
        assert not thread.is_alive()


def answering(*bodies: bytes) -> Callable[[socket.socket], None]:
    """Answers one request after another, then hangs up."""

    def behave(connection: socket.socket) -> None:
        for body in bodies:
            _read_request(connection)
            connection.sendall(body)

    return behave


def hanging_up(after: bytes) -> Callable[[socket.socket], None]:
    """Answers once, takes the next request and hangs up on it."""

    def behave(connection: socket.socket) -> None:
        _read_request(connection)
        connection.sendall(after)
        _read_request(connection)

    return behave


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[16:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: ")), 0)
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


def test_a_connection_is_reused() -> None:
    with peer(answering(answer(AGENTS), answer(AGENTS))) as url, Bus.connect(url) as bus:
        assert bus.list_agents() == bus.list_agents()


def test_a_connection_closed_while_idle_is_replaced_before_sending() -> None:
    with peer(answering(answer(RUN)), answering(answer(RUN))) as url, Bus.connect(url) as bus:
        assert bus.open_run("one").run_id == "r"
        _wait_until_closed(bus)
        assert bus.open_run("two").run_id == "r"


def test_a_read_is_sent_again_when_a_reused_connection_breaks() -> None:
    with peer(hanging_up(answer(AGENTS)), answering(answer(AGENTS))) as url, Bus.connect(url) as bus:
        assert bus.list_agents() == bus.list_agents()


def test_a_write_is_not_sent_again_and_says_so() -> None:
    with peer(hanging_up(answer(RUN))) as url, Bus.connect(url) as bus:
        bus.open_run("one")
        with pytest.raises(Unreachable, match="may or may not have been"):
            bus.open_run("two")


def test_a_write_with_a_key_is_sent_again() -> None:
    with peer(hanging_up(answer(RUN)), answering(answer(RUN))) as url, Bus.connect(url) as bus:
        bus.open_run("one")
        assert bus.open_run("two", idempotency_key="k").run_id == "r"


def test_an_unreachable_gateway_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with Bus.connect(f"http://127.0.0.1:{port}") as bus, pytest.raises(Unreachable) as refused:
        bus.list_agents()
    assert "engrambus up" in (refused.value.hint or "")
    assert "not known" not in refused.value.detail


def test_a_gateway_that_never_answers_times_out() -> None:
    waiting = threading.Event()

    def wait(connection: socket.socket) -> None:
        waiting.wait(60)

    with peer(wait) as url:
        with (
            Bus.connect(url, timeout_seconds=0.2) as bus,
            pytest.raises(Unreachable, match="no answer within"),
        ):
            bus.list_agents()
        waiting.set()


@pytest.mark.parametrize(
    "body",
    [
        answer(b"<h1>hello</h1>", "text/html"),
        answer(b"not json", "application/problem+json", "500 Oops"),
        answer(b'{"code":"\xff"}', "application/problem+json", "500 Oops"),
        answer(b"[]", "application/problem+json", "404 Not Found"),
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_a_server_that_is_no_gateway_is_reported(body: bytes) -> None:
    with peer(answering(body)) as url, Bus.connect(url) as bus, pytest.raises(Unreachable):
        bus.list_agents()


@pytest.mark.parametrize("body", [b'{"agents":5}', b'{"agents":[],"next":"\xff"}'])
def test_an_answer_of_another_shape_is_an_internal_error(body: bytes) -> None:
    with peer(answering(answer(body))) as url, Bus.connect(url) as bus, pytest.raises(Internal):
        bus.list_agents()


def test_a_problem_object_is_raised_as_its_error_class() -> None:
    problem = b'{"code":"TOKEN_EXPIRED","title":"x","detail":"It ran out.","status":401,"hint":"Ask again."}'
    refusing = answering(answer(problem, "application/problem+json", "401 Unauthorized"))
    with peer(refusing) as url, Bus.connect(url) as bus, pytest.raises(TokenExpired) as refused:
        bus.list_agents()
    assert (refused.value.detail, refused.value.hint) == ("It ran out.", "Ask again.")


@pytest.mark.parametrize("url", ["", "127.0.0.1:7171", "ftp://x", "http://", "http://x:port", "http://x/?q=1"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(FieldValue) as refused:
        Bus.connect(url)
    assert refused.value.field == "url"


def _wait_until_closed(bus: Bus) -> None:
    from engrambus.edges.sdk.http_transport import HttpTransport, _readable

    way = bus._transport
    assert isinstance(way, HttpTransport)
    for _ in range(1000):
        if _readable(way._idle[0]):
            return
        threading.Event().wait(0.005)
