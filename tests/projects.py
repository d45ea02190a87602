"""Real projects on real git repositories, made for one test."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from engrambus.app import init_project, open_project
from engrambus.core import Clock
from engrambus.gateway import Gateway
from engrambus.settings import Settings

FILES = {
    "src/parser.py": "".join(f"line {number} of the parser\n" for number in range(1, 31)),
    "src/wörter.py": "WORDS = ['schön']\n",
    "docs/design.md": "# Design\n\nWhat it is.\n\n## Parser\n\nThe parser trusts its input.\n\n## Lexer\n\nSmall.\n",
}


class Repository(NamedTuple):
    """A git repository with one commit."""

    path: Path
    sha: str


def make_repository(path: Path) -> Repository:
    """Create a repository with FILES in one commit: a copy of the first that this process made."""
    original = _original()
    shutil.copytree(original.path, path, symlinks=True, dirs_exist_ok=True)
    git(path, "update-index", "-q", "--refresh")  # the index holds inodes and times of the original's files
    return Repository(path, original.sha)


@cache
def _original() -> Repository:
    """Create the repository that all others are copies of."""
    folder = tempfile.mkdtemp(prefix="engrambus-repository-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "repository"
    for name, text in FILES.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    git(path, "init", "-q", "-b", "main")
    for sample in path.glob(".git/hooks/*.sample"):
        sample.unlink()
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "A step")
    return Repository(path, git(path, "rev-parse", "HEAD"))


def commit_files(path: Path, files: Mapping[str, str | None]) -> str:
    """Write files, or remove those that are None, commit, and return the commit's id."""
    for name, text in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            file.unlink()
        else:
            file.write_text(text, "utf-8")
    git(path, "add", "-A")
    git(path, "commit", "-q", "--allow-empty", "-m", "Another step")
    return git(path, "rev-parse", "HEAD")


def make_settings(home: Path) -> Settings:
    """Return settings of an account with this home folder."""
    return Settings.from_environment({"HOME": str(home)})


def make_gateway(path: Path, settings: Settings, clock: Clock | None = None) -> Gateway:
    """Create a project in a folder and open it."""
    init_project(path, settings, clock=clock)
    return open_project(path, settings, clock=clock)


def git(folder: Path, *arguments: str) -> str:
    """Run git without the user's configuration and return its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    settings = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
