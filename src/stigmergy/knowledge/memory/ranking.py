"""Rows of all stores in one order, and the list of those that were dropped."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import msgspec

from stigmergy.knowledge.memory.rows import DENIED, RANKED, REASON, entries_of
from stigmergy.knowledge.memory.values import Dropped

_decode = msgspec.json.Decoder(list[Dropped]).decode


def merged(runs: list[Iterator[list[str]]]) -> Iterator[list[str]]:
    """The rows of several runs in one order, piece by piece.

    Of what has been handed out, everything up to the least of the last rows is known to come before all that follows.
    """
    heads = [(piece, run) for run in runs if (piece := next(run, []))]
    while heads:
        bound = min(piece[-1] for piece, _ in heads)
        rows: list[str] = []
        rest: list[tuple[list[str], Iterator[list[str]]]] = []
        for piece, run in heads:
            upto = bisect_right(piece, bound)
            rows += piece[:upto]
            if more := piece[upto:] or next(run, []):
                rest.append((more, run))
        heads = rest
        rows.sort()
        yield rows


class DroppedList:
    """What was dropped, as it stands in the package: printed, for it may be as long as the stores."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """How many were dropped for each reason."""
        self.pieces: list[bytes] = []
        """Canonical JSON."""

    def __len__(self) -> int:
        return sum(self.counts.values())

    def add(self, rows: list[str], reason: str) -> None:
        """Add rows at the end."""
        if rows:
            comma = "," if self.pieces else ""
            self.pieces.append((comma + ",".join(entries_of(rows)).replace(REASON, reason)).encode())
            self.counts[reason] = self.counts.get(reason, 0) + len(rows)

    def add_unranked(self, rows: list[str]) -> list[str]:
        """Add those rows that cannot be selected; the others."""
        denied, ranked = bisect_left(rows, DENIED), bisect_left(rows, RANKED)
        self.add(rows[:denied], "invalid_record_schema")
        self.add(rows[denied:ranked], "trust_denied")
        return rows[ranked:]

    def records(self) -> list[Dropped]:
        """The list itself."""
        return _decode(b"[" + b"".join(self.pieces) + b"]")
