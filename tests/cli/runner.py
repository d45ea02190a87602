"""Running `engrambus`: in this process for speed, in its own where the process itself matters."""

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

from engrambus.edges.cli.root import engrambus
from tests.projects import Repository

COMMAND = str(Path(sys.executable).with_name("engrambus"))


class Said(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, read; it must be one line."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def problem(self) -> dict[str, Any]:
        """The problem it refused with."""
        assert self.code == 1, self
        return dict(json.loads(self.err))


class Desk:
    """A place to run commands at: a repository, a home of its own, no settings from outside."""

    def __init__(self, repository: Repository, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repository = repository
        self.path = repository.path
        self.home = home
        self.monkeypatch = monkeypatch
        for name in ("ENGRAMBUS_URL", "ENGRAMBUS_TOKEN", "ENGRAMBUS_RUN", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(home))

    def run(
        self, *words: str, at: Path | None = None, given: str | bytes = "", env: Mapping[str, str] | None = None
    ) -> Said:
        """Run a command in this process."""
        with self.monkeypatch.context() as patch:
            patch.chdir(at or self.path)
            done = CliRunner().invoke(engrambus, words, input=given, env=env, prog_name="engrambus")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Said(done.exit_code, done.stdout, done.stderr)

    def ok(self, *words: str, at: Path | None = None, env: Mapping[str, str] | None = None) -> Said:
        """Run a command that must succeed."""
        said = self.run(*words, at=at, env=env)
        assert said.code == 0, said
        return said

    def process(self, *words: str, given: bytes = b"") -> Said:
        """Run the installed command in a process of its own."""
        done = subprocess.run(
            [COMMAND, *words], cwd=self.path, env=dict(os.environ), input=given, capture_output=True, timeout=60
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())
