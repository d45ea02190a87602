"""Requests are served only for this host, this port and the page's own origin."""

from __future__ import annotations

import socket

import pytest

from engrambus.edges.http.server import make_server
from engrambus.gateway import Gateway
from tests.http.running_server import RunningServer


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_loopback_names_with_the_servers_port_are_accepted(bus: RunningServer, name: str) -> None:
    assert bus.call("GET", "/healthz", headers={"Host": f"{name}:{bus.port}"}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil.example:{}",
        "0.0.0.0:{}",
        "127.0.0.1:{}:80",
        "",
        "ü",
    ],
)
@pytest.mark.parametrize("target", ["/healthz", "/engram", "/"])
def test_another_host_is_refused(bus: RunningServer, host: str, target: str) -> None:
    body = {"claim": "x", "at": ["src/parser.py"]} if target == "/engram" else None
    with bus.nothing_stored():
        answer = bus.call("POST" if body else "GET", target, body, headers={"Host": host.format(bus.port)})
    assert (answer.status, answer.code, answer.json["field"]) == (421, "HOST_FORBIDDEN", "Host")


def test_a_request_without_a_host_is_refused(bus: RunningServer) -> None:
    with socket.create_connection(("127.0.0.1", bus.port), timeout=60) as wire:
        wire.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert wire.recv(65536).startswith(b"HTTP/1.1 400 ")
    with socket.create_connection(("127.0.0.1", bus.port), timeout=60) as wire:
        wire.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert wire.recv(65536).startswith(b"HTTP/1.1 421 ")


def test_the_servers_own_origin_is_accepted(bus: RunningServer) -> None:
    for name in ("127.0.0.1", "localhost", "[::1]"):
        assert bus.call("GET", "/agent", headers={"Origin": f"http://{name}:{bus.port}"}).status == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{}", "http://evil.example:{}", ""]
)
def test_a_foreign_origin_is_refused(bus: RunningServer, origin: str) -> None:
    with bus.nothing_stored():
        answer = bus.call(
            "POST", "/engram", {"claim": "x", "at": ["src/parser.py"]}, headers={"Origin": origin.format(bus.port)}
        )
    assert (answer.status, answer.code, answer.json["field"]) == (403, "ORIGIN_FORBIDDEN", "Origin")


def test_a_preflight_request_is_refused(bus: RunningServer) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = bus.call("OPTIONS", "/engram", headers=headers, token=None)
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_only_loopback_is_served(gateway: Gateway) -> None:
    with socket.socket() as sock:
        sock.bind(("0.0.0.0", 0))
        with pytest.raises(ValueError, match="not a loopback address"):
            make_server(gateway, sock)
