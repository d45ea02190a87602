"""Invalid bodies are refused with a code, as early as possible, and nothing is stored."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from engrambus.edges.http.endpoints import route_of
from engrambus.edges.http.server_limits import ServerLimits
from engrambus.operations import OPERATIONS
from tests.http.running_server import Answer, RunningServer, run_new_project

MEGABYTE = 1024 * 1024
HUGE = 100 * MEGABYTE
CHUNK = b"x" * 65536

BODY_LIMIT = route_of(OPERATIONS["put_engram"]).body_limit
MANY_LIMIT = route_of(OPERATIONS["put_engrams"]).body_limit

CLAIM = b'"claim":"The parser trusts its input.","at":["src/parser.py:1"]'


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "FIELD_MISSING"),
        (b"{", "BAD_JSON"),
        (b"null and void", "BAD_JSON"),
        (b"{" + CLAIM + b"} {}", "BAD_JSON"),
        (b"\xef\xbb\xbf{}", "BAD_JSON"),
        (b"\xff\xfe{\x00}\x00", "BAD_TEXT"),
        (b"{" + CLAIM + b',"kind":"\xff"}', "BAD_TEXT"),
        (b"[]", "FIELD_TYPE"),
        (b"null", "FIELD_TYPE"),
        (b'"engram"', "FIELD_TYPE"),
        (b"{" + CLAIM + b',"claim":"Twice."}', "DUPLICATE_KEY"),
        (b"{" + CLAIM + b',"pointers":[{"type":"repo","type":"url","ref":"x"}]}', "DUPLICATE_KEY"),
        (b'{"\\ud800":1,"\\ud800":2}', "DUPLICATE_KEY"),
        (b"{" + CLAIM + b',"confidence":NaN}', "NUMBER_RANGE"),
        (b"{" + CLAIM + b',"confidence":-Infinity}', "NUMBER_RANGE"),
        (b"{" + CLAIM + b',"confidence":1e999}', "NUMBER_RANGE"),
        (b"{" + CLAIM + b',"confidence":10000000000000000000000}', "NUMBER_RANGE"),
        (b"{" + CLAIM + b',"kind":"\\ud800"}', "BAD_TEXT"),
        (b"{" + CLAIM + b',"\\udfff":1}', "BAD_TEXT"),
        (b"[" * 50_000, "TOO_DEEP"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "TOO_DEEP"),
        (b"{" + CLAIM + b',"colour":"red"}', "FIELD_UNKNOWN"),
        (b"{" + CLAIM + b',"kind":7}', "FIELD_TYPE"),
        (b"{" + CLAIM + b',"kind":"rumour"}', "FIELD_VALUE"),
        (b"{" + CLAIM + b',"confidence":"0.5"}', "FIELD_TYPE"),
        (b"{" + CLAIM + b',"provenance":{"created_by":"me"}}', "PROVENANCE_STAMPED"),
    ],
)
def test_an_invalid_body_is_refused_with_its_code(bus: RunningServer, body: bytes, code: str) -> None:  # EB-02
    with bus.nothing_stored():
        answer = bus.call("POST", "/engram", body)
    assert (answer.status, answer.code) == (422, code)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "10000000000000000000000"])
def test_a_number_out_of_range_is_refused_with_its_field(bus: RunningServer, number: str) -> None:  # EB-02
    bodies = {
        "/engram": ("{" + CLAIM.decode() + f',"confidence":{number}}}', "confidence"),
        "/pointer/deref": (f'{{"pointer":"src/parser.py:1-2","max_tokens":{number}}}', "max_tokens"),
        "/message": (f'{{"ROLE":"tool","TASK_STATUS":{number}}}', "TASK_STATUS"),
        "/tuple": (f'{{"payload":[{{"yool":"a.b","args":{{"n":[1,{number}]}}}}]}}', "payload[0].args.n[1]"),
    }
    with bus.nothing_stored():
        for path, (body, field) in bodies.items():
            answer = bus.call("POST", path, body.encode())
            assert (answer.status, answer.code, answer.json["field"]) == (422, "NUMBER_RANGE", field)
            assert answer.json["used"] == number


def test_deep_nesting_is_refused_before_parsing(bus: RunningServer) -> None:  # EB-02
    bodies = (b"[" * 100_000, b'{"engrams":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"a":' * 100_000)
    with bus.nothing_stored():
        for body in bodies:
            answer = bus.call("POST", "/engrams", body)
            assert (answer.status, answer.code) == (422, "TOO_DEEP")


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/json; charset=latin-1"],
)
def test_a_content_type_other_than_json_is_refused(bus: RunningServer, content_type: str) -> None:
    with bus.nothing_stored():
        answer = bus.call("POST", "/engram", b"{" + CLAIM + b"}", headers={"Content-Type": content_type})
    assert (answer.status, answer.code, answer.json["limit"]) == (415, "CONTENT_TYPE", "application/json")


def test_a_utf_8_charset_is_accepted(bus: RunningServer) -> None:
    headers = {"Content-Type": 'Application/JSON; charset="UTF-8"'}
    assert bus.call("POST", "/engram", b"{" + CLAIM + b"}", headers=headers).status == 200


def test_the_size_limit_is_the_operations(bus: RunningServer) -> None:
    def padded(size: int) -> bytes:
        return b"{" + CLAIM + b"}" + b" " * (size - len(CLAIM) - 2)

    assert bus.call("POST", "/engram", padded(BODY_LIMIT)).status == 200
    with bus.nothing_stored():
        for target, limit in (("/engram", BODY_LIMIT), ("/engrams", MANY_LIMIT)):
            answer = bus.call("POST", target, padded(limit + 1))
            assert (answer.status, answer.code) == (413, "BODY_TOO_LARGE")
            assert (answer.json["limit"], answer.json["used"]) == (limit, limit + 1)


def _head(bus: RunningServer, target: str, *lines: str) -> bytes:
    head = [f"POST {target} HTTP/1.1", f"Host: 127.0.0.1:{bus.port}", f"Authorization: Bearer {bus.token}"]
    return "\r\n".join([*head, "Content-Type: application/json", *lines, "", ""]).encode()


def _exchange(bus: RunningServer, head: bytes, body: Iterator[bytes]) -> tuple[Answer, int]:
    """Send until the end or until the server closes; return the answer and the number of bytes sent."""
    sent = 0
    with socket.create_connection(("127.0.0.1", bus.port), timeout=60) as wire:
        wire.sendall(head)
        try:
            for chunk in body:
                wire.sendall(chunk)
                sent += len(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        received = b""
        while chunk := wire.recv(65536):
            received += chunk
    top, _, answer_body = received.partition(b"\r\n\r\n")
    status, *headers = top.decode().split("\r\n")
    headers_by_name = {name.lower(): value for name, _, value in (line.partition(": ") for line in headers)}
    return Answer(int(status.split()[1]), headers_by_name, answer_body), sent


def _peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_declared_length_over_the_limit_is_refused_before_the_body_is_read(bus: RunningServer) -> None:  # EB-02
    memory_bytes = _peak_memory_bytes()
    with bus.nothing_stored():
        answer, sent = _exchange(
            bus, _head(bus, "/engram", f"Content-Length: {HUGE}"), (CHUNK for _ in range(HUGE // len(CHUNK)))
        )
    assert (answer.status, answer.code, answer.json["used"]) == (413, "BODY_TOO_LARGE", HUGE)
    assert answer.headers["connection"] == "close"
    assert sent == HUGE  # the sender may finish, so that it reads the error
    assert _peak_memory_bytes() - memory_bytes < 24 * MEGABYTE


def test_a_chunked_body_is_refused_when_it_passes_the_limit(bus: RunningServer) -> None:  # EB-02
    def chunks() -> Iterator[bytes]:
        for _ in range(HUGE // len(CHUNK)):
            yield b"10000\r\n" + CHUNK + b"\r\n"
        yield b"0\r\n\r\n"

    memory_bytes = _peak_memory_bytes()
    with bus.nothing_stored():
        answer, _ = _exchange(bus, _head(bus, "/engrams", "Transfer-Encoding: chunked"), chunks())
    limit = MANY_LIMIT
    assert (answer.status, answer.code, answer.json["limit"]) == (413, "BODY_TOO_LARGE", limit)
    assert limit < answer.json["used"] < 2 * limit
    assert _peak_memory_bytes() - memory_bytes < 48 * MEGABYTE


def test_expect_100_continue_is_refused_before_the_body_is_sent(bus: RunningServer) -> None:
    head = _head(bus, "/engram", f"Content-Length: {HUGE}", "Expect: 100-continue")
    with socket.create_connection(("127.0.0.1", bus.port), timeout=60) as wire:
        wire.sendall(head)
        assert wire.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_a_body_shorter_than_declared_is_refused(bus: RunningServer) -> None:
    with bus.nothing_stored():
        with socket.create_connection(("127.0.0.1", bus.port), timeout=60) as wire:
            wire.sendall(_head(bus, "/engram", "Content-Length: 1000") + b"{" + CLAIM + b"}")
            wire.shutdown(socket.SHUT_WR)
            assert b"200 OK" not in wire.recv(65536)
        assert bus.call("GET", "/healthz").status == 200


@pytest.mark.parametrize("length", ["-1", "ten", "1e3", "10, 20"])
def test_an_invalid_length_is_refused(bus: RunningServer, length: str) -> None:
    with bus.nothing_stored():
        answer, _ = _exchange(bus, _head(bus, "/engram", f"Content-Length: {length}"), iter(()))
    assert answer.status == 400


def test_a_body_is_not_read_beyond_its_declared_length(bus: RunningServer) -> None:
    body = b"{" + CLAIM + b"}"
    with socket.create_connection(("127.0.0.1", bus.port), timeout=60) as wire:
        wire.sendall(_head(bus, "/engram", f"Content-Length: {len(body)}") + body + b"\x00\x01 more\r\n\r\n")
        received = b""
        while chunk := wire.recv(65536):
            received += chunk
    assert received.startswith(b"HTTP/1.1 200 OK")
    assert b"HTTP/1.1 400 " in received


def test_a_client_that_is_still_sending_can_read_the_error(bus: RunningServer) -> None:
    for target, headers, code in (
        ("/engram", "Authorization: Basic x", "TOKEN_MISSING"),
        ("/nothing", "", "ROUTE_NOT_FOUND"),
    ):
        lines = [f"POST {target} HTTP/1.1", f"Host: 127.0.0.1:{bus.port}", f"Content-Length: {10 * MEGABYTE}"]
        head = "\r\n".join([*lines, *([headers] if headers else []), "", ""]).encode()
        answer, _ = _exchange(bus, head, (CHUNK for _ in range(10 * MEGABYTE // len(CHUNK))))
        assert answer.code == code


def test_a_connection_stays_open_after_errors(bus: RunningServer) -> None:
    connection = HTTPConnection("127.0.0.1", bus.port, timeout=60)
    headers = {"Authorization": f"Bearer {bus.token}", "Content-Type": "application/json"}
    connection.connect()
    wire = connection.sock
    for body, status in ((b"{", 422), (b"{" + CLAIM + b"}", 200), (b"[]", 422)):
        connection.request("POST", "/engram", body, headers)
        answer = connection.getresponse()
        assert answer.status == status
        json.loads(answer.read())
        assert connection.sock is wire
    connection.close()


@pytest.mark.parametrize("limits", [ServerLimits(body_seconds=0.1), ServerLimits(body_grace_seconds=0.1)])
def test_a_body_that_does_not_arrive_is_refused_after_a_time_limit(tmp_path: Path, limits: ServerLimits) -> None:
    with run_new_project(tmp_path, limits) as bus, bus.nothing_stored():
        answer, _ = _exchange(bus, _head(bus, "/engram", "Content-Length: 100"), iter([b'{"claim":']))
    assert (answer.status, answer.code) == (408, "BODY_TOO_SLOW")
    assert (answer.json["limit"], answer.json["used"]) == (1024, 9)
    assert answer.headers["connection"] == "close"
