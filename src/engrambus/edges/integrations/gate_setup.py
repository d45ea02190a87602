"""Writes the files that run the merge gate by themselves: a git hook, or a workflow of a forge."""

from __future__ import annotations

import os
from pathlib import Path

from engrambus.errors import FileExists
from engrambus.evidence.pointers import hooks_folder

FOLDER = Path(__file__).with_name("gate_files")
_WORKFLOWS = {
    "github": ("github.yml", Path(".github/workflows/engrambus-gate.yml")),
    "gitlab": ("gitlab.yml", Path(".gitlab/engrambus-gate.yml")),
}


def write_gate_file(choice: str, worktree: Path) -> Path:
    """Write the hook (`pre-commit`) or a forge's workflow and return its path; refuse to replace another file."""
    if choice == "pre-commit":
        template, path = FOLDER / "pre-commit", hooks_folder(worktree) / "pre-commit"
    else:
        name, place = _WORKFLOWS[choice]
        template, path = FOLDER / name, worktree / place
    content = template.read_bytes()
    if path.exists() and path.read_bytes() != content:
        line = content.decode().splitlines()[-1].removeprefix("exec ")
        hint = f"Add this line to it: {line}" if choice == "pre-commit" else "Remove it, or edit it by hand."
        raise FileExists(f"There is another {path}.", field="setup", hint=hint)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if choice == "pre-commit":
        os.chmod(path, 0o755)  # noqa: S103  # everybody who may commit here runs it
    return path
