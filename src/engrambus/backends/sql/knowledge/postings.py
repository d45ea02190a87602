"""Posting lists in the knowledge index: from a token, which is a space and a key, to the engrams posted under it.

An engram is in one of three places (decision 87): `pending` has the newest few, as they were put; `postings`, an FTS5
table, has up to some thousand engrams; `posting_blocks` has all others, a row for each token and block of 65,536
ordinals. Entries move on in batches, which costs a fraction of writing them one by one where they end up.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Protocol, TypeAlias

from engrambus.backends.sql.connection import SqlConnection
from engrambus.knowledge.engrams import BLOCK_BITS, BLOCK_ROWS, PostingChunk, chunks_of

MAX_PENDING = 32
"""Engrams that wait in `pending` before they are posted together (decision 2)."""
MAX_TAIL = 2048
"""Engrams in the FTS5 table before they are merged into blocks."""
MIN_BULK = 512
"""Engrams that a replay posts at once from which on they go straight into blocks."""
NEWEST_FIRST = 1 << 40
"""A row id of the FTS5 table is this minus the ordinal: it reads upwards fastest, and the newest come first."""
NO_LIMIT = 1 << 62
FEW_REMOVED = 100
"""Up to so many entries are deleted from a list one by one."""

PendingRows: TypeAlias = Sequence[tuple[int, frozenset[str]]]
"""Pending engrams, each an ordinal and its tokens."""


class PostingCounts(Protocol):
    """The part of the state row that posting changes."""

    pending: int
    """Engrams in `pending`."""
    tail: int
    """Engrams in the FTS5 table."""
    merged: int
    """The highest ordinal in blocks."""


class Postings(Protocol):
    """Takes the postings of engrams as facts are applied."""

    def post(self, rows: Sequence[tuple[int, str]]) -> None:
        """Post new engrams, each an ordinal and its tokens separated by spaces."""
        ...

    def post_again(self, ordinal: int, tokens: str) -> None:
        """Post an engram under other tokens than before."""
        ...

    def unpost_all(self, rows: Sequence[tuple[int, str]]) -> None:
        """Take engrams off the lists of these tokens, which are all that they are on."""
        ...

    def finish(self) -> None:
        """Write what is still gathered, before the transaction ends."""
        ...


class PostingsWriter:
    """Posts engrams, and takes them off their lists, through one connection inside one transaction."""

    def __init__(self, connection: SqlConnection, sql: Mapping[str, str], counts: PostingCounts) -> None:
        self._connection = connection
        self._counts = counts
        self._sql = sql

    def post(self, rows: Sequence[tuple[int, str]]) -> None:
        """Post new engrams, each an ordinal and its tokens separated by spaces."""
        # decision 2: posting thirty-two together costs FTS5 a fraction of one by one
        if self._counts.pending + len(rows) < MAX_PENDING:
            self._connection.executemany(self._sql["add_pending"], rows)
            self._counts.pending += len(rows)
            return
        newest_first = sorted([*self._take_pending(), *rows], reverse=True)
        for start in range(0, len(newest_first), MAX_TAIL):
            self._add_to_tail(newest_first[start : start + MAX_TAIL])

    def post_again(self, ordinal: int, tokens: str) -> None:
        """Post an engram under other tokens than before; not pending, which holds only the newest."""
        self._add_to_tail([(ordinal, tokens)])

    def finish(self) -> None:
        """Nothing is gathered."""

    def unpost_all(self, rows: Sequence[tuple[int, str]]) -> None:
        """Take engrams off their lists; a list that several are on is written once."""
        in_blocks: dict[tuple[str, int], set[int]] = {}
        for ordinal, tokens in rows:
            if not self._is_removed_early(ordinal):
                for token in tokens.split(" "):
                    in_blocks.setdefault((token, ordinal >> BLOCK_BITS), set()).add(ordinal & (BLOCK_ROWS - 1))
        for (token, block), offsets in in_blocks.items():
            self._remove_from_block(token, block, offsets)

    def _is_removed_early(self, ordinal: int) -> bool:
        """Take an engram out of `pending` or the FTS5 table; False if it is in blocks."""
        self._connection.execute(self._sql["delete_pending"], (ordinal,))
        if self._connection.changes():
            self._counts.pending -= 1
            return True
        row_id = NEWEST_FIRST - ordinal
        if self._connection.execute(self._sql["is_in_tail"], (row_id,)).fetchone() is None:
            return False
        self._connection.execute(self._sql["delete_posting"], (row_id,))
        self._counts.tail -= 1
        return True

    def _take_pending(self) -> list[tuple[int, str]]:
        """Empty the table `pending`; return its rows."""
        pending: list[Any] = self._connection.execute(self._sql["pending"]).fetchall()
        self._connection.execute(self._sql["delete_all_pending"])
        self._counts.pending = 0
        return pending

    def _add_to_tail(self, rows: Sequence[tuple[int, str]]) -> None:
        self._connection.executemany(
            self._sql["insert_posting"], ((NEWEST_FIRST - ordinal, tokens) for ordinal, tokens in rows)
        )
        self._counts.tail += len(rows)
        if self._counts.tail >= MAX_TAIL:
            self._merge_tail()

    def _merge_tail(self) -> None:
        """Move every entry of the FTS5 table into blocks."""
        self._merge(self._take_tail())

    def _take_tail(self) -> dict[str, list[int]]:
        """Empty the FTS5 table; return its tokens with their ordinals."""
        by_token = _tail_lists(self._connection, self._sql)
        self._connection.execute(self._sql["delete_tail"])
        self._counts.tail = 0
        return by_token

    def _merge(self, by_token: dict[str, list[int]]) -> None:
        """Add ordinals to the blocks of their tokens; in the order of the tokens, in which the table is stored."""
        merged = highest = self._counts.merged
        appended: list[tuple[str, int, bytes]] = []
        inserted: list[tuple[str, int]] = []
        for token in sorted(by_token):
            ordinals = by_token[token]
            highest = max(highest, *ordinals)
            if min(ordinals) <= merged:
                # Only an engram whose space or keys have changed is older than what is in blocks.
                inserted += [(token, ordinal) for ordinal in ordinals if ordinal <= merged]
                ordinals = [ordinal for ordinal in ordinals if ordinal > merged]
            appended += [(token, chunk.block, chunk.offsets.tobytes()) for chunk in chunks_of(ordinals)]
        self._connection.executemany(self._sql["append_to_block"], appended)
        for token, ordinal in inserted:
            self._insert_into_block(token, ordinal)
        self._counts.merged = highest

    def _insert_into_block(self, token: str, ordinal: int) -> None:
        block, offset = ordinal >> BLOCK_BITS, ordinal & (BLOCK_ROWS - 1)
        row: Any = self._connection.execute(self._sql["posting_block"], (token, block)).fetchone()
        offsets = array("H", row[0] if row is not None else b"")
        offsets.insert(bisect_left(offsets, offset), offset)
        self._connection.execute(self._sql["set_posting_block"], (token, block, offsets.tobytes()))

    def _remove_from_block(self, token: str, block: int, removed: set[int]) -> None:
        row: Any = self._connection.execute(self._sql["posting_block"], (token, block)).fetchone()
        offsets = array("H", row[0] if row is not None else b"")
        if len(removed) < FEW_REMOVED:
            for offset in removed:
                index = bisect_left(offsets, offset)
                if index < len(offsets) and offsets[index] == offset:
                    del offsets[index]
        else:
            offsets = array("H", [offset for offset in offsets if offset not in removed])
        if offsets:
            self._connection.execute(self._sql["set_posting_block"], (token, block, offsets.tobytes()))
        else:
            self._connection.execute(self._sql["delete_posting_block"], (token, block))


class BulkPostings(PostingsWriter):
    """Gathers the postings of many facts and writes them into blocks at once, for a replay (decision 94)."""

    def __init__(self, connection: SqlConnection, sql: Mapping[str, str], counts: PostingCounts) -> None:
        super().__init__(connection, sql, counts)
        self._new: dict[int, str] = {}
        self._changed: dict[int, str] = {}

    def post(self, rows: Sequence[tuple[int, str]]) -> None:
        """Gather new engrams."""
        self._new.update(rows)

    def post_again(self, ordinal: int, tokens: str) -> None:
        """Gather an engram that is posted under other tokens than before."""
        self._changed[ordinal] = tokens

    def unpost_all(self, rows: Sequence[tuple[int, str]]) -> None:
        """Take engrams off their lists; those only gathered are on none yet."""
        super().unpost_all([row for row in rows if not self._is_gathered(row[0])])

    def finish(self) -> None:
        """Write what is gathered: a few as a commit does, many straight into blocks."""
        new, changed = self._new, self._changed
        self._new, self._changed = {}, {}
        if len(new) + len(changed) < MIN_BULK:
            super().post([*new.items()])
            for ordinal, tokens in changed.items():
                super().post_again(ordinal, tokens)
            return
        by_token = self._take_tail()
        for ordinal, tokens in (*self._take_pending(), *new.items(), *changed.items()):
            for token in tokens.split(" "):
                by_token.setdefault(token, []).append(ordinal)
        self._merge(by_token)

    def _is_gathered(self, ordinal: int) -> bool:
        """Forget what is gathered of an engram; False if nothing is."""
        return (self._new.pop(ordinal, None) or self._changed.pop(ordinal, None)) is not None


class PostingsReader:
    """Reads posting lists through one connection inside one transaction."""

    def __init__(self, connection: SqlConnection, sql: Mapping[str, str], pending: PendingRows) -> None:
        self._connection = connection
        self._pending = pending
        self._sql = sql

    def expect(self, tokens: Sequence[str]) -> None:
        """Take note that the lists of these tokens will be read. Nothing is fetched: a query takes microseconds."""

    def chunks(self, token: str) -> list[PostingChunk]:
        """Return the whole list of a token."""
        rows: Any = self._connection.execute(self._sql["posting_blocks"], (token, NO_LIMIT))
        chunks = [PostingChunk(block, array("H", offsets)) for block, offsets in rows]
        newest = [*self._whole_tail(token), *(ordinal for ordinal, tokens in self._pending if token in tokens)]
        return [*chunks, *chunks_of(newest)] if newest else chunks

    def _whole_tail(self, token: str) -> list[int]:
        rows: Any = self._connection.execute(self._sql["posted"], (f'"{token}"', -1))
        return [NEWEST_FIRST - row_id for (row_id,) in rows]

    def newest(self, tokens: Sequence[str], *, below: int, limit: int) -> list[int]:
        """Return the newest ordinals less than `below` that are on the lists of all these tokens, newest first."""
        newest = [*self._newest_of_tail(tokens, below, limit), *self._newest_pending(tokens, below)]
        newest.sort(reverse=True)
        return list(islice(merge(newest, self._from_blocks(tokens, below), reverse=True), limit))

    def _newest_of_tail(self, tokens: Sequence[str], below: int, limit: int) -> list[int]:
        match = '"' + '" AND "'.join(tokens) + '"'
        rows: Any
        if below == NO_LIMIT:
            rows = self._connection.execute(self._sql["posted"], (match, limit))
        else:
            rows = self._connection.execute(self._sql["posted_before"], (match, NEWEST_FIRST - below, limit))
        return [NEWEST_FIRST - row_id for (row_id,) in rows]

    def _newest_pending(self, tokens: Sequence[str], below: int) -> list[int]:
        return [ordinal for ordinal, posted in self._pending if ordinal < below and posted.issuperset(tokens)]

    def _from_blocks(self, tokens: Sequence[str], below: int) -> Iterator[int]:
        rows: Any = self._connection.execute(self._sql["posting_blocks"], (tokens[0], below >> BLOCK_BITS))
        for block, blob in rows:
            lists = [array("H", blob)]
            for token in tokens[1:]:
                row: Any = self._connection.execute(self._sql["posting_block"], (token, block)).fetchone()
                lists.append(array("H", row[0] if row is not None else b""))
            shortest, *longer = sorted(lists, key=len)
            first = block << BLOCK_BITS
            for offset in reversed(shortest):  # one by one: mostly, few are asked for
                if first + offset < below and all(_has(offsets, offset) for offsets in longer):
                    yield first + offset


def _has(offsets: array[int], offset: int) -> bool:
    index = bisect_left(offsets, offset)
    return index < len(offsets) and offsets[index] == offset


def read_pending(connection: SqlConnection, sql: Mapping[str, str]) -> PendingRows:
    """Return the pending engrams."""
    rows: Any = connection.execute(sql["pending"])
    return [(ordinal, frozenset(tokens.split(" "))) for ordinal, tokens in rows]


def all_postings(connection: SqlConnection, sql: Mapping[str, str]) -> Iterator[tuple[str, PostingChunk]]:
    """Yield every token of the index with chunks of its ordinals, for `verify`."""
    for ordinal, tokens in read_pending(connection, sql):
        (chunk,) = chunks_of((ordinal,))
        yield from ((token, chunk) for token in tokens)
    for token, ordinals in _tail_lists(connection, sql).items():
        yield from ((token, chunk) for chunk in chunks_of(ordinals))
    rows: Any = connection.execute(sql["all_posting_blocks"])
    for token, block, blob in rows:
        yield token, PostingChunk(block, array("H", blob))


def _tail_lists(connection: SqlConnection, sql: Mapping[str, str]) -> dict[str, list[int]]:
    """Return the tokens of the FTS5 table with their ordinals."""
    by_token: dict[str, list[int]] = {}
    rows: Any = connection.execute(sql["tail_terms"])
    for token, row_id in rows:
        by_token.setdefault(token, []).append(NEWEST_FIRST - row_id)
    return by_token
