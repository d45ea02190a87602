"""What is answered for is on the disk before the answer: in the journal of work. # YT-04 # YT-06"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engrambus.core.journal import Journal
from engrambus.space.tuples import Claim, Completion
from engrambus.testing.work import completion, draft, failure, put, receipt
from tests.harness.stores import SqliteWorkHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SqliteWorkHarness]:
    """The work on disk."""
    with closing(SqliteWorkHarness(tmp_path / "catalog")) as harness:
        yield harness


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to the journal, in order."""
    calls: list[str] = []
    for name in ("append", "sync"):
        whole: Callable[..., Any] = getattr(Journal, name)

        def noted(journal: Journal, *args: Any, _name: str = name, _whole: Callable[..., Any] = whole) -> None:
            _whole(journal, *args)
            calls.append(_name)

        monkeypatch.setattr(Journal, name, noted)
    return calls


def test_what_is_put_is_on_the_disk(harness: SqliteWorkHarness, done: list[str]) -> None:
    for more in ({}, {"block": 1.0}, {"accept": True}):
        done.clear()
        put(harness, **more)
        assert done == ["append", "sync"], more


def test_what_is_taken_out_is_gone_on_the_disk(harness: SqliteWorkHarness, done: list[str]) -> None:
    put(harness)
    done.clear()
    assert harness.space.in_({"lane": "build"}, by="me") is not None
    assert done == ["append", "sync"]


def some_done(harness: SqliteWorkHarness, claim: Claim) -> Completion:
    """One step of two."""
    return Completion(id=claim.id, fence=claim.fence, receipts=(receipt(harness, claim, 0),))


@pytest.mark.parametrize("settled", [some_done, failure, completion])
def test_what_was_done_is_on_the_disk(harness: SqliteWorkHarness, done: list[str], settled: Any) -> None:
    """Whether the tuple has ended with it, is tried again, or goes on."""
    put(harness, draft("build", 1, 2))
    (claim,) = harness.space.claim({"lane": "build"}, worker="w")
    result = settled(harness, claim)
    done.clear()
    assert harness.space.complete([result]) == ([None], [])
    assert done == ["append", "sync"]


def test_the_end_of_a_tuple_is_on_the_disk(harness: SqliteWorkHarness, done: list[str]) -> None:
    (one,) = put(harness)
    done.clear()
    harness.space.cancel(one)
    assert done == ["append", "sync"]


def test_what_a_crash_may_lose_is_not_waited_for(harness: SqliteWorkHarness, done: list[str]) -> None:
    """A claim that is lost is made again."""
    put(harness)
    done.clear()
    (claim,) = harness.space.claim({"lane": "build"}, worker="w")
    harness.space.renew([(claim.id, claim.fence)])
    assert "sync" not in done
