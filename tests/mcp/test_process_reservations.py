"""What was reserved through a stdio server ends with its process, however it ends. # BX-14"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from engrambus import Bus, init_project
from engrambus.settings import Settings
from tests.mcp.transports import server_arguments
from tests.projects import Repository

OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Server:
    """A stdio server as a client starts it."""

    def __init__(self, repository: Repository, tool: str = "less_inbox") -> None:
        self._tool = tool
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, *server_arguments(repository)], stdin=pipe, stdout=pipe)
        self._send({"id": 0, "method": "initialize", "params": OPENING})
        self._read()
        self._send({"method": "notifications/initialized"})

    def call(self, **arguments: Any) -> str:
        """Return the text that the tool answers."""
        self._send({"id": 1, "method": "tools/call", "params": {"name": self._tool, "arguments": arguments}})
        text: str = self._read()["result"]["content"][0]["text"]
        return text

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@pytest.fixture
def bus(repository: Repository, settings: Settings) -> Iterator[Bus]:
    init_project(repository.path, settings)
    with Bus.open(repository.path, settings=settings) as bus:
        bus.add_agent("amber", role="architect")
        yield bus


def reserved(bus: Bus) -> list[list[str]]:
    return [row.paths for row in bus.list_reservations().reservations]


def test_a_killed_server_holds_nothing(bus: Bus, repository: Repository) -> None:
    server = Server(repository)
    try:
        assert server.call(action="reserve", paths=["src"], reason="new grammar").startswith("src/** reserved until")
        assert reserved(bus) == [["src/**"]]
        with pytest.raises(Exception, match="is reserved by") as refused:
            bus.speak_as("amber").reserve(["src/parser.py"])
        assert getattr(refused.value, "code", "") == "PATH_RESERVED"
    finally:
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.communicate(timeout=60)
    assert reserved(bus) == []
    assert bus.speak_as("amber").reserve(["src/parser.py"]).paths == ["src/parser.py"]
    journal = (repository.path / ".catalog" / "memory.jsonl").read_text("utf-8")
    assert '"cause":"process_ended"' in journal


def test_a_server_whose_client_closes_it_releases(bus: Bus, repository: Repository) -> None:
    server = Server(repository)
    server.call(action="reserve", paths=["src"])
    server.call(action="reserve", paths=["README.md"])
    assert server.call(action="release", paths=["README.md"]) == "released: README.md"
    assert reserved(bus) == [["src/**"]]
    server.process.communicate(timeout=60)
    journal = (repository.path / ".catalog" / "memory.jsonl").read_text("utf-8")
    assert journal.count('"fact":"reservation.released"') == 2
    assert reserved(bus) == []
