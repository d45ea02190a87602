"""What is compared of the knowledge index and a draft of it: every table, posting lists and counts (decision 94)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw

from engrambus.backends.sql.connection import SqlConnection
from engrambus.backends.sql.knowledge.postings import all_postings
from engrambus.backends.sql.knowledge.projection import (
    PAST,
    KnowledgeIndexState,
    KnowledgeProjection,
    decode_engram,
    tokens_of,
)
from engrambus.backends.sqlite.comparison import DIFFERS, ComparedTable, whole_tables
from engrambus.backends.sqlite.queries import queries
from engrambus.gateway.ports import Finding
from engrambus.knowledge.engrams import BLOCK_BITS, BLOCK_ROWS, PostingChunk

# When expired engrams are swept out of `engrams` is not recorded in the journal: until then they count as past.
_ENGRAM = "ordinal, space, id, run, kind, scope, created_at, expires_at, confidence, names, more_keys, sequence, body"
_LIVE_ONLY = "JOIN engrams USING (ordinal) WHERE expires_at > :at"
COMPARED = {
    "engrams": ComparedTable(
        (
            f"SELECT {_ENGRAM}, CASE WHEN expires_at > :at THEN twin END AS twin, "  # noqa: S608
            "CAST(NULL AS BIGINT) AS replaced_at, NULL AS replaced_by FROM engrams",
            f"SELECT {_ENGRAM}, NULL AS twin, replaced_at, replaced_by FROM past",  # noqa: S608
        ),
        ("ordinal",),
    ),
    **whole_tables(
        used_ids="id",
        runs="number",
        tokens="token_id",
        policies="position",
        gate_overrides="position",
        promotions="request_id",
        listed="run agent",
        puts="root second author",
        mail="position",
        mail_handed_over="run agent",
        packs="position",
        requests="request_id",
        grants="grant_id",
        reservations="reservation_id",
        blocks="block_id",
        given_budgets="run agent",
        rejections="run agent kind rejection",
        briefs="run role version",
        agent_paths="run agent path",
        delivered="run agent digest",
        tallies="run agent",
        kinds_put="run agent kind",
        outcomes="run agent",
        denials="run agent code",
        history="bucket start run role",
        learned_from="one",
        unwanted="key",
        uses="position",
        episodes="ordinal",
        snapshots="id run by heir",
        contradictions="id",
        contributions="id",
        turns="run agent",
        reads="content run agent first last to_end unit",
        remembered="caller key",
    ),
    "adoptions": ComparedTable((f"SELECT a.ordinal, a.id, a.body FROM adoptions a {_LIVE_ONLY}",), ("ordinal",)),  # noqa: S608
    "captures": ComparedTable((f"SELECT c.ordinal, c.id, c.body FROM captures c {_LIVE_ONLY}",), ("ordinal",)),  # noqa: S608
    "learned": ComparedTable((f"SELECT l.ordinal, l.id, l.body FROM learned l {_LIVE_ONLY}",), ("ordinal",)),  # noqa: S608
    "votes": ComparedTable((f"SELECT v.ordinal, v.root FROM votes v {_LIVE_ONLY}",), ("ordinal", "root")),  # noqa: S608
    "recalled": ComparedTable(("SELECT run, agent, engram, stale FROM recalled",), ("run", "agent", "engram")),
    # Of these the positions may differ, and their order counts.
    "pins": ComparedTable((f"SELECT ordinal FROM pins {_LIVE_ONLY} ORDER BY position",)),  # noqa: S608
    "agents": ComparedTable(
        (
            "SELECT run, name, role, parent, client_id, session_turns, removed, tokens_revoked, root, added_at "
            "FROM agents ORDER BY position",
        )
    ),
    "recalled_tasks": ComparedTable(("SELECT run, agent, task, engrams FROM recalled_tasks ORDER BY position",)),
    "applied": ComparedTable(
        ("SELECT layout, project, position, seq, checksum, at, ordinal, runs, identity FROM applied",)
    ),
}
"""What an index says, without expired engrams and without where new postings wait."""


class KnowledgeComparison:
    """Compares the knowledge index with a draft. Of the draft's postings only their sum is held."""

    tables = COMPARED

    def __init__(self) -> None:
        self._weights = PostingWeights()
        self._expected = PostingsSum(self._weights)

    def prepare(self, draft: apsw.Connection) -> None:
        """Drop indexes that no fact needs to be applied."""
        draft.execute("DROP INDEX engrams_twin; DROP INDEX engrams_expiry")

    def projection(self, draft: apsw.Connection, state: KnowledgeIndexState) -> KnowledgeProjection:
        """Return a projection that sums up postings in place of writing them."""
        return KnowledgeProjection(draft, queries(), state, self._expected)

    def find_rest(
        self,
        index: apsw.Connection,
        draft: apsw.Connection,
        state: KnowledgeIndexState,
        draft_state: KnowledgeIndexState,
    ) -> Iterator[Finding]:
        """Check that every engram is on the list of each of its keys and on no other, and how many are live."""
        return self.find_miscounted(index, queries(), draft, "index.db, ")

    def find_miscounted(
        self, index: SqlConnection, sql: Mapping[str, str], draft: apsw.Connection, place: str = ""
    ) -> Iterator[Finding]:
        """Check the lists and counts of an index on any database; `sql` are its queries, `place` says where it is."""
        expected, counted = self._expected.copy(), Counter(_live(draft))
        for ordinal, space, kind, more_keys, body in _swept(index, draft):
            engram, keys = decode_engram(body), more_keys.split()
            expected.unpost_all([(ordinal, tokens_of(space, engram, keys))])
            expected.post([(ordinal, tokens_of(PAST + space, engram, keys))])
            counted[space, kind] -= 1
        if {key: count for key, count in counted.items() if count} != _live(index):
            yield Finding(what=f"{DIFFERS}: engrams are miscounted", where=f"{place}table live", is_copy=True)
        actual = PostingsSum(self._weights)
        for token, chunk in all_postings(index, sql):
            actual.add_chunk(token, chunk)
        if actual.count != expected.count:
            problem = f"{DIFFERS}: there are {actual.count:,} postings where {expected.count:,} belong"
            yield Finding(what=problem, where=f"{place}postings", is_copy=True)
        elif actual.total != expected.total:
            problem = f"{DIFFERS}: an engram is not on the lists of its keys"
            yield Finding(what=problem, where=f"{place}postings", is_copy=True)


