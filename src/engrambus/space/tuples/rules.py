"""What a tuple must be before it is let into the space."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from engrambus.core import canonical, digest, is_digest, parse_time, print_time
from engrambus.core.strict_json import MAX_DEPTH
from engrambus.errors import (
    DeadlinePast,
    FieldMissing,
    FieldRefusal,
    FieldType,
    FieldUnknown,
    FieldValue,
    StepCycle,
    StepUnknown,
    TermsInvalid,
    TimeInvalid,
    TupleIdMismatch,
    TupleSchema,
    TupleTooLarge,
)
from engrambus.space.catalog import TERMS, Terms, parse_name, read_terms
from engrambus.space.tuples.values import MAX_PRIORITY, SCHEMAS, V2, Limits, Tuple

MAX_TUPLE = 1 << 20
"""Bytes of a tuple; larger input is kept as a body and pointed at."""
MAX_STEPS = 256
MAX_LANE = 128
MAX_POINTERS = 64
_FLAGS = frozenset({"no_cache"})
_CREATED = ("map_pos", "authority", "agent_terms", "src_ptr", "payload", "receipts", "parent_id")


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A tuple that may go into the space."""

    tuple: Tuple
    fields: dict[str, Any]
    """Exactly what is hashed."""
    body: bytes
    """Its canonical form."""
    id: str
    named: bool
    """Whether it came with its id, and so must keep its time."""
    limits: Limits
    receipts: int = 0
    """How many receipts it says it has got since it was created."""


def read_tuple(given: Mapping[str, Any], authority: Mapping[str, Any], now: int) -> Checked:
    """The tuple a caller gives, with or without its id, if it breaks no rule.

    Without an id what was not said is filled in, the authority and the time among it. With one it is taken as it was
    created, before it got receipts; whether it may still come in is asked of `check_new` once it is known to be new.
    """
    fields = dict(given)
    named = fields.pop("id", None)
    if fields.get("schema", SCHEMAS[0]) not in SCHEMAS:
        raise TupleSchema(field="schema", used=str(fields["schema"])[:80], limit=", ".join(SCHEMAS))
    receipts = 0
    if named is None:
        fields = _completed(fields, authority, now)
        checked = _checked_shape(fields)
    else:
        for name in _CREATED:
            if name not in fields:
                raise FieldMissing(f"The field '{name}' is required.", field=name)
        checked = _checked_shape(fields)
        _printed(checked.created_at)
        receipts = len(checked.receipts)
        fields["receipts"], checked = [], msgspec.structs.replace(checked, receipts=())
    body = canonical(fields, max_depth=MAX_DEPTH)
    if len(body) > MAX_TUPLE:
        raise TupleTooLarge(
            field="payload", limit=MAX_TUPLE, used=len(body), hint="Keep large input as a file or a body; name it."
        )
    found = digest(body)
    if named is not None and named != found:
        raise TupleIdMismatch(
            field="id", used=str(named)[:80], limit=found, hint="Leave the id out, and the tuple gets one."
        )
    return Checked(
        tuple=checked,
        fields=fields,
        body=body,
        id=found,
        named=named is not None,
        limits=_check(checked),
        receipts=receipts or len(checked.receipts),
    )


def check_new(read: Checked, now: int) -> None:
    """Refuse a tuple that comes in with receipts or too late; one that is here already may have both."""
    if read.receipts:
        raise FieldValue("A tuple is created without receipts.", field="receipts", limit=0, used=read.receipts)
    if read.limits.deadline is not None and read.limits.deadline <= now:
        raise DeadlinePast(
            field="agent_terms.deadline_iso", used=read.tuple.agent_terms["deadline_iso"], limit=print_time(now)
        )


def moved_on(checked: Checked, by: int = 1) -> Checked:
    """The same tuple, created a microsecond later, or so many."""
    try:
        later = print_time(parse_time(checked.tuple.created_at) + by)
    except OverflowError:
        raise TimeInvalid("Every later moment has a tuple that says the same.", field="created_at") from None
    fields = {**checked.fields, "created_at": later}
    body = canonical(fields)
    return msgspec.structs.replace(
        checked,
        tuple=msgspec.structs.replace(checked.tuple, created_at=later),
        fields=fields,
        body=body,
        id=digest(body),
    )


_TERMS = (*TERMS, "deadline_iso")
_TERMS_V2 = tuple("budget_micros" if name == "budget_usd" else name for name in _TERMS)
_NO_LIMITS = Limits(terms=Terms())


def read_limits(terms: Mapping[str, Any], schema: str) -> Limits:
    """The terms of a tuple, as they are written in its schema."""
    if not terms:
        return _NO_LIMITS
    said = dict(terms)
    deadline = said.pop("deadline_iso", None)
    moment: int | None = None
    if deadline is not None:
        if not isinstance(deadline, str):
            raise TermsInvalid("A deadline is a time.", field="agent_terms.deadline_iso")
        try:
            moment = parse_time(deadline)
        except (ValueError, OverflowError):
            raise TermsInvalid(
                "A deadline is a time with an offset.", field="agent_terms.deadline_iso", used=deadline[:40]
            ) from None
    if schema != V2:
        return Limits(
            terms=_plain_terms(frozenset(said.items())) if _hashable(said) else read_terms(said, known=_TERMS),
            deadline=moment,
        )
    micros = said.pop("budget_micros", None)
    if micros is not None and (isinstance(micros, bool) or not isinstance(micros, int) or micros < 0):
        raise TermsInvalid("Money is a whole number of micro-dollars.", field="agent_terms.budget_micros")
    if "budget_usd" in said:
        raise TermsInvalid("In v2 money is in micro-dollars.", field="agent_terms.budget_usd", limit="budget_micros")
    return Limits(
        terms=msgspec.structs.replace(read_terms(said, known=_TERMS_V2), budget_micros=micros), deadline=moment
    )


