"""Adds to a project the files in which agents are declared, and never changes one that exists (decision 116).

A plan says what becomes of each file. It is made, and anything in the way refused, before the first file is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from engrambus.core import files
from engrambus.errors import CatalogRefusal, FileNotOurs, ScaffoldFolder
from engrambus.evidence.pointers import find_worktree
from engrambus.policy import CATALOG, find_catalog
from engrambus.space.catalog import AGENTS, CAPABILITIES, Catalog, find_stacks, print_catalog, read_agents

SECTION = ".specs/agents-section.md"
"""The agents to add to an AGENTS.md of the project that declares none."""
DEFAULT_STACK = "python"
"""The stack of a folder without any file of a stack."""
WRAPPER = "bin/build-hamt-catalog"
_IGNORED = ".receipts/"
_FILES = Path(__file__).with_name("scaffold_files")
_PROGRAM = 0o777
"""Mode of a program that users commit; the umask lowers it."""

Action = Literal["write", "create", "add"]


class ScaffoldFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the scaffold, and whether it has to be written."""

    action: Action
    """Verb of its line of output: a stub is created, a line is added to a file, others are written."""
    name: str
    """What it is called in the output: the file, or the folder that is made for it."""
    folder: Path
    """The folder that is there already, or is made first: the project's, or its catalog."""
    path: Path
    content: bytes
    mode: int
    is_missing: bool


