"""The `engrambus` command in a project of its own, for tests."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

from engrambus.settings import Settings
from tests.projects import Repository, make_gateway

ROOT = Path(__file__).parents[2]
AGENTS = "# Agents\n\n## Agents\n"
COMMAND = "from engrambus.edges.cli import main; main()"
WORK = ("worker", "--lane", "build", "--until-empty", "--import", "tests.space.yools")


class Terminal:
    """Runs `engrambus` commands as processes."""

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
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, (words, out, err)
        return out if code == 0 else err

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
