"""Values of the tuple space: a tuple as it was created, its record in the space, and a worker's claim on it."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from engrambus.core import SECOND_US, canonical, digest
from engrambus.space.batches import BatchShape
from engrambus.space.catalog import Terms

V1, V2 = "yool-tuple/v1", "yool-tuple/v2"
SCHEMAS = (V1, V2)
"""v1 is the published schema. In v2 money is `budget_micros`, an integer of micro-dollars (decision 24)."""

State = Literal["waiting", "blocked", "claimed", "done", "dead", "cancelled", "taken", "open"]
STATES: tuple[State, ...] = get_args(State)
LIVE_STATES: tuple[State, ...] = ("waiting", "claimed", "blocked")
"""States in which a tuple is still to be done; the order is that of the counts of a lane."""
OPEN = "open"
"""State of a batch's node above its leaves until every agent below it has ended (decision 112)."""
ENDED = frozenset({"done", "dead", "cancelled"})
"""States in which a tuple has its final receipt."""

MAX_PRIORITY = 1000
TASK_LANE, TASK_YOOL = "agent.task", "agent.task.do"
"""Lane and yool of a task: a tuple that an agent or a person does, and that no worker has code for (decision 113)."""


class SpaceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of queues, claims, retries and budgets, with the defaults the specification publishes."""

    lane_concurrency: int = 32
    """YOOL_TUPLE_LANE_CONCURRENCY: tuples of a lane that a worker runs at once by default."""
    max_lane_concurrency: int = 64
    """YOOL_TUPLE_MAX_LANE_CONCURRENCY, or YOOL_MAX_LANE_CONCURRENCY: the highest value a worker may be given."""
    cpu_quota_pct: int = 95
    """YOOL_TUPLE_CPU_QUOTA_PCT: a step's share of CPU if neither tuple nor yool sets one; 100 is one core."""
    max_processes: int = 1000
    """YOOL_TUPLE_MAX_PROCESSES: processes that a step may have at once."""
    worker_cpu_quota_pct: int | None = None
    """YOOL_TUPLE_WORKER_CPU_QUOTA_PCT: share of CPU of all steps of a worker together; 100 is one core."""
    worker_memory_mb: int | None = None
    """YOOL_TUPLE_WORKER_MEMORY_MB: megabytes of RAM of all steps of a worker together."""
    worker_max_processes: int | None = None
    """YOOL_TUPLE_WORKER_MAX_PROCESSES: processes of all steps of a worker together."""
    queue_maxsize: int = 8192
    """YOOL_TUPLE_QUEUE_MAXSIZE: tuples that may wait in a lane."""
    compression_threshold: int = 1024
    """YOOL_TUPLE_COMPRESSION_THRESHOLD: number of leaves from which a batch is stored folded."""
    # decision 24: two and not one, because a worker that is killed uses up an attempt.
    max_retries: int = 2
    """YOOL_TUPLE_MAX_RETRIES: retries of a tuple whose terms set none."""
    lease_us: int = 30 * SECOND_US
    """YOOL_TUPLE_LEASE_SECONDS: how long a claim lasts without a renewal."""
    task_lease_us: int = 1800 * SECOND_US
    """YOOL_TUPLE_TASK_LEASE_SECONDS: how long an agent has a task after its last call."""
    backoff_us: int = 1 * SECOND_US
    """YOOL_TUPLE_BACKOFF_SECONDS: delay before the first retry; it doubles with each further one."""
    max_backoff_us: int = 300 * SECOND_US
    alarm_pct: int = 80
    """YOOL_TUPLE_ALARM_PCT: share of a budget at which an alarm tuple is put; 0 for none."""
    alarm_lane: str = "alarm"
    """YOOL_TUPLE_ALARM_LANE: lane of alarm tuples."""
    alarm_wait_us: int = 300 * SECOND_US
    """YOOL_TUPLE_ALARM_WAIT_SECONDS: how long tuples wait without a worker that can run them before an alarm is put."""
    indexed_fields: tuple[str, ...] = ()
    """YOOL_TUPLE_INDEXED: paths of fields that patterns match through an index, as fast as by lane."""
    cache_salt: str = ""
    """YOOL_TUPLE_CACHE_SALT: results computed under another salt are never cache hits."""


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call of a yool."""

    yool: str
    """Name of the yool, with or without a version."""
    args: dict[str, Any] = {}
    after: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """Positions, from 0, of the steps it waits for. If no step sets this, each step waits for the previous one."""


class Tuple(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A unit of work, exactly as it was created."""

    schema: str
    lane: str
    """Queue in which it waits for a worker."""
    created_at: str
    payload: tuple[Step, ...] = ()
    """Steps to run; empty for a tuple that only carries information."""
    map_pos: dict[str, Any] = {}
    """Position in the project."""
    authority: dict[str, Any] = {}
    """Identity on whose authority it runs; stamped by the product, never set by a caller."""
    agent_terms: dict[str, Any] = {}
    """Budgets, deadline and number of retries."""
    src_ptr: tuple[str, ...] = ()
    """Pointers to what it was derived from."""
    receipts: tuple[str, ...] = ()
    """Receipt ids; empty when a tuple is created."""
    parent_id: str | None = None
    """Parent tuple id; spending is also charged to the parent."""
    id: str | msgspec.UnsetType = msgspec.UNSET
    flags: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """`no_cache`: execute every step even if its result is cached."""
    priority: int | msgspec.UnsetType = msgspec.UNSET
    """Tuples of higher priority are claimed first; 0 by default."""
    after: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Ids of the tuples that must be done before it can be claimed (decision 113)."""

    @property
    def rank(self) -> int:
        """The priority, or its default."""
        return 0 if self.priority is msgspec.UNSET else self.priority

    @property
    def no_cache(self) -> bool:
        """True if cached results must not be used."""
        return self.flags is not msgspec.UNSET and bool(self.flags.get("no_cache", False))


class TupleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The `agent_terms` of a tuple, parsed."""

    terms: Terms
    deadline_us: int | None = None
    """Time after which no step is started."""
    not_before_us: int | None = None
    """Time before which it is not claimed."""


