"""Proposes changed files as a branch: in place of a pull request, and without touching what is checked out."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree of a repository without a commit."""


def create(item: str, paths: Sequence[str]) -> tuple[str, bytes]:
    """Commit files, as they are, on a branch of their own beside HEAD; return its name and the change as a patch."""
    branch = f"sprint/{item}"
    head = _git("rev-parse", "--verify", "--quiet", "HEAD", may_fail=True).decode().strip()
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        _git("read-tree", head or "--empty", index=index)
        _git("add", "--force", "--", *paths, index=index)
        tree = _git("write-tree", index=index).decode().strip()
    parents = ["-p", head] if head else []
    commit = _git("commit-tree", tree, *parents, "-m", f"{item}: {', '.join(paths)}").decode().strip()
    _git("update-ref", f"refs/heads/{branch}", commit)
    return branch, _git("diff", "--binary", head or EMPTY_TREE, commit)


def _git(*words: str, index: Path | None = None, may_fail: bool = False) -> bytes:
    author = ["-c", "user.name=sprint", "-c", "user.email=sprint@localhost"]
    environment = dict(os.environ) | ({"GIT_INDEX_FILE": str(index)} if index else {})
    done = subprocess.run(["git", *author, *words], env=environment, stdout=subprocess.PIPE, check=not may_fail)
    return b"" if done.returncode else done.stdout
