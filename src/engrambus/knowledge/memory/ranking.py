"""The order of records, and what of it may be kept: the ranked records of a store in columns.

Columns are read from the cache without an object for every record. Records that were added since are put in their
places among them (decision 108).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import repeat

import msgspec

from engrambus.knowledge.memory.values import Dropped

# Later than every timestamp that can be written, so that records without one sort last.
NO_MOMENT = 2**63 - 1

Row = tuple[float, int, int, str, str, int, int]
"""Negated score, negated moment, store number, memory_id, record_hash, and the line's start and end in its file.

Plain tuples in this order sort as the contract ranks records, several times faster than objects with a key function.
"""

# Type codes of `array`
_SCORE, _MOMENT, _OFFSET = "d", "q", "Q"


class RankedRecords(msgspec.Struct, frozen=True, array_like=True):
    """The records of some segments of a store as one question ranks them, from the best to the worst."""

    memory_ids: list[str]
    record_hashes: list[str]
    scores: bytes
    """Negated."""
    moments: bytes
    """Negated; `NO_MOMENT` where there is no time."""
    starts: bytes
    """Offset of each line from the beginning of the file."""
    ends: bytes
    invalid: list[str]
    """Hashes of the lines that hold no valid record, in reading order."""


NOTHING_RANKED = RankedRecords([], [], b"", b"", b"", b"", [])


class RankedStore:
    """The ranked records of the store with this number."""

    def __init__(self, number: int, records: RankedRecords) -> None:
        self.number = number
        self.records = records
        self._scores: array[float] = array(_SCORE, records.scores)
        self._moments: array[int] = array(_MOMENT, records.moments)
        self._starts: array[int] = array(_OFFSET, records.starts)
        self._ends: array[int] = array(_OFFSET, records.ends)

    def __len__(self) -> int:
        return len(self.records.memory_ids)

    def rows(self, first: int = 0, end: int | None = None) -> Iterator[Row]:
        """Yield the records of these ranks as rows."""
        part, ids, hashes = slice(first, end), self.records.memory_ids, self.records.record_hashes
        numbers = repeat(self.number)
        return zip(  # noqa: B905
            self._scores[part],
            self._moments[part],
            numbers,
            ids[part],
            hashes[part],
            self._starts[part],
            self._ends[part],
        )

    def with_rows(self, rows: Sequence[Row], invalid: list[str]) -> RankedRecords:
        """Return these records and sorted rows of the same store."""
        records = self.records
        ids: list[str] = []
        hashes: list[str] = []
        scores: array[float] = array(_SCORE)
        moments, starts, ends = (array(code) for code in (_MOMENT, _OFFSET, _OFFSET))
        first = 0
        for row in (*rows, None):
            rank = len(self) if row is None else self.rank_of(row, first)
            ids += records.memory_ids[first:rank]
            hashes += records.record_hashes[first:rank]
            scores += self._scores[first:rank]
            moments += self._moments[first:rank]
            starts += self._starts[first:rank]
            ends += self._ends[first:rank]
            first = rank
            if row is not None:
                scores.append(row[0])
                moments.append(row[1])
                ids.append(row[3])
                hashes.append(row[4])
                starts.append(row[5])
                ends.append(row[6])
        return RankedRecords(
            memory_ids=ids,
            record_hashes=hashes,
            scores=scores.tobytes(),
            moments=moments.tobytes(),
            starts=starts.tobytes(),
            ends=ends.tobytes(),
            invalid=records.invalid + invalid,
        )

    def rank_of(self, row: Row, first: int) -> int:
        """Return the rank from `first` on before which another record stands."""
        # Searches without a key function cost a tenth; equal scores and times are rare where there are times.
        low = bisect_left(self._scores, row[0], first)
        high = bisect_right(self._scores, row[0], low)
        low = bisect_left(self._moments, row[1], low, high)
        high = bisect_right(self._moments, row[1], low, high)
        return bisect_left(range(high), row[2:], low, high, key=self._tie)

    def _tie(self, rank: int) -> tuple[int, str, str, int, int]:
        records = self.records
        names = (records.memory_ids[rank], records.record_hashes[rank])
        return (self.number, *names, self._starts[rank], self._ends[rank])


class MergedRanking:
    """The records of all stores in their order: the largest ranked store, and rows between its records."""

    def __init__(self, stores: Sequence[RankedStore], rows: list[Row], paths: Sequence[str]) -> None:
        """`rows` are the records that no ranked store has; the list is changed."""
        by_size = sorted(stores, key=len)
        self._paths = paths
        self._base = by_size.pop() if by_size else RankedStore(0, NOTHING_RANKED)
        for store in by_size:
            rows += store.rows()
        rows.sort()
        self._rows = rows
        self._ranks: list[int] = []
        """For each row, the rank in the base before which it stands."""
        rank = 0
        for row in rows if len(self._base) else ():
            rank = self._base.rank_of(row, rank)
            self._ranks.append(rank)

    def __iter__(self) -> Iterator[Row]:
        """Yield all records, from the best to the worst."""
        first = 0
        for rank, row in zip(self._ranks or repeat(0), self._rows, strict=False):
            yield from self._base.rows(first, rank)
            first = rank
            yield row
        yield from self._base.rows(first)

    def drop_after(self, count: int, reason: str) -> list[Dropped]:
        """Return all records but the first `count`, in their order, as dropped for a reason."""
        records = self._base.records
        path = self._paths[self._base.number] if self._paths else ""
        dropped: list[Dropped] = []

        def drop_base(first: int, end: int | None) -> None:
            part = slice(first, end)
            names = records.memory_ids[part], records.record_hashes[part]
            dropped.extend(map(Dropped, *names, repeat(path), repeat(reason)))

        first = 0
        for rank, (_, _, number, memory_id, record_hash, _, _) in zip(
            self._ranks or repeat(0), self._rows, strict=False
        ):
            if rank > first:
                drop_base(first, rank)
                first = rank
            dropped.append(Dropped(memory_id, record_hash, self._paths[number], reason))
        drop_base(first, None)
        return dropped[count:]
