"""Keeps files that hold a path of this machine out of commits, through the clone's own `info/exclude`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from engrambus.edges.integrations.config_files import FileChange
from engrambus.errors import ClientFileCommitted
from engrambus.evidence.pointers.git_process import git_environment, run_git

TIMEOUT_SECONDS = 10


def exclude_file(root: Path) -> Path | None:
    """Return the clone's exclude file, or None outside of git."""
    done = run_git(("rev-parse", "--git-path", "info/exclude"), git_environment(), TIMEOUT_SECONDS, folder=root)
    return root / os.fsdecode(done.stdout).rstrip("\n") if done.returncode == 0 else None


def check_not_committed(root: Path, paths: Sequence[Path], command: str) -> None:
    """Refuse to write a path of this machine into a file that git tracks."""
    names = [str(path.relative_to(root)) for path in paths]
    done = run_git(("ls-files", "-z", "--", *names), git_environment(), TIMEOUT_SECONDS, folder=root)
    tracked = os.fsdecode(done.stdout).split("\0")[:-1] if done.returncode == 0 else []
    if tracked:
        folder = os.path.dirname(command)
        raise ClientFileCommitted(
            f"{tracked[0]} is committed, and PATH does not find this engrambus, so its path on this machine would be "
            "written there.",
            field=tracked[0],
            used=command,
            hint=f"Put {folder} on your PATH and install again, or install for your account with --user.",
        )


def plan_exclude(exclude: Path, client: str, names: Sequence[str], *, listed: bool) -> FileChange:
    """Plan the change that lists a client's files, or lists them no longer.

    The block stands first in the file, so that removing its lines gives the file back to the byte.
    """
    old_content = exclude.read_bytes() if exclude.exists() else None
    text = (old_content or b"").decode("utf-8", "surrogateescape")
    block = [
        f"# engrambus install {client}: these files hold a path of this machine\n",
        *(f"/{name}\n" for name in names),
    ]
    bare = _without_block(text, block)
    after = ("".join(block) if listed else "") + bare
    return FileChange(
        path=exclude, old_content=old_content, new_content=after.encode("utf-8", "surrogateescape") if after else None
    )


def _without_block(text: str, block: Sequence[str]) -> str:
    lines = text.splitlines(keepends=True)
    if block[0] in lines:
        start = end = lines.index(block[0])
        while end < len(lines) and lines[end] in block:
            end += 1
        del lines[start:end]
    return "".join(lines)
