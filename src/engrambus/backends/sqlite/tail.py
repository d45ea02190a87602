"""Reading the journal on from where a reader stopped."""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import islice

from engrambus.core.journal import Journal, Line, Place, place_after

MAX_KEPT = 256
"""How many places where somebody stopped are kept; any other is found by halving the file."""


class Tail:
    """The journal's lines by number."""

    def __init__(self, journal: Journal) -> None:
        self.end: Place | None = None
        """Behind the last line known to be committed."""
        self._journal = journal
        self._kept: OrderedDict[int, Place] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, seq: int, end: Place, limit: int) -> list[Line]:
        """The lines after the line of that number, as far as the end."""
        count = min(limit, end.seq - seq)
        if count <= 0:
            return []
        with self._lock:
            place = self._kept.get(seq)
        if place is None or not self._journal.holds(place):
            place = place_after(self._journal, seq, end)
        found = list(islice(self._journal.read(place), count))
        if found:
            self._keep(found[-1][1])
        return [line for line, _ in found]

    def _keep(self, place: Place) -> None:
        with self._lock:
            self._kept[place.seq] = place
            self._kept.move_to_end(place.seq)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
