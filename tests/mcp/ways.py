"""Speaking with the SDK's own client: over pipes with a process, and over HTTP with a served project."""

from __future__ import annotations

import json
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
from tests.http.served import Served, serving
from tests.projects import Repository, make_gateway

GENERATIONS = ["legacy", "2026-07-28", "auto"]
"""How a client begins: with a handshake as older revisions do, without one, or by finding out."""

WAYS = ["stdio", "http"]

PROGRAM = """
import sys
from pathlib import Path
from engrambus.app import open_project
from engrambus.edges.mcp import serve_stdio
from engrambus.gateway import Credential
from engrambus.settings import Settings

settings = Settings.from_environment({"HOME": sys.argv[2]})
token = sys.argv[3] if len(sys.argv) > 3 else None
print("a stray word before the protocol begins", file=sys.stderr)
serve_stdio(lambda: open_project(Path(sys.argv[1]), settings), Credential(token=token, local_admin=token is None))
"""

OURS = {"PYTHONPATH": str(Path(engrambus.__file__).parents[1])}
"""The client passes little of the environment on; the server has to be the one that is tested."""

Talk = Callable[[Client], Awaitable[None]]


def command(repository: Repository, *token: str) -> list[str]:
    """The arguments of a server for the project in a repository; without a token it serves the admin."""
    return ["-c", PROGRAM, str(repository.path), str(repository.path.parent / "home"), *token]


def over_pipes(repository: Repository, mode: str, talk: Talk, *token: str) -> None:
    """Talk with a server in a process of its own."""
    server = StdioServerParameters(command=sys.executable, args=command(repository, *token), env=OURS)
    _run(Client(server, mode=mode), talk)


def over_http(bus: Served, mode: str, talk: Talk, token: str | None = None) -> None:
    """Talk with a gateway that is being served, as its admin unless a token is given."""
    _run(calling(bus, mode, token), talk)


@asynccontextmanager
async def calling(bus: Served, mode: str, token: str | None = None) -> AsyncIterator[Client]:
    """A client of a served gateway."""
    headers = {"Authorization": f"Bearer {token or bus.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as sending,
        Client(streamable_http_client(f"http://127.0.0.1:{bus.port}/mcp", http_client=sending), mode=mode) as client,
    ):
        yield client


def speak(way: str, repository: Repository, settings: Settings, mode: str, talk: Talk) -> None:
    """Talk with a fresh project in either way, as its admin."""
    gateway = make_gateway(repository.path, settings)
    try:
        if way == "stdio":
            over_pipes(repository, mode, talk)
            return
        with serving(gateway, repository) as bus:
            over_http(bus, mode, talk)
    finally:
        gateway.close()


def problem_of(result: CallToolResult) -> dict[str, Any]:
    """The problem a refused call shows, as structure and as text."""
    assert result.is_error
    problem: dict[str, Any] = result.structured_content
    assert [json.loads(block.text) for block in result.content if block.type == "text"] == [problem]
    return problem


def text_of(result: CallToolResult) -> str:
    """The only text of a result."""
    (block,) = result.content
    assert block.type == "text"
    return block.text


def _run(connection: AbstractAsyncContextManager[Client], talk: Talk) -> None:
    async def main() -> None:
        async with connection as client:
            with anyio.fail_after(60):
                await talk(client)

    anyio.run(main)
