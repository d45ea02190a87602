"""Facts of the tuple space, as they are written to `.catalog/tuples.jsonl`.

Tags and field names are the journal's format and never change; where a Python name is clearer than the journalled one,
`msgspec.field(name=...)` maps it.
"""

from __future__ import annotations

import msgspec

from engrambus.core.journal import JournalGap
from engrambus.core.project_clock import ClockChange
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples.values import AgentPosition

Ids = tuple[str, ...]


class _Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", omit_defaults=True):
    pass


class TuplePut(_Fact, frozen=True, tag="tuple.out"):
    """A tuple was put into the space."""

    id: str
    run: str
    # Raw: the id is the hash of exactly these bytes, so they are never decoded and encoded again.
    tuple: msgspec.Raw
    """Canonical JSON of the tuple as it was created, without its id."""
    accepted: Receipt | None = None
    """Acceptance receipt, if the tuple was dispatched through an edge."""
    replaces: str | None = msgspec.field(default=None, name="again")
    """Id of the dead letter it replaces."""
    idempotency_key: str | None = msgspec.field(default=None, name="asked")
    """Caller and key of the request: a repeated request is answered with this tuple."""
    request_digest: str | None = msgspec.field(default=None, name="request")
    retries: int | None = None
    """Number of retries allowed by its yools, if its own terms set none."""
    blocked_by: Ids = ()
    """Ids of the tuples it waits for: those of its `after` that were not done."""
    agent: AgentPosition | None = None
    """Its place in a batch."""


class IdempotencyKeyUsed(_Fact, frozen=True, tag="tuple.asked"):
    """A request with an idempotency key named a tuple that was already in the space."""

    # decision 24: journalled because a key is used up by its first request, even if that put nothing new.

    id: str
    idempotency_key: str = msgspec.field(name="asked")
    """Caller and key of the request."""
    request_digest: str = msgspec.field(name="request")
    accepted: str | None = None
    """Id of the acceptance receipt, if it was part of the answer."""


class TupleTaken(_Fact, frozen=True, tag="tuple.taken"):
    """A tuple was removed from the space with `in`."""

    id: str
    by: str


class TupleClaimed(_Fact, frozen=True, tag="tuple.claimed"):
    """A worker claimed a tuple."""

    id: str
    worker: str
    epoch: int
    counter: int
    lease_until_us: int = msgspec.field(name="until")


class LeaseRenewed(_Fact, frozen=True, tag="lease.renewed"):
    """A worker renewed its claim."""

    id: str
    lease_until_us: int = msgspec.field(name="until")


class TupleReleased(_Fact, frozen=True, tag="tuple.released"):
    """A claimed tuple waits again."""

    id: str
    ready_us: int = msgspec.field(default=0, name="ready_at")
    """Time before which it is not claimed again."""
    counts_attempt: bool = msgspec.field(default=True, name="counts")
    """False if the attempt is not counted, as when a worker was stopped (decision 33)."""
    reason: str | None = None


class TupleBlocked(_Fact, frozen=True, tag="tuple.blocked"):
    """A waiting tuple is not claimed until what blocks it is gone."""

    id: str
    on: tuple[str, ...] = ()
    """Ids of tuples that must be done first."""
    reason: str | None = None
    """Why it is blocked, in words; it takes the place of an earlier reason."""
    by: str = ""


class TupleUnblocked(_Fact, frozen=True, tag="tuple.unblocked"):
    """Something no longer blocks a tuple; it waits as soon as nothing does."""

    id: str
    on: tuple[str, ...] = ()
    """Ids of tuples that it does not wait for any more."""
    reason: bool = False
    """True if the reason given in words blocks it no longer."""
    by: str | None = None
    """Full name of who unblocked it; None if the tuples of `on` were done."""


class TaskChanged(_Fact, frozen=True, tag="task.changed"):
    """Someone did something with a task: an entry of its history."""

    id: str
    what: str
    """`claimed`, `released`, `given`, `blocked`, `unblocked` or `done`."""
    by: str
    """Full name of the agent, or of the person."""
    text: str = ""
    """A note."""
    owner: str | None = None
    """With `given`: full name of the new owner, empty for no one."""
    process: str | None = None
    """With `claimed`: name of the process whose end ends the claim."""


class StepStarted(_Fact, frozen=True, tag="step.started"):
    """A step started; what it may cost is reserved."""

    id: str
    step: int
    micros: int = 0
    tokens: int = 0
    yool: str = ""
    """Full name of its yool, if it runs under a budget (decision 75)."""


class StepCost(_Fact, frozen=True, tag="step.cost"):
    """A step spent more than was counted for it so far."""

    id: str
    step: int
    micros: int = 0
    tokens: int = 0
    epoch: int = 0
    """Fence, with `counter`, of the claim it ran under: no cost of one execution is counted twice."""
    counter: int = 0
    late: bool = False
    """True if that claim was no longer valid: another worker had the tuple, or it had ended."""


