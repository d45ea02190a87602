"""Ports of the tuple space: what a back end provides. A view of one moment, and one way to commit a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from engrambus.core.journal import Line
from engrambus.core.project_clock import TimedStore
from engrambus.evidence.receipts import Receipt
from engrambus.space.batches import LeafRange
from engrambus.space.tuples.next_steps import CanRun
from engrambus.space.tuples.patterns import TuplePattern
from engrambus.space.tuples.values import BatchAgent, BatchRecord, Fence, LevelCounts, Price, TupleRecord

if TYPE_CHECKING:
    from engrambus.space.tuples.limits import LimitRule, LimitRules, LimitUse, PoolUse

T = TypeVar("T")


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """The period between two starts of the machine, with the number of claims made in it."""

    number: int = 0
    boot: str = ""
    """Identifier of this start of the machine."""
    counter: int = 0
    """Counter of the last claim."""


class CostHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Total cost of a yool's successful executions so far, and how well it kept to what was reserved."""

    executions: int = 0
    micros: int = 0
    tokens: int = 0
    most: Price = Price()
    """The most that one execution has cost, whether it succeeded or not."""
    kept_micros: int = 0
    """Successful executions since the last one that cost more money than was reserved for it."""
    kept_tokens: int = 0
    """The same for tokens."""


class RunningStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was started and has not ended."""

    tuple_id: str
    step: int
    micros: int
    """Money reserved for it and not spent yet; below zero if it has spent more."""
    tokens: int


class RunTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of the tuples of one run."""

    run: str
    states: dict[str, int]
    """Number of tuples in each state."""
    put_again: int
    """Number of dead letters that were put again."""
    executed: int
    """Number of steps executed."""
    hits: int
    """Number of steps answered from the cache."""
    micros: int
    """Money spent, in micro-dollars."""
    tokens: int


class ReceiptPosition(NamedTuple):
    """The place of a receipt, or of its use from the cache, among all of them."""

    number: int
    """Sequence number of the receipt, or of the last one recorded before it was used."""
    use: int = 0
    """Sequence number of the use; 0 for the receipt itself."""


class ListedReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """A receipt of a run: of an execution in it, or one that answered a step of it from the cache."""

    position: ReceiptPosition
    receipt: Receipt
    tuple_id: str
    """Tuple in which it was recorded or used."""
    step: int | None
    """Step that it was recorded for or answered; None for a receipt of a whole tuple."""
    used_us: int | None = None
    """When it answered the step; None for the execution itself."""

    @property
    def is_hit(self) -> bool:
        return self.used_us is not None


