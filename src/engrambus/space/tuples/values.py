"""Tuples: the envelope of a piece of work, what has become of it, and who holds it."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from engrambus.core import canonical, digest
from engrambus.space.catalog import Terms

V1, V2 = "yool-tuple/v1", "yool-tuple/v2"
SCHEMAS = (V1, V2)
"""v1 is as published. v2 differs in one thing: its money is a whole number of micro-dollars, `budget_micros`."""

State = Literal["waiting", "claimed", "done", "dead", "cancelled", "taken"]
STATES: tuple[State, ...] = get_args(State)
ENDED = frozenset({"done", "dead", "cancelled"})
"""States with a last receipt."""

MAX_PRIORITY = 1000


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One yool to be carried out."""

    yool: str
    """Its name, with or without a version."""
    args: dict[str, Any] = {}
    """What it is called with."""
    after: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """The steps it waits for, by position from 0. When no step says, each waits for the one before it."""


class Tuple(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of work as it was created."""

    schema: str
    lane: str
    """Where it waits for a worker."""
    created_at: str
    payload: tuple[Step, ...] = ()
    """What is to be done; nothing for a tuple that only says something."""
    map_pos: dict[str, Any] = {}
    """Where in the project it belongs."""
    authority: dict[str, Any] = {}
    """Who stands behind it; stamped, never written by a caller."""
    agent_terms: dict[str, Any] = {}
    """What it may spend, until when, and how often it is tried."""
    src_ptr: tuple[str, ...] = ()
    """What it comes from."""
    receipts: tuple[str, ...] = ()
    """Ids of receipts; none when it is created."""
    parent_id: str | None = None
    """The tuple it is a part of; what it spends, that one spends."""
    id: str | msgspec.UnsetType = msgspec.UNSET
    flags: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """`no_cache`: do everything anew."""
    priority: int | msgspec.UnsetType = msgspec.UNSET
    """Higher goes first; 0 unless said."""

    @property
    def rank(self) -> int:
        """The priority, said or not."""
        return 0 if self.priority is msgspec.UNSET else self.priority

    @property
    def no_cache(self) -> bool:
        """Whether everything is to be done anew."""
        return self.flags is not msgspec.UNSET and bool(self.flags.get("no_cache", False))


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A tuple's terms, read."""

    terms: Terms
    deadline: int | None = None
    """The moment after which nothing is begun."""


class Fence(msgspec.Struct, frozen=True, order=True):
    """What a claim is known by: later claims have greater ones, also after the machine was started anew."""

    epoch: int
    counter: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.counter}"


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Money and tokens."""

    micros: int = 0
    tokens: int = 0

    def __bool__(self) -> bool:
        return bool(self.micros or self.tokens)

    def __add__(self, more: Price) -> Price:
        return Price(micros=self.micros + more.micros, tokens=self.tokens + more.tokens)

    def beyond(self, counted: Price) -> Price:
        """What of it was not counted before."""
        return Price(micros=max(0, self.micros - counted.micros), tokens=max(0, self.tokens - counted.tokens))


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A tuple in the space, and what has become of it."""

    ordinal: int
    """The how-manieth tuple of the project it is."""
    id: str
    state: str
    lane: str
    rank: int
    run: str
    """The run it was put in."""
    parent: str | None
    body: bytes
    """The tuple as it was created, canonical, without its id."""
    deadline: int | None = None
    """The moment after which nothing is begun."""
    retries: int | None = None
    """How often it may be tried again; none: as often as the project says."""
    budget_micros: int | None = None
    budget_tokens: int | None = None
    attempts: int = 0
    """How often it was claimed."""
    ready_at: int = 0
    """Not before this moment is it given to a worker again."""
    fence: Fence | None = None
    worker: str | None = None
    until: int = 0
    """When the claim's lease ends."""
    micros: int = 0
    """What it and its children have spent, in micro-dollars."""
    tokens: int = 0
    own_micros: int = 0
    """What it has spent itself, its children apart."""
    own_tokens: int = 0
    held_micros: int = 0
    """What is set aside for steps under way, here and in its children."""
    held_tokens: int = 0
    alarmed: bool = False
    """Whether it was told that the budget is nearly spent."""
    again: str | None = None
    """The tuple it was put again as."""
    ended: int | None = None
    """The number of its last receipt: in this order tuples ended."""

    @property
    def spent(self) -> Price:
        """What it has spent itself."""
        return Price(micros=self.own_micros, tokens=self.own_tokens)

    @property
    def tuple(self) -> Tuple:
        """The tuple itself."""
        return decode_tuple(self.body)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A tuple that a worker holds for a while."""

    id: str
    fence: Fence
    until: int
    """When the lease ends, unless it is renewed."""
    attempt: int
    """From 1."""
    worker: str
    run: str
    body: bytes
    done: dict[int, str]
    """The receipts of steps that are finished, by position."""

    @property
    def tuple(self) -> Tuple:
        """The tuple itself."""
        return decode_tuple(self.body)


decode_tuple = msgspec.json.Decoder(Tuple).decode


def tuple_id(fields: dict[str, Any]) -> str:
    """The published formula: sha256 over the canonical form without `id`."""
    return digest(canonical({name: value for name, value in fields.items() if name != "id"}))