class Scaffold(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of each file of a scaffold."""

    root: Path
    files: tuple[ScaffoldFile, ...]
    stacks: tuple[str, ...]
    stack_is_assumed: bool
    """True if AGENTS.md is written and nothing in the folder says what its stack is."""
    agents_are_kept_apart: bool
    """True if the project's own AGENTS.md declares no yool, so that the agents to add to it are in `SECTION`."""


def find_scaffold_root(folder: Path, typed: str | None) -> Path:
    """Return the folder to scaffold: the one that was typed, or the top of the project around the current folder."""
    if typed is None:
        catalog = find_catalog(folder)
        return find_worktree(folder) or (catalog.parent if catalog is not None else folder)
    root = _resolve(folder, Path(typed))
    above = next(parent for parent in (root, *root.parents) if parent.is_dir())
    catalog = find_catalog(above)
    if catalog is not None and catalog != root / catalog.name and find_worktree(above) != root:
        raise ScaffoldFolder(
            f"{root} lies inside the project of {find_worktree(above) or catalog.parent}.",
            field="DIR",
            hint=f"Scaffold that one, without DIR, or make the folder a repository of its own first: git init {typed}",
        )
    return root


def _resolve(folder: Path, typed: Path) -> Path:
    """Return the folder that was typed; refuse links in what was typed, and files."""
    # Of an absolute path only its end: on some systems a link leads to every temporary folder.
    path, parts = (typed.parent.resolve(), (typed.name,)) if typed.is_absolute() else (folder, typed.parts)
    for part in parts:
        path = path.parent if part == ".." else path / part
        if path.is_symlink():
            raise ScaffoldFolder(f"{path} is a symbolic link.", field="DIR", hint="Name the folder that it leads to.")
        if path.exists() and not path.is_dir():
            raise ScaffoldFolder(f"{path} is a file.", field="DIR", hint="Name a folder, or one to create.")
    return path


def plan_scaffold(root: Path, chosen_stacks: Sequence[str] = ()) -> Scaffold:
    """Plan what is added to a folder, which need not exist; refuse links, and files in the place of folders."""
    detected = find_stacks(root) if root.is_dir() else ()
    assumed = not (chosen_stacks or detected)
    stacks = tuple(dict.fromkeys(chosen_stacks)) or detected or (DEFAULT_STACK,)
    # What the files of the project say is looked up by every build; anything else stands in the file.
    named = "auto-detect" if detected and not chosen_stacks else ", ".join(stacks)
    section = _template("agents-section.md").replace(b"STACK", named.encode())
    read_agents(section.decode(), stacks)  # refuses a stack that cannot be part of a name
    kept_apart = _declares_no_yool(root / AGENTS)
    catalog = (find_catalog(root) if root.is_dir() else None) or root / CATALOG
    planned = [
        _plan_file("write", root, AGENTS, _template("AGENTS.md") + section),
        *([_plan_file("write", root, SECTION, b"\n" + section)] if kept_apart else []),
        _plan_file("write", root, ".specs/sprints/README.md", _template("specs.md"), name=".specs/"),
        _plan_file("write", root, ".skills/README.md", _template("skills.md"), name=".skills/"),
        _plan_file("write", catalog, ".gitkeep", b"", name=f"{CATALOG}/.gitkeep"),
        _plan_file("create", catalog, CAPABILITIES, _stub(), name=f"{CATALOG}/{CAPABILITIES}"),
        _plan_file("add", root, ".gitignore", f"{_IGNORED}\n".encode()),
        _plan_file("write", root, WRAPPER, _template("build-hamt-catalog"), mode=_PROGRAM),
    ]
    return Scaffold(
        root=root,
        files=tuple(planned),
        stacks=stacks,
        stack_is_assumed=assumed and planned[0].is_missing,
        agents_are_kept_apart=kept_apart,
    )


def make_root(root: Path) -> None:
    """Create the folder to scaffold, and those above it where they are missing."""
    for folder in reversed((root, *root.parents)):
        if not folder.is_dir():
            files.make_folder(folder, files.COMMITTED_FOLDER)


def write_scaffold(scaffold: Scaffold) -> None:
    """Write the files that are missing; one that appeared since the plan was made stays as it is."""
    for file in _missing(scaffold.files):
        for folder in _folders_between(file.folder, file.path):
            files.make_folder(folder, files.COMMITTED_FOLDER)
        if file.action == "add":
            _append(file)
        else:
            _write_new(file)


def scaffold_lines(scaffold: Scaffold, *, dry_run: bool = False) -> Iterator[str]:
    """Yield what is done, as section 6.3 of the specification prints it; with `dry_run` what would be done."""
    missing = list(_missing(scaffold.files))
    writing, creating, adding = (
        ("would write", "would create", "would add") if dry_run else ("writing", "creating", "adding")
    )
    first = [file.name for file in missing if file.action == "write" and file.name != WRAPPER]
    if first:
        yield f"{writing} {', '.join(first)} ..."
    for file in missing:
        if file.action == "create":
            yield f"{creating} {file.name} (stub)"
        elif file.action == "add":
            yield f"{adding} {_IGNORED} to {file.name}"
        elif file.name == WRAPPER:
            yield f"{writing} {file.name}"
    kept_names = [file.name for file in scaffold.files if not file.is_missing]
    if kept_names:
        yield f"kept {', '.join(kept_names)}"


def _missing(planned: Iterable[ScaffoldFile]) -> Iterator[ScaffoldFile]:
    return (file for file in planned if file.is_missing)


def _template(name: str) -> bytes:
    return (_FILES / name).read_bytes()


def _stub() -> bytes:
    """Return a catalog without yools, which the first build replaces."""
    return print_catalog(Catalog()).encode()


def _declares_no_yool(path: Path) -> bool:
    """True if there is a file of agents that declares no yool; what cannot be read is explained elsewhere."""
    try:
        if not files.is_file(path):
            return False
        return not read_agents(files.read_file(path).decode("utf-8", "replace"), (DEFAULT_STACK,)).agent_count
    except (CatalogRefusal, FileNotOurs):
        return False


def _plan_file(
    action: Action,
    folder: Path,
    path: str,
    content: bytes,
    *,
    name: str | None = None,
    mode: int = files.COMMITTED_FILE,
) -> ScaffoldFile:
    return ScaffoldFile(
        action=action,
        name=name or path,
        folder=folder,
        path=folder / path,
        content=content,
        mode=mode,
        is_missing=_is_missing(folder, folder / path, action),
    )


def _folders_between(folder: Path, path: Path) -> list[Path]:
    """Return the folders below `folder` that a path leads through, the outermost first."""
    return [parent for parent in reversed(path.parents) if parent != folder and parent.is_relative_to(folder)]


def _is_missing(top: Path, path: Path, action: Action) -> bool:
    """True if a file is to be written, or a line to be added to it; refuse what cannot be written through."""
    for folder in _folders_between(top, path):
        try:
            files.folder_names(folder)
        except FileNotFoundError:
            return True
        except NotADirectoryError:
            raise ScaffoldFolder(
                f"{folder} is a file, and the scaffold needs a folder there.", field="DIR", hint="Rename the file."
            ) from None
    try:
        exists = files.is_file(path)
    except FileNotOurs:
        raise ScaffoldFolder(f"{path} is not a file.", field="DIR", hint="Rename it.") from None
    if not exists or action != "add":
        return not exists
    ignored = {line.strip().strip("/") for line in files.read_file(path).decode("utf-8", "replace").splitlines()}
    return _IGNORED.strip("/") not in ignored


def _write_new(file: ScaffoldFile) -> None:
    try:
        with files.open_writer(file.path, "xb", file.mode) as writer:
            writer.write(file.content)
    except FileExistsError:  # somebody was first
        return


def _append(file: ScaffoldFile) -> None:
    """Add lines to a file, on lines of their own."""
    old = files.read_file(file.path) if files.is_file(file.path) else b""
    newline = b"\r\n" if b"\r\n" in old else b"\n"
    start = newline if old and not old.endswith(b"\n") else b""
    with files.open_writer(file.path, "ab", file.mode) as writer:
        writer.write(start + file.content.replace(b"\n", newline))
