"""How what happens changes a tuple: the rules every back end keeps, in plain values."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from engrambus.space.tuples.facts import TupleClaimed, TupleOut, TupleReleased
from engrambus.space.tuples.patterns import ABSENT, look_up
from engrambus.space.tuples.rules import read_limits
from engrambus.space.tuples.values import Fence, Kept, Limits

STAMPED = frozenset({"id", "run", "state"})
"""What patterns look at besides the tuple as it was created: no tuple is posted by these, since its body lacks them."""


class Place(msgspec.Struct):
    """What of a tuple decides where it waits and what it may spend."""

    lane: str
    schema: str
    agent_terms: dict[str, Any] = {}
    parent_id: str | None = None
    priority: int = 0


_decode_place = msgspec.json.Decoder(Place).decode
_encode = msgspec.json.Encoder(order="sorted").encode


@lru_cache(maxsize=256)
def _limits(terms: bytes, schema: str) -> Limits:
    return read_limits(msgspec.json.decode(terms), schema)


def kept_of(fact: TupleOut, ordinal: int) -> Kept:
    """A tuple that has just come in."""
    body = bytes(fact.tuple)
    one = _decode_place(body)
    limits = _limits(_encode(one.agent_terms), one.schema)
    return Kept(
        ordinal=ordinal,
        id=fact.id,
        state="waiting",
        lane=one.lane,
        rank=one.priority,
        run=fact.run,
        parent=one.parent_id,
        body=body,
        deadline=limits.deadline,
        retries=fact.retries if limits.terms.max_retries is None else limits.terms.max_retries,
        budget_micros=limits.terms.budget_micros,
        budget_tokens=limits.terms.budget_tokens,
    )


def after_claim(one: Kept, fact: TupleClaimed) -> Kept:
    """A tuple that a worker has taken: the attempt counts from now on, whatever becomes of the worker."""
    return msgspec.structs.replace(
        one,
        state="claimed",
        attempts=one.attempts + 1,
        ready_at=0,
        fence=Fence(fact.epoch, fact.counter),
        worker=fact.worker,
        until=fact.until,
    )


def after_release(one: Kept, fact: TupleReleased) -> Kept:
    """A tuple that waits again."""
    return msgspec.structs.replace(
        one,
        state="waiting",
        attempts=one.attempts - (0 if fact.counts else 1),
        ready_at=fact.ready_at,
        fence=None,
        worker=None,
        until=0,
    )


def after_end(one: Kept, state: str, ended: int | None) -> Kept:
    """A tuple that nobody works on any more; it ended with the receipt of that number, if it got one."""
    return msgspec.structs.replace(one, state=state, ready_at=0, fence=None, until=0, ended=ended)


def fields_of(one: Kept) -> dict[str, Any]:
    """What patterns look at: the tuple as it was created, its id, its run and its state."""
    fields: dict[str, Any] = msgspec.json.decode(one.body)
    fields["id"] = one.id
    fields["run"] = one.run
    fields["state"] = one.state
    return fields


def posted(body: bytes, indexed: tuple[str, ...]) -> list[tuple[str, str]]:
    """What a tuple is found by besides its lane: each indexed field it has, with its value as JSON."""
    if not indexed:
        return []
    fields = msgspec.json.decode(body)
    found = ((path, posting(look_up(fields, path))) for path in indexed)
    return [(path, value) for path, value in found if value is not None]


def posting(value: Any) -> str | None:
    """A value as tuples are posted by it: equal values have equal ones; none for what is not a single value."""
    if value is ABSENT or isinstance(value, dict | list):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _encode(value).decode()


def shown(one: Kept, receipts: list[str]) -> dict[str, Any]:
    """A tuple as it is shown: as created, with its id and the receipts it has got since."""
    return {"id": one.id, **msgspec.json.decode(one.body), "receipts": receipts}
