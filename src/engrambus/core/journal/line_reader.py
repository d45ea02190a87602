"""Reading a journal's lines by their number, from where an earlier reader stopped."""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import islice

from engrambus.core.journal.file import Journal, JournalPosition
from engrambus.core.journal.format import Line
from engrambus.core.journal.segments import CHUNK

MAX_REMEMBERED = 256
"""Most positions remembered; any other is found by bisecting the file."""


class LineReader:
    """Reads lines by number. It remembers the positions at which readers stopped, since they ask for the next lines."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._positions: OrderedDict[int, JournalPosition] = OrderedDict()
        self._lock = threading.Lock()

    def read_after(self, seq: int, end: JournalPosition, limit: int) -> list[Line]:
        """Return the lines after line number `seq`, up to `end`; raise JournalDamaged if one of them is damaged."""
        count = min(limit, end.seq - seq)
        if count <= 0:
            return []
        with self._lock:
            position = self._positions.get(seq)
        if position is None or not self._journal.holds(position):
            position = position_after(self._journal, seq, end)
        lines = list(islice(self._journal.read(position), count))
        if lines:
            self._remember(lines[-1][1])
        if len(lines) < count:  # all of them were committed: what stopped the reader is damage, not a torn tail
            self._journal.classify_tail(lines[-1][1] if lines else position, end.offset)
        return [line for line, _ in lines]

    def _remember(self, position: JournalPosition) -> None:
        with self._lock:
            self._positions[position.seq] = position
            self._positions.move_to_end(position.seq)
            if len(self._positions) > MAX_REMEMBERED:
                self._positions.popitem(last=False)


def position_after(journal: Journal, seq: int, end: JournalPosition) -> JournalPosition:
    """Return the position behind line number `seq`, which lies at or before `end`.

    Lines state their number at their end, so the file is bisected until the remaining stretch is worth reading.
    """
    low, high = journal.segment_start, end.offset
    if seq < low.seq:
        low, high = journal.start, low.offset
    if seq <= low.seq:
        return low
    if seq >= end.seq:
        return end
    while high - low.offset > CHUNK:
        middle = (low.offset + high) // 2
        position = journal.position_after_offset(middle)
        if position is None or position.offset >= high or position.seq > seq:
            high = middle
        else:
            low = position
    for _, position in journal.read(low):
        if low.seq >= seq:
            break
        low = position
    return low
