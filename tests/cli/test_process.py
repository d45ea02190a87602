"""`engrambus` as a process: what it loads, how it ends, and what it knows about its terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from tests.cli.runner import COMMAND, Desk

HEAVY = {"rich", "jsonschema_rs", "yaml", "whenever", "mcp", "starlette", "uvicorn", "markdown_it", "http.client"}
RUN = """
import sys
from engrambus.edges.cli import _run
code = _run(sys.argv[1:])
print("\\n".join(sys.modules), file=sys.stderr)
sys.exit(code)
"""


ROOMS_APART = {
    "engrambus.backends.jsonl_stores",
    "engrambus.evidence.receipts.purge_plan",
    "engrambus.knowledge.cortex.clause_parser",
    "engrambus.knowledge.engrams.rules",
    "engrambus.knowledge.memory.controller",
    "engrambus.knowledge.messages.parse",
    "engrambus.operations.cortex",
    "engrambus.operations.grants",
    "engrambus.operations.tuples",
    "engrambus.space",
    "logging",
    "subprocess",
    "xml.parsers.expat",
}
"""What neither a question nor a hook has to do with."""
PROSE = "Nobody retries a refund but the gateway, whatever it is told."


def loaded(desk: Desk, *words: str, told: str = "") -> set[str]:
    """The modules a command loads."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], cwd=desk.path, capture_output=True, text=True, timeout=60, input=told
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_help_loads_nothing_of_the_product(desk: Desk) -> None:
    modules = loaded(desk, "--help")
    assert not modules & (HEAVY | {"msgspec", "apsw", "engrambus.operations", "engrambus.errors", "engrambus.core"})


def test_a_query_loads_no_more_than_it_needs(desk: Desk) -> None:
    desk.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1")
    modules = loaded(desk, "query", "parser")
    assert "engrambus.operations.engram_queries" in modules
    assert not modules & (HEAVY | ROOMS_APART | {"engrambus.edges.cli.show.work", "engrambus.evidence.anchoring"})


@pytest.mark.parametrize(
    ("event", "enters", "stays_out"),
    [
        ({"hook_event_name": "SessionStart"}, "brief", {"engrambus.knowledge.engrams.words"}),
        ({"hook_event_name": "SubagentStart", "agent_id": "a"}, "brief", {"engrambus.knowledge.engrams.words"}),
        (
            {"hook_event_name": "PreToolUse", "tool_name": "Task", "tool_input": {}},
            "turns",
            {"engrambus.operations.brief"},
        ),
        (
            {"hook_event_name": "SubagentStop", "agent_id": "a", "last_assistant_message": PROSE},
            "messages",
            {"engrambus.operations.engrams"},
        ),
    ],
    ids=lambda each: each["hook_event_name"] if isinstance(each, dict) else "",
)
def test_a_hook_loads_the_rooms_it_enters_and_no_others(
    desk: Desk, event: dict[str, object], enters: str, stays_out: set[str]
) -> None:
    told = json.dumps({"session_id": "s", "cwd": str(desk.path), **event})
    loaded(desk, "hook", told=told)  # the first of a session writes, and reads the commit's lines
    modules = loaded(desk, "hook", told=told)
    assert f"engrambus.operations.{enters}" in modules
    assert not modules & (HEAVY | ROOMS_APART | stays_out | {"click", "engrambus.edges.cli.root"})


def test_the_installed_command_and_its_exit_codes(desk: Desk) -> None:
    assert desk.process("put", "The parser trusts its input.", "--at", "src/parser.py:1").code == 0
    found = desk.process("query", "parser", "--json")
    assert found.code == 0
    assert len(json.loads(found.out)["engrams"]) == 1
    refused = desk.process("show", "x", "--json")
    assert (refused.code, refused.out) == (1, "")
    assert refused.problem["code"] == "ENGRAM_NOT_FOUND"
    assert desk.process("nonsense").code == 2
    assert desk.process("--help").code == 0
    assert desk.process().code == 2