def _hashable(said: Mapping[str, Any]) -> bool:
    return all(type(value) in (int, float) for value in said.values())


@lru_cache(maxsize=1024)
def _plain_terms(said: frozenset[tuple[str, Any]]) -> Terms:
    return read_terms(dict(said), known=_TERMS)


def dependencies(steps: int, after: tuple[tuple[int, ...] | msgspec.UnsetType, ...]) -> list[frozenset[int]]:
    """What each step waits for: what it says, or, when none says anything, the step before it."""
    if all(each is msgspec.UNSET for each in after):
        return [frozenset({at - 1} if at else ()) for at in range(steps)]
    return [frozenset() if each is msgspec.UNSET else frozenset(each) for each in after]


def _completed(fields: dict[str, Any], authority: Mapping[str, Any], now: int) -> dict[str, Any]:
    payload = fields.get("payload", [])
    if isinstance(payload, list | tuple):
        payload = [{**step, "args": {}} if isinstance(step, dict) and "args" not in step else step for step in payload]
    created = fields.get("created_at")
    return {
        "schema": SCHEMAS[0],
        "map_pos": {},
        "agent_terms": {},
        "src_ptr": [],
        "parent_id": None,
        **fields,
        "payload": payload,
        "receipts": fields.get("receipts", []),
        "authority": dict(authority),
        "created_at": print_time(now) if created is None else _printed(created),
    }


def _printed(created: Any) -> str:
    try:
        return print_time(parse_time(created))
    except (TypeError, ValueError, OverflowError):
        raise TimeInvalid("created_at is a time with an offset.", field="created_at") from None


def _checked_shape(fields: dict[str, Any]) -> Tuple:
    try:
        return msgspec.convert(fields, Tuple)
    except msgspec.ValidationError as problem:
        raise _refusal(str(problem)) from None


def _refusal(message: str) -> FieldRefusal:
    said, _, path = message.partition(" - at `")
    where = path.removesuffix("`").removeprefix("$").removeprefix(".")
    name = said.split("`")[1][:80] if "`" in said else ""
    at = f"{where}.{name}" if where and name else name or where
    if "unknown field" in said:
        return FieldUnknown(f"A tuple has no field '{name}'.", field=at)
    if "missing required field" in said:
        return FieldMissing(f"The field '{name}' is required.", field=at)
    return FieldType(f"{said}.", field=where or None)


def _check(one: Tuple) -> Limits:
    check_lane(one.lane)
    if one.parent_id is not None and not is_digest(one.parent_id):
        raise FieldValue("A parent is named by its id.", field="parent_id", used=one.parent_id[:80])
    if len(one.src_ptr) > MAX_POINTERS:
        raise FieldValue(field="src_ptr", limit=MAX_POINTERS, used=len(one.src_ptr))
    if one.priority is not msgspec.UNSET and abs(one.priority) > MAX_PRIORITY:
        raise FieldValue("A priority lies between -1000 and 1000.", field="priority", limit=MAX_PRIORITY)
    if one.flags is not msgspec.UNSET:
        for name, value in one.flags.items():
            if name not in _FLAGS or not isinstance(value, bool):
                raise FieldValue("A flag is 'no_cache', true or false.", field=f"flags.{name[:40]}")
    _check_steps(one)
    return read_limits(one.agent_terms, one.schema)


def check_lane(lane: str, *, field: str = "lane") -> None:
    """Refuse a lane nobody could wait in; `field` is where it was named."""
    if (
        not 0 < len(lane) <= MAX_LANE
        or (not lane.isascii() and any(unicodedata.category(each)[0] in "C" for each in lane))
        or (lane.isascii() and not lane.isprintable())
    ):
        raise FieldValue(
            "A lane is a short text without control characters.", field=field, limit=MAX_LANE, used=len(lane)
        )


def _check_steps(one: Tuple) -> None:
    steps = one.payload
    if len(steps) > MAX_STEPS:
        raise FieldValue("A tuple has too many steps.", field="payload", limit=MAX_STEPS, used=len(steps))
    for at, step in enumerate(steps):
        _check_name(step.yool) if at == 0 else parse_name(step.yool, f"payload[{at}].yool")
        if step.after is not msgspec.UNSET:
            for other in step.after:
                if not 0 <= other < len(steps):
                    raise StepUnknown(
                        f"Step {at} waits for step {other}.", field=f"payload[{at}].after", limit=len(steps) - 1
                    )
    if all(step.after is msgspec.UNSET for step in steps):  # then each waits for the one before it
        return
    waits = dependencies(len(steps), tuple(step.after for step in steps))
    ready: set[int] = set()
    while len(ready) < len(steps):
        more = {at for at, needs in enumerate(waits) if at not in ready and needs <= ready}
        if not more:
            stuck = sorted(set(range(len(steps))) - ready)
            raise StepCycle(
                f"Steps {', '.join(map(str, stuck[:8]))} wait for each other.", field=f"payload[{stuck[0]}].after"
            )
        ready |= more


@lru_cache(maxsize=1024)
def _check_name(name: str) -> None:
    parse_name(name, "payload[0].yool")
