"""Transitions: how facts change a tuple's record. Every back end applies facts with these functions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from engrambus.core import parse_time
from engrambus.space.tuples.facts import StepCost, StepDone, TupleClaimed, TuplePut, TupleReleased
from engrambus.space.tuples.patterns import ABSENT, look_up
from engrambus.space.tuples.ports import CostHistory, RunningStep
from engrambus.space.tuples.rules import read_limits
from engrambus.space.tuples.values import OPEN, AgentPosition, BatchAgent, Fence, Price, TupleLimits, TupleRecord


class _QueueFields(msgspec.Struct):
    """The fields of a tuple's body that the record needs; decoding only these is faster than the whole tuple."""

    lane: str
    schema: str
    agent_terms: dict[str, Any] = {}
    parent_id: str | None = None
    priority: int = 0


_decode_queue_fields = msgspec.json.Decoder(_QueueFields).decode
_encode = msgspec.json.Encoder(order="sorted").encode


@lru_cache(maxsize=256)  # most tuples of a project have one of a few sets of terms
def _cached_limits(terms: bytes, schema: str) -> TupleLimits:
    return read_limits(msgspec.json.decode(terms), schema)


def new_record(fact: TuplePut, ordinal: int) -> TupleRecord:
    """Return the record of a tuple that was just put."""
    body = bytes(fact.tuple)
    fields = _decode_queue_fields(body)
    limits = _cached_limits(_encode(fields.agent_terms), fields.schema)
    is_node = fact.agent is not None and fact.agent.children > 0
    return TupleRecord(
        ordinal=ordinal,
        id=fact.id,
        state=OPEN if is_node else "blocked" if fact.blocked_by else "waiting",
        lane=fields.lane,
        rank=fields.priority,
        run=fact.run,
        parent_id=fields.parent_id,
        body=body,
        deadline_us=limits.deadline_us,
        not_before_us=limits.not_before_us,
        ready_us=max(0, limits.not_before_us or 0),
        retries=fact.retries if limits.terms.max_retries is None else limits.terms.max_retries,
        budget_micros=limits.terms.budget_micros,
        budget_tokens=limits.terms.budget_tokens,
    )


def new_agent(tuple_id: str, position: AgentPosition) -> BatchAgent:
    """Return the agent of a tuple that was just put."""
    return BatchAgent(
        id=tuple_id, position=position, children_left=position.children, is_idle=not position.children, is_kept=False
    )


def after_child_end(parent: BatchAgent, child: BatchAgent, state: str) -> BatchAgent:
    """Return a node of a batch after a child of it has ended, or was taken."""
    is_leaf = not child.position.children
    return msgspec.structs.replace(
        parent,
        children_left=parent.children_left - 1,
        dead=parent.dead + (state == "dead" if is_leaf else child.dead),
        cancelled=parent.cancelled + (state in ("cancelled", "taken") if is_leaf else child.cancelled),
    )


def after_claim(record: TupleRecord, fact: TupleClaimed) -> TupleRecord:
    """Return the record of a tuple that was claimed."""
    # The attempt counts from the claim on, so that a worker that dies uses up an attempt (decision 24).
    return msgspec.structs.replace(
        record,
        state="claimed",
        attempts=record.attempts + 1,
        ready_us=0,
        fence=Fence(fact.epoch, fact.counter),
        worker=fact.worker,
        lease_until_us=fact.lease_until_us,
    )


def after_release(record: TupleRecord, fact: TupleReleased) -> TupleRecord:
    """Return the record of a tuple that was released."""
    return msgspec.structs.replace(
        record,
        state="waiting",
        # decision 33: a tuple that a worker never started, or was stopped with, keeps its attempts.
        attempts=record.attempts - (0 if fact.counts_attempt else 1),
        ready_us=fact.ready_us,
        fence=None,
        worker=None,
        lease_until_us=0,
    )


def after_block(record: TupleRecord) -> TupleRecord:
    """Return the record of a waiting tuple that was blocked."""
    return msgspec.structs.replace(record, state="blocked")