def test_a_reader_that_goes_away_is_no_error(desk: Desk) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([COMMAND, "query"], cwd=desk.path, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b""


def test_an_interrupted_import_says_how_to_go_on(desk: Desk) -> None:
    ref = f"repo:src/parser.py#L1-L2@{desk.repository.sha}"
    pointers = [{"type": "repo", "ref": ref}]
    lines = [json.dumps({"claim": f"The parser trusts input {number}.", "pointers": pointers}) for number in range(600)]
    with subprocess.Popen(
        [COMMAND, "put", "--file", "-"], cwd=desk.path, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as importing:
        assert importing.stdin is not None
        importing.stdin.write("".join(f"{line}\n" for line in lines).encode())
        importing.stdin.flush()
        _wait(lambda: desk.ok("stats", "--json").json["counts"]["engrams"] >= 500 and _all_read(importing.stdin))
        importing.send_signal(signal.SIGINT)
        _, said = importing.communicate(timeout=60)
    assert importing.returncode == 130
    assert said.strip() == b"Stopped. 500 engrams are on the bus. Go on with: engrambus put --file - --from-line 501"


def test_an_interrupt_is_quiet(desk: Desk) -> None:
    with subprocess.Popen(
        [COMMAND, "put", "--file", "-"], cwd=desk.path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as waiting:
        assert waiting.stdin is not None
        waiting.stdin.write(b"\n")
        _wait(lambda: _all_read(waiting.stdin))
        waiting.send_signal(signal.SIGINT)
        _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert b"Traceback" not in said


def _all_read(pipe: IO[bytes] | None) -> bool:
    """Whether whoever reads a pipe has taken all that was written."""
    left = array("i", [0])
    assert pipe is not None
    fcntl.ioctl(pipe, termios.FIONREAD, left)
    return left[0] == 0


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, desk: Desk, *words: str, stdout: bool = True, **environment: str) -> None:
        master, slave = pty.openpty()
        self.piped = b""
        process = subprocess.Popen(
            [COMMAND, *words],
            cwd=desk.path,
            stdin=slave,
            stdout=slave if stdout else subprocess.PIPE,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": "", **environment},
        )
        os.close(slave)
        shown = b""
        while True:
            try:
                data = os.read(master, 65_536)
            except OSError:
                break
            if not data:
                break
            shown += data
        os.close(master)
        if process.stdout is not None:
            self.piped = process.stdout.read()
            process.stdout.close()
        self.code = process.wait(60)
        self.shown = shown.decode()


@pytest.fixture
def engrams(desk: Desk) -> Path:
    """A file of many engrams."""
    path = desk.path / "engrams.jsonl"
    ref = f"repo:src/parser.py#L1-L2@{desk.repository.sha}"
    with path.open("w") as file:
        for number in range(2600):
            pointer = {"type": "repo", "ref": ref}
            file.write(json.dumps({"claim": f"Claim number {number}.", "pointers": [pointer]}) + "\n")
    return path


def test_a_terminal_gets_a_bar_and_colours_and_a_pipe_neither(desk: Desk, engrams: Path) -> None:
    bar = Terminal(desk, "put", "--file", str(engrams), stdout=False)
    assert bar.code == 0
    assert "Putting engrams" in bar.shown
    assert bar.piped.startswith(b"2,600 engrams are on the bus.")
    piped = desk.process("put", "--file", str(engrams))
    assert piped.err == ""
    assert "\x1b" not in piped.out
    assert "\x1b[" in Terminal(desk, "query", "claim").shown
    found = desk.process("query", "claim")
    assert "\x1b" not in found.out + found.err
    assert "\x1b[31m" in Terminal(desk, "show", "absent").shown


@pytest.mark.parametrize(
    "words",
    [["query", "parser"], ["show", "absent"], ["doctor"], ["stats"], ["feed"], ["install", "cursor", "--dry-run"]],
)
def test_no_color_is_heeded_on_a_terminal(desk: Desk, words: list[str]) -> None:
    desk.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1")
    assert "\x1b[" in Terminal(desk, *words).shown
    plain = Terminal(desk, *words, NO_COLOR="1").shown
    assert plain.strip()
    assert "\x1b" not in plain


def test_a_long_rebuild_shows_how_it_goes(desk: Desk) -> None:
    for _ in range(2):
        desk.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1")
    _grow(desk, 2500)
    (desk.path / ".catalog" / "index.db").unlink()
    assert "Building the index" in Terminal(desk, "query", "--k", "1").shown
    assert "Reading the journal" in Terminal(desk, "verify").shown


def _grow(desk: Desk, commits: int) -> None:
    """Many commits, without the fsync each would cost."""
    from engrambus.core.journal import Journal, encode_facts, encode_line
    from engrambus.policy import PolicyApplied

    journal = Journal(desk.path / ".catalog" / "memory.jsonl")
    place = journal.last_valid(journal.start)
    facts, total = encode_facts([PolicyApplied(policy={}, by="x/admin")]), place.checksum
    lines = []
    for number in range(commits):
        line, total = encode_line(total, at_us=place.at_us, facts=facts, mark=place.offset, seq=place.seq + number + 1)
        lines.append(line)
    journal.append(lines)
    journal.close()


def test_what_is_hostile_stays_text_on_a_terminal(desk: Desk) -> None:
    desk.ok("put", "Beware of [red]markup[/red].", "--at", "src/parser.py:1")
    assert "[red]markup[/red]" in Terminal(desk, "query", "beware").shown
    shown = Terminal(desk, "show", "\x1b]0;owned\x07").shown + Terminal(desk, "deref", "\x1b]0;owned\x07:1").shown
    assert "\x1b]" not in shown


def test_what_others_wrote_into_files_stays_text_on_a_terminal(desk: Desk) -> None:
    """A comment in a client's file, the goal of a run."""
    (desk.path / ".vscode").mkdir()
    (desk.path / ".vscode" / "mcp.json").write_text("{\n  // \x1b]0;owned\x07\n}\n")
    desk.ok("run", "new", "Tidy \u202eup")
    for words in (["install", "vscode"], ["doctor"], ["run", "list"], ["feed"], ["stats"]):
        terminal = Terminal(desk, *words)
        assert terminal.code == 0, terminal.shown
        assert "\x1b]" not in terminal.shown, words
        assert "\u202e" not in terminal.shown, words
    assert "\\x1b]0;owned\\x07" in Terminal(desk, "uninstall", "vscode").shown


def test_shells_can_complete_commands(desk: Desk) -> None:
    done = subprocess.run(
        [COMMAND], env={**os.environ, "_ENGRAMBUS_COMPLETE": "bash_source"}, capture_output=True, text=True, timeout=60
    )
    assert "complete" in done.stdout
