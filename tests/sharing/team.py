"""Colleagues who share engrams through git: each has a clone, a machine with keys of its own, and one hub."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engrambus.edges.cli.root import engrambus
from tests.cli.runner import CommandResult
from tests.projects import git, make_repository

SETTINGS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


class Colleague:
    """A clone of the team's repository, on a machine with a home folder of its own."""

    def __init__(self, path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.home = home
        self.monkeypatch = monkeypatch

    def run(self, *words: str, folder: Path | None = None) -> CommandResult:
        """Run a command in this process."""
        with self.monkeypatch.context() as patch:
            for name in ("ENGRAMBUS_URL", "ENGRAMBUS_TOKEN", "ENGRAMBUS_RUN", "XDG_STATE_HOME", "XDG_DATA_HOME"):
                patch.delenv(name, raising=False)
            patch.chdir(folder or self.path)
            environment = {"HOME": str(self.home), **SETTINGS}
            done = CliRunner().invoke(engrambus, words, env=environment, prog_name="engrambus")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return CommandResult(done.exit_code, done.stdout, done.stderr)

    def ok(self, *words: str, folder: Path | None = None) -> CommandResult:
        """Run a command that must succeed."""
        result = self.run(*words, folder=folder)
        assert result.code == 0, result
        return result

    def json(self, *words: str) -> Any:
        """Run a command that must succeed, and return its answer."""
        return self.ok(*words, "--json").json

    def refusal(self, *words: str) -> dict[str, Any]:
        """Run a command that must be refused, and return the problem."""
        result = self.run(*words, "--json")
        assert result.code == 1, result
        return dict(json.loads(result.err.splitlines()[-1]))

    def put(self, claim: str, *words: str) -> str:
        """Put a claim about the first lines of the parser, and return its id."""
        return str(self.json("put", claim, "--at", "src/parser.py:1-3", *words)["id"])

    @property
    def key(self) -> str:
        """The public key of this machine."""
        return str(self.json("keys", "show")["key"])

    @property
    def files(self) -> dict[str, list[dict[str, Any]]]:
        """The events in the worktree's folder, by the name of their file."""
        folder = self.path / "engrams"
        return {
            file.name: [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            for file in sorted(folder.glob("*.jsonl"))
        }

    def untrusted(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each untrusted engram, by its claim."""
        answer = self.json("feed", "--untrusted", "--k", "50")
        return {row["engram"]["claim"]: row["about"] | {"id": row["engram"]["id"]} for row in answer["rows"]}

    def shared(self, ref: str = "shared-engrams") -> dict[str, set[str]]:
        """Return the lines of each file in a ref."""
        names = git(self.path, "ls-tree", "-r", "--name-only", ref).splitlines()
        return {
            name: set(git(self.path, "show", f"{ref}:{name}").splitlines()) for name in names if name.endswith(".jsonl")
        }


def make_team(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> list[Colleague]:
    """Return colleagues with a project each, who share one bare repository."""
    source = make_repository(folder / "source").path
    git(folder, "clone", "-q", "--bare", str(source), str(folder / "hub.git"))
    for sample in (folder / "hub.git" / "hooks").glob("*"):
        sample.unlink()
    team = []
    for name in names:
        git(folder, "clone", "-q", str(folder / "hub.git"), str(folder / name))
        colleague = Colleague(folder / name, folder / f"{name}-home", monkeypatch)
        colleague.ok("init")
        team.append(colleague)
    shutil.rmtree(source)
    return team


def clone_again(colleague: Colleague, folder: Path, name: str) -> Colleague:
    """Return a further colleague of the same team."""
    git(folder, "clone", "-q", str(folder / "hub.git"), str(folder / name))
    further = Colleague(folder / name, folder / f"{name}-home", colleague.monkeypatch)
    further.ok("init")
    return further
