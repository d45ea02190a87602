"""How a test holds the work of a project: open it, open it again, take its index away, start the machine anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from engrambus.backends.memory import MemoryJournal
from engrambus.backends.memory.work import MemoryWork
from engrambus.backends.sqlite.work import WORK_INDEX, WORK_JOURNAL, SqliteWork, create_work
from engrambus.core import print_time
from engrambus.evidence.receipts import Cost, Receipt, seal
from engrambus.space.tuples import Claim, Settled, SpaceSettings, TupleSpace, whole
from engrambus.testing.clock import TurningClock

PROJECT = "01KDVP9R00STGMERGYTEST0000"
RUN = "01KDVP9R00STGMERGYRUN00000"
PERSON: dict[str, Any] = {"user": "admin", "agent": None, "ci": False}
YOOL = "agent.lint.ruff.v1"


class WorkHarness(Protocol):
    """The work of one project on one back end, with a clock to turn."""

    clock: TurningClock
    space: TupleSpace

    def reopen(self) -> None:
        """Close the space and open it again, as another process would."""
        ...

    def start_machine(self, boot: str) -> None:
        """Close the space and open it after the machine was started anew."""
        ...

    def delete_index(self) -> None:
        """Take away everything that is not the journal, while the space is open."""
        ...

    def journal_bytes(self) -> bytes:
        """The whole journal."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class MemoryWorkHarness:
    """The reference back end."""

    def __init__(self, clock: TurningClock | None = None, settings: SpaceSettings | None = None) -> None:
        self.clock = clock or TurningClock()
        self._settings = settings
        self._journal = MemoryJournal(project=PROJECT, at=self.clock.now(), kind="tuples")
        self._boot = "first"
        self._open()

    def reopen(self) -> None:
        """Read the journal into another store."""
        self.space.close()
        self._open()

    def start_machine(self, boot: str) -> None:
        """Let everybody who held anything be dead."""
        self._boot = boot
        self.reopen()

    def delete_index(self) -> None:
        """Forget the state and read the journal again."""
        self.space.store.rebuild()

    def journal_bytes(self) -> bytes:
        """The whole journal."""
        return self._journal.text()

    def close(self) -> None:
        """Close the store."""
        self.space.close()

    def _open(self) -> None:
        self.space = TupleSpace(MemoryWork(self._journal, self.clock), settings=self._settings, boot=self._boot)


class SqliteWorkHarness:
    """The work on disk, in a folder of its own."""

    def __init__(self, folder: Path, clock: TurningClock | None = None, settings: SpaceSettings | None = None) -> None:
        self.folder = folder
        self.clock = clock or TurningClock()
        self._settings = settings
        self._boot = "first"
        folder.mkdir(parents=True, exist_ok=True)
        create_work(folder, project=PROJECT, at=self.clock.now())
        self._open()

    def reopen(self) -> None:
        """Close the store and open its folder again."""
        self.space.close()
        self._open()

    def start_machine(self, boot: str) -> None:
        """Let everybody who held anything be dead."""
        self._boot = boot
        self.reopen()

    def delete_index(self) -> None:
        """Unlink the index under the running store; what SQLite keeps beside it is left behind."""
        (self.folder / WORK_INDEX).unlink(missing_ok=True)

    def journal_bytes(self) -> bytes:
        """The whole journal."""
        return (self.folder / WORK_JOURNAL).read_bytes()

    def close(self) -> None:
        """Close the store."""
        self.space.close()

    def _open(self) -> None:
        indexed = self._settings.indexed if self._settings is not None else ()
        store = SqliteWork(self.folder, self.clock, indexed=indexed)
        self.space = TupleSpace(store, settings=self._settings, boot=self._boot)


def draft(lane: str = "build", *args: int, **more: Any) -> dict[str, Any]:
    """A tuple as a caller sends it, with a step for each number."""
    steps = [{"yool": "agent.lint.ruff", "args": {"n": n}} for n in args or (0,)]
    return {"lane": lane, "payload": steps, **more}


def put(harness: WorkHarness, *drafts: dict[str, Any], run: str = RUN, **more: Any) -> list[str]:
    """Put tuples; their ids."""
    answers = harness.space.out(*(drafts or (draft(),)), authority=PERSON, run=run, **more)
    return [answer.id for answer in answers]


def receipt(harness: WorkHarness, claim: Claim, step: int = 0, *, exit: int = 0, **more: Any) -> Receipt:
    """The receipt of a step done now."""
    now = print_time(harness.clock.now())
    said = Cost(usd=more.pop("usd", 0.0), tokens_in=more.pop("tokens_in", 0))
    return seal(
        yool=YOOL,
        tuple_id=claim.id,
        started_at=now,
        ended_at=now,
        exit=exit,
        step=step,
        attempt=claim.attempt,
        worker=claim.worker,
        cost=more.pop("cost", said),
        **more,
    )


def finished(harness: WorkHarness, claim: Claim, **more: Any) -> Settled:
    """All steps of a tuple done, and its end."""
    steps = range(len(claim.tuple.payload))
    own = [receipt(harness, claim, step, **more) for step in steps if step not in claim.done]
    receipts = [*claim.done.values(), *(each.id for each in own)]
    last = whole(claim.id, own=own, receipts=receipts, exit=0, at=print_time(harness.clock.now()))
    return Settled(id=claim.id, fence=claim.fence, receipts=tuple(own), last=last)


def failed(harness: WorkHarness, claim: Claim, step: int = 0, why: str = "exit 1", **more: Any) -> Settled:
    """A step that failed."""
    one = receipt(harness, claim, step, exit=1, error=why, **more)
    return Settled(id=claim.id, fence=claim.fence, receipts=(one,), failed=why)
