"""Reading posting lists from a server: many lists with two statements, because each costs a round trip."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from engrambus.backends.sql.knowledge.postings import NEWEST_FIRST, NO_LIMIT, PostingsReader
from engrambus.knowledge.engrams import PostingChunk, chunks_of


class PostgresPostingsReader(PostingsReader):
    """Reads posting lists through one session; those that were expected are fetched together."""

    _fetched: dict[str, tuple[list[PostingChunk], list[int]]] | None = None

    def expect(self, tokens: Sequence[str]) -> None:
        """Fetch the lists of these tokens."""
        if self._fetched is None:
            self._fetched = {}
        missing = sorted({*tokens} - self._fetched.keys())
        self._fetched |= {token: ([], []) for token in missing}
        blocks: Any = self._connection.execute(self._sql["posting_lists"], (missing,))
        for token, block, offsets in blocks:
            self._fetched[token][0].append(PostingChunk(block, array("H", offsets)))
        tail: Any = self._connection.execute(self._sql["tail_lists"], (missing,))
        for token, row_id in tail:
            self._fetched[token][1].append(NEWEST_FIRST - row_id)

    def chunks(self, token: str) -> list[PostingChunk]:
        """Return the whole list of a token."""
        if self._fetched is None or token not in self._fetched:
            return super().chunks(token)
        chunks, tail = self._fetched[token]
        newest = [*tail, *(ordinal for ordinal, tokens in self._pending if token in tokens)]
        return [*chunks, *chunks_of(newest)] if newest else chunks

    def _whole_tail(self, token: str) -> list[int]:
        rows: Any = self._connection.execute(self._sql["tail_lists"], ([token],))
        return [NEWEST_FIRST - row_id for _, row_id in rows]

    def _newest_of_tail(self, tokens: Sequence[str], below: int, limit: int) -> list[int]:
        least = -1 if below == NO_LIMIT else NEWEST_FIRST - below
        rows: Any
        if len(tokens) == 1:
            rows = self._connection.execute(self._sql["posted_under"], (tokens[0], least, limit))
        else:
            rows = self._connection.execute(self._sql["posted_under_all"], (list(tokens), least, len(tokens), limit))
        return [NEWEST_FIRST - row_id for (row_id,) in rows]
