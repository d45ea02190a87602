"""Group commit: callers that arrive while the disk is busy share its next sync, and each gets its own answer."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from engrambus.backends.sqlite.lock import WriteLock
from engrambus.backends.sqlite.store import renew_journals_in
from engrambus.core.journal import GroupCommit, Ticket, segments
from engrambus.core.journal import file as journal_file
from engrambus.core.journal.group import MAX_BATCH
from engrambus.errors import EngramBusError
from engrambus.gateway.ports import View
from engrambus.policy import RunOpened
from engrambus.testing import GatewayClient, expect_refusal, without_keys
from engrambus.testing.harness import KEY
from tests.harness.stores import SqliteHarness


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Run the work in threads that begin together, and wait for all of them."""
    together = threading.Barrier(count)  # else one thread may end before another begins, and pass on its identity

    def begin(number: int) -> None:
        together.wait(60)
        work(number)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a caller waits for ever"


class BlockingRun:
    """A `run` that stays in its first batch until it is released, so that later callers must queue."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.leaders: list[int] = []
        self.entered = threading.Event()
        self.released = threading.Event()

    def __call__(self, batch: list[Ticket[int, int]]) -> None:
        self.batches.append([ticket.work for ticket in batch])
        self.leaders.append(threading.get_ident())
        self.entered.set()
        assert self.released.wait(60)
        for ticket in batch:
            if ticket.work % 7 == 3:
                ticket.error = ValueError(ticket.work)
            else:
                ticket.result = ticket.work * 10


def test_waiting_callers_share_a_batch_and_each_gets_its_own_outcome() -> None:
    run = BlockingRun()
    commits: GroupCommit[int, int] = GroupCommit(run)
    outcomes: dict[int, int | ValueError] = {}

    def submit(number: int) -> None:
        try:
            outcomes[number] = commits.submit(number)
        except ValueError as problem:
            outcomes[number] = problem

    arrived = threading.Semaphore(0)

    def arrive_and_submit(number: int) -> None:
        if number:
            assert run.entered.wait(60)
        arrived.release()
        submit(number)

    def release_when_all_have_arrived() -> None:
        for _ in range(30):
            assert arrived.acquire(timeout=60)
        threading.Event().wait(0.2)  # time to get from `release` into the queue
        run.released.set()

    releaser = threading.Thread(target=release_when_all_have_arrived)
    releaser.start()
    in_threads(30, arrive_and_submit)
    releaser.join()
    assert len(outcomes) == 30
    for number, outcome in outcomes.items():
        if number % 7 == 3:
            assert isinstance(outcome, ValueError)
            assert outcome.args == (number,)
        else:
            assert outcome == number * 10
    assert len(run.batches) <= 3
    assert sorted(number for batch in run.batches for number in batch) == list(range(30))


def test_leading_changes_between_threads_and_every_caller_is_served() -> None:
    run = BlockingRun()
    run.released.set()
    commits: GroupCommit[int, int] = GroupCommit(run)
    in_threads(12, lambda number: [commits.submit(0) for _ in range(200)])
    assert sum(map(len, run.batches)) == 12 * 200
    assert len(set(run.leaders)) > 1


def test_a_batch_is_never_larger_than_its_limit() -> None:
    run = BlockingRun()
    commits: GroupCommit[int, int] = GroupCommit(run)
    releaser = threading.Timer(0.5, run.released.set)
    releaser.start()
    in_threads(MAX_BATCH * 2 + 10, lambda number: _submit_ignoring_errors(commits, number))
    releaser.join()
    assert max(map(len, run.batches)) <= MAX_BATCH
    assert sum(map(len, run.batches)) == MAX_BATCH * 2 + 10


def test_if_the_run_fails_every_caller_gets_the_error_and_later_ones_are_served() -> None:
    fail = True

    def run(batch: list[Ticket[int, int]]) -> None:
        if fail:
            raise OSError("no")
        for ticket in batch:
            ticket.result = ticket.work

    commits: GroupCommit[int, int] = GroupCommit(run)
    failures: list[int] = []

    def submit(number: int) -> None:
        with pytest.raises(OSError, match="no"):
            commits.submit(number)
        failures.append(number)

    in_threads(10, submit)
    assert len(failures) == 10
    fail = False
    assert commits.submit(5) == 5


@pytest.mark.parametrize("state", ["waits", "leads"])
def test_an_interrupted_caller_does_not_block_later_ones(state: str, interrupt: Interrupt) -> None:  # BX-03
    """Ctrl-C comes while a caller waits for another's batch, or runs its own."""
    run = BlockingRun()
    commits: GroupCommit[int, int] = GroupCommit(run)
    outcomes: dict[int, int] = {}

    def submit(number: int) -> None:
        outcomes[number] = commits.submit(number)

    callers = [threading.Thread(target=submit, args=(number,), daemon=True) for number in (1, 2)]
    if state == "waits":
        callers[0].start()
        assert run.entered.wait(60)
    interrupt.after(0.3)
    with pytest.raises(KeyboardInterrupt):
        commits.submit(0)
    run.released.set()
    if state == "leads":
        callers[0].start()
    callers[1].start()
    for thread in callers:
        thread.join(20)
        assert not thread.is_alive(), "a caller waits for ever"
    assert outcomes == {1: 10, 2: 20}
    assert commits.submit(4) == 40
    if state == "waits":
        assert 0 not in [number for batch in run.batches for number in batch], "the interrupted work was never started"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_moment_do_not_block_later_commits(interrupt: Interrupt) -> None:  # BX-03

    def run(batch: list[Ticket[int, int]]) -> None:
        for ticket in batch:
            ticket.result = ticket.work

    commits: GroupCommit[int, int] = GroupCommit(run)
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            with contextlib.suppress(KeyboardInterrupt):  # raised in the thread that led the batch
                commits.submit(1)

    busy = [threading.Thread(target=keep_busy, daemon=True) for _ in range(3)]
    for thread in busy:
        thread.start()
    for number in range(150):
        with contextlib.suppress(KeyboardInterrupt):
            interrupt.after(0.0002 * (1 + number % 7))
            while not interrupt.came:
                commits.submit(2)
    stop.set()
    for thread in busy:
        thread.join(20)
        assert not thread.is_alive(), "a caller waits for ever"
    assert commits.submit(3) == 3


