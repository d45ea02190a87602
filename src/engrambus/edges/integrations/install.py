"""Installing into a client and taking it back: everything is planned before the first byte is written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from engrambus.edges.integrations.client_config import PROGRAM, Setup, is_absolute, setup_for
from engrambus.edges.integrations.files import Change, Note, plan_install, plan_uninstall, undo, write
from engrambus.edges.integrations.git_exclude import check_not_committed, exclude_file, plan_exclude
from engrambus.edges.integrations.skill import plan_no_skill, plan_skill, skill_files
from engrambus.errors import ClientFileUnwritable, EngramBusError
from engrambus.settings import Settings


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A note as it is kept."""

    path: str
    note: Note


class Notes:
    """What was done to which file, kept with the account's state."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.client_notes

    def read(self, paths: Sequence[Path]) -> dict[Path, Note]:
        """The notes there are of these files; one that cannot be read is none, and our entries are found without it."""
        found = {}
        for path in paths:
            with suppress(OSError, msgspec.DecodeError):
                kept = msgspec.json.decode(self._place(path).read_bytes(), type=_Kept)
                if kept.path == str(path):
                    found[path] = kept.note
        return found

    def keep(self, path: Path, note: Note | None) -> None:
        """Note what was done to a file, or that nothing is left of it."""
        place = self._place(path)
        if note is None:
            place.unlink(missing_ok=True)
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = msgspec.json.encode(_Kept(path=str(path), note=note))
        write(Change(path=place, before=place.read_bytes() if place.exists() else None, after=kept))

    def _place(self, path: Path) -> Path:
        return self._folder / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"


def project_root(folder: Path) -> Path:
    """The top of the checkout a folder lies in, where clients look; the folder itself without git."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)


def paths_of(setup: Setup) -> list[Path]:
    """Every file a set-up is about."""
    return [*(file.path for file in setup.files), *(setup.skill / name for name in skill_files())]


def install(
    client: str, root: Path | None, settings: Settings, command: Sequence[str], *, dry_run: bool
) -> list[Change]:
    """Put everything into a client's files; tells what changed, or with `dry_run` would."""
    setup = setup_for(client, root, settings, command)
    notes = Notes(settings)
    known = notes.read(paths_of(setup))
    changes = [
        *_exclude_changes(client, root, setup, command),
        *(plan_install(file, known.get(file.path)) for file in setup.files),
        *plan_skill(setup.skill, known),
    ]
    if not dry_run:
        _carry_out(changes, notes, known, removing=False)
    return changes


def uninstall(client: str, root: Path | None, settings: Settings, *, dry_run: bool) -> list[Change]:
    """Take everything out of a client's files; what others wrote there stays."""
    setup = setup_for(client, root, settings, [PROGRAM])
    notes = Notes(settings)
    known = notes.read(paths_of(setup))
    changes = [
        *(plan_uninstall(file, known.get(file.path)) for file in setup.files),
        *plan_no_skill(setup.skill, known),
        *_exclude_changes(client, root, setup, [PROGRAM]),
    ]
    if not dry_run:
        _carry_out(changes, notes, known, removing=True)
    return changes


def _exclude_changes(client: str, root: Path | None, setup: Setup, command: Sequence[str]) -> list[Change]:
    """Plan the clone's exclude file: it lists a client's files while they hold a path of this machine."""
    exclude = exclude_file(root) if root is not None else None
    if root is None or exclude is None:
        return []
    paths = [file.path for file in setup.files]
    if is_absolute(command):
        check_not_committed(root, paths, command[0])
    names = [str(path.relative_to(root)) for path in paths]
    return [plan_exclude(exclude, client, names, listed=is_absolute(command))]


def _carry_out(changes: Sequence[Change], notes: Notes, known: Mapping[Path, Note], *, removing: bool) -> None:
    """Write every file, or, when one of them cannot be written, none."""
    for place, change in enumerate(changes):
        try:
            if not removing and change.note is not None:  # noted first: what is not noted could not be taken back
                notes.keep(change.path, change.note)
            write(change)
            if removing:
                notes.keep(change.path, None)
        except (OSError, EngramBusError) as problem:
            for each in reversed(changes[: place + 1]):
                with suppress(OSError, EngramBusError):
                    notes.keep(each.path, known.get(each.path))
                    undo(each)
            if isinstance(problem, EngramBusError):
                raise
            raise ClientFileUnwritable(
                f"{change.path} cannot be written: {problem.strerror}.",
                field=change.path.name,
                hint="Nothing was changed. Make it writable and try again.",
            ) from None