class Fence(msgspec.Struct, frozen=True, order=True):
    """Fencing token of a claim: a later claim always has a greater one, even after the machine restarted."""

    # decision 22: the counter alone would not do. Claims are not synced, so a power cut may lose the last ones, and
    # their numbers would be used again; the epoch, which begins with every start of the machine, keeps them apart.
    epoch: int
    counter: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.counter}"


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of money and of tokens."""

    micros: int = 0
    """Micro-dollars: sums of floating-point dollars would drift, and budgets are exact."""
    tokens: int = 0

    def __bool__(self) -> bool:
        return bool(self.micros or self.tokens)

    def __add__(self, amount: Price) -> Price:
        return Price(micros=self.micros + amount.micros, tokens=self.tokens + amount.tokens)

    def maximum(self, other: Price) -> Price:
        """Return the larger amount of money and the larger amount of tokens."""
        return Price(micros=max(self.micros, other.micros), tokens=max(self.tokens, other.tokens))

    def minus(self, counted: Price) -> Price:
        """Return the part of this price that is not in `counted` yet, never less than zero."""
        return Price(micros=max(0, self.micros - counted.micros), tokens=max(0, self.tokens - counted.tokens))


class TupleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A tuple in the space together with its state."""

    ordinal: int
    """1-based sequence number within the project."""
    id: str
    state: str
    lane: str
    rank: int
    run: str
    """Id of the run it was put in."""
    parent_id: str | None
    body: bytes
    """Canonical JSON of the tuple as it was created, without its id."""
    deadline_us: int | None = None
    """Time after which no step is started."""
    retries: int | None = None
    """Number of retries; None for the project's default."""
    budget_micros: int | None = None
    budget_tokens: int | None = None
    attempts: int = 0
    """Number of claims so far."""
    not_before_us: int | None = None
    """Time before which its terms let no one claim it."""
    ready_us: int = 0
    """Time before which it is not claimed, or not claimed again."""
    fence: Fence | None = None
    worker: str | None = None
    lease_until_us: int = 0
    spent_micros: int = 0
    """Money spent by it and its children, in micro-dollars."""
    spent_tokens: int = 0
    own_micros: int = 0
    """Money spent by the tuple itself, without its children."""
    own_tokens: int = 0
    reserved_micros: int = 0
    """Estimated cost of steps that are running, in it and its children."""
    reserved_tokens: int = 0
    alarmed: bool = False
    """True once an alarm tuple was put for its budget."""
    put_again_as: str | None = None
    """Id of the tuple that replaced this dead letter."""
    final_receipt_number: int | None = None
    """Sequence number of its final receipt; orders tuples by when they ended."""

    @property
    def own_spent(self) -> Price:
        """Amount spent by the tuple itself, without its children."""
        return Price(micros=self.own_micros, tokens=self.own_tokens)

    @property
    def tuple(self) -> Tuple:
        """The tuple, decoded from `body`."""
        return decode_tuple(self.body)


class AgentPosition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The place of a tuple in its batch."""

    batch: str
    """Id of the batch, which is the id of its root."""
    level: int
    """0 for the root."""
    number: int
    """Position among the nodes of its level, from 0."""
    children: int = 0
    """Number of its children; 0 for a leaf."""


class BatchAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A materialised agent of a batch: a leaf, or a node above the leaves."""

    id: str
    """Id of its tuple."""
    position: AgentPosition
    children_left: int
    """Children that have not ended, folded ones included; 0 for a leaf."""
    dead: int = 0
    """Leaves below it that were given up, counted when the child they belong to has ended."""
    cancelled: int = 0
    """Leaves below it that were cancelled or taken, counted likewise."""
    is_idle: bool = True
    """True for a leaf that was never claimed and has not ended."""
    is_kept: bool = False
    """True if a tuple from outside the batch is its child or waits for it, so that it is never folded."""


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A batch: a tree of agents of which only some are materialised as tuples."""

    id: str
    """Id of its root."""
    ordinal: int
    """Ordinal of its root."""
    run: str
    lane: str
    rank: int
    shape: BatchShape
    template: bytes
    """Canonical JSON of a leaf, without its place in the batch."""
    retries: int | None
    """Number of retries allowed by the yools of a leaf, if its own terms set none."""
    folded: int
    """Number of leaves that are folded."""
    state: str
    """State of its root."""


class LevelCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one level of a batch, over the agents that are materialised or ended while folded."""

    states: dict[str, int]
    """Number of agents in each state."""
    micros: int = 0
    """Money spent by the agents of the level themselves, in micro-dollars."""
    tokens: int = 0
    receipts: int = 0
    """Number of their receipts, those of the steps and the final ones."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's temporary hold on a tuple."""

    id: str
    """Id of the tuple."""
    fence: Fence
    lease_until_us: int
    """Time at which the claim ends unless it is renewed."""
    attempt: int
    """1-based."""
    worker: str
    run: str
    body: bytes
    finished_steps: dict[int, str]
    """Receipt ids of the steps that earlier attempts finished, by position."""

    @property
    def tuple(self) -> Tuple:
        """The tuple, decoded from `body`."""
        return decode_tuple(self.body)


decode_tuple = msgspec.json.Decoder(Tuple).decode


def tuple_id(fields: dict[str, Any]) -> str:
    """Compute the published id: sha256 over the canonical form without `id`."""
    return digest(canonical({name: value for name, value in fields.items() if name != "id"}))
