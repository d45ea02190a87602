"""A server for a project on a loopback port, and calls to it over real sockets."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from engrambus.core import SECOND_US, SystemClock
from engrambus.edges.http import SignInCodes
from engrambus.edges.http.events import EventsEndpoint
from engrambus.edges.http.server import make_server
from engrambus.edges.http.server_limits import DEFAULT_LIMITS, ServerLimits
from engrambus.edges.http.tuple_events import TupleEventsEndpoint
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.operations import OPERATIONS
from engrambus.policy import ADMIN, TokenClaims
from engrambus.testing.client import same_changes
from tests.http.documented_errors import check_documented
from tests.projects import Repository, make_gateway, make_repository, make_settings


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error code in the body."""
        assert self.headers["content-type"] == "application/problem+json", self.body
        assert self.json["status"] == self.status
        return str(self.json["code"])


class RunningServer:
    """A running server for one project."""

    def __init__(self, gateway: Gateway, repository: Repository, port: int, codes: SignInCodes) -> None:
        self.gateway = gateway
        self.repository = repository
        self.port = port
        self.codes = codes
        self.token = self.sign()

    def sign(self, *, name: str = ADMIN, role: str = ADMIN, seconds: int = 3600, **claims: str) -> str:
        """Return a token; by default for an admin of the current run."""
        fields = {"project": self.gateway.store.project, "run": self.run, "parent": None, **claims}
        expires_us = SystemClock().now() + seconds * SECOND_US
        return self.gateway.key.sign(TokenClaims(agent=name, role=role, expires_us=expires_us, **fields))  # type: ignore[arg-type]

    @property
    def run(self) -> str:
        """Id of the current run."""
        with self.gateway.store.read() as view:
            run = view.current_run()
        assert run is not None
        return run.run_id

    def call(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, as the admin by default and without a token for None; a body of bytes is sent unchanged."""
        sent = dict(headers or {})
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {token or self.token}")
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, body, sent)
            response = connection.getresponse()
            answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
            if answer.headers.get("content-type") == "application/problem+json" and answer.body:
                check_documented(method, target, answer.status, answer.code)
            return answer
        finally:
            connection.close()

    def open_with(self, code: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Exchange the code of a link for a session of the page, as the page itself does."""
        own = {"Origin": f"http://127.0.0.1:{self.port}"} if headers is None else headers
        form = {"Content-Type": "application/x-www-form-urlencoded", **own}
        return self.call("POST", "/page/open", urlencode({"code": code}).encode(), token=None, headers=form)

    def open_session(self) -> str:
        """Open a session of the page and return its secret."""
        answer = self.open_with(self.codes.new())
        assert answer.status == 200, answer.body
        return str(answer.json["session"])

    def put(self, claim: str = "The parser trusts its input.", *, token: str | None = "", **fields: Any) -> Answer:
        """Put an engram that points into the repository."""
        return self.call("POST", "/engram", {"claim": claim, "at": ["src/parser.py:10-20"], **fields}, token=token)

    def add(self, name: str, role: str = "programmer", *, parent: str | None = None) -> str:
        """Add an agent and return its token."""
        answer = self.call("POST", "/agent", {"name": name, "role": role, "parent": parent})
        assert answer.status == 200, answer.body
        return str(answer.json["token"])

    def journal(self) -> bytes:
        """Return the bytes of the journal."""
        return (self.repository.path / ".catalog" / "memory.jsonl").read_bytes()

    @contextmanager
    def nothing_stored(self) -> Iterator[None]:
        """Check that the journal gains nothing but denials while the context is open."""
        journal = self.journal()
        yield
        assert same_changes(self.journal(), journal)


@contextmanager
def run_server(
    gateway: Gateway,
    repository: Repository,
    *,
    events: EventsEndpoint | None = None,
    tuple_events: TupleEventsEndpoint | None = None,
    send_buffer: int | None = None,
    limits: ServerLimits = DEFAULT_LIMITS,
    port: int = 0,
) -> Iterator[RunningServer]:
    """Run a server for a project while the context is open; a small send buffer makes stalled readers show sooner."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as `engrambus up` does
    if send_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    sock.bind(("127.0.0.1", port))
    port = sock.getsockname()[1]
    ready = threading.Event()
    codes = SignInCodes()
    server = make_server(gateway, sock, ready.set, codes=codes, events=events, tuple_events=tuple_events, limits=limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        assert ready.wait(60)
        yield RunningServer(gateway, repository, port, codes)
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


@contextmanager
def run_new_project(folder: Path, limits: ServerLimits = DEFAULT_LIMITS) -> Iterator[RunningServer]:
    """Create a project in a folder and run a server for it."""
    repository = make_repository(folder / "repository")
    gateway = make_gateway(repository.path, make_settings(folder / "home"))
    try:
        with run_server(gateway, repository, limits=limits) as bus:
            yield bus
    finally:
        gateway.close()


def count_engrams(gateway: Gateway) -> int:
    """Return the number of engrams in the project."""
    stats = OPERATIONS["stats"]
    engrams: int = gateway.call(stats, stats.request(), LOCAL_ADMIN).counts.engrams
    return engrams
