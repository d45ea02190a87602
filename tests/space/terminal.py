"""The `engrambus` command in a project of its own, for tests."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from contextlib import chdir
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from engrambus.edges.cli.root import engrambus
from engrambus.settings import Settings
from tests.projects import Repository, make_gateway

ROOT = Path(__file__).parents[2]
AGENTS = "# Agents\n\n## Agents\n"
COMMAND = "from engrambus.edges.cli import main; main()"
WORK = ("worker", "--lane", "build", "--until-empty", "--import", "tests.space.yools")
IN_THIS_PROCESS = {
    *("again", "batch", "board", "cancel", "dead", "deref", "dispatch", "observe", "out", "pause", "put", "rd"),
    *("receipt", "run", "runs", "schedule", "unpause", "why"),
}
"""Commands that ask or put and end: a process for each would take ten times as long."""


class Terminal:
    """Runs `engrambus` commands: workers and what imports code as processes, short ones in this process."""

    def __init__(self, repository: Repository, home: Path) -> None:
        self.path = repository.path
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {**inherited, "HOME": str(home), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words],
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command; return its output, or its standard error if it fails as expected."""
        is_main_thread = threading.current_thread() is threading.main_thread()
        imports = "--import" in words or "ENGRAMBUS_HOOKS" in self.environment
        if words[0] in IN_THIS_PROCESS and not imports and is_main_thread:
            return self._run_in_this_process(words, code)
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, (words, out, err)
        return out if code == 0 else err

    def _run_in_this_process(self, words: tuple[str, ...], code: int) -> str:
        absent: dict[str, str | None] = dict.fromkeys(os.environ)
        with chdir(self.path):
            done = CliRunner().invoke(engrambus, words, env={**absent, **self.environment}, prog_name="engrambus")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, (words, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def json(self, *words: str) -> Any:
        """Run a command with --json; return its answer."""
        return json.loads(self.run(*words, "--json"))

    def run_on_terminal(self, *words: str) -> bytes:
        """Run a command on a pseudo-terminal; return everything it writes."""
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words],
            cwd=self.path,
            env={**self.environment, "TERM": "xterm", "COLUMNS": "120"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        output = b""
        while True:
            try:
                chunk = os.read(master, 4096)
            except OSError:
                break
            if not chunk:
                break
            output += chunk
        process.wait()
        os.close(master)
        return output


def open_terminal(repository: Repository, settings: Settings, folder: Path, *modules: str) -> Terminal:
    """Create a project whose catalog declares the yools of some modules; its home is in `folder`."""
    make_gateway(repository.path, settings).close()
    (repository.path / "AGENTS.md").write_text(AGENTS)
    terminal = Terminal(repository, folder / "home")
    if modules:
        terminal.run("catalog", "build", *(word for module in modules for word in ("--import", module)))
    return terminal
