"""Rows of all stores in one order, and the list of those that were dropped."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from engrambus.knowledge.memory.rows import DENIED, RANKED, print_dropped
from engrambus.knowledge.memory.values import Dropped

_decode = msgspec.json.Decoder(list[Dropped]).decode


def merge_runs(runs: list[Iterator[list[str]]]) -> Iterator[list[str]]:
    """The rows of several runs in one order, piece by piece.

    Every run is asked until it has handed out more than the middle one had at first. What comes up to there is then
    known to come before all that follows.
    """
    heads = [(piece, run) for run in runs if (piece := next(run, []))]
    while heads:
        bound = sorted([piece[-1] for piece, _ in heads])[(len(heads) - 1) // 2]
        rows: list[str] = []
        rest: list[tuple[list[str], Iterator[list[str]]]] = []
        for head, run in heads:
            piece = head
            while piece and piece[-1] <= bound:
                rows += piece
                piece = next(run, [])
            if piece:
                upto = bisect_right(piece, bound)
                rows += piece[:upto]
                rest.append((piece[upto:], run))
        heads = rest
        rows.sort()
        yield rows


class DroppedList:
    """What was dropped, as it stands in the package: printed, for it may be as long as the stores."""

    def __init__(self, paths: Sequence[str]) -> None:
        """The stores, in their order."""
        self._paths = paths
        self.counts: dict[str, int] = {}
        """How many were dropped for each reason."""
        self.pieces: list[bytes] = []
        """Canonical JSON."""

    def __len__(self) -> int:
        return sum(self.counts.values())

    def add(self, rows: list[str], reason: str) -> None:
        """Add rows at the end."""
        if rows:
            comma = b"," if self.pieces else b""
            self.pieces.append(comma + print_dropped(rows, reason, self._paths))
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
