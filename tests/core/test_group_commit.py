"""Callers that arrive while the disk is busy share its next sync, and each gets its own answer."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from engrambus.core.journal import GroupCommit, Ticket, segments
from engrambus.core.journal import file as journal_file
from engrambus.core.journal.group import MAX_BATCH
from engrambus.errors import EngramBusError
from engrambus.gateway.ports import View
from engrambus.policy import RunOpened
from engrambus.testing import GatewayClient, expect_refusal, without_keys
from tests.harness.stores import SqliteHarness


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Run the work in threads and wait for all of them."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "somebody waits for ever"


class Held:
    """A `run` that stays inside its first batch until it is let go, so that others must queue."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.leaders: list[int] = []
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def __call__(self, batch: list[Ticket[int, int]]) -> None:
        self.batches.append([ticket.work for ticket in batch])
        self.leaders.append(threading.get_ident())
        self.entered.set()
        assert self.let_go.wait(60)
        for ticket in batch:
            if ticket.work % 7 == 3:
                ticket.error = ValueError(ticket.work)
            else:
                ticket.result = ticket.work * 10


def test_callers_that_wait_go_together_and_each_gets_its_own_outcome() -> None:
    run = Held()
    commits: GroupCommit[int, int] = GroupCommit(run)
    outcomes: dict[int, int | ValueError] = {}

    def submit(number: int) -> None:
        try:
            outcomes[number] = commits.submit(number)
        except ValueError as problem:
            outcomes[number] = problem

    arrived = threading.Semaphore(0)

    def everyone(number: int) -> None:
        if number:
            assert run.entered.wait(60)
        arrived.release()
        submit(number)

    def open_when_all_are_here() -> None:
        for _ in range(30):
            assert arrived.acquire(timeout=60)
        threading.Event().wait(0.2)  # from the door to the queue
        run.let_go.set()

    opener = threading.Thread(target=open_when_all_are_here)
    opener.start()
    in_threads(30, everyone)
    opener.join()
    assert len(outcomes) == 30
    for number, outcome in outcomes.items():
        if number % 7 == 3:
            assert isinstance(outcome, ValueError)
            assert outcome.args == (number,)
        else:
            assert outcome == number * 10
    assert len(run.batches) <= 3
    assert sorted(number for batch in run.batches for number in batch) == list(range(30))


def test_nobody_leads_for_ever_and_nobody_starves() -> None:
    run = Held()
    run.let_go.set()
    commits: GroupCommit[int, int] = GroupCommit(run)
    in_threads(12, lambda number: [commits.submit(0) for _ in range(200)])
    assert sum(map(len, run.batches)) == 12 * 200
    assert len(set(run.leaders)) > 1


def test_a_batch_is_never_larger_than_its_limit() -> None:
    run = Held()
    commits: GroupCommit[int, int] = GroupCommit(run)
    opener = threading.Timer(0.5, run.let_go.set)
    opener.start()
    in_threads(MAX_BATCH * 2 + 10, lambda number: _ignoring(commits, number))
    opener.join()
    assert max(map(len, run.batches)) <= MAX_BATCH
    assert sum(map(len, run.batches)) == MAX_BATCH * 2 + 10


def test_when_the_run_itself_fails_everyone_is_told_and_the_next_are_served() -> None:
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


@pytest.mark.parametrize("where", ["waits", "leads"])
def test_who_is_interrupted_holds_up_nobody(where: str, interrupt: Interrupt) -> None:
    """Ctrl-C comes while a caller waits for another's batch, or runs its own: all who come later are served. # BX-03"""
    run = Held()
    commits: GroupCommit[int, int] = GroupCommit(run)
    outcomes: dict[int, int] = {}

    def submit(number: int) -> None:
        outcomes[number] = commits.submit(number)

    others = [threading.Thread(target=submit, args=(number,), daemon=True) for number in (1, 2)]
    if where == "waits":
        others[0].start()
        assert run.entered.wait(60)
    interrupt.after(0.3)
    with pytest.raises(KeyboardInterrupt):
        commits.submit(0)
    run.let_go.set()
    if where == "leads":
        others[0].start()
    others[1].start()
    for thread in others:
        thread.join(20)
        assert not thread.is_alive(), "somebody waits for ever"
    assert outcomes == {1: 10, 2: 20}
    assert commits.submit(4) == 40
    if where == "waits":
        assert 0 not in [number for batch in run.batches for number in batch], "it was given up before it was begun"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_moment_hold_up_nobody(interrupt: Interrupt) -> None:
    """Many, with others committing all the while: whatever was being done, the next commit is done. # BX-03"""

    def run(batch: list[Ticket[int, int]]) -> None:
        for ticket in batch:
            ticket.result = ticket.work

    commits: GroupCommit[int, int] = GroupCommit(run)
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            with contextlib.suppress(KeyboardInterrupt):  # of the one who led
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
        assert not thread.is_alive(), "somebody waits for ever"
    assert commits.submit(3) == 3


