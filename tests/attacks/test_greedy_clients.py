"""Slow and greedy clients: nobody takes the gateway away from the page or from another agent."""

from __future__ import annotations

import fcntl
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.server_process import ServerProcess, read_reply, read_to_end, serve_in_process

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
BOTH = "application/json, text/event-stream"
PUT = {"claim": "The parser trusts its input.", "at": ["src/parser.py:1-2"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the limits that users get."""
    with serve_in_process(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def impatient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose deadlines are short, so that nobody has to wait for them."""
    with serve_in_process(
        tmp_path_factory.mktemp("impatient"),
        header_seconds=0.3,
        idle_seconds=0.3,
        body_seconds=1.0,
        body_grace_seconds=0.3,
        stall_seconds=0.5,
    ) as server:
        yield server


# Connections


def test_half_sent_headers_do_not_take_the_gateway_off_the_air(tmp_path: Path) -> None:
    """Opens 1,500 connections and sends half a request on each, to a server that may open 1,024 files."""
    with serve_in_process(tmp_path, max_files=1024) as server, ExitStack() as open_sockets:
        for _ in range(1500):
            open_sockets.enter_context(server.connect(b"GET /healthz HTTP/1.1\r\nHost: 127"))
        assert server.call("GET", "/healthz").status == 200
        assert server.call("GET", "/").status == 200
        assert server.call("GET", "/engram/query?q=parser", token=server.token).status == 200


def test_silent_connections_do_not_take_the_gateway_off_the_air(tmp_path: Path) -> None:
    """Opens more connections than the server has files, and sends nothing on them."""
    with serve_in_process(tmp_path, max_files=160) as server, ExitStack() as open_sockets:
        for _ in range(250):
            open_sockets.enter_context(server.connect())
        assert server.call("GET", "/healthz").status == 200


def test_half_sent_bodies_do_not_take_the_gateway_off_the_air(tmp_path: Path) -> None:
    """Opens more connections than the server has files, with an agent's token, and sends half a body on each."""
    with serve_in_process(tmp_path, max_files=160) as server, ExitStack() as open_sockets:
        agent = server.add("greedy")
        half = server.request("POST", "/engram", PUT, token=agent)[:-20]
        for _ in range(250):
            open_sockets.enter_context(server.connect(half))
        assert server.call("GET", "/engram/query?q=parser", token=server.token).status == 200


@pytest.mark.parametrize(
    "start", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: ", b"\x16\x03\x01"]
)
def test_a_client_that_does_not_finish_its_headers_is_disconnected(
    impatient_server: ServerProcess, start: bytes
) -> None:
    """Sends nothing, the beginning of a request, or bytes without a line end, and waits."""
    with impatient_server.connect(start) as connection:
        assert b" 200 " not in read_to_end(connection)


def test_headers_that_come_byte_by_byte_are_not_waited_for(impatient_server: ServerProcess) -> None:
    """Sends one byte of a header now and then, so that the connection is never silent."""
    with impatient_server.connect(b"GET /healthz HTTP/1.1\r\n") as connection:
        assert _is_cut_off(connection, b"a")


def test_a_second_request_has_the_same_deadline(impatient_server: ServerProcess) -> None:
    """Sends one good request on a connection, and then a second one byte by byte."""
    with impatient_server.connect(impatient_server.request("GET", "/healthz")) as connection:
        assert read_reply(connection).status == 200
        assert _is_cut_off(connection, b"G")


@pytest.mark.parametrize("target", ["/engram", "/mcp", "/healthz"])
def test_a_body_that_comes_byte_by_byte_is_not_waited_for(impatient_server: ServerProcess, target: str) -> None:
    """Announces a large body and sends one byte of it now and then."""
    method = "GET" if target == "/healthz" else "POST"
    head = impatient_server.request(
        method, target, token=impatient_server.token, Content_Length="100000", Content_Type="application/json"
    )
    with impatient_server.connect(head) as connection:
        assert _is_cut_off(connection, b"{")


def test_a_client_that_does_not_read_its_answer_is_disconnected(impatient_server: ServerProcess) -> None:
    """Asks for a large document again and again on one connection, and never reads."""
    requests = impatient_server.request("GET", "/openapi.json") * 100
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", impatient_server.port))
        connection.settimeout(5)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            _send_for_ever(connection, requests)


def _send_for_ever(connection: socket.socket, requests: bytes) -> None:
    while True:
        connection.sendall(requests)


def _is_cut_off(connection: socket.socket, byte: bytes) -> bool:
    """Send a byte every 50 ms; return whether the server closed the connection within 10 seconds."""
    connection.settimeout(0.05)
    for _ in range(200):
        try:
            connection.sendall(byte)
            if connection.recv(65_536) == b"":
                return True
        except TimeoutError:
            continue
        except (ConnectionResetError, BrokenPipeError):
            return True
    return False


# Streams and sessions


def test_one_agents_streams_leave_room_for_the_page_and_other_agents(server: ServerProcess) -> None:
    """Opens 256 event streams with one token."""
    greedy, other = server.add("streamer"), server.add("reader")
    with ExitStack() as open_sockets:
        statuses = []
        for _ in range(256):
            connection = open_sockets.enter_context(server.connect(server.request("GET", "/events", token=greedy)))
            statuses.append(read_reply(connection).status)
        for token in (server.token, other):
            with server.connect(server.request("GET", "/events", token=token)) as connection:
                assert read_reply(connection).status == 200
    assert (statuses[0], statuses[-1]) == (200, 503)


def test_streams_of_many_agents_leave_room_for_the_page(tmp_path: Path) -> None:
    """Opens as many streams as there are, with the tokens of several agents."""
    with serve_in_process(tmp_path, agent_streams=2, streams=4) as server, ExitStack() as open_sockets:
        for name in ("one", "two", "three"):
            agent = server.add(name)
            for _ in range(3):
                connection = open_sockets.enter_context(server.connect(server.request("GET", "/events", token=agent)))
                read_reply(connection)
        with server.connect(server.request("GET", "/events", token=server.token)) as connection:
            assert read_reply(connection).status == 200


def test_one_agents_mcp_sessions_leave_room_for_other_clients(server: ServerProcess) -> None:
    """Opens 256 sessions of `/mcp` with one token."""
    greedy, other = server.add("opener"), server.add("client")
    for _ in range(256):
        assert _open_session(server, greedy)[0] == 200
    status, session = _open_session(server, other)
    assert status == 200
    assert _list_tools(server, other, session) == 200


def test_an_agents_new_session_ends_its_own_oldest_one(tmp_path: Path) -> None:
    """Opens one session more than an agent may have: its oldest idle one ends, and nobody else's."""
    with serve_in_process(tmp_path, agent_mcp_sessions=2) as server:
        greedy, other = server.add("opener"), server.add("client")
        _, of_other = _open_session(server, other)
        sessions = [_open_session(server, greedy)[1] for _ in range(2)]
        assert _list_tools(server, greedy, sessions[0]) == 200  # used last, so the second one is the oldest
        newest = _open_session(server, greedy)[1]
        assert [_list_tools(server, greedy, session) for session in (*sessions, newest)] == [200, 404, 200]
        assert _list_tools(server, other, of_other) == 200


def _open_session(server: ServerProcess, token: str) -> tuple[int, str]:
    answer = server.call("POST", "/mcp", INITIALIZE, token=token, Accept=BOTH)
    return answer.status, answer.headers.get("mcp-session-id", "")


def _list_tools(server: ServerProcess, token: str, session: str) -> int:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    return server.call("POST", "/mcp", body, token=token, Accept=BOTH, Mcp_Session_Id=session).status


# Calls


def test_a_flood_of_calls_by_one_agent_leaves_threads_for_the_others(server: ServerProcess) -> None:
    """Sends 60 puts at once while the project's write lock is held, so that every one of them occupies a thread."""
    greedy, other = server.add("flooder"), server.add("neighbour")
    lock = server.folder / ".catalog" / "lock"
    statuses: list[int] = []

    def put(number: int) -> None:
        claim = {**PUT, "claim": f"The parser trusts input number {number}."}
        statuses.append(server.call("POST", "/engram", claim, token=greedy).status)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(60)]
    with lock.open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for thread in threads:
            thread.start()
        answered = [
            server.call("GET", "/engram/query?q=parser", token=token).status for token in (other, server.token) * 5
        ]
        still_waiting = len(threads) - len(statuses)
    for thread in threads:
        thread.join()
    assert answered == [200] * 10
    assert still_waiting == 60  # they were answered while the flood stood still
    assert set(statuses) == {200}


def test_calls_that_wait_are_limited_for_each_agent(tmp_path: Path) -> None:
    """Sends more calls at once than one agent may have waiting: the rest are refused, not collected."""
    with serve_in_process(tmp_path, caller_threads=1, caller_calls=3) as server:
        greedy, other = server.add("flooder"), server.add("neighbour")
        with (server.folder / ".catalog" / "lock").open("rb+") as held, ExitStack() as open_sockets:
            fcntl.flock(held, fcntl.LOCK_EX)
            waiting = []
            for number in range(3):
                claim = {**PUT, "claim": f"The parser trusts input number {number}."}
                request = server.request("POST", "/engram", claim, token=greedy)
                waiting.append(open_sockets.enter_context(server.connect(request)))
            refused = server.call("POST", "/engram", PUT, token=greedy)
            assert (refused.status, refused.json["code"], refused.json["limit"]) == (429, "TOO_MANY_CALLS", 3)
            for token in (other, greedy):  # decision 92: reads do not wait behind writes
                assert server.call("GET", "/engram/query?q=parser", token=token).status == 200
            fcntl.flock(held, fcntl.LOCK_UN)
            assert [read_reply(connection).status for connection in waiting] == [200] * 3
        assert server.call("GET", "/engram/query?q=parser", token=greedy).status == 200


# Requests that two readers would split differently

SECOND = b"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n"


@pytest.mark.parametrize(("headers", "body"), [
    (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", b"0\r\n\r\n"),
    (b"Content-Length: 4\r\nContent-Length: 5\r\n", b"abcd"),
    (b"Content-Length: 4, 5\r\n", b"abcd"),
    (b"Content-Length: +4\r\n", b"abcd"),
    (b"Content-Length: 4\r\n folded\r\n", b"abcd"),
    (b"X-Folded: a\r\n b\r\n", b""),
    (b"Content-Length : 4\r\n", b"abcd"),
    (b"X-Spaced : 4\r\n", b""),
    (b" X-Leading: 4\r\n", b""),
    (b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    (b"Transfer-Encoding: identity\r\n", b""),
    (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    (b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    (b"Transfer-Encoding:\x0bchunked\r\n", b"0\r\n\r\n"),
    (b"X-Bare: a\rb\r\n", b""),
    (b"X-Bare: a\nContent-Length: 4\r\n", b"abcd"),
    (b"X-Zero: a\x00b\r\n", b""),
])  # fmt: skip
def test_an_ambiguous_request_is_refused_and_what_follows_is_not_served(
    server: ServerProcess, headers: bytes, body: bytes
) -> None:
    """Sends a request whose end a proxy could see elsewhere, and hides a second request behind it."""
    host = f"127.0.0.1:{server.port}".encode()
    first = b"POST /healthz HTTP/1.1\r\nHost: " + host + b"\r\n" + headers + b"\r\n" + body
    with server.connect(first + SECOND.replace(b"{host}", host)) as connection:
        answers = read_to_end(connection)
    assert answers.startswith(b"HTTP/1.1 400 "), answers[:200]
    assert answers.count(b"HTTP/1.1 ") == 1


def test_lines_that_end_with_a_bare_line_feed_are_refused(server: ServerProcess) -> None:
    """Ends the lines of a request with a line feed alone."""
    with server.connect(b"GET /healthz HTTP/1.1\nHost: 127.0.0.1:%d\n\n" % server.port) as connection:
        assert read_to_end(connection).startswith(b"HTTP/1.1 400 ")


def test_a_chunk_whose_size_two_readers_read_differently_is_refused(server: ServerProcess) -> None:
    """Sends chunk sizes with a sign, a prefix, a space or a bare line feed."""
    for size in (b"+4", b"0x4", b" 4", b"4 ", b"4;a=\n", b"4\n"):
        head = server.request("POST", "/engram", token=server.token, Transfer_Encoding="chunked")
        with server.connect(head + size + b"\r\nabcd\r\n0\r\n\r\n") as connection:
            assert b"HTTP/1.1 200" not in read_to_end(connection), size


# Agents


def test_forty_children_at_once_do_not_multiply_the_rate_of_puts(tmp_path: Path) -> None:
    """Adds 40 children at once and puts with each of them."""
    with serve_in_process(tmp_path) as server:
        lead = server.add("lead", "architect")
        added = [_add(server, f"child-{number}", lead) for number in range(40)]
        children = [answer["token"] for answer in added if "token" in answer]
        stored = 0
        for round_number in range(12):
            for number, child in enumerate(children):
                claim = {**PUT, "claim": f"The parser trusts input {round_number} of child {number}."}
                stored += server.call("POST", "/engram", claim, token=child).status == 200
        assert stored <= 240
        assert (len(children), {answer["code"] for answer in added if "code" in answer}) == (30, {"TOO_MANY_AGENTS"})


def test_children_that_add_children_do_not_multiply_how_many_there_may_be(server: ServerProcess) -> None:
    """Adds a child for each role and lets every one of them add agents in turn."""
    tokens = [server.add("branching", "architect")]
    for name, role in (("branch-1", "director"), ("branch-2", "manager")):
        tokens.append(server.add(name, role, token=tokens[-1]))
    added = [_add(server, f"leaf-{number}", tokens[number % 3]) for number in range(40)]
    assert sum("token" in answer for answer in added) == 28  # two and 28 are 30
    refused = added[-1]
    assert (refused["code"], refused["field"], refused["limit"]) == ("TOO_MANY_AGENTS", "agents_per_minute", 30)
    server.add("another", "architect")  # a person is not limited, and no other lead


def _add(server: ServerProcess, name: str, token: str) -> Any:
    return server.call("POST", "/agent", {"name": name, "role": "programmer"}, token=token).json