def after_unblock(record: TupleRecord, *, is_blocked: bool) -> TupleRecord:
    """Return the record of a blocked tuple of which something was taken away that blocked it."""
    return record if is_blocked else msgspec.structs.replace(record, state="waiting")


def after_clock_corrected(record: TupleRecord, was_us: int, now_us: int) -> TupleRecord:
    """Return the record of a tuple after the project's clock was set back from `was_us` to `now_us`.

    Leases that the wrong clock had made too long end; what is left of a delay begins at the right time.
    """
    if record.state == "claimed":
        return msgspec.structs.replace(record, lease_until_us=min(record.lease_until_us, now_us))
    if record.state not in ("waiting", "blocked") or not record.ready_us:
        return record
    if record.ready_us == record.not_before_us and parse_time(record.tuple.created_at) <= now_us:
        return record  # decision 111: its time was set by the right clock, so it holds
    if record.ready_us <= now_us:
        return record
    return msgspec.structs.replace(record, ready_us=now_us + max(0, record.ready_us - was_us))


def after_end(record: TupleRecord, state: str, final_receipt_number: int | None) -> TupleRecord:
    """Return the record of a tuple that ended, or was taken and so has no final receipt."""
    return msgspec.structs.replace(
        record, state=state, ready_us=0, fence=None, lease_until_us=0, final_receipt_number=final_receipt_number
    )


def after_cost(running: RunningStep, fact: StepCost | StepDone) -> RunningStep:
    """Return a running step after it spent something."""
    return msgspec.structs.replace(running, micros=running.micros - fact.micros, tokens=running.tokens - fact.tokens)


def after_execution(history: CostHistory, fact: StepDone, running: RunningStep | None) -> CostHistory:
    """Return the history of a yool after an execution; `running` is what was left of its reservation before."""
    cost = Price(micros=fact.receipt.cost.usd_micros, tokens=fact.receipt.cost.tokens)
    history = msgspec.structs.replace(history, most=history.most.maximum(cost))
    succeeded = fact.receipt.exit == 0
    if running is not None:
        left = after_cost(running, fact)
        history = msgspec.structs.replace(
            history,
            kept_micros=0 if left.micros < 0 else history.kept_micros + succeeded,
            kept_tokens=0 if left.tokens < 0 else history.kept_tokens + succeeded,
        )
    if not succeeded:
        return history
    return msgspec.structs.replace(
        history,
        executions=history.executions + 1,
        micros=history.micros + cost.micros,
        tokens=history.tokens + cost.tokens,
    )


def after_overspending(history: CostHistory, left: RunningStep, total: Price) -> CostHistory:
    """Return the history of a yool of which a step spends more than was reserved for it."""
    # decision 75: at once and not when it ends, since its worker may be killed before.
    return msgspec.structs.replace(
        history,
        most=history.most.maximum(total),
        kept_micros=0 if left.micros < 0 else history.kept_micros,
        kept_tokens=0 if left.tokens < 0 else history.kept_tokens,
    )


def pattern_fields(record: TupleRecord) -> dict[str, Any]:
    """Return the fields that patterns match: the tuple as it was created, with its id, run and state."""
    fields: dict[str, Any] = msgspec.json.decode(record.body)
    fields["id"] = record.id
    fields["run"] = record.run
    fields["state"] = record.state
    return fields


def index_entries(body: bytes, indexed_fields: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return path and value of each indexed field a tuple has."""
    if not indexed_fields:
        return []
    fields = msgspec.json.decode(body)
    entries = ((path, index_value(look_up(fields, path))) for path in indexed_fields)
    return [(path, value) for path, value in entries if value is not None]


def index_value(value: Any) -> str | None:
    """Return the JSON under which a field is indexed, equal for equal values; None for an object or a list."""
    if value is ABSENT or isinstance(value, dict | list):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # patterns find 1.0 equal to 1, so both must have one entry
    return _encode(value).decode()
