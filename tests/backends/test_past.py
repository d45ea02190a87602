"""The past answers what a query answered then, on both back ends, whatever happened since. # BX-11"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engrambus.testing import Harness, ManualClock
from engrambus.testing.client import GatewayClient
from tests.backends.test_state_machine import SCRATCH
from tests.harness.stores import MemoryHarness, SqliteHarness

WORDS = ("alpha", "beta", "gamma", "delta")
SECONDS = (1, 30, 3600, 86_400)

changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), st.sampled_from(SECONDS)),
        st.tuples(st.just("replace"), st.integers(0, 9), st.sampled_from(WORDS)),
        st.tuples(st.just("confirm"), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.sampled_from(SECONDS)),
        st.tuples(st.just("reopen")),
    ),
    min_size=4,
    max_size=16,
)


class Diary:
    """A project, and what it answered at each moment."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.client = GatewayClient(harness)
        self.ids: list[str] = []
        self.forgotten: set[str] = set()
        self.entries: list[tuple[str, list[str], dict[str, list[str]]]] = []

    def change(self, change: tuple[Any, ...]) -> None:
        """Change the project, note what it answers then, and let time pass."""
        match change:
            case ("put", words, seconds):
                claim = f"{' '.join(words)} {len(self.ids)}"
                self.ids.append(self.client.put(claim, ttl=f"PT{seconds}S").id)
            case ("replace", number, word) if self.ids:
                engram_id = self.ids[number % len(self.ids)]
                claim, pointers = f"{word} replaced {len(self.ids)}", [{"type": "sam", "ref": "sam:note:a@v1"}]
                fields = {"claim": claim, "pointers": pointers, "replaces": engram_id}
                if self.client.try_call("put_engram", **fields)[0] == "ok":
                    self.ids.append(self.client.query(k=1).engrams[0].id)
            case ("confirm", number) if self.ids:
                self.client.try_call("confirm_engram", id=self.ids[number % len(self.ids)])
            case ("forget", number) if self.ids:
                engram_id = self.ids[number % len(self.ids)]
                if self.client.try_call("forget_engram", id=engram_id)[0] == "ok":
                    self.forgotten.add(engram_id)
            case ("wait", seconds):
                self.harness.clock.advance(seconds=seconds)
            case ("reopen",):
                self.harness.reopen()
                self.harness.delete_index()
        answer = self.client.query(k=100)
        by_word = {word: self._found(word) for word in WORDS}
        self.entries.append((answer.as_of, [engram.id for engram in answer.engrams], by_word))
        self.harness.clock.advance(microseconds=1)

    def _found(self, word: str, **fields: Any) -> list[str]:
        return [engram.id for engram in self.client.query(word, k=100, **fields).engrams]

    def check(self) -> None:
        """Compare the past with what was noted, without what was forgotten since."""
        for moment, listed, by_word in self.entries:
            then = [engram.id for engram in self.client.query(k=100, as_of=moment).engrams]
            assert then == [engram_id for engram_id in listed if engram_id not in self.forgotten]
            for word, found in by_word.items():
                expected = [engram_id for engram_id in found if engram_id not in self.forgotten]
                assert self._found(word, as_of=moment) == expected
        assert self.harness.gateway.store.verify() == []


def _memory() -> Harness:
    return MemoryHarness(ManualClock())


def _sqlite() -> Harness:
    return SqliteHarness(Path(tempfile.mkdtemp(dir=SCRATCH, prefix="engrambus-")) / "catalog", ManualClock())


@pytest.mark.parametrize("make", [_memory, _sqlite])
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(steps=changes)
def test_the_past_answers_what_was_answered_then(make: Callable[[], Harness], steps: list[tuple[Any, ...]]) -> None:
    harness = make()
    try:
        diary = Diary(harness)
        for step in steps:
            diary.change(step)
        diary.check()
    finally:
        harness.close()
        if isinstance(harness, SqliteHarness):
            shutil.rmtree(harness.folder.parent)
