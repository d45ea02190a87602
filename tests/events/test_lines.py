"""Reading the journal on from any line, in either back end, and being woken when there is more."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engrambus.backends.sqlite import SqliteStore
from engrambus.core import SystemClock
from engrambus.core.journal import Journal, JournalPosition, Line, position_after
from engrambus.gateway import Store
from engrambus.gateway.events import Event, Feed, Mark
from engrambus.gateway.events.feed import PASSING
from engrambus.policy import Caller, Run, RunOpened
from tests.harness.stores import MemoryHarness, SqliteHarness


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store with one run in it."""
    harness = MemoryHarness() if request.param == "memory" else SqliteHarness(tmp_path)
    yield harness.gateway.store
    harness.close()


def add(store: Store, number: int, size: int = 1) -> None:
    """Commit a line of about that many bytes."""
    fact = RunOpened(run=f"run-{number}", goal="x" * size, by=f"run-{number}/admin")
    store.commit(lambda view: ([fact], None))


def test_lines_follow_one_another_from_anywhere(store: Store) -> None:
    for number in range(2, 40):
        add(store, number)
    assert store.last_line() == 39
    for seq in range(45):
        for limit in (1, 7, 100):
            lines = store.lines_after(seq, limit)
            assert [line.seq for line in lines] == list(range(seq + 1, min(39, seq + limit) + 1))
    (line,) = store.lines_after(20, 1)
    assert msgspec.json.decode(line.facts)[0]["run"] == "run-21"


def test_a_commit_is_told_and_a_refused_one_changes_nothing(store: Store) -> None:
    told: list[int] = []
    store.watch(lambda: told.append(store.last_line()))
    add(store, 2)
    assert told == [2]
    with pytest.raises(ZeroDivisionError):
        store.commit(lambda view: ([], 1 // 0))
    assert store.last_line() == 2


def test_a_line_is_found_by_halving_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = SqliteHarness(tmp_path)
    chance = random.Random(3)
    for number in range(2, 200):
        add(harness.gateway.store, number, chance.choice((1, 1, 1, 40, 5000)))
    harness.close()
    journal = Journal(tmp_path / "memory.jsonl")
    places = [journal.start, *(place for _, place in journal.read(journal.start))]
    monkeypatch.setattr("engrambus.core.journal.line_reader.CHUNK", 300)
    read: list[int] = []
    whole = Journal.read

    def counted(journal: Journal, place: JournalPosition) -> Iterator[tuple[Line, JournalPosition]]:
        for line, behind in whole(journal, place):
            read.append(line.seq)
            yield line, behind

    monkeypatch.setattr(Journal, "read", counted)
    for place in places:
        read.clear()
        found = position_after(journal, place.seq, places[-1])
        assert (found.offset, found.seq, found.checksum) == (place.offset, place.seq, place.checksum)
        assert len(read) < 10
    journal.close()


def test_what_another_process_commits_is_seen(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path)
    store = harness.gateway.store
    other = SqliteStore(tmp_path, SystemClock())
    assert store.last_line() == 1
    add(other, 2)
    assert store.last_line() == 2
    assert [line.seq for line in store.lines_after(0, 9)] == [1, 2]
    other.close()
    harness.close()


def test_a_line_is_not_shown_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = SqliteHarness(tmp_path)
    store = harness.gateway.store
    assert store.last_line() == 1
    seen: list[int] = []
    whole = Journal.sync

    def peeking(journal: Journal) -> None:
        other = threading.Thread(target=lambda: seen.append(store.last_line()))
        other.start()
        other.join()
        whole(journal)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "sync", peeking)
        add(store, 2)
    assert set(seen) == {1}
    assert store.last_line() == 2
    harness.close()


class Desk:
    """Somebody who follows a feed in this process."""

    def __init__(self, feed: Feed, after: Mark | None = None) -> None:
        self.woken = threading.Event()
        self.follower = feed.follow(after, sees=lambda event: True, wake=self.woken.set)

    def take(self) -> list[str | None]:
        """The ids of everything there is."""
        found: list[Event] = []
        more = True
        while more:
            events, more = self.follower.take()
            found += events
        return [event.id for event in found]


def test_followers_go_at_their_own_pace(store: Store) -> None:
    feed = Feed(store)
    now, early = Desk(feed), Desk(feed, Mark(0))
    for number in range(2, 700):
        add(store, number)
        if number % 50 == 0:
            now.take()
    assert early.take() == [f"{seq}.0" for seq in range(1, 700)]
    assert now.take() == [f"{seq}.0" for seq in range(651, 700)]
    assert Desk(feed, Mark(690, 0)).take() == [f"{seq}.0" for seq in range(691, 700)]
    assert Desk(feed, Mark(10**9)).take() == [], "a mark beyond the end is the end"
    assert early.take() == []
    feed.close()


def test_what_one_reader_has_read_is_ready_for_the_others(store: Store) -> None:
    feed = Feed(store)
    first, second = Desk(feed).follower, Desk(feed).follower
    assert first.take_ready() is None, "nobody has asked the store yet"
    assert first.take() == ([], False)
    assert second.take_ready() == ([], False)
    add(store, 2)
    assert second.take_ready() is None, "there is news"
    told, _ = first.take()
    assert [event.id for event in told] == ["2.0"]
    assert second.take_ready() == (told, True)
    assert second.take_ready() == ([], False)
    assert first.take_ready() == ([], False)
    feed.close()


def test_the_asking_lasts_as_long_as_somebody_follows(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path)
    feed = Feed(harness.gateway.store, poll_seconds=0.01)
    assert not _pollers()
    desk = Desk(feed)
    assert len(_pollers()) == 1
    other = SqliteStore(tmp_path, SystemClock())
    add(other, 2)
    assert desk.woken.wait(60)
    assert desk.take() == ["2.0"]
    desk.follower.leave()
    deadline = time.monotonic() + 60
    while _pollers():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    again = Desk(feed)
    assert len(_pollers()) == 1
    add(other, 3)
    assert again.woken.wait(60)
    feed.close()
    assert not _pollers()
    other.close()
    harness.close()


def _pollers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "events"]


def test_calls_wait_for_a_reader_only_so_long(store: Store) -> None:
    class Asked(msgspec.Struct):
        k: int = 3
        keys: tuple[str, ...] = ("a", "b")
        scope: str | None = None
        kind: str | None = None

    class Answered(msgspec.Struct):
        engrams: tuple[str, ...] = ("text",)
        truncated: bool = False

    feed = Feed(store)
    run = Run(run_id="run-1", goal="g", number=1, opened_at=0)
    who = Caller(project=store.project, run=run, name="ada", role="tool")
    feed.answered("query_engrams", who, 0, Asked(), Answered())
    desk = Desk(feed)
    for _ in range(PASSING + 9):
        feed.answered("query_engrams", who, 0, Asked(), Answered())
        feed.answered("stats", who, 0, Asked(), Answered())
    events, _ = desk.follower.take()
    assert len(events) == PASSING
    assert events[0].shown() == {
        "type": "less.engram.query",
        "time": "1970-01-01T00:00:00.000000Z",
        "project": store.project,
        "run": "run-1",
        "agent": "ada",
        "data": {"k": 3, "keys": 2, "found": 1, "truncated": False},
    }
    feed.close()
