"""Real git repositories, made for one test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_SETTINGS = (
    "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false",
    "-c", "core.autocrlf=false", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always",
)  # fmt: skip


class Repo:
    """A repository in a folder, with the few commands the tests need."""

    def __init__(self, path: Path, *init: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", *init)

    def git(self, *args: str, stdin: bytes | None = None) -> str:
        """Run git and return its output without the last newline."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        done = subprocess.run(
            ["git", *_SETTINGS, *args], cwd=self.path, env=environment, input=stdin, capture_output=True, check=True
        )
        return done.stdout.decode().rstrip("\n")

    def commit(self, files: dict[str, bytes | str | None]) -> str:
        """Write files (None removes one), commit them, and return the commit's id."""
        for name, content in files.items():
            path = self.path / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "A step")
        return self.git("rev-parse", "HEAD")

    def loose(self, object_id: str) -> Path:
        """Return the file of a loose object."""
        return self.path / ".git" / "objects" / object_id[:2] / object_id[2:]
