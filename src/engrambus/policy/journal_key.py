"""The file of the journals' key. It is created with the first journal, and never again for a journal that exists."""

from __future__ import annotations

from pathlib import Path

from engrambus.core.journal import JournalKey
from engrambus.policy.key_files import create_secret, read_secret

JOURNAL_KEY_FILE = "journal.key"


def create_journal_key(folder: Path) -> JournalKey:
    """Return the key of a project that has no journal yet; the first process that needs it creates it."""
    create_secret(folder, JOURNAL_KEY_FILE)
    return _read(folder)


def load_journal_key(folder: Path) -> JournalKey | None:
    """Return the key of a project's journals; None if this machine has none."""
    # decision 67: a key made for a journal that is there already would only hide that the right one is missing
    return _read(folder) if (folder / JOURNAL_KEY_FILE).exists() else None


def _read(folder: Path) -> JournalKey:
    hint = "Put it back from a backup: engrambus keys import FILE."
    return JournalKey(read_secret(folder / JOURNAL_KEY_FILE, hint))