class Interrupt:
    """Has what follows end with Ctrl-C after so many seconds."""

    came = False
    """Asked for beside the exception, which Python prints and drops where it strikes a callback of its own."""

    def after(self, seconds: float) -> None:
        self.came = False
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def press(self, *_: object) -> None:
        self.came = True
        raise KeyboardInterrupt


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    interrupt = Interrupt()
    before = signal.signal(signal.SIGALRM, interrupt.press)
    yield interrupt
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def _ignoring(commits: GroupCommit[int, int], number: int) -> None:
    with contextlib.suppress(ValueError):
        commits.submit(number)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SqliteHarness]:
    harness = SqliteHarness(tmp_path / "catalog")
    yield harness
    harness.close()


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every sync of a journal from here on, each as slow as a disk."""
    done: list[int] = []
    real = segments.sync

    def slow(descriptor: int) -> None:
        threading.Event().wait(0.01)
        real(descriptor)
        done.append(descriptor)

    monkeypatch.setattr(journal_file, "sync", slow)
    return done


def test_many_writers_share_few_syncs(harness: SqliteHarness, syncs: list[int]) -> None:
    hand = GatewayClient(harness)
    in_threads(32, lambda number: [hand.put(f"Matter {number} {step}") for step in range(5)])
    assert hand.counts()["engrams"] == 160
    assert len(syncs) < 80
    assert harness.gateway.store.verify() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_store_goes_on_after_interrupts_at_any_moment(harness: SqliteHarness, interrupt: Interrupt) -> None:
    """Whatever it was in the middle of: nothing stays open, locked or half written. # BX-03"""
    hand, stop = GatewayClient(harness), threading.Event()

    def keep_busy(name: str) -> None:
        for step in count():
            if stop.is_set():
                return
            with contextlib.suppress(KeyboardInterrupt):  # of the one who led
                harness.gateway.store.commit(_open_run(f"{name}-{step}"))

    busy = [threading.Thread(target=keep_busy, args=(name,), daemon=True) for name in ("one", "other")]
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
        assert not thread.is_alive(), "somebody waits for ever"
    assert hand.put("Alpha is kept").claim == "Alpha is kept"
    assert harness.gateway.store.verify() == []


def _open_run(name: str) -> Callable[[View], Any]:
    return lambda view: ([RunOpened(run=name, goal="", by="x")], None)


def test_a_writer_alone_gets_a_sync_of_its_own(harness: SqliteHarness, syncs: list[int]) -> None:
    hand = GatewayClient(harness)
    for number in range(5):
        hand.put(f"Matter {number}")
    assert len(syncs) == 5


def test_a_failing_change_harms_nobody_else(harness: SqliteHarness, syncs: list[int]) -> None:
    hand = GatewayClient(harness)
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
                engram = hand.put(f"Matter {number} {step}")
                if engram.claim != f"Matter {number} {step}":
                    wrong.append(engram)

    in_threads(24, work)
    assert wrong == []
    assert hand.counts()["engrams"] == 18 * 4
    assert store.verify() == []


def test_a_later_change_of_a_batch_sees_the_earlier_ones(harness: SqliteHarness, syncs: list[int]) -> None:
    """Twenty callers want the same id at once: one gets it."""
    hand = GatewayClient(harness)
    outcomes: list[str] = []
    in_threads(20, lambda number: outcomes.append(_try_id(hand)))
    assert sorted(outcomes) == ["ID_TAKEN"] * 19 + ["ok"]


def _try_id(hand: GatewayClient) -> str:
    return hand.try_call(
        "put_engram",
        claim="Alpha",
        id="01KDVP9R000000000000000000",
        pointers=[{"type": "sam", "ref": "sam:note:anything@2026-01-01"}],
    )[0]


def test_after_a_failed_sync_reading_goes_on_and_writing_does_not(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = GatewayClient(harness)
    kept = hand.put("Alpha is kept")
    with monkeypatch.context() as patch:
        patch.setattr(journal_file, "sync", _fail)
        with expect_refusal("STORE_READ_ONLY"):
            hand.put("Alpha is lost")
    for _ in range(3):
        with expect_refusal("STORE_READ_ONLY"):
            hand.put("Alpha is refused")
        assert hand.query("alpha").engrams == [without_keys(kept)]
        assert hand.call("get_engram", id=kept.id) == kept
    harness.reopen()  # another process: what the disk has is what happened, and it is synced before it counts
    assert hand.query_claims("kept") == ["Alpha is kept"]
    assert hand.put("Alpha again").claim == "Alpha again"
    assert hand.query_claims("refused") == []
    assert harness.gateway.store.verify() == []


def _fail(descriptor: int) -> None:
    raise OSError(5, "Input/output error")
