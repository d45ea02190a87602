"""A lock that another process holds: waiting has a limit, the error names the holder, and reads go on (decision 92)."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from engrambus.backends.sqlite import SqliteStore
from engrambus.core import SystemClock
from engrambus.core.lock import _without_arguments, file_lock
from engrambus.errors import StoreBusy
from engrambus.policy import RunOpened
from engrambus.testing import expect_refusal
from tests.attacks.server_process import serve_in_process
from tests.cli.runner import Shell

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel lists locks on Linux only")
SHORT = {"ENGRAMBUS_LOCK_SECONDS": "0.2"}
PUT = ("put", "The parser trusts its input.", "--at", "src/parser.py:1-2", "--json")
STOPPED_WRITER = """
import os, signal, sys
from pathlib import Path
from engrambus.app import open_project
from engrambus.settings import Settings

def stop(view):
    print("stopped", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    return [], None

open_project(Path(sys.argv[1]), Settings.from_environment()).store.commit(stop)
"""


@contextmanager
def stopped_writer(folder: Path) -> Iterator[int]:
    """Run a process that is stopped in the middle of a commit; yield its id."""
    with subprocess.Popen([sys.executable, "-c", STOPPED_WRITER, str(folder)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"stopped\n"
            yield process.pid
        finally:
            process.send_signal(signal.SIGCONT)
            process.wait(30)


@LINUX
def test_a_stopped_writer_is_named_and_nothing_is_stored(shell: Shell) -> None:  # BX-03
    shell.ok(*PUT)
    journal = shell.path / ".catalog" / "memory.jsonl"
    before = journal.read_bytes()
    with stopped_writer(shell.path) as pid:
        problem = shell.run("put", "Another claim.", "--at", "src/parser.py:1-2", "--json", env=SHORT).problem
        assert problem["code"] == "STORE_BUSY"
        assert problem["limit"] == 0.2
        assert f"Process {pid} (python" in problem["detail"]
        assert f"kill -CONT {pid}" in problem["hint"]
        assert "trusts its input" in shell.ok("query", "parser", env=SHORT).out
        assert journal.read_bytes() == before
    shell.ok("put", "Another claim.", "--at", "src/parser.py:1-2")


@LINUX
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("su"), reason="needs another account")
def test_a_strangers_lock_is_named(shell: Shell) -> None:  # BX-03
    """A file that was left open to others, as by an older version, can be locked by any account."""
    catalog = shell.path / ".catalog"
    for folder in (catalog, *catalog.parents):
        folder.chmod(folder.stat().st_mode | 0o055)
    (catalog / "lock").chmod(0o644)
    script = f"flock -x {catalog}/lock sh -c 'echo locked; exec sleep 600'"
    with subprocess.Popen(
        ["su", "-s", "/bin/sh", "nobody", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"locked\n"
            problem = shell.run(*PUT, env=SHORT).problem
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert problem["code"] == "STORE_BUSY"
    assert "(flock)" in problem["detail"]


def test_each_caller_of_a_batch_waits_as_long_as_it_may(shell: Shell) -> None:
    """Callers that come one after the other are all refused, and a later one is stored once the lock is free."""
    catalog = shell.path / ".catalog"
    with closing(SqliteStore(catalog, shell.journal_key, SystemClock(), lock_seconds=0.5)) as store:
        lines, outcomes = store.last_line(), []

        def commit(number: int) -> None:
            fact = RunOpened(run=f"01KDVP9R0000000000000000{number:02}", goal="g", by="admin")
            try:
                store.commit(lambda view: ([fact], None))
                outcomes.append("stored")
            except StoreBusy:
                outcomes.append("busy")

        threads = [threading.Thread(target=commit, args=(number,)) for number in range(70)]
        with (catalog / "lock").open("rb+") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
                assert not thread.is_alive(), "a caller waits for ever"
            assert outcomes == ["busy"] * 70
            assert store.last_line() == lines
            late = threading.Thread(target=commit, args=(70,))
            late.start()
        late.join(30)
        assert outcomes[70:] == ["stored"]
        assert store.last_line() == lines + 1
        assert store.verify() == []


def test_a_reader_without_an_index_does_not_wait_for_ever(shell: Shell) -> None:
    shell.ok(*PUT)
    catalog = shell.path / ".catalog"
    for index in catalog.glob("derived-*/index.db*"):
        index.unlink()
    with (catalog / "lock").open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert shell.run("query", "parser", "--json", env=SHORT).problem["code"] == "STORE_BUSY"
    assert "trusts its input" in shell.ok("query", "parser").out


def test_other_locks_have_the_limit_too(tmp_path: Path) -> None:
    with file_lock(tmp_path / "gc.lock"), expect_refusal("STORE_BUSY"), file_lock(tmp_path / "gc.lock", 0.1):
        pass
    with file_lock(tmp_path / "gc.lock", 0.1):
        pass


@pytest.mark.parametrize(("words", "shown"), [
    (["/usr/bin/python3.13", "-I", "/x/bin/engrambus", "put", "A secret claim."], "engrambus put"),
    (["python", "-m", "engrambus", "up"], "engrambus up"),
    (["python3", "-c", "secret"], "python3"),
    (["engrambus", "--json", "put"], "engrambus"),
    (["flock", "-x", "lock", "sleep", "14"], "flock"),
])  # fmt: skip
def test_the_holders_arguments_are_not_shown(words: list[str], shown: str) -> None:
    """Arguments of a command may be claims that the reader of the error may not see."""
    assert _without_arguments(words) == shown


def test_reads_are_answered_while_writes_wait(tmp_path: Path) -> None:  # BX-03
    """Sixty puts wait: all threads for writes are taken, by the agent that reads, by others and by the admin."""
    with serve_in_process(tmp_path, write_threads=4, caller_threads=2) as server:
        agents = [server.add(f"agent{number}") for number in range(3)]
        replies = []

        def put(number: int, token: str) -> None:
            claim = {"claim": f"The parser trusts input {number}.", "at": ["src/parser.py:1-2"]}
            replies.append(server.call("POST", "/engram", claim, token=token))

        callers = [*agents, server.token] * 15
        threads = [threading.Thread(target=put, args=pair) for pair in enumerate(callers)]
        with (server.folder / ".catalog" / "lock").open("rb+") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for thread in threads:
                thread.start()
            for token in callers[:8]:
                assert server.call("GET", "/engram/query?q=parser", token=token).status == 200
                assert server.call("GET", "/inbox", token=token).status == 200
            assert replies == []
        for thread in threads:
            thread.join(60)
        assert {reply.status for reply in replies} == {200}
        assert len(replies) == len(callers)


@pytest.mark.slow
def test_the_server_says_when_to_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_in_process(tmp_path, lock_seconds=0.2) as server, (server.folder / ".catalog" / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        body = {"claim": "The parser trusts its input.", "at": ["src/parser.py:1-2"]}
        refused = server.call("POST", "/engram", body, token=server.token)
        assert (refused.status, refused.json["code"]) == (503, "STORE_BUSY")
        assert refused.headers["retry-after"] == "5"
        fcntl.flock(held, fcntl.LOCK_UN)
        assert server.call("POST", "/engram", body, token=server.token).status == 200
