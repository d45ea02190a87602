"""`engrambus` as a process: the modules it loads, its exit status, and its output on a terminal."""

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

from tests.cli.runner import COMMAND, Shell

HEAVY = {"rich", "jsonschema_rs", "yaml", "mcp", "starlette", "uvicorn", "markdown_it", "http.client"}
RUN = """
import sys
from engrambus.edges.cli import _run
code = _run(sys.argv[1:])
print("\\n".join(sys.modules), file=sys.stderr)
sys.exit(code)
"""


UNRELATED = {
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
"""Modules that neither a query nor a hook needs."""
PROSE = "Only the gateway retries a refund."


def loaded_modules(shell: Shell, *words: str, stdin: str = "") -> set[str]:
    """Run a command and return the names of the modules it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], cwd=shell.path, capture_output=True, text=True, timeout=60, input=stdin
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_help_loads_nothing_of_the_product(shell: Shell) -> None:
    modules = loaded_modules(shell, "--help")
    assert not modules & (HEAVY | {"msgspec", "apsw", "engrambus.operations", "engrambus.errors", "engrambus.core"})


def test_a_query_loads_no_more_than_it_needs(shell: Shell) -> None:
    shell.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1")
    modules = loaded_modules(shell, "query", "parser")
    assert "engrambus.operations.engram_queries" in modules
    # git, and with it `subprocess`, is asked whether the evidence has changed
    unrelated = HEAVY | UNRELATED - {"subprocess"} | {"engrambus.edges.cli.show.work", "engrambus.evidence.anchoring"}
    assert modules & unrelated == set()


@pytest.mark.parametrize(
    ("event", "needed", "not_needed"),
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
            "answers",
            {"engrambus.operations.engrams"},
        ),
    ],
    ids=lambda value: value["hook_event_name"] if isinstance(value, dict) else "",
)
def test_a_hook_loads_only_the_modules_it_needs(
    shell: Shell, event: dict[str, object], needed: str, not_needed: set[str]
) -> None:
    event_json = json.dumps({"session_id": "s", "cwd": str(shell.path), **event})
    loaded_modules(shell, "hook", stdin=event_json)  # the first of a session writes, and reads the commit's lines
    modules = loaded_modules(shell, "hook", stdin=event_json)
    assert f"engrambus.operations.{needed}" in modules
    assert modules & (HEAVY | UNRELATED | not_needed | {"click", "engrambus.edges.cli.root"}) == set()


def test_the_installed_command_and_its_exit_codes(shell: Shell) -> None:
    assert shell.process("put", "The parser trusts its input.", "--at", "src/parser.py:1").code == 0
    result = shell.process("query", "parser", "--json")
    assert result.code == 0
    assert len(json.loads(result.out)["engrams"]) == 1
    refused = shell.process("show", "x", "--json")
    assert (refused.code, refused.out) == (1, "")
    assert refused.problem["code"] == "ENGRAM_NOT_FOUND"
    assert shell.process("nonsense").code == 2
    assert shell.process("--help").code == 0
    assert shell.process().code == 2


def test_a_closed_pipe_is_not_reported_as_an_error(shell: Shell) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([COMMAND, "query"], cwd=shell.path, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b""


def test_an_interrupted_put_file_prints_how_to_continue(shell: Shell) -> None:
    ref = f"repo:src/parser.py#L1-L2@{shell.repository.sha}"
    pointers = [{"type": "repo", "ref": ref}]
    lines = [json.dumps({"claim": f"The parser trusts input {number}.", "pointers": pointers}) for number in range(600)]
    with subprocess.Popen(
        [COMMAND, "put", "--file", "-"], cwd=shell.path, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as loading:
        assert loading.stdin is not None
        loading.stdin.write("".join(f"{line}\n" for line in lines).encode())
        loading.stdin.flush()
        _wait(lambda: shell.ok("stats", "--json").json["counts"]["engrams"] >= 500 and _all_read(loading.stdin))
        loading.send_signal(signal.SIGINT)
        _, errors = loading.communicate(timeout=60)
    assert loading.returncode == 130
    assert errors.strip() == b"Stopped. 500 engrams are on the bus. Go on with: engrambus put --file - --from-line 501"


def test_an_interrupt_prints_no_traceback(shell: Shell) -> None:
    with subprocess.Popen(
        [COMMAND, "put", "--file", "-"], cwd=shell.path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as waiting:
        assert waiting.stdin is not None
        waiting.stdin.write(b"\n")
        _wait(lambda: _all_read(waiting.stdin))
        waiting.send_signal(signal.SIGINT)
        _, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert b"Traceback" not in errors


def _all_read(pipe: IO[bytes] | None) -> bool:
    """True if everything written to a pipe has been read."""
    unread = array("i", [0])
    assert pipe is not None
    fcntl.ioctl(pipe, termios.FIONREAD, unread)
    return unread[0] == 0


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Terminal:
    """The output of a command run on a pseudo-terminal."""

    def __init__(self, shell: Shell, *words: str, stdout: bool = True, **environment: str) -> None:
        master, slave = pty.openpty()
        self.piped = b""
        process = subprocess.Popen(
            [COMMAND, *words],
            cwd=shell.path,
            stdin=slave,
            stdout=slave if stdout else subprocess.PIPE,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": "", **environment},
        )
        os.close(slave)
        output = b""
        while True:
            try:
                data = os.read(master, 65_536)
            except OSError:
                break
            if not data:
                break
            output += data
        os.close(master)
        if process.stdout is not None:
            self.piped = process.stdout.read()
            process.stdout.close()
        self.code = process.wait(60)
        self.output = output.decode()


@pytest.fixture
def engrams(shell: Shell) -> Path:
    """A file of many engrams."""
    path = shell.path / "engrams.jsonl"
    ref = f"repo:src/parser.py#L1-L2@{shell.repository.sha}"
    with path.open("w") as file:
        for number in range(2600):
            pointer = {"type": "repo", "ref": ref}
            file.write(json.dumps({"claim": f"Claim number {number}.", "pointers": [pointer]}) + "\n")
    return path


def test_a_terminal_gets_a_bar_and_colours_and_a_pipe_neither(shell: Shell, engrams: Path) -> None:
    bar = Terminal(shell, "put", "--file", str(engrams), stdout=False)
    assert bar.code == 0
    assert "Putting engrams" in bar.output
    assert bar.piped.startswith(b"2,600 engrams are on the bus.")
    piped = shell.process("put", "--file", str(engrams))
    assert "Putting engrams" not in piped.err
    assert "and 492 more. 500 claims repeat engrams" in piped.err
    assert "\x1b" not in piped.out + piped.err
    assert "\x1b[" in Terminal(shell, "query", "claim").output
    result = shell.process("query", "claim")
    assert "\x1b" not in result.out + result.err
    assert "\x1b[31m" in Terminal(shell, "show", "absent").output


@pytest.mark.parametrize(
    "words",
    [["query", "parser"], ["show", "absent"], ["doctor"], ["stats"], ["feed"], ["install", "cursor", "--dry-run"]],
)
def test_no_color_turns_colours_off_on_a_terminal(shell: Shell, words: list[str]) -> None:
    shell.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1")
    assert "\x1b[" in Terminal(shell, *words).output
    plain = Terminal(shell, *words, NO_COLOR="1").output
    assert plain.strip()
    assert "\x1b" not in plain


def test_a_long_rebuild_shows_a_progress_bar(shell: Shell) -> None:
    for _ in range(2):
        shell.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1")
    _grow(shell, 16500)
    next((shell.path / ".catalog").glob("derived-*/index.db")).unlink()
    assert "Building the index" in Terminal(shell, "query", "--k", "1").output
    assert "Reading the journal" in Terminal(shell, "verify").output


def _grow(shell: Shell, commits: int) -> None:
    """Append many commits, without the fsync that each would cost."""
    from engrambus.core import Stamp
    from engrambus.core.journal import Journal, encode_facts
    from engrambus.policy import PolicyApplied

    journal = Journal(shell.path / ".catalog" / "memory.jsonl", shell.journal_key, "memory")
    position = journal.last_valid(journal.start)
    facts, mark = encode_facts([PolicyApplied(policy={}, by="x/admin")]), position.offset
    lines = []
    for _ in range(commits):
        line, position = journal.encode(position, stamp=Stamp(position.at_us), facts=facts, mark=mark)
        lines.append(line)
    journal.append(lines)
    journal.close()


def test_hostile_text_is_escaped_on_a_terminal(shell: Shell) -> None:
    shell.ok("put", "Beware of [red]markup[/red].", "--at", "src/parser.py:1")
    assert "[red]markup[/red]" in Terminal(shell, "query", "beware").output
    output = Terminal(shell, "show", "\x1b]0;owned\x07").output + Terminal(shell, "deref", "\x1b]0;owned\x07:1").output
    assert "\x1b]" not in output


def test_hostile_text_in_files_is_escaped_on_a_terminal(shell: Shell) -> None:
    (shell.path / ".vscode").mkdir()
    (shell.path / ".vscode" / "mcp.json").write_text("{\n  // \x1b]0;owned\x07\n}\n")
    assert shell.run("run", "new", "Tidy \u202eup").code == 1
    for words in (["install", "vscode"], ["doctor"], ["run", "list"], ["feed"], ["stats"]):
        terminal = Terminal(shell, *words)
        assert terminal.code == 0, terminal.output
        assert "\x1b]" not in terminal.output, words
    assert "\\x1b]0;owned\\x07" in Terminal(shell, "uninstall", "vscode").output


def test_shells_can_complete_commands(shell: Shell) -> None:
    done = subprocess.run(
        [COMMAND], env={**os.environ, "_ENGRAMBUS_COMPLETE": "bash_source"}, capture_output=True, text=True, timeout=60
    )
    assert "complete" in done.stdout
