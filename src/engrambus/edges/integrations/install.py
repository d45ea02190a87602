"""Installs into a client's files and uninstalls again. Every change is planned before the first byte is written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from engrambus.core.files import make_folder, replace_file
from engrambus.edges.integrations.client_config import PROGRAM, ClientSetup, is_absolute, setup_for
from engrambus.edges.integrations.config_files import (
    ChangeRecord,
    FileChange,
    digest,
    missing_folders,
    plan_install,
    plan_uninstall,
    undo,
    write,
)
from engrambus.edges.integrations.git_exclude import check_not_committed, exclude_file, plan_exclude
from engrambus.errors import ClientEntryTaken, ClientFileUnwritable, EngramBusError, FileNotFound
from engrambus.settings import Settings

SKILL = "less"
_PACKAGE = Path(__file__).parents[2]
_SKILL_FOLDERS = (_PACKAGE / "skills" / SKILL, _PACKAGE.parents[1] / "skills" / SKILL)
"""In a wheel, and in a checkout."""
_SKILL_MARK = b"engrambus"


def project_root(folder: Path) -> Path:
    """Return the top folder of a checkout, where clients look for files; without git, the folder itself."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), folder)


def install(
    client: str, root: Path | None, settings: Settings, command: Sequence[str], *, dry_run: bool
) -> list[FileChange]:
    """Add the server, the hooks and the skill to a client's files; return the changes, with `dry_run` unwritten."""
    setup = setup_for(client, root, settings, command)
    store = _RecordStore(settings)
    records = store.read(_paths(setup))
    changes = [
        *_exclude_changes(client, root, setup, command),
        *(plan_install(file, records.get(file.path)) for file in setup.files if file.entries or file.path.exists()),
        *_plan_skill(setup.skill, records),
    ]
    if not dry_run:
        _write_all(changes, store, records, removing=False)
    return changes


def uninstall(client: str, root: Path | None, settings: Settings, *, dry_run: bool) -> list[FileChange]:
    """Remove our entries from a client's files; everything else in them stays."""
    setup = setup_for(client, root, settings, [PROGRAM])
    store = _RecordStore(settings)
    records = store.read(_paths(setup))
    changes = [
        *(plan_uninstall(file, records.get(file.path)) for file in setup.files),
        *_plan_skill_removal(setup.skill, records),
        *_exclude_changes(client, root, setup, [PROGRAM]),
    ]
    if not dry_run:
        _write_all(changes, store, records, removing=True)
    return changes


def _paths(setup: ClientSetup) -> list[Path]:
    return [*(file.path for file in setup.files), *(setup.skill / name for name in skill_files())]


def _exclude_changes(client: str, root: Path | None, setup: ClientSetup, command: Sequence[str]) -> list[FileChange]:
    """Plan the clone's exclude file: it lists a client's files while they hold a path of this machine."""
    exclude = exclude_file(root) if root is not None else None
    if root is None or exclude is None:
        return []
    paths = [file.path for file in setup.files if file.entries]
    if is_absolute(command):
        check_not_committed(root, paths, command[0])
    names = [str(path.relative_to(root)) for path in paths]
    return [plan_exclude(exclude, client, names, listed=is_absolute(command))]


def _write_all(
    changes: Sequence[FileChange], store: _RecordStore, records: Mapping[Path, ChangeRecord], *, removing: bool
) -> None:
    """Write every file or, if one cannot be written, none."""
    for index, change in enumerate(changes):
        try:
            # The record comes first: a change without a record could not be undone.
            if not removing and change.record is not None:
                store.save(change.path, change.record)
            write(change)
            if removing:
                store.save(change.path, None)
        except (OSError, EngramBusError) as problem:
            for done in reversed(changes[: index + 1]):
                with suppress(OSError, EngramBusError):
                    store.save(done.path, records.get(done.path))
                    undo(done)
            if isinstance(problem, EngramBusError):
                raise
            raise ClientFileUnwritable(
                f"{change.path} cannot be written: {problem.strerror}.",
                field=change.path.name,
                hint="Nothing was changed. Make it writable and try again.",
            ) from None


class _StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    record: ChangeRecord


class _RecordStore:
    """The records of changed files, in the account's state folder."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.client_records

    def read(self, paths: Sequence[Path]) -> dict[Path, ChangeRecord]:
        """Return the records of these files. An unreadable one is ignored: entries are recognised without it."""
        records = {}
        for path in paths:
            with suppress(OSError, ValueError):
                stored = msgspec.json.decode(self._file(path).read_bytes(), type=_StoredRecord)
                if stored.path == str(path):
                    records[path] = stored.record
        return records

    def save(self, path: Path, record: ChangeRecord | None) -> None:
        """Store the record of a file, or remove it."""
        file = self._file(path)
        if record is None:
            file.unlink(missing_ok=True)
            return
        make_folder(self._folder.resolve())
        data = msgspec.json.encode(_StoredRecord(path=str(path), record=record))
        replace_file(self._folder.resolve() / file.name, data)

    def _file(self, path: Path) -> Path:
        return self._folder / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"


def skill_folder() -> Path:
    """Return the folder of the skill pack that came with this installation."""
    for folder in _SKILL_FOLDERS:
        if (folder / "SKILL.md").is_file():
            return folder
    raise FileNotFound(f"The skill pack is missing from {_SKILL_FOLDERS[0]}.", hint="Install Engram Bus again.")


def skill_files(*, with_tests: bool = False) -> dict[str, bytes]:
    """Return the skill's files by path inside its folder; its tests only if wanted, which no client needs."""
    folder = skill_folder()
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and "__pycache__" not in path.parts
        and (with_tests or path.relative_to(folder).parts[0] != "tests")
    }


def has_skill(target: Path) -> bool | None:
    """Return True if a folder has exactly the skill, False if it differs, None if it has nothing of it."""
    present = {name: (target / name).read_bytes() for name in skill_files() if (target / name).is_file()}
    return present == skill_files() if present else None


def _plan_skill(target: Path, records: Mapping[Path, ChangeRecord]) -> Iterator[FileChange]:
    """Plan the skill's files; a different skill of the same name is refused."""
    existing = target / "SKILL.md"
    if existing.is_file() and _SKILL_MARK not in existing.read_bytes().lower():
        raise ClientEntryTaken(
            f"{target} is a different skill with the same name.", field=SKILL, hint="Rename or remove it first."
        )
    for name, content in skill_files().items():
        path = target / name
        old_content = path.read_bytes() if path.is_file() else None
        record = records.get(path)
        folders = (
            record.folders
            if old_content is not None and record
            else missing_folders(path)
            if old_content is None
            else ()
        )
        new_record = ChangeRecord(new_digest=digest(content), edits=(), created=True, folders=folders)
        yield FileChange(path=path, old_content=old_content, new_content=content, record=new_record)


def _plan_skill_removal(target: Path, records: Mapping[Path, ChangeRecord]) -> Iterator[FileChange]:
    """Plan the removal of the skill's files; an edited file stays."""
    for name, content in reversed(skill_files().items()):
        path = target / name
        old_content = path.read_bytes() if path.is_file() else None
        record = records.get(path)
        ours = {digest(content), record.new_digest if record else ""}
        remove = old_content is not None and digest(old_content) in ours
        yield FileChange(path=path, old_content=old_content, new_content=None if remove else old_content, record=record)
