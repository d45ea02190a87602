"""A disk that fails or is full: every edge answers with a code that names the disk, and nothing is logged as our fault.

`python -m tests.torture --only errors` does the same to every call of the read and write paths. # BX-03, YT-13
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from engrambus.core.disk_errors import disk_problem
from mcp import Client
from tests.cli.runner import Shell
from tests.http.running_server import RunningServer, run_new_project
from tests.mcp.transports import over_http, problem_of
from tests.projects import Repository

# W4: 500 INTERNAL, and a traceback in the log of the server.
FAILURES = [(errno.EIO, "DISK_ERROR"), (errno.EUCLEAN, "DISK_ERROR"), (errno.EDQUOT, "DISK_PRESSURE")]
WRITES = [(errno.EIO, "STORE_READ_ONLY", 503), (errno.ENOSPC, "DISK_PRESSURE", 507)]
PUT = {"claim": "The parser trusts its input.", "at": ["src/parser.py:1-2"]}


def fail(patch: pytest.MonkeyPatch, name: str, file: Path, number: int) -> None:
    """Make a call on one file's descriptors fail."""
    real, inode = getattr(os, name), file.stat().st_ino

    def call(descriptor: int, *arguments: Any) -> Any:
        if os.fstat(descriptor).st_ino == inode:
            raise OSError(number, os.strerror(number))
        return real(descriptor, *arguments)

    patch.setattr(os, name, call)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[RunningServer]:
    """A server of its own for each test."""
    with run_new_project(tmp_path / "bus") as bus:
        yield bus


@pytest.fixture
def shell(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    shell.ok("init")
    shell.ok("put", str(PUT["claim"]), "--at", "src/parser.py:1-2")
    return shell


@pytest.mark.parametrize(("number", "code"), FAILURES)
@pytest.mark.parametrize(
    "words", [("query", "parser"), ("verify",), ("put", "Another claim.", "--at", "src/parser.py:3")]
)
def test_a_command_names_the_disk(shell: Shell, words: tuple[str, ...], number: int, code: str) -> None:
    with shell.monkeypatch.context() as patch:
        fail(patch, "pread", shell.path / ".catalog" / "memory.jsonl", number)
        refused = shell.run(*words, "--json")
    assert refused.problem["code"] == code
    assert "Traceback" not in refused.err
    assert "trusts its input" in shell.ok("query", "parser").out


def test_an_http_answer_to_a_reader_names_the_disk(
    bus: RunningServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert bus.call("POST", "/engram", PUT).status == 200
    with monkeypatch.context() as patch:
        fail(patch, "pread", bus.repository.path / ".catalog" / "memory.jsonl", errno.EIO)
        answers = [bus.call("GET", "/engram/query?q=parser"), bus.call("POST", "/engram", PUT)]
    assert [(answer.status, answer.code) for answer in answers] == [(503, "DISK_ERROR")] * 2
    assert "Traceback" not in caplog.text
    assert bus.call("GET", "/engram/query?q=parser").status == 200


@pytest.mark.parametrize(("number", "code", "status"), WRITES)
def test_an_http_answer_to_a_writer_names_the_disk(
    bus: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
    code: str,
    status: int,
) -> None:
    with monkeypatch.context() as patch:
        fail(patch, "write", bus.repository.path / ".catalog" / "memory.jsonl", number)
        answer = bus.call("POST", "/engram", PUT)
        assert (answer.status, answer.code) == (status, code)
        assert bus.call("GET", "/engram/query?q=parser").json["engrams"] == []
    assert "Traceback" not in caplog.text
    assert bus.call("POST", "/engram", PUT).status == 200


@pytest.mark.parametrize(("number", "code", "status"), WRITES)
def test_an_mcp_answer_names_the_disk(
    bus: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
    code: str,
    status: int,
) -> None:
    found: list[str] = []

    async def talk(client: Client) -> None:
        with monkeypatch.context() as patch:
            fail(patch, "write", bus.repository.path / ".catalog" / "memory.jsonl", number)
            found.append(problem_of(await client.call_tool("less_put_engram", PUT))["code"])

    over_http(bus, "auto", talk)
    assert found == [code]
    assert "Traceback" not in caplog.text


def test_other_errors_are_not_blamed_on_the_disk() -> None:
    for problem in (PermissionError(errno.EACCES, "no"), ValueError("x"), apsw.ConstraintError("x"), KeyError("x")):
        assert disk_problem(problem) is None
