"""A project: an id, and the `.catalog` folder that holds everything it knows.

The journal says whose it is. `project.yaml` says so to those who have no journal yet: it is committed, so it comes and
goes with the branches of a repository, and the project does not.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engrambus.core import is_ulid, read_yaml
from engrambus.core.journal import read_header
from engrambus.errors import EngramBusError, FormatUnknown, ProjectExists, ProjectNotFound
from engrambus.evidence.pointers import find_repository

CATALOG = ".catalog"
PROJECT_FILE = "project.yaml"
POLICY_FILE = "policy.yaml"
JOURNAL = "memory.jsonl"

_IGNORED = """\
# Everything here is written by Engram Bus. Three files are for you to commit; the rest is this machine's.
*
!.gitignore
!project.yaml
!policy.yaml
!capabilities.json
"""

_POLICY = """\
# What this project allows. Edit it, then: engrambus policy apply
# scopes: [run, project]          # add org or global to switch them on
# max_ttl: P365D
# token_ttl: P30D
# write_scopes: {programmer: [run, project]}
# promotion_floor: {project: 0.5}
# urls: {enabled: false, hosts: []}
"""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """Where a project lives."""

    project_id: str
    root: Path
    """The folder people work in."""
    catalog: Path
    """The folder Engram Bus keeps."""
    git_folder: Path | None
    """The repository's common folder, if there is one."""
    repositories: dict[str, Path] = {}
    """Other repositories that pointers may name."""


def find_project(start: Path) -> Project:
    """The project that a folder belongs to."""
    home = _home(start)
    if home is not None and _is_project(home.catalog):
        return _read(home)
    raise ProjectNotFound(f"No Engram Bus project at {start} or above.", hint="Make one: engrambus init.")


def create_project(start: Path, project_id: str) -> Project:
    """Make a project where a folder's repository stands, or in the folder itself without git."""
    home = _home(start) or _Home(start / CATALOG, None, start)
    catalog = home.catalog
    if _is_project(catalog):
        raise ProjectExists(f"{catalog} is a project already.")
    catalog.mkdir(parents=True, exist_ok=True)
    for name, text in ((".gitignore", _IGNORED), (POLICY_FILE, _POLICY)):
        if not (catalog / name).exists():
            (catalog / name).write_text(text, "utf-8")
    draft = catalog / f"{PROJECT_FILE}.{os.getpid()}.new"
    draft.write_text(f"project: {project_id}\n", "utf-8")
    draft.rename(catalog / PROJECT_FILE)
    return _read(home)


class _Home(NamedTuple):
    """Where what a folder belongs to lies."""

    catalog: Path
    git_folder: Path | None
    root: Path


def _home(start: Path) -> _Home | None:
    """The catalog folder for a place, and the git folder beside it. Without git, the nearest catalog above."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / ".git").is_dir() and not (folder / ".git" / "commondir").exists():
            return _Home(folder / CATALOG, folder / ".git", folder)  # the common case, without asking git
        if (folder / ".git").exists() or (folder / "HEAD").is_file():
            found = find_repository(folder)
            if found is not None:
                common, worktree = found
                # A submodule keeps its catalog in the git folder, and people work where they stand.
                return _Home((worktree or common) / CATALOG, common, worktree or folder)
    for folder in (start, *start.parents):
        if _is_project(folder / CATALOG):
            return _Home(folder / CATALOG, None, folder)
    return None


def keep_out_of_git(project: Project) -> None:
    """Have git on this machine pass over all but the files for it, also on branches without our `.gitignore`."""
    if project.git_folder is None or project.catalog.is_relative_to(project.git_folder):
        return
    exclude = project.git_folder / "info" / "exclude"
    line = f"/{CATALOG}/*"
    with suppress(OSError):  # a repository that is read-only is left as it is
        said = exclude.read_text("utf-8", "surrogateescape") if exclude.exists() else ""
        if line not in said.splitlines():
            exclude.parent.mkdir(exist_ok=True)
            with exclude.open("a", encoding="utf-8") as file:
                file.write(("" if not said or said.endswith("\n") else "\n") + line + "\n")


def _is_project(catalog: Path) -> bool:
    return (catalog / PROJECT_FILE).is_file() or (catalog / JOURNAL).is_file()


def _read(home: _Home) -> Project:
    catalog, git_folder, root = home
    file, journal = catalog / PROJECT_FILE, catalog / JOURNAL
    said = _read_file(file) if file.is_file() else {}
    return Project(
        project_id=read_header(journal).project if journal.is_file() else str(said["project"]),
        root=root,
        catalog=catalog,
        git_folder=git_folder,
        repositories={name: (root / place).resolve() for name, place in said.get("repositories", {}).items()},
    )


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
        name, _, rest = text.strip().partition(": ")
        said = {"project": rest} if name == "project" and is_ulid(rest) else read_yaml(text)
    except (UnicodeDecodeError, EngramBusError) as problem:
        raise FormatUnknown(f"{path} cannot be read: {problem}") from None
    if not isinstance(said, dict) or not is_ulid(str(said.get("project"))):
        raise FormatUnknown(f"{path} does not name a project.", field="project")
    named = said.get("repositories") or {}
    if not isinstance(named, dict) or not all(isinstance(place, str) for place in named.values()):
        raise FormatUnknown("'repositories' maps names to folders.", field="repositories")
    return {"project": said["project"], "repositories": named}
