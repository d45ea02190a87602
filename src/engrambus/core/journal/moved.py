"""The note that a journal was moved into a database: every process finds it next to the journal and writes no more."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from engrambus.core import files
from engrambus.errors import ProjectMoved

ENDING = ".moved"
MAX_NOTE_BYTES = 4096


class MovedNote(msgspec.Struct, frozen=True, kw_only=True):
    """Where a journal is now."""

    to: str
    """The database's URL, without a password."""
    at: str


def moved_note_path(journal: Path) -> Path:
    """Return the path of the note of a journal."""
    return journal.with_name(journal.name + ENDING)


def note_moved(journal: Path, note: MovedNote) -> None:
    """Write the note, durably."""
    files.replace_file(moved_note_path(journal), msgspec.json.encode(note))
    files.sync_folder(journal.parent)


def check_not_moved(journal: Path) -> None:
    """Refuse a journal that was moved."""
    path = moved_note_path(journal)
    if not os.path.lexists(path):
        return
    try:
        with files.open_reader(path) as file:
            note = msgspec.json.decode(file.read(MAX_NOTE_BYTES), type=MovedNote)
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError):
        note = MovedNote(to="a database", at="an unknown time")
    raise ProjectMoved(
        f"This project was moved to {note.to} at {note.at}; {journal.name} takes no more writes.",
        field="ENGRAMBUS_STORE",
        hint="Set ENGRAMBUS_STORE to the URL of that database, and start again what runs with the files. To go on with "
        f"the files instead, without what was written there, delete {path}.",
    )
