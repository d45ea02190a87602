"""The SDK's own client over both transports: standard input and output of a process, and HTTP."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

import engrambus
from engrambus.settings import Settings
from mcp import Client, StdioServerParameters
from tests.http.running_server import RunningServer, run_server
from tests.projects import Repository, make_gateway

GENERATIONS = ["legacy", "2026-07-28", "auto"]
"""How a client connects: with the handshake of older revisions, without one, or by detection."""

TRANSPORTS = ["stdio", "http"]

PROGRAM = """
import sys
from pathlib import Path
from engrambus.app import open_project
from engrambus.edges.mcp import serve_stdio
from engrambus.gateway import Credential
from engrambus.settings import Settings

settings = Settings.from_environment({"HOME": sys.argv[2]})
token = sys.argv[3] if len(sys.argv) > 3 else None
print("a line before the protocol begins", file=sys.stderr)
serve_stdio(lambda: open_project(Path(sys.argv[1]), settings), Credential(token=token, local_admin=token is None))
"""

SERVER_ENVIRONMENT = {"PYTHONPATH": str(Path(engrambus.__file__).parents[1])}
"""The client passes on little of the environment, but the server must import the tested package."""

Talk = Callable[[Client], Awaitable[None]]


def server_arguments(repository: Repository, *token: str) -> list[str]:
    """Return the arguments of a server for a repository's project; without a token it serves the admin."""
    return ["-c", PROGRAM, str(repository.path), str(repository.path.parent / "home"), *token]


def over_stdio(repository: Repository, mode: str, talk: Talk, *token: str) -> None:
    """Run a server process and let `talk` use a client of it."""
    _run(stdio_client(repository, mode, *token), talk)


def stdio_client(repository: Repository, mode: str, *token: str) -> Client:
    """Return a client that runs a server process while it is connected."""
    arguments = server_arguments(repository, *token)
    return Client(StdioServerParameters(command=sys.executable, args=arguments, env=SERVER_ENVIRONMENT), mode=mode)


def over_http(bus: RunningServer, mode: str, talk: Talk, token: str | None = None) -> None:
    """Let `talk` use a client of a running server, as its admin by default."""
    _run(http_client(bus, mode, token), talk)


@asynccontextmanager
async def http_client(bus: RunningServer, mode: str, token: str | None = None) -> AsyncIterator[Client]:
    """Connect a client to a running server."""
    headers = {"Authorization": f"Bearer {token or bus.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"http://127.0.0.1:{bus.port}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def talk_over(transport: str, repository: Repository, settings: Settings, mode: str, talk: Talk) -> None:
    """Let `talk` use a client of a new project over a transport, as its admin."""
    gateway = make_gateway(repository.path, settings)
    try:
        if transport == "stdio":
            over_stdio(repository, mode, talk)
            return
        with run_server(gateway, repository) as bus:
            over_http(bus, mode, talk)
    finally:
        gateway.close()


def problem_of(result: CallToolResult) -> dict[str, Any]:
    """Return the problem of a refused call, read from its only text."""
    assert result.is_error
    assert result.structured_content is None
    return parse_problem(text_of(result))


def parse_problem(text: str) -> dict[str, Any]:
    """Read a refusal: the code and the detail, a line of figures, a hint, other members, what to send instead."""
    text, _, resend = text.partition("\nresend:\n")
    first, *lines = text.split("\n")
    code, _, detail = first.partition(": ")
    problem: dict[str, Any] = {"code": code, "detail": detail}
    if lines and _FIGURE.match(lines[0]):
        problem |= {name: int(value) if value.isdigit() else value for name, value in _FIGURE.findall(lines.pop(0))}
    for line in lines:
        name, _, value = line.partition(": ")
        problem[name] = value if name == "hint" else json.loads(value)
    return problem | ({"resend": resend} if resend else {})


_FIGURE = re.compile(r"(?:^|, )(field|line|limit|used): (.*?)(?=, (?:field|line|limit|used): |$)")


async def call_full(client: Client, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    """Call a tool for its JSON, which must be the same in structure and text."""
    result = await client.call_tool(name, {**(arguments or {}), "full": True})
    assert not result.is_error, result
    structured: dict[str, Any] = result.structured_content
    assert json.loads(text_of(result)) == structured
    return structured


def text_of(result: CallToolResult) -> str:
    """Return the only text of a result."""
    (block,) = result.content
    assert block.type == "text"
    return block.text


def _run(connection: AbstractAsyncContextManager[Client], talk: Talk) -> None:
    async def main() -> None:
        async with connection as client:
            with anyio.fail_after(60):
                await talk(client)

    anyio.run(main)
