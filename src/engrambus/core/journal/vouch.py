"""Taking a journal as one's own: a person vouches for it, and a segment with this machine's key continues it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec

from engrambus.core.journal.file import Journal
from engrambus.core.journal.key import JournalKey


class ForeignJournal(msgspec.Struct, frozen=True, kw_only=True):
    """A journal that was not written with this machine's key: what a person is asked to vouch for."""

    journal: Path
    kind: str
    commits: int
    """Number of commits whose checksums are right."""
    first_us: int
    """Time of the first commit; 0 if there is none."""
    last_us: int
    """Time of the last commit."""
    whole: bool = True
    """True if the journal ends with the last of them."""
    pinned: tuple[str, ...] = ()
    """Claims of the pinned engrams, which every brief shows first."""


def vouch_for(path: Path, key: JournalKey, kind: str, now_us: int) -> int:
    """Continue a journal in a segment with this machine's key; return the number of commits before it.

    The header of that segment vouches for every line before it. The caller holds the project's lock. A torn tail is
    cut; damage is refused.
    """
    with closing(Journal(path, None, kind)) as unmarked:
        end = unmarked.last_valid(unmarked.start)
        torn_bytes = unmarked.classify_tail(end)
    with closing(Journal(path, key, kind, vouched=True)) as journal:
        if torn_bytes:
            journal.cut(end.offset)
        journal.sync()
        journal.begin_segment(end, now_us)
    return end.seq