class Interrupt:
    """Raises KeyboardInterrupt in the main thread after a delay."""

    came = False
    """Checked besides the exception, because Python prints and drops one that is raised in a callback of its own."""

    def after(self, seconds: float) -> None:
        self.came = False
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def press(self, *_: object) -> None:
        self.came = True
        raise KeyboardInterrupt


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    interrupt = Interrupt()
    previous = signal.signal(signal.SIGALRM, interrupt.press)
    yield interrupt
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)


def _submit_ignoring_errors(commits: GroupCommit[int, int], number: int) -> None:
    with contextlib.suppress(ValueError):
        commits.submit(number)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SqliteHarness]:
    harness = SqliteHarness(tmp_path / "catalog")
    yield harness
    harness.close()


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list of the journal syncs so far; each sync takes as long as on a disk."""
    done: list[int] = []
    real_sync = segments.sync

    def slow(descriptor: int) -> None:
        threading.Event().wait(0.01)
        real_sync(descriptor)
        done.append(descriptor)

    monkeypatch.setattr(journal_file, "sync", slow)
    return done


def test_many_writers_share_few_syncs(harness: SqliteHarness, syncs: list[int]) -> None:
    client = GatewayClient(harness)
    in_threads(32, lambda number: [client.put(f"Matter {number} {step}") for step in range(5)])
    assert client.counts()["engrams"] == 160
    assert len(syncs) < 80
    assert harness.gateway.store.verify() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_store_works_after_interrupts_at_any_moment(harness: SqliteHarness, interrupt: Interrupt) -> None:  # BX-03
    """Nothing stays open, locked or half written."""
    client, stop = GatewayClient(harness), threading.Event()

    def keep_busy(name: str) -> None:
        for step in count():
            if stop.is_set():
                return
            with contextlib.suppress(KeyboardInterrupt):  # raised in the thread that led the batch
                harness.gateway.store.commit(_open_run(f"{name}-{step}"))

    busy = [threading.Thread(target=keep_busy, args=(name,), daemon=True) for name in ("first", "second")]
    for thread in busy:
        thread.start()
    for number in range(150):
        with contextlib.suppress(KeyboardInterrupt):
            interrupt.after(0.003 + 0.0007 * (number % 9))
            for step in count():
                if interrupt.came:
                    break
                harness.gateway.store.commit(_open_run(f"{number}-{step}"))
    stop.set()
    for thread in busy:
        thread.join(20)
        assert not thread.is_alive(), "a caller waits for ever"
    assert client.put("Alpha is kept").claim == "Alpha is kept"
    assert harness.gateway.store.verify() == []


def test_an_interrupt_at_any_call_leaves_the_lock_to_others(tmp_path: Path) -> None:  # BX-03
    """Raised at the first Python function that taking and releasing the lock calls, then at the second, and so on."""
    lock = WriteLock(tmp_path / "lock", limit_seconds=10)
    for number in count():
        calls = 0

        def interrupt_at(frame: FrameType, event: str, _: object, number: int = number) -> None:
            nonlocal calls
            calls += 1
            if calls == number + 2:  # the first is `run` itself
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            sys.settrace(interrupt_at)
            try:
                lock.run(lambda: None)
            finally:
                sys.settrace(None)
        other = threading.Thread(target=lock.run, args=(lambda: None,), daemon=True)
        other.start()
        other.join(5)
        assert not other.is_alive(), f"an interrupt at call {number + 1} leaves the lock taken"
        if calls < number + 2:
            break
    lock.close()


def _open_run(name: str) -> Callable[[View], Any]:
    return lambda view: ([RunOpened(run=name, goal="", by="x")], None)


def test_a_single_writer_gets_its_own_sync(harness: SqliteHarness, syncs: list[int]) -> None:
    client = GatewayClient(harness)
    for number in range(5):
        client.put(f"Matter {number}")
    assert len(syncs) == 5


def test_a_failing_change_does_not_affect_others_in_its_batch(harness: SqliteHarness, syncs: list[int]) -> None:
    client = GatewayClient(harness)
    store = harness.gateway.store
    wrong: list[Any] = []

    def refuse(view: View) -> Any:
        raise EngramBusError("refused on purpose")

    def crash(view: View) -> Any:
        raise ZeroDivisionError("a mistake of ours")

    def unprintable(view: View) -> Any:
        return [RunOpened(run="r", goal="\ud800", by="x")], None

    def work(number: int) -> None:
        for step in range(4):
            if number % 4 == 0:
                kind, decide = [
                    (EngramBusError, refuse),
                    (ZeroDivisionError, crash),
                    (UnicodeEncodeError, unprintable),
                ][number // 4 % 3]
                try:
                    store.commit(decide)
                    wrong.append("not refused")
                except Exception as problem:
                    if type(problem) is not kind:
                        wrong.append(problem)
            else:
                engram = client.put(f"Matter {number} {step}")
                if engram.claim != f"Matter {number} {step}":
                    wrong.append(engram)

    in_threads(24, work)
    assert wrong == []
    assert client.counts()["engrams"] == 18 * 4
    assert store.verify() == []


def test_a_later_change_of_a_batch_sees_the_earlier_ones(harness: SqliteHarness, syncs: list[int]) -> None:
    """Of twenty callers with the same id, one puts its engram."""
    client = GatewayClient(harness)
    outcomes: list[str] = []
    in_threads(20, lambda number: outcomes.append(_try_id(client)))
    assert sorted(outcomes) == ["ID_TAKEN"] * 19 + ["ok"]


def _try_id(client: GatewayClient) -> str:
    return client.try_call(
        "put_engram",
        claim="Alpha",
        id="01KDVP9R000000000000000000",
        pointers=[{"type": "sam", "ref": "sam:note:anything@2026-01-01"}],
    )[0]


def test_after_a_failed_sync_the_store_is_read_only(harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = GatewayClient(harness)
    engram = client.put("Alpha is kept")
    with monkeypatch.context() as patch:
        patch.setattr(journal_file, "sync", _fail)
        with expect_refusal("STORE_READ_ONLY"):
            client.put("Alpha is lost")
    for _ in range(3):
        with expect_refusal("STORE_READ_ONLY"):
            client.put("Alpha is refused")
        assert client.query("alpha").engrams == [without_keys(engram)]
        assert client.call("get_engram", id=engram.id) == engram
    harness.reopen()  # as another process: the failure counts for every one
    with expect_refusal("STORE_READ_ONLY"):
        client.put("Alpha is refused")
    assert client.query_claims("alpha") == ["Alpha is kept"]
    renew_journals_in(harness.folder, KEY)
    assert client.query_claims("kept") == ["Alpha is kept"]
    assert client.put("Alpha again").claim == "Alpha again"
    assert client.query_claims("refused") == []
    assert harness.gateway.store.verify() == []


def _fail(descriptor: int) -> None:
    raise OSError(5, "Input/output error")
