"""Everything the stores hold, and the order it is offered in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, pairwise, repeat

from stigmergy.knowledge.memory.blocks import MISSING
from stigmergy.knowledge.memory.scoring import Scored
from stigmergy.knowledge.memory.trust import Denied
from stigmergy.knowledge.memory.values import Dropped

HASH_DIGITS = 64
EXACT = 2**53
"""Whole numbers below this are floats without loss."""


class Found:
    """A row for each record that may be selected, and what may not."""

    def __init__(self, denied: Denied) -> None:
        self._denied = denied
        self.ids: list[str] = []
        self.hashes: list[str] = []
        self.paths: list[str] = []
        self.moments: list[int] = []
        self.scores: list[float] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.invalid: list[Dropped] = []
        self.denied: list[Dropped] = []

    def take(self, path: str, scored: Scored) -> None:
        """Take in a stretch of a store."""
        self.invalid += (Dropped("", name, path, "invalid_record_schema") for name in _split(scored.invalid))
        hashes = _split(scored.hashes)
        if self._denied:
            scored, hashes = self._without_denied(path, scored, hashes)
        self.ids += scored.ids
        self.hashes += hashes
        self.paths += [path] * len(hashes)
        self.moments += scored.moments
        self.scores += scored.scores
        self.starts += scored.starts
        self.ends += scored.ends

    def _without_denied(self, path: str, scored: Scored, hashes: list[str]) -> tuple[Scored, list[str]]:
        denied = [self._denied.denies(name, hashed) for name, hashed in zip(scored.ids, hashes, strict=True)]
        self.denied += (
            Dropped(name, hashed, path, "trust_denied")
            for name, hashed, out in zip(scored.ids, hashes, denied, strict=True)
            if out
        )
        kept = [not out for out in denied]
        rest = Scored(
            ids=list(compress(scored.ids, kept)),
            hashes=b"",
            moments=list(compress(scored.moments, kept)),
            scores=list(compress(scored.scores, kept)),
            starts=list(compress(scored.starts, kept)),
            ends=list(compress(scored.ends, kept)),
            invalid=b"",
        )
        return rest, list(compress(hashes, kept))

    def ranked(self) -> list[int]:
        """The rows by score, newest first, then by store, id and hash.

        There are few different scores and few rows of the same moment, so rows are dealt out by score, sorted by
        moment, and only those that agree in both are compared further.
        """
        by_score: dict[float, list[int]] = {}
        for row, score in enumerate(self.scores):
            try:
                by_score[score].append(row)
            except KeyError:
                by_score[score] = [row]
        keys: Sequence[float] = self.moments
        if all(moment == MISSING or -EXACT < moment < EXACT for moment in keys):
            keys = list(map(float, keys))  # exact, and faster to compare
        order: list[int] = []
        for score in sorted(by_score, reverse=True):
            rows = by_score[score]
            rows.sort(key=keys.__getitem__, reverse=True)
            self._settle(rows)
            order += rows
        return order

    def dropped(self, rows: list[int], reason: str) -> list[Dropped]:
        """Rows that were not selected, in their order."""
        columns = ([column[row] for row in rows] for column in (self.ids, self.hashes, self.paths))
        return list(map(Dropped, *columns, repeat(reason)))

    def _settle(self, rows: list[int]) -> None:
        """Put rows of the same moment in their order."""
        moments = [self.moments[row] for row in rows]
        tied = [at for at, (one, next_one) in enumerate(pairwise(moments)) if one == next_one]
        done = -1
        for start in tied:
            if start < done:
                continue
            done = start + 1
            while done < len(rows) and moments[done] == moments[start]:
                done += 1
            rows[start:done] = sorted(
                rows[start:done], key=lambda row: (self.paths[row], self.ids[row], self.hashes[row])
            )


def _split(hashes: bytes) -> list[str]:
    digits = hashes.hex()
    return [digits[start : start + HASH_DIGITS] for start in range(0, len(digits), HASH_DIGITS)]