class StepDone(_Fact, frozen=True, tag="step.done"):
    """A step was executed, with or without success."""

    id: str
    step: int
    run: str
    receipt: Receipt
    micros: int = 0
    """Cost not yet counted by StepCost facts, in micro-dollars."""
    tokens: int = 0
    epoch: int = 0
    """Fence, with `counter`, of the claim it ran under; set only if there is such a cost."""
    counter: int = 0


class StepHit(_Fact, frozen=True, tag="step.hit"):
    """The result of a step was taken from the cache."""

    id: str
    step: int
    receipt: str
    """Id of the original receipt."""


class TupleDone(_Fact, frozen=True, tag="tuple.done"):
    """A tuple ended."""

    id: str
    run: str
    state: str
    """`done`, `dead` or `cancelled`."""
    receipt: Receipt


class AlarmRaised(_Fact, frozen=True, tag="budget.alarm"):
    """An alarm tuple was put because a tuple spent most of its budget."""

    id: str
    alarm: str
    """Id of the alarm tuple."""


class BatchSpawned(_Fact, frozen=True, tag="batch.spawned"):
    """A batch was spawned, with all its leaves folded; its root was put before, in the same commit."""

    id: str
    """Id of its root."""
    depth: int
    branching: int
    template: msgspec.Raw
    """Canonical JSON of a leaf, without its place in the batch."""
    retries: int | None = None
    """Number of retries allowed by the yools of a leaf, if its own terms set none."""


class LeavesUnfolded(_Fact, frozen=True, tag="batch.unfolded"):
    """Folded leaves of a batch became tuples, which are put in the same commit."""

    id: str
    start: int
    stop: int


class AgentsFolded(_Fact, frozen=True, tag="batch.folded"):
    """Agents of a batch that nothing had happened to were folded again: their tuples leave the space."""

    id: str
    leaves: tuple[tuple[int, int], ...]
    """Ranges of their numbers."""
    nodes: tuple[tuple[int, int], ...]
    """Level and number of each materialised node above them that is whole again."""


class FoldedEnded(_Fact, frozen=True, tag="batch.ended"):
    """Folded agents of a batch ended without ever having been tuples."""

    id: str
    level: int
    """Level and number of the materialised node they belong to."""
    number: int
    state: str
    leaves: tuple[tuple[int, int], ...]
    """Ranges of the leaves among them."""
    agents: tuple[tuple[int, int], ...]
    """Levels, and how many agents of each have ended."""


class EpochBegun(_Fact, frozen=True, tag="epoch.begun"):
    """The machine restarted: every earlier claim is void, since the process that made it is gone."""

    epoch: int
    boot: str


class BodyDamaged(_Fact, frozen=True, tag="body.damaged"):
    """A stored body named by a receipt is damaged; the receipt is no longer a cache hit."""

    receipt: str
    sha: str


class BodyPurged(_Fact, frozen=True, tag="body.purged"):
    """A stored body was deleted to free disk space; the receipts that name it stay."""

    # decision 28: journalled before the deletion, so that an absent body can be told from a lost one.

    sha: str
    size_bytes: int = msgspec.field(name="size")
    reason: str = msgspec.field(name="why")
    """`artifact` past the hot days, `printed` past the warm days, `room` when the disk was full."""


class LimitSet(_Fact, frozen=True, tag="limit.set"):
    """A rule was set, in place of the one about the same tuples: how many may run and start, and whether any may."""

    lane: str | None = None
    run: str | None = None
    authority: str | None = None
    key: str | None = None
    """A concurrency key, or the beginning of keys with `*` behind it."""
    running: int | None = None
    starts: int | None = None
    period_us: int = msgspec.field(default=0, name="period")
    paused: str | None = None
    """Why no tuple may start; None if they may."""
    by: str = ""


class LimitRemoved(_Fact, frozen=True, tag="limit.removed"):
    """The rule about these tuples was removed."""

    lane: str | None = None
    run: str | None = None
    authority: str | None = None
    key: str | None = None


Fact = (
    TuplePut
    | IdempotencyKeyUsed
    | TupleTaken
    | TupleClaimed
    | LeaseRenewed
    | TupleReleased
    | TupleBlocked
    | TupleUnblocked
    | TaskChanged
    | StepStarted
    | StepCost
    | StepDone
    | StepHit
    | TupleDone
    | AlarmRaised
    | BatchSpawned
    | LeavesUnfolded
    | AgentsFolded
    | FoldedEnded
    | EpochBegun
    | BodyDamaged
    | BodyPurged
    | LimitSet
    | LimitRemoved
    | JournalGap
    | ClockChange
)
