"""A project: an id, the `.catalog` folder with the files that are committed, and the folder of its private state.

Both are one folder unless ENGRAMBUS_HOME is set. The id is then read from the journal. A fresh checkout, which has no
journal yet, reads it from `project.yaml`, which is committed (decision 36: a project outlives the branch that its file
is on).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engrambus.core import files, is_ulid, read_yaml
from engrambus.core.journal import read_header
from engrambus.errors import (
    FolderNotOurs,
    FormatUnknown,
    PointerPath,
    ProjectElsewhere,
    ProjectExists,
    ProjectNotFound,
    PublicKeyInvalid,
    Refusal,
    Trouble,
)
from engrambus.evidence.pointers import find_repository

CATALOG = ".catalog"
PROJECT_FILE = "project.yaml"
POLICY_FILE = "policy.yaml"
JOURNAL = "memory.jsonl"
CATALOG_PATH_FILE = "catalog.path"
"""Names the catalog that private state outside of it belongs to."""
COMMITTED_FILES = (PROJECT_FILE, POLICY_FILE, "capabilities.json", ".gitignore")
"""Files in the catalog that users commit; everything else there is private state."""

_GITIGNORE = """\
# Everything here is written by Engram Bus. Commit the four files below; all others stay on this machine.
*
!.gitignore
!project.yaml
!policy.yaml
!capabilities.json
"""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """The id and the folders of a project."""

    project_id: str
    root: Path
    """The folder people work in."""
    catalog: Path
    """The folder of the files that users commit: project.yaml, policy.yaml, capabilities.json, .gitignore."""
    state: Path
    """The folder of private state: journals, indexes, locks, bodies, receipts. Usually the same as `catalog`."""
    git_folder: Path | None
    """The repository's common git folder, if there is a repository."""
    repositories: dict[str, Path] = {}
    """Name → folder of further repositories that pointers may name."""
    name: str | None = None
    """The name by which other projects know this one's repository; by default it is taken from its origin."""
    keys: dict[str, str] = {}
    """Name → public key of those whose exported events the project knows."""


def find_project(start: Path, private_home: Path | None = None) -> Project:
    """Return the project that a folder belongs to; `private_home` is the folder of private state of all projects."""
    location = _locate(start)
    if location is not None and _is_project(location.catalog):
        return _read(location, private_home)
    raise ProjectNotFound(f"No Engram Bus project at {start} or above.", hint="Make one: engrambus init.")


def find_catalog(start: Path) -> Path | None:
    """Return the catalog of the project that a folder belongs to, without reading anything in it."""
    location = _locate(start)
    return location.catalog if location is not None else None


def create_project(
    start: Path, project_id: str, private_home: Path | None = None, *, files_only: bool = False
) -> Project:
    """Create a project at the root of a folder's repository, or in the folder itself if there is no repository."""
    location = _locate(start) or _Location(start / CATALOG, None, start)
    catalog = location.catalog
    if _is_project(catalog):
        raise ProjectExists(f"{catalog} is a project already.")
    from engrambus.policy.policy_keys import policy_template  # only `init` needs it

    is_private = private_home is None and not files_only
    files.make_folder(catalog, files.PRIVATE_FOLDER if is_private else files.COMMITTED_FOLDER)
    for name, text in ((".gitignore", _GITIGNORE), (POLICY_FILE, policy_template())):
        if not files.is_file(catalog / name):
            files.replace_file(catalog / name, text.encode(), files.COMMITTED_FILE)
    files.replace_file(catalog / PROJECT_FILE, f"project: {project_id}\n".encode(), files.COMMITTED_FILE)
    return _read(location, private_home)


class _Location(NamedTuple):
    """The folders of the project that a folder belongs to, or would belong to."""

    catalog: Path
    git_folder: Path | None
    root: Path


