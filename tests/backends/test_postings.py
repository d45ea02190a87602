"""Posting lists are the same wherever their entries are: pending, in the tail, or in blocks. # EB-13 # BX-03"""

from __future__ import annotations

import apsw
import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engrambus.backends.sql.knowledge import postings
from engrambus.backends.sql.knowledge.postings import (
    NO_LIMIT,
    BulkPostings,
    PostingsReader,
    PostingsWriter,
    all_postings,
    read_pending,
)
from engrambus.backends.sqlite.knowledge_comparison import PostingsSum, PostingWeights
from engrambus.backends.sqlite.queries import queries, schema
from engrambus.knowledge.engrams.postings import BLOCK_ROWS, ordinals_of

TOKENS = ("p:alpha", "p:beta", "r1:alpha", "p:=gamma", "~p:alpha")
WEIGHTS = PostingWeights()


class Counts(msgspec.Struct):
    pending: int = 0
    tail: int = 0
    merged: int = 0


class PostingsMachine(RuleBasedStateMachine):
    """Posts and takes off engrams, and compares every list with a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(postings, "MAX_PENDING", 3)
        self.patch.setattr(postings, "MAX_TAIL", 5)
        self.patch.setattr(postings, "MIN_BULK", 4)
        self.connection = apsw.Connection(":memory:")
        self.connection.execute(schema())
        self.counts = Counts()
        self.writer = PostingsWriter(self.connection, queries(), self.counts)
        self.model: dict[int, set[str]] = {}
        self.next = BLOCK_ROWS - 6  # so that lists lie in two blocks

    def teardown(self) -> None:
        self.patch.undo()
        self.connection.close()

    @rule(sets=st.lists(st.sets(st.sampled_from(TOKENS), min_size=1), min_size=1, max_size=7))
    def post(self, sets: list[set[str]]) -> None:
        rows = []
        for tokens in sets:
            self.next += 1
            self.model[self.next] = tokens
            rows.append((self.next, " ".join(sorted(tokens))))
        self.writer.post(rows)

    @rule(data=st.data(), tokens=st.sets(st.sampled_from(TOKENS), min_size=1), again=st.booleans())
    def change(self, data: st.DataObject, tokens: set[str], again: bool) -> None:
        if not self.model:
            return
        ordinal = data.draw(st.sampled_from(sorted(self.model)))
        self.writer.unpost_all([(ordinal, " ".join(sorted(self.model.pop(ordinal))))])
        if again:
            self.writer.post_again(ordinal, " ".join(sorted(tokens)))
            self.model[ordinal] = tokens

    @rule(data=st.data())
    def take_several_off(self, data: st.DataObject) -> None:
        if not self.model:
            return
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.model)), max_size=6))
        self.writer.unpost_all([(ordinal, " ".join(sorted(self.model.pop(ordinal)))) for ordinal in chosen])

    @rule(
        data=st.data(),
        sets=st.lists(st.sets(st.sampled_from(TOKENS), min_size=1), max_size=7),
        changed=st.sets(st.sampled_from(TOKENS), min_size=1),
    )
    def replay(self, data: st.DataObject, sets: list[set[str]], changed: set[str]) -> None:
        """Many lines are applied at once: new engrams, one that changes and one that is taken off."""
        direct, self.writer = self.writer, BulkPostings(self.connection, queries(), self.counts)
        if sets:
            self.post(sets)
        self.change(data, changed, again=True)
        self.change(data, changed, again=False)
        self.writer.finish()
        self.writer = direct

    @invariant()
    def lists_agree(self) -> None:
        reader = PostingsReader(self.connection, queries(), read_pending(self.connection, queries()))
        for token in TOKENS:
            expected = sorted(ordinal for ordinal, tokens in self.model.items() if token in tokens)
            assert sorted(row for chunk in reader.chunks(token) for row in ordinals_of(chunk)) == expected
            assert reader.newest([token], below=NO_LIMIT, limit=4) == expected[::-1][:4]
            below = BLOCK_ROWS + 1
            assert reader.newest([token], below=below, limit=9) == [row for row in expected[::-1] if row < below][:9]
        both = [row for row, tokens in self.model.items() if {"p:alpha", "p:beta"} <= tokens]
        assert reader.newest(["p:alpha", "p:beta"], below=NO_LIMIT, limit=3) == sorted(both, reverse=True)[:3]

    @invariant()
    def everything_is_listed_once(self) -> None:
        listed = sorted(
            (token, row) for token, chunk in all_postings(self.connection, queries()) for row in ordinals_of(chunk)
        )
        assert listed == sorted((token, row) for row, tokens in self.model.items() for token in tokens)

    @invariant()
    def the_sum_of_the_lists_is_that_of_the_engrams(self) -> None:
        listed, expected = PostingsSum(WEIGHTS), PostingsSum(WEIGHTS)
        for token, chunk in all_postings(self.connection, queries()):
            listed.add_chunk(token, chunk)
        expected.post([(ordinal, " ".join(tokens)) for ordinal, tokens in self.model.items()])
        assert (listed.count, listed.total) == (expected.count, expected.total)
        if self.model:
            expected.unpost_all([(min(self.model), "p:alpha")])
            expected.post([(max(self.model) + 1, "p:alpha")])
            assert listed.total != expected.total


TestPostings = PostingsMachine.TestCase
