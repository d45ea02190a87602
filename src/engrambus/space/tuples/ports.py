"""What the space asks of a back end: a view of one moment, and one way to change anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from engrambus.core.journal import Line
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples.patterns import Pattern
from engrambus.space.tuples.values import Fence, Kept, Price

T = TypeVar("T")


class Reign(msgspec.Struct, frozen=True, kw_only=True):
    """Since when claims can be held, and how many there were."""

    epoch: int = 0
    boot: str = ""
    """What tells one start of the machine from another."""
    counter: int = 0
    """The last claim's."""


class Averages(msgspec.Struct, frozen=True, kw_only=True):
    """What a yool has cost so far."""

    runs: int = 0
    micros: int = 0
    tokens: int = 0


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the tuples of one run."""

    run: str
    states: dict[str, int]
    """How many tuples are in each state."""
    again: int
    """How many of the dead ones were put again."""
    executed: int
    """Steps that were executed."""
    hits: int
    """Steps that had been executed before."""
    micros: int
    """What was spent, in micro-dollars."""
    tokens: int


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A tuple that was put under an idempotency key."""

    id: str
    request: str
    """The digest of what was asked."""
    accepted: str | None


class LaneFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a lane holds."""

    lane: str
    waiting: int
    claimed: int


class WorkView(Protocol):
    """The space as of one moment."""

    @property
    def as_of(self) -> int:
        """The moment, by the project's clock: never earlier than the last commit."""
        ...

    def reign(self) -> Reign:
        """The epoch claims are made in."""
        ...

    def find(self, tuple_id: str) -> Kept | None:
        """The tuple of that id, in whatever state."""
        ...

    def find_all(self, ids: Sequence[str]) -> dict[str, Kept]:
        """Those of these tuples that are there."""
        ...

    def tuples_like(self, start: str, *, limit: int) -> list[str]:
        """The ids of tuples whose hash begins with these digits."""
        ...

    def claimable(self, pattern: Pattern, *, epoch: int, limit: int) -> list[Kept]:
        """Tuples that wait and are due, or whose claim has ended: the highest rank first, then the oldest."""
        ...

    def matching(self, pattern: Pattern, *, limit: int, after: int = 0) -> list[Kept]:
        """Tuples that are in the space, whatever has become of them, oldest first, behind an ordinal."""
        ...

    def last_in(self, lane: str) -> Kept | None:
        """The newest tuple of a lane, whatever has become of it."""
        ...

    def asked(self, key: str) -> Asked | None:
        """The tuple that was put under an idempotency key."""
        ...

    def waiting(self, lane: str) -> int:
        """How many tuples wait in a lane."""
        ...

    def next_due(self, pattern: Pattern) -> int | None:
        """The next moment at which a tuple that is meant comes due or its claim ends."""
        ...

    def finished(self, tuple_id: str) -> dict[int, str]:
        """The receipts of a tuple's finished steps, by position; failed executions are not among them."""
        ...

    def receipts_of(self, tuple_id: str) -> list[str]:
        """Every receipt of a tuple, in the order they came."""
        ...

    def receipt(self, receipt_id: str) -> Receipt | None:
        """The receipt of that id."""
        ...

    def receipts_like(self, start: str, *, limit: int) -> list[str]:
        """The ids of receipts whose hash begins with these digits."""
        ...

    def known_receipts(self, receipts: Iterable[Receipt]) -> set[str]:
        """The ids of those of these that were told before."""
        ...

    def receipts_in(self, run: str | None, *, limit: int, after: int = 0) -> list[tuple[int, Receipt]]:
        """The receipts of a run, or of all, in the order they came, each with its number, behind a number."""
        ...

    def cached(self, key: str) -> Receipt | None:
        """The newest receipt that may stand for another execution under this key."""
        ...

    def averages(self, yool: str) -> Averages:
        """What successful executions of a yool cost so far."""
        ...

    def counted(self, tuple_id: str, fence: Fence, step: int) -> Price:
        """What is counted of a step as it was executed under a claim, while it ran and since."""
        ...

    def runs(self) -> list[RunFigures]:
        """Every run that has tuples, in the order of their first."""
        ...

    def under_way(self, run: str | None, *, limit: int) -> list[Kept]:
        """Tuples of a run or of all that somebody holds, oldest first."""
        ...

    def ended(self, run: str | None, *, limit: int) -> list[Kept]:
        """Tuples of a run or of all that have ended, the last first; of the dead only those that were put again."""
        ...

    def given_up(
        self, run: str | None, *, lane: str | None = None, again: bool = False, limit: int, before: int | None = None
    ) -> list[Kept]:
        """Dead letters of a run or of all, the last first, from before an ending; those put again if asked for."""
        ...

    def purged(self, sha: str) -> int | None:
        """When a body was taken away to make room, if it was."""
        ...

    def lanes(self) -> list[LaneFigures]:
        """Every lane in which something waits or is worked on."""
        ...


WorkDecide = Callable[[WorkView], tuple[Sequence[Any], T]]


Kind = Literal["work", "room", "any"]
"""What somebody waits for: something to do, room in a lane, or whatever can be seen."""


class Bell(Protocol):
    """Wakes whoever waits for the space to change."""

    def wait(self, seconds: float) -> None:
        """Sleep until something may have changed, or that long."""
        ...


class WorkStore(Protocol):
    """The work of one project."""

    @property
    def project(self) -> str:
        """The project's id."""
        ...

    def read(self) -> AbstractContextManager[WorkView]:
        """The space as of now."""
        ...

    def commit(self, decide: WorkDecide[T], *, synced: bool = True) -> T:
        """Change the space; returns once the change is on the disk, or, when not to be synced, in the journal."""
        ...

    def bell(self, kind: Kind) -> AbstractContextManager[Bell]:
        """A bell that is rung after every commit, by this process or another, that may be what is waited for."""
        ...

    def last_line(self) -> int:
        """The number of the journal's last line."""
        ...

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """The lines of the journal that follow the line of that number, oldest first."""
        ...

    def watch(self, committed: Callable[[], None]) -> None:
        """Have a function called after every commit this process makes; it must be quick and must not raise."""
        ...

    def verify(self) -> list[Any]:
        """Recompute every checksum and hold the index against a rebuild from the journal."""
        ...

    def rebuild(self) -> None:
        """Make the index anew from the journal."""
        ...

    def rotate(self, *, least: int, before: int, dry_run: bool = False) -> bool:
        """Go on in a new segment of the journal if the present one has so many bytes and was begun before a moment.

        Dry, only tell whether it would.
        """
        ...

    def close(self) -> None:
        """Let go of every file."""
        ...
