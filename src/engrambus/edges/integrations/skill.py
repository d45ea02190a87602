"""The skill pack as it was installed with us, and its way into a client's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from engrambus.edges.integrations.files import Change, Note, digest, missing_folders
from engrambus.errors import ClientEntryTaken, FileNotFound

NAME = "less"
PACKAGE = Path(__file__).parents[2]
_FOLDERS = (PACKAGE / "skills" / NAME, PACKAGE.parents[1] / "skills" / NAME)
"""Where it lies: beside the modules of a wheel, or at the top of a checkout."""
_MARK = b"engrambus"


def skill_folder() -> Path:
    """Where the skill pack lies."""
    for folder in _FOLDERS:
        if (folder / "SKILL.md").is_file():
            return folder
    raise FileNotFound(f"The skill pack is missing from {_FOLDERS[0]}.", hint="Install Engram Bus again.")


def skill_files() -> dict[str, bytes]:
    """What an agent gets of it, by path inside the folder; its tests stay at home."""
    folder = skill_folder()
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.relative_to(folder).parts[0] != "tests"
    }


def has_skill(target: Path) -> bool | None:
    """Whether a folder holds the skill exactly; none when it holds nothing of it."""
    held = {name: (target / name).read_bytes() for name in skill_files() if (target / name).is_file()}
    return held == skill_files() if held else None


def plan_skill(target: Path, notes: Mapping[Path, Note]) -> Iterator[Change]:
    """What puts the skill into a client's folder; a skill of the same name that is somebody else's is refused."""
    there = target / "SKILL.md"
    if there.is_file() and _MARK not in there.read_bytes().lower():
        raise ClientEntryTaken(
            f"{target} is another skill of this name.", field=NAME, hint="Rename or remove it first."
        )
    for name, content in skill_files().items():
        path = target / name
        before = path.read_bytes() if path.is_file() else None
        old = notes.get(path)
        folders = old.folders if before is not None and old else missing_folders(path) if before is None else ()
        note = Note(after=digest(content), edits=(), created=True, folders=folders)
        yield Change(path=path, before=before, after=content, note=note)


def plan_no_skill(target: Path, notes: Mapping[Path, Note]) -> Iterator[Change]:
    """What takes the skill out again; a file that was changed since stays."""
    for name, content in reversed(skill_files().items()):
        path = target / name
        before = path.read_bytes() if path.is_file() else None
        note = notes.get(path)
        written = {digest(content), note.after if note else ""}
        gone = before is not None and digest(before) in written
        yield Change(path=path, before=before, after=None if gone else before, note=note)
