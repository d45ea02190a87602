"""A server in a process of its own, with its own file limit, and raw sockets to it."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.projects import make_repository

PROGRAM = """
import json, socket, sys
from pathlib import Path
from engrambus.app import init_project, open_project
from engrambus.core import SECOND_US, SystemClock
from engrambus.edges.http import serve
from engrambus.policy import ADMIN, TokenClaims
from engrambus.settings import Settings

folder, limits = Path(sys.argv[1]), json.loads(sys.argv[2])
settings = Settings.from_environment({
    "HOME": str(folder / "home"), "ENGRAMBUS_LOCK_SECONDS": str(limits.pop("lock_seconds", 30))
})
init_project(folder / "repository", settings)
gateway = open_project(folder / "repository", settings)
sock = socket.socket()
sock.bind(("127.0.0.1", 0))
options = {}
if limits:
    from engrambus.edges.http.server_limits import ServerLimits
    options["limits"] = ServerLimits(**limits)
with gateway.store.read() as view:
    run = view.current_run().run_id
token = gateway.key.sign(TokenClaims(
    agent=ADMIN, role=ADMIN, parent=None, project=gateway.store.project, run=run,
    expires_us=SystemClock().now() + 3600 * SECOND_US,
))
ready = {"port": sock.getsockname()[1], "token": token}
serve(gateway, sock, lambda: print(json.dumps(ready), flush=True), **options)
gateway.close()
"""

SECONDS = 30
"""Time after which an answer that is still missing counts as refused."""


class Reply(NamedTuple):
    """The answer to a request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


class ServerProcess:
    """A running server and the project that it serves."""

    def __init__(self, folder: Path, port: int, token: str) -> None:
        self.folder = folder / "repository"
        self.port = port
        self.token = token

    def connect(self, data: bytes = b"") -> socket.socket:
        """Open a connection and send some bytes."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
        connection.sendall(data)
        return connection

    def request(self, method: str, target: str, body: Any = None, *, token: str | None = None, **headers: str) -> bytes:
        """Return the bytes of a request."""
        sent = {"Host": f"127.0.0.1:{self.port}", **{name.replace("_", "-"): value for name, value in headers.items()}}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + content

    def call(self, method: str, target: str, body: Any = None, *, token: str | None = None, **headers: str) -> Reply:
        """Send a request on a connection of its own, and return the answer."""
        with self.connect(self.request(method, target, body, token=token, Connection="close", **headers)) as connection:
            return read_reply(connection)

    def add(self, name: str, role: str = "programmer", *, token: str | None = None) -> str:
        """Add an agent, by default as the admin, and return its token."""
        answer = self.call("POST", "/agent", {"name": name, "role": role}, token=token or self.token)
        assert answer.status == 200, answer.body
        return str(answer.json["token"])


def read_reply(connection: socket.socket) -> Reply:
    """Read one answer: its body is as long as its header says, or ends with the connection."""
    with connection.makefile("rb") as stream:
        status = int(stream.readline().split()[1])
        headers = {}
        while (line := stream.readline().strip()) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("content-type", "").startswith("text/event-stream"):
            return Reply(status, headers, b"")
        length = headers.get("content-length")
        return Reply(status, headers, stream.read() if length is None else stream.read(int(length)))


def read_to_end(connection: socket.socket) -> bytes:
    """Return everything that arrives until the server closes the connection."""
    received = bytearray()
    with suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            received += part
    return bytes(received)


@contextmanager
def serve_in_process(folder: Path, *, max_files: int | None = None, **limits: Any) -> Iterator[ServerProcess]:
    """Serve a new project in a process that may open `max_files` files, with these limits instead of the defaults."""
    make_repository(folder / "repository")

    def lower_limit() -> None:
        if max_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))

    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), json.dumps(limits)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lower_limit,  # no threads run in the tests' process yet
    ) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield ServerProcess(folder, ready["port"], ready["token"])
        finally:
            process.terminate()
            process.wait(SECONDS)