def _locate(start: Path) -> _Location | None:
    """Find the repository around a folder, or else the nearest catalog above it."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / ".git").is_dir() and not (folder / ".git" / "commondir").exists():
            return _Location(folder / CATALOG, folder / ".git", folder)  # the common case, without starting git
        if (folder / ".git").exists() or (folder / "HEAD").is_file():
            repository = find_repository(folder)
            if repository is not None:
                common, worktree = repository
                # Worktrees share one project. A submodule's catalog lies in its git folder, its root is `folder`.
                return _Location((worktree or common).resolve() / CATALOG, common, worktree or folder)
    for folder in (start, *start.parents):
        # A link above, which may have nothing to do with us, is looked through; a project behind it is then refused.
        if any((folder / CATALOG / name).is_file() for name in (PROJECT_FILE, JOURNAL)):
            return _Location(folder / CATALOG, None, folder)
    return None


def check_folders(project: Project) -> None:
    """Refuse folders of another account and links in them; close the folder of private state to other accounts."""
    if project.state == project.catalog:
        owner = files.status_of(project.root).st_uid
        # The owner of the worktree can put another folder into the place of ours. Root can do so anywhere.
        if owner not in (os.geteuid(), 0) or files.status_of(project.catalog).st_uid != os.geteuid():
            raise FolderNotOurs(
                f"{project.catalog} or the folder around it belongs to another account.",
                field=str(project.catalog),
                hint="Set ENGRAMBUS_HOME to a folder of your own: private files are kept there.",
            )
    else:
        home = project.state.parent
        files.make_folder(home)
        status = files.status_of(home)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise FolderNotOurs(
                f"ENGRAMBUS_HOME is {home}, which belongs to another account or is open to others.",
                field="ENGRAMBUS_HOME",
                hint=f"Make it yours alone: chown $(id -u) {home}; chmod 700 {home}",
            )
        files.make_folder(project.state)
        _check_belongs(project)
    files.check_folder(project.state)


def _check_belongs(project: Project) -> None:
    """Refuse the private state of another repository: a clone may claim any id in its project.yaml."""
    file, catalog = project.state / CATALOG_PATH_FILE, os.fsencode(project.catalog)
    if not files.is_file(file):
        files.replace_file(file, catalog)
    elif files.read_file(file) != catalog:
        raise ProjectElsewhere(
            f"The private state of project {project.project_id} belongs to another folder than {project.catalog}.",
            field=str(file),
            hint=f"The file {file} names that folder. If the project was moved, delete the file.",
        )


def exclude_from_git(project: Project) -> None:
    """Add the catalog to `.git/info/exclude`, for branches that do not have its `.gitignore`."""
    # decision 36: otherwise `git add -A` on such a branch commits the journal, and the next checkout deletes it
    if project.git_folder is None or project.catalog.is_relative_to(project.git_folder):
        return
    if project.state != project.catalog:  # the catalog then holds nothing that must stay uncommitted
        return
    exclude = project.git_folder.resolve() / "info" / "exclude"
    line = f"/{CATALOG}/*".encode()
    with suppress(OSError, Trouble):  # a read-only repository stays as it is, and so does one with links
        text = files.read_file(exclude) if files.is_file(exclude) else b""
        if line not in text.splitlines():
            files.make_folder(exclude.parent, files.COMMITTED_FOLDER)
            with files.open_writer(exclude, "ab", files.COMMITTED_FILE) as file:
                file.write((b"" if not text or text.endswith(b"\n") else b"\n") + line + b"\n")


def _is_project(catalog: Path) -> bool:
    return files.is_file(catalog / PROJECT_FILE) or files.is_file(catalog / JOURNAL)


def _read(location: _Location, private_home: Path | None) -> Project:
    catalog, git_folder, root = location
    file, journal = catalog / PROJECT_FILE, catalog / JOURNAL
    settings = read_project_file(file) if files.is_file(file) else {}
    # With a home for private state, a journal in the catalog is not this project's: it may have come with a clone.
    from_journal = files.is_file(journal) if private_home is None else not settings
    project_id = read_header(journal).project if from_journal else str(settings["project"])
    return Project(
        project_id=project_id,
        root=root,
        catalog=catalog,
        state=catalog if private_home is None else private_home / project_id,
        git_folder=git_folder,
        repositories={name: (root / path).resolve() for name, path in settings.get("repositories", {}).items()},
        name=settings.get("name"),
        keys=settings.get("keys", {}),
    )


def read_project_file(path: Path) -> dict[str, Any]:
    """Return the settings in a project's file."""
    try:
        text = files.read_file(path).decode()
        name, _, value = text.strip().partition(": ")
        # A file of one line, as `init` writes it, is read without loading the YAML parser.
        settings = {"project": value} if name == "project" and is_ulid(value) else read_yaml(text)
    except (UnicodeDecodeError, Refusal) as problem:
        raise FormatUnknown(f"{path} cannot be read: {problem}") from None
    if not isinstance(settings, dict) or not is_ulid(str(settings.get("project"))):
        raise FormatUnknown(f"{path} does not name a project.", field="project")
    repositories = settings.get("repositories") or {}
    if not isinstance(repositories, dict) or not all(isinstance(folder, str) for folder in repositories.values()):
        raise FormatUnknown("'repositories' must map names to folders.", field="repositories")
    own_name = settings.get("name")
    if own_name is not None:
        _check_repository_name(own_name, "name")
    for repository in repositories:
        _check_repository_name(repository, "repositories")
    keys = settings.get("keys")
    known_keys = {"keys": _read_keys(keys)} if keys else {}
    return {"project": settings["project"], "repositories": repositories, "name": own_name, **known_keys}


def _read_keys(keys: object) -> dict[str, str]:
    """Return the public keys of a project file by name."""
    from engrambus.policy.signing_keys import MAX_KNOWN_KEYS, check_key_name, check_public_key  # few projects have any

    if not isinstance(keys, dict) or len(keys) > MAX_KNOWN_KEYS:
        raise FormatUnknown(f"'keys' must map at most {MAX_KNOWN_KEYS} names to public keys.", field="keys")
    try:
        return {check_key_name(name, "keys"): check_public_key(key, f"keys.{name}") for name, key in keys.items()}
    except PublicKeyInvalid as problem:
        raise FormatUnknown(f"{problem.detail} ({problem.used})", field=problem.field) from None


def _check_repository_name(name: object, field: str) -> None:
    """Refuse a name that no pointer could carry."""
    from engrambus.evidence.pointers import check_name  # most projects name no repository

    try:
        check_name(name if isinstance(name, str) else "", field)
    except PointerPath as problem:
        raise FormatUnknown(f"'{name}' cannot name a repository: {problem}", field=field) from None