def _live(connection: SqlConnection) -> dict[tuple[str, str], int]:
    rows: Any = connection.execute("SELECT space, kind, engrams FROM live WHERE engrams != 0")
    return {(space, kind): count for space, kind, count in rows}


def _swept(index: SqlConnection, draft: apsw.Connection) -> Iterator[tuple[int, str, str, str, bytes]]:
    """Yield the engrams that are in the past of the index only: they expired and were swept out."""
    rows: Any = index.execute("SELECT ordinal, space, kind, more_keys, body FROM past ORDER BY ordinal")
    replaced: Any = draft.execute("SELECT ordinal FROM past ORDER BY ordinal")
    (next_replaced,) = next(replaced, (None,))
    for row in rows:
        while next_replaced is not None and next_replaced < row[0]:
            (next_replaced,) = next(replaced, (None,))
        if row[0] != next_replaced:
            yield row


class PostingWeights:
    """Random factors by which postings are summed up."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311
        self.offsets = [self._random.getrandbits(40) for _ in range(BLOCK_ROWS)]
        self._blocks: dict[int, int] = {}

    def block(self, number: int) -> int:
        """Return the factor of a block."""
        if number not in self._blocks:
            self._blocks[number] = self._random.getrandbits(61)
        return self._blocks[number]


class PostingsSum:
    """The number of some postings, and a sum that tells whether they are the same, in any order.

    A posting counts as the product of the hash of its token and random factors of its ordinal.
    """

    MODULUS = (1 << 127) - 1

    def __init__(self, weights: PostingWeights, count: int = 0, total: int = 0) -> None:
        self._weights = weights
        self.count = count
        self.total = total

    def copy(self) -> PostingsSum:
        """Return another sum that goes on from this one."""
        return PostingsSum(self._weights, self.count, self.total)

    def post(self, rows: Sequence[tuple[int, str]]) -> None:
        """Add engrams, each an ordinal and its tokens separated by spaces."""
        for ordinal, tokens in rows:
            self._add(ordinal, tokens, 1)

    def post_again(self, ordinal: int, tokens: str) -> None:
        """Add an engram that was taken off other tokens."""
        self._add(ordinal, tokens, 1)

    def unpost_all(self, rows: Sequence[tuple[int, str]]) -> None:
        """Take engrams off."""
        for ordinal, tokens in rows:
            self._add(ordinal, tokens, -1)

    def finish(self) -> None:
        """Nothing is gathered."""

    def add_chunk(self, token: str, chunk: PostingChunk) -> None:
        """Add some ordinals of a token."""
        weights = self._weights
        factor = sum(map(weights.offsets.__getitem__, chunk.offsets)) * weights.block(chunk.block)
        self.count += len(chunk.offsets)
        self.total = (self.total + hash(token) * factor) % self.MODULUS

    def _add(self, ordinal: int, tokens: str, sign: int) -> None:
        words, weights = tokens.split(" "), self._weights
        factor = weights.offsets[ordinal & (BLOCK_ROWS - 1)] * weights.block(ordinal >> BLOCK_BITS)
        self.count += sign * len(words)
        self.total = (self.total + sign * sum(map(hash, words)) * factor) % self.MODULUS
