"""Running `engrambus`: in this process for speed, in a process of its own where that matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from engrambus.core.journal import JournalKey
from engrambus.edges.cli.root import engrambus
from engrambus.policy import find_project, load_journal_key
from engrambus.settings import Settings
from tests.projects import Repository

COMMAND = str(Path(sys.executable).with_name("engrambus"))


class CommandResult(NamedTuple):
    """The exit status and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The value of its output, which must be one line of JSON."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def problem(self) -> dict[str, Any]:
        """The error it printed as JSON."""
        assert self.code == 1, self
        return dict(json.loads(self.err))


class Shell:
    """Runs commands in a repository, with a home folder of its own and no settings from outside."""

    def __init__(self, repository: Repository, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repository = repository
        self.path = repository.path
        self.home = home
        self.monkeypatch = monkeypatch
        for name in ("ENGRAMBUS_URL", "ENGRAMBUS_TOKEN", "ENGRAMBUS_RUN", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(home))

    @property
    def journal_key(self) -> JournalKey:
        """The key of the project's journals."""
        settings = Settings.from_environment({"HOME": str(self.home)})
        key = load_journal_key(settings.key_folder(find_project(self.path).project_id))
        assert key is not None
        return key

    def run(
        self, *words: str, folder: Path | None = None, stdin: str | bytes = "", env: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run a command in this process."""
        with self.monkeypatch.context() as patch:
            patch.chdir(folder or self.path)
            done = CliRunner().invoke(engrambus, words, input=stdin, env=env, prog_name="engrambus")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return CommandResult(done.exit_code, done.stdout, done.stderr)

    def ok(self, *words: str, folder: Path | None = None, env: Mapping[str, str] | None = None) -> CommandResult:
        """Run a command that must succeed."""
        result = self.run(*words, folder=folder, env=env)
        assert result.code == 0, result
        return result

    def process(self, *words: str, stdin: bytes = b"") -> CommandResult:
        """Run the installed command in a process of its own."""
        done = subprocess.run(
            [COMMAND, *words], cwd=self.path, env=dict(os.environ), input=stdin, capture_output=True, timeout=60
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())
