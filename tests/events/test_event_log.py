"""The event log: followers read on from any journal line, in both back ends, and are woken on new lines."""

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
from engrambus.gateway.events import Event, EventLog, ResumePoint
from engrambus.gateway.events.event_log import PENDING_EVENTS
from engrambus.policy import Caller, Run, RunOpened
from engrambus.testing.harness import KEY
from tests.harness.stores import MemoryHarness, SqliteHarness


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Yield a store that holds one run."""
    harness = MemoryHarness() if request.param == "memory" else SqliteHarness(tmp_path)
    yield harness.gateway.store
    harness.close()


def commit_line(store: Store, number: int, size_bytes: int = 1) -> None:
    """Commit a line of about `size_bytes`."""
    fact = RunOpened(run=f"run-{number}", goal="x" * size_bytes, by=f"run-{number}/admin")
    store.commit(lambda view: ([fact], None))


def test_lines_can_be_read_from_any_line(store: Store) -> None:
    for number in range(2, 40):
        commit_line(store, number)
    assert store.last_line() == 39
    for seq in range(45):
        for limit in (1, 7, 100):
            lines = store.lines_after(seq, limit)
            assert [line.seq for line in lines] == list(range(seq + 1, min(39, seq + limit) + 1))
    (line,) = store.lines_after(20, 1)
    assert msgspec.json.decode(line.facts)[0]["run"] == "run-21"


def test_watchers_are_called_after_a_commit_and_a_failed_one_adds_no_line(store: Store) -> None:
    last_lines: list[int] = []
    store.watch(lambda: last_lines.append(store.last_line()))
    commit_line(store, 2)
    assert last_lines == [2]
    with pytest.raises(ZeroDivisionError):
        store.commit(lambda view: ([], 1 // 0))
    assert store.last_line() == 2


def test_a_line_is_found_by_binary_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = SqliteHarness(tmp_path)
    rng = random.Random(3)
    for number in range(2, 200):
        commit_line(harness.gateway.store, number, rng.choice((1, 1, 1, 40, 5000)))
    harness.close()
    journal = Journal(tmp_path / "memory.jsonl", KEY, "memory")
    positions = [journal.start, *(position for _, position in journal.read(journal.start))]
    monkeypatch.setattr("engrambus.core.journal.line_reader.CHUNK", 300)
    lines_read: list[int] = []
    read = Journal.read

    def counted_read(journal: Journal, start: JournalPosition) -> Iterator[tuple[Line, JournalPosition]]:
        for line, end in read(journal, start):
            lines_read.append(line.seq)
            yield line, end

    monkeypatch.setattr(Journal, "read", counted_read)
    for position in positions:
        lines_read.clear()
        result = position_after(journal, position.seq, positions[-1])
        assert (result.offset, result.seq, result.checksum) == (position.offset, position.seq, position.checksum)
        assert len(lines_read) < 10
    journal.close()


def test_commits_of_another_process_are_visible(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path)
    store = harness.gateway.store
    second_store = SqliteStore(tmp_path, KEY, SystemClock())
    assert store.last_line() == 1
    commit_line(second_store, 2)
    assert store.last_line() == 2
    assert [line.seq for line in store.lines_after(0, 9)] == [1, 2]
    second_store.close()
    harness.close()


def test_a_line_is_not_visible_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = SqliteHarness(tmp_path)
    store = harness.gateway.store
    assert store.last_line() == 1
    seen: list[int] = []
    sync = Journal.sync

    def look_then_sync(journal: Journal, cut_to: int | None = None) -> None:
        reader = threading.Thread(target=lambda: seen.append(store.last_line()))
        reader.start()
        reader.join()
        sync(journal, cut_to)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "sync", look_then_sync)
        commit_line(store, 2)
    assert set(seen) == {1}
    assert store.last_line() == 2
    harness.close()


class RecordingFollower:
    """A follower of an event log, and whether it was woken."""

    def __init__(self, log: EventLog, after: ResumePoint | None = None) -> None:
        self.woken = threading.Event()
        self.follower = log.follow(after, matches=lambda event: True, wake=self.woken.set)

    def read_ids(self) -> list[str | None]:
        """Return the ids of all new events."""
        events: list[Event] = []
        may_have_more = True
        while may_have_more:
            batch, may_have_more = self.follower.read()
            events += batch
        return [event.id for event in events]


def test_followers_go_at_their_own_pace(store: Store) -> None:
    log = EventLog(store)
    current, early = RecordingFollower(log), RecordingFollower(log, ResumePoint(0))
    for number in range(2, 700):
        commit_line(store, number)
        if number % 50 == 0:
            current.read_ids()
    assert early.read_ids() == [f"{seq}.0" for seq in range(1, 700)]
    assert current.read_ids() == [f"{seq}.0" for seq in range(651, 700)]
    assert RecordingFollower(log, ResumePoint(690, 0)).read_ids() == [f"{seq}.0" for seq in range(691, 700)]
    assert RecordingFollower(log, ResumePoint(10**9)).read_ids() == [], "a point after the end counts as the end"
    assert early.read_ids() == []
    log.close()


def test_lines_that_one_follower_has_read_are_cached_for_the_others(store: Store) -> None:
    log = EventLog(store)
    first, second = RecordingFollower(log).follower, RecordingFollower(log).follower
    assert first.read_cached() is None, "the store was not read yet"
    assert first.read() == ([], False)
    assert second.read_cached() == ([], False)
    commit_line(store, 2)
    assert second.read_cached() is None, "there is a new line"
    events, _ = first.read()
    assert [event.id for event in events] == ["2.0"]
    assert second.read_cached() == (events, True)
    assert second.read_cached() == ([], False)
    assert first.read_cached() == ([], False)
    log.close()


def test_polling_lasts_as_long_as_there_is_a_follower(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path)
    log = EventLog(harness.gateway.store, poll_seconds=0.01)
    assert not _pollers()
    first = RecordingFollower(log)
    assert len(_pollers()) == 1
    second_store = SqliteStore(tmp_path, KEY, SystemClock())
    commit_line(second_store, 2)
    assert first.woken.wait(60)
    assert first.read_ids() == ["2.0"]
    first.follower.close()
    deadline = time.monotonic() + 60
    while _pollers():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = RecordingFollower(log)
    assert len(_pollers()) == 1
    commit_line(second_store, 3)
    assert second.woken.wait(60)
    log.close()
    assert not _pollers()
    second_store.close()
    harness.close()


def _pollers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "events"]


def test_only_the_newest_events_of_calls_are_stored_for_followers(store: Store) -> None:
    class Request(msgspec.Struct):
        k: int = 3
        keys: tuple[str, ...] = ("a", "b")
        scope: str | None = None
        kind: str | None = None

    class Answer(msgspec.Struct):
        engrams: tuple[str, ...] = ("text",)
        truncated: bool = False

    log = EventLog(store)
    run = Run(run_id="run-1", goal="g", number=1, opened_us=0)
    caller = Caller(project=store.project, run=run, name="ada", role="tool")
    log.add_call("query_engrams", caller, 0, Request(), Answer())
    first = RecordingFollower(log)
    for _ in range(PENDING_EVENTS + 9):
        log.add_call("query_engrams", caller, 0, Request(), Answer())
        log.add_call("stats", caller, 0, Request(), Answer())
    events, _ = first.follower.read()
    assert len(events) == PENDING_EVENTS
    assert events[0].to_wire() == {
        "type": "less.engram.query",
        "time": "1970-01-01T00:00:00.000000Z",
        "project": store.project,
        "run": "run-1",
        "agent": "ada",
        "data": {"k": 3, "keys": 2, "found": 1, "truncated": False},
    }
    log.close()
