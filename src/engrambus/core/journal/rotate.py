"""Beginning a new segment of a journal that has grown long."""

from __future__ import annotations

import os
from contextlib import suppress

from engrambus.core.journal.disk import sync, sync_folder
from engrambus.core.journal.file import Journal, Place
from engrambus.core.journal.format import print_continued


def begin_segment(journal: Journal, end: Place, at: int) -> Place:
    """Go on in a new file behind the last line; the caller holds the lock, and everything up to there is synced.

    The file as it is gets a second name, then the new one takes its place: whatever happens in between, the journal
    is whole.
    """
    written, _ = print_continued(journal.header, base=end.offset, after=end.sum, seq=end.seq, at=at)
    draft = journal.path.with_name(f"{journal.path.name}.{os.getpid()}.new")
    with draft.open("wb") as file:
        file.write(written)
        file.flush()
        sync(file.fileno())
    left = journal.segments.path(journal.header.base)
    with suppress(FileNotFoundError):
        left.unlink()  # a second name of the same file: whoever gave it died before the new one took its place
    os.link(journal.path, left)
    sync_folder(journal.path.parent)  # or a power cut might take the second name and leave the new file in the first
    draft.rename(journal.path)
    sync_folder(journal.path.parent)
    journal.size()
    return journal.into_segment(end)
