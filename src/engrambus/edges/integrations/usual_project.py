"""Finds a project in the usual place, at the top of a plain clone, without loading the product (decision 44)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_JOURNAL_HEADER_BYTES = 4096


class UsualProject(NamedTuple):
    """A project that keeps its private state in `.catalog` at the top of a clone."""

    state: Path
    key_folder: Path


def find_usual_project(folder: Path, environment: Mapping[str, str]) -> UsualProject | None:
    """Return the project that a folder belongs to, if it lies in the usual place; None if it is elsewhere."""
    if environment.get("ENGRAMBUS_HOME"):
        return None
    state, home = environment.get("XDG_STATE_HOME", ""), environment.get("HOME")
    if not (state.startswith("/") or home):
        return None
    state_home = Path(state) if state.startswith("/") else Path(str(home), ".local", "state")
    for place in (folder, *folder.parents):
        git = place / ".git"
        if git.is_dir() and not (git / "commondir").exists():
            try:
                project = json.loads(_first_line(place / ".catalog"))["project"]
            except (OSError, ValueError, KeyError, TypeError):
                return None
            if not isinstance(project, str) or not project.isalnum():
                return None
            return UsualProject(place / ".catalog", state_home / "engrambus" / project)
        if git.exists():
            return None
    return None


def _first_line(catalog: Path) -> bytes:
    """Return the first line of the journal; no link is followed, and a FIFO in its place is not waited for."""
    # decision 44: not by core/files.py, which takes longer to load than a hook may
    folder = os.open(catalog, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        journal = os.open("memory.jsonl", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        return os.read(journal, _JOURNAL_HEADER_BYTES).partition(b"\n")[0]
    finally:
        os.close(journal)
