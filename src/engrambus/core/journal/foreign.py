"""Refusing journals, and lines of a journal, that were not written with this machine's key (decision 67)."""

from __future__ import annotations

from pathlib import Path

from engrambus.core.journal.format import UNMARKED_FORMAT, Header
from engrambus.errors import JournalForeign


def foreign_journal(path: Path, header: Header) -> JournalForeign:
    """Return the refusal of a journal whose header was not written with this machine's key."""
    if header.format == UNMARKED_FORMAT:
        why = "it came with the repository, or an older version of Engram Bus wrote it"
        yours = "If you wrote it here with an older version: engrambus adopt --own."
    else:
        why = "it came with the repository or from another machine, or the keys of this project were lost"
        yours = "If it is yours, bring its keys: engrambus keys import FILE."
    return JournalForeign(
        f"{path.name} was not written with this machine's key: {why}. Nothing of it was used.",
        field=str(path),
        hint=f"{yours} To take over what somebody else's journal says, as untrusted knowledge: engrambus adopt.",
    )


def foreign_lines(path: Path, *, line: int, offset: int) -> JournalForeign:
    """Return the refusal of lines that were added to a journal of ours without its key."""
    return JournalForeign(
        f"{path.name} has lines from line {line} on, byte {offset}, that were not written with this machine's key. "
        "Nothing of them was used.",
        field=str(path),
        limit=offset,
        hint="Set them aside and keep every line before them: engrambus recover.",
    )
