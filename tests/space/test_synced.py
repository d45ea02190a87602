"""The journal of work is synced before an answer that promises it. # YT-04 # YT-06"""

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
    """Return a tuple space on disk."""
    with closing(SqliteWorkHarness(tmp_path / "catalog")) as harness:
        yield harness


@pytest.fixture
def journal_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the calls on the journal, in order."""
    calls: list[str] = []
    for name in ("append", "sync"):
        original: Callable[..., Any] = getattr(Journal, name)

        def record(
            journal: Journal, *args: Any, _name: str = name, _call: Callable[..., Any] = original, **options: Any
        ) -> None:
            _call(journal, *args, **options)
            calls.append(_name)

        monkeypatch.setattr(Journal, name, record)
    return calls


def test_put_tuples_are_synced(harness: SqliteWorkHarness, journal_calls: list[str]) -> None:
    for options in ({}, {"block": 1.0}, {"accept": True}):
        journal_calls.clear()
        put(harness, **options)
        assert journal_calls == ["append", "sync"], options


def test_taking_a_tuple_is_synced(harness: SqliteWorkHarness, journal_calls: list[str]) -> None:
    put(harness)
    journal_calls.clear()
    assert harness.space.in_({"lane": "build"}, by="me") is not None
    assert journal_calls == ["append", "sync"]


def partial_completion(harness: SqliteWorkHarness, claim: Claim) -> Completion:
    """Return the completion of one step of two."""
    return Completion(id=claim.id, fence=claim.fence, receipts=(receipt(harness, claim, 0),))


@pytest.mark.parametrize("make_completion", [partial_completion, failure, completion])
def test_completions_are_synced(harness: SqliteWorkHarness, journal_calls: list[str], make_completion: Any) -> None:
    """The same if the tuple continues, is retried or has ended."""
    put(harness, draft("build", 1, 2))
    (claim,) = harness.space.claim({"lane": "build"}, worker="w")
    result = make_completion(harness, claim)
    journal_calls.clear()
    assert harness.space.complete([result]) == ([None], [])
    assert journal_calls == ["append", "sync"]


def test_a_cancellation_is_synced(harness: SqliteWorkHarness, journal_calls: list[str]) -> None:
    (tuple_id,) = put(harness)
    journal_calls.clear()
    harness.space.cancel(tuple_id)
    assert journal_calls == ["append", "sync"]


def test_claims_and_renewals_are_not_synced(harness: SqliteWorkHarness, journal_calls: list[str]) -> None:
    """A claim that a power cut takes away is made again. See decision 22."""
    put(harness)
    journal_calls.clear()
    (claim,) = harness.space.claim({"lane": "build"}, worker="w")
    harness.space.renew([(claim.id, claim.fence)])
    assert "sync" not in journal_calls
