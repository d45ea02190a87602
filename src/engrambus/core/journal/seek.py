"""Finding a line of a journal by its number, without reading what stands before it."""

from __future__ import annotations

from engrambus.core.journal.file import CHUNK, Journal, Place


def place_after(journal: Journal, seq: int, end: Place) -> Place:
    """The place behind the line of that number, which is not behind `end`.

    Lines say their number at their end, so the file is halved until what remains is worth reading through.
    """
    low, high = journal.segment, end.offset
    if seq < low.seq:
        low, high = journal.start, low.offset
    if seq <= low.seq:
        return low
    if seq >= end.seq:
        return end
    while high - low.offset > CHUNK:
        middle = (low.offset + high) // 2
        found = journal.place_behind(middle)
        if found is None or found.offset >= high or found.seq > seq:
            high = middle
        else:
            low = found
    for _, place in journal.read(low):
        if low.seq >= seq:
            break
        low = place
    return low