class IdempotentPut(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an earlier request with an idempotency key."""

    tuple_id: str
    request_digest: str
    receipt_id: str | None
    """Id of the acceptance receipt, if there was one."""


class LaneCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of waiting, of claimed and of blocked tuples in a lane."""

    lane: str
    waiting: int
    claimed: int
    blocked: int = 0


class TupleBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that keeps a tuple from being claimed: a tuple that is not done, or a reason in words."""

    on: str | None = None
    """Id of the tuple that must be done first."""
    reason: str = ""
    by: str = ""
    """Full name of who blocked it; empty if the tuple was put like that."""


class TaskChange(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a task's history."""

    at_us: int
    what: str
    by: str
    text: str = ""
    owner: str | None = None
    process: str | None = None


class DelayedCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The waiting tuples of a lane that cannot be claimed yet."""

    lane: str
    tuples: int
    first_us: int
    """When the first of them can be claimed."""


class RunningWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that runs now, as it announced itself."""

    id: str
    """Hex digits that no other worker has; a process may have several workers."""
    process: str
    """Name of its process."""
    lane: str | None
    """The lane it works in; None for every lane."""
    run: str | None
    """The only run it works for; None for every run."""
    yools: tuple[str, ...]
    """Full names of the yools that it has code for."""
    until_us: int
    """Time until which it counts as running unless it announces itself again."""

    def works_in(self, lane: str, run: str) -> bool:
        """True if it claims tuples of a lane and a run."""
        return self.lane in (None, lane) and self.run in (None, run)


class WaitingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The tuples of one run that wait in a lane for the same yools."""

    lane: str
    run: str
    yools: tuple[str, ...]
    """Yools of the steps that can run next, as the payload names them; none for tuples without such steps."""
    tuples: int
    oldest: TupleRecord


class WorkView(Protocol):
    """The tuple space as of one moment."""

    @property
    def as_of(self) -> int:
        """The moment in microseconds, by the project's clock; never earlier than the last commit."""
        ...

    def current_epoch(self) -> Epoch:
        """Return the epoch of the last claim."""
        ...

    def find(self, tuple_id: str) -> TupleRecord | None:
        """Return the tuple with that id, in any state."""
        ...

    def find_all(self, ids: Sequence[str]) -> dict[str, TupleRecord]:
        """Return the tuples with these ids, as far as they exist."""
        ...

    def tuple_ids_starting(self, prefix: str, *, limit: int) -> list[str]:
        """Return the ids of tuples whose hash starts with these hex digits."""
        ...

    def claimable(
        self, pattern: TuplePattern, *, epoch: int, limit: int, can_run: CanRun | None = None
    ) -> list[TupleRecord]:
        """Return tuples that wait and are due, or whose claim expired, in the order of `turns`.

        Those that limits keep from starting are left out (decision 110). A claim of an earlier epoch than the given one
        counts as expired. With `can_run`, waiting tuples are returned only if one of their next steps can be run. What
        is left out must not cost anything, however much there is. Tasks of agents are returned
        only for a pattern that names their lane.
        """
        ...

    def may_claim(self, pattern: TuplePattern, *, epoch: int, can_run: CanRun | None = None) -> bool:
        """True if `claimable` of a change would return something, or might; never false if it would."""
        ...

    def limit_rules(self) -> LimitRules:
        """Return the limits and pauses."""
        ...

    def pool_use(self, rule: LimitRule, pool: str, *, epoch: int | None = None) -> PoolUse:
        """Return how much of a pool of a rule is used; claims of epochs before `epoch` have ended."""
        ...

    def limit_uses(self) -> list[LimitUse]:
        """Return every rule with its use, by name."""
        ...

    def matching(self, pattern: TuplePattern, *, limit: int, after: int = 0) -> list[TupleRecord]:
        """Return tuples in any state but `taken` with an ordinal greater than `after`, oldest first."""
        ...

    def newest_in(self, lane: str) -> TupleRecord | None:
        """Return the newest tuple of a lane, in any state."""
        ...

    def idempotent_put(self, key: str) -> IdempotentPut | None:
        """Return the answer that was given under an idempotency key."""
        ...

    def waiting_count(self, lane: str) -> int:
        """Return the number of tuples that wait in a lane, for a worker or blocked."""
        ...

    def live_in(self, lane: str) -> list[TupleRecord]:
        """Return the tuples of a lane that have not ended, oldest first."""
        ...

    def list_blocked(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        """Return the blocked tuples of a run, or of all, oldest first."""
        ...

    def blocks(self, tuple_id: str) -> list[TupleBlock]:
        """Return what blocks a tuple: tuples in the order of their ids, then the reason in words."""
        ...

    def dependents(self, tuple_id: str) -> list[str]:
        """Return the ids of the tuples that are blocked until this one is done, oldest first."""
        ...

    def task_changes(self, tuple_id: str) -> list[TaskChange]:
        """Return the history of a task, oldest first."""
        ...

    def next_due_us(self, pattern: TuplePattern, *, can_run: CanRun | None = None) -> int | None:
        """Return when a matching tuple next becomes claimable by itself, or a limit that it waits for opens.

        With `can_run`, only tuples count that wait for a step it can run, or are claimed and have one left.
        """
        ...

    def finished_steps(self, tuple_id: str) -> dict[int, str]:
        """Return the receipt ids of a tuple's successful steps, by position."""
        ...

    def receipt_ids(self, tuple_id: str) -> list[str]:
        """Return the ids of all receipts of a tuple, in the order they were recorded."""
        ...

    def receipt(self, receipt_id: str) -> Receipt | None:
        """Return the receipt with that id."""
        ...

    def receipt_ids_starting(self, prefix: str, *, limit: int) -> list[str]:
        """Return the ids of receipts whose hash starts with these hex digits."""
        ...

    def recorded_receipts(self, receipts: Iterable[Receipt]) -> set[str]:
        """Return the ids of the given receipts that are already recorded."""
        ...

    def list_receipts(self, run: str | None, *, limit: int, after: int = 0) -> list[tuple[int, Receipt]]:
        """Return the receipts of a run, or of all, with their sequence numbers greater than `after`, in order."""
        ...

    def newest_receipts(
        self, run: str | None, *, limit: int, before: ReceiptPosition | None = None
    ) -> list[ListedReceipt]:
        """Return the receipts of a run, or of all, and their uses from the cache; the newest first."""
        ...

    def cached_receipt(self, key: str) -> Receipt | None:
        """Return the newest receipt that is a cache hit for this key."""
        ...

    def cost_history(self, yool: str) -> CostHistory:
        """Return the total cost of a yool's successful executions."""
        ...

    def running_steps(self) -> list[RunningStep]:
        """Return the steps of all tuples that are running."""
        ...

    def counted_cost(self, tuple_id: str, fence: Fence, step: int) -> Price:
        """Return the cost counted so far for a step as executed under one claim."""
        ...

    def run_totals(self) -> list[RunTotals]:
        """Return the totals of every run that has tuples, in the order of their first tuples."""
        ...

    def list_unfinished(self, *, limit: int, after: int = 0) -> list[TupleRecord]:
        """Return tuples that have neither ended nor been taken, with an ordinal greater than `after`, oldest first."""
        ...

    def list_claimed(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        """Return the claimed tuples of a run, or of all, oldest first."""
        ...

    def list_ended(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        """Return the ended tuples of a run, or of all but INTERNAL_RUN, last ended first.

        Of dead letters only those put again.
        """
        ...

    def list_dead(
        self,
        run: str | None,
        *,
        lane: str | None = None,
        include_put_again: bool = False,
        limit: int,
        ended_before: int | None = None,
    ) -> list[TupleRecord]:
        """Return the dead letters of a run, or of all, last ended first.

        `ended_before` is a `final_receipt_number`: only tuples that ended before it are returned.
        """
        ...

    def purged_at_us(self, sha: str) -> int | None:
        """Return the time at which a stored body was deleted to free disk space."""
        ...

    def lane_counts(self) -> list[LaneCounts]:
        """Return the counts of every lane that has waiting or claimed tuples."""
        ...

    def delayed_counts(self) -> list[DelayedCounts]:
        """Return the counts of every lane that has waiting tuples which are not due yet."""
        ...

    def waiting_groups(self) -> list[WaitingGroup]:
        """Return the tuples that are due and that no limit holds back, by lane, next yools and run, each sorted."""
        ...

    # Batches (decision 112)

    def has_batches(self) -> bool:
        """True if any batch was ever spawned."""
        ...

    def batch(self, batch_id: str) -> BatchRecord | None:
        """Return the batch with that id."""
        ...

    def list_batches(self, run: str | None, *, limit: int, before: int | None = None) -> list[BatchRecord]:
        """Return the batches of a run, or of all, newest first; `before` is the ordinal of a root."""
        ...

    def folded_batches(self, lane: str | None, *, limit: int | None = None) -> list[BatchRecord]:
        """Return the batches of a lane, or of all, that have folded leaves: the highest rank first, then the oldest."""
        ...

    def folded_leaves(self, batch_id: str, *, limit: int | None = None) -> list[LeafRange]:
        """Return the ranges of a batch's folded leaves, in order; at most the first `limit` ranges."""
        ...

    def idle_leaves(self, batch_id: str, *, limit: int | None = None) -> list[int]:
        """Return the numbers of materialised leaves that were never claimed, in order; at most the first `limit`."""
        ...

    def level_counts(self, batch_id: str) -> dict[int, LevelCounts]:
        """Return the counts of each level of a batch that has materialised or ended agents."""
        ...

    def agents(self, tuple_ids: Sequence[str]) -> dict[str, BatchAgent]:
        """Return the tuples among these that are agents of a batch."""
        ...

    def agents_at(
        self, batch_id: str, level: int, start: int, stop: int, *, unended: bool = False, limit: int | None = None
    ) -> list[BatchAgent]:
        """Return the materialised agents of a level with these numbers, in order; `unended`: only those that go on."""
        ...

    def kept_agents(self, batch_id: str) -> list[BatchAgent]:
        """Return the agents below the root that tuples from outside the batch depend on."""
        ...


WorkDecide = Callable[[WorkView], tuple[Sequence[Any], T]]
"""A decision: looks at a view under the write lock and returns the facts to journal, and an answer."""


WaitKind = Literal["work", "room", "any", "schedules"]
"""Kinds of change one can wait for: a claimable tuple, room in a lane, any visible change, or one of a schedule."""


class Waiter(Protocol):
    """Wakes up when the space may have changed."""

    def wait(self, seconds: float) -> None:
        """Sleep until something may have changed, at most that long."""
        ...


class WorkStore(TimedStore, Protocol):
    """The tuples and receipts of one project."""

    @property
    def project(self) -> str:
        """The project's id."""
        ...

    def read(self) -> AbstractContextManager[WorkView]:
        """Return a view of the space as of now."""
        ...

    def commit(self, decide: WorkDecide[T], *, synced: bool = True) -> T:
        """Apply a decision; return once its facts are synced to disk, or only journalled if `synced` is false.

        Without a sync a killed process loses nothing; only a power cut can take the last facts (decision 22).
        """
        ...

    def wait_on(self, kind: WaitKind) -> AbstractContextManager[Waiter]:
        """Return a waiter that wakes up after every commit of any process that may be a change of this kind.

        A process that is killed between its commit and the wake-up does not wake it (decision 23).
        """
        ...

    def announce(self, worker: RunningWorker) -> None:
        """Note a running worker, in place of what was noted under its id. Nothing is journalled."""
        ...

    def withdraw(self, worker_id: str) -> None:
        """Forget a worker."""
        ...

    def announced(self) -> list[RunningWorker]:
        """Return the workers of all processes that were announced and not withdrawn; some may have ended."""
        ...

    def last_line(self) -> int:
        """Return the number of the journal's last line."""
        ...

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """Return the lines of the journal after the line of that number, oldest first."""
        ...

    def watch(self, committed: Callable[[], None]) -> None:
        """Call a function after every commit of this process; it must be quick and must not raise."""
        ...

    def verify(self) -> list[Any]:
        """Recompute every checksum and compare the index with one rebuilt from the journal."""
        ...

    def rebuild(self) -> None:
        """Rebuild the index from the journal."""
        ...

    def rotate(self, *, least_bytes: int, before_us: int, dry_run: bool = False) -> bool:
        """Start a new segment if the current one has `least_bytes` and was begun before `before_us`.

        Return whether one was started, or with `dry_run` whether one would be.
        """
        ...

    def close(self) -> None: ...
