"""Rules for tuples: reading and checking one before it is put into the space."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from engrambus.core import canonical, digest, is_digest, nfc, parse_duration, parse_time, print_time
from engrambus.core.strict_json import MAX_DEPTH
from engrambus.errors import (
    DeadlinePast,
    FieldMissing,
    FieldRefusal,
    FieldType,
    FieldUnknown,
    FieldValue,
    NotBeforePastDeadline,
    StepCycle,
    StepUnknown,
    TermsInvalid,
    TimeInvalid,
    TooManyDependencies,
    TupleIdMismatch,
    TupleSchema,
    TupleTooLarge,
)
from engrambus.space.catalog import TERMS, Terms, parse_name, read_terms
from engrambus.space.tuples.values import MAX_PRIORITY, SCHEMAS, V2, Step, Tuple, TupleLimits

MAX_TUPLE_BYTES = 1 << 20
"""Size limit of a tuple; larger input is stored as a body or file and pointed at."""
MAX_STEPS = 256
MAX_LANE = 128
MAX_POINTERS = 64
KEY_TERM = "concurrency_key"
"""Name of a tuple's concurrency key among its `agent_terms`; rules limit how many with one key run (decision 110)."""
MAX_KEY = 128
MAX_DEPENDENCIES = 64
"""Tuples that one may wait for directly."""
MAX_SINGLE_MOVES = 16
"""Number of microseconds tried one by one before `with_free_id` searches in leaps."""
_FLAGS = frozenset({"no_cache"})
_REQUIRED_WITH_ID = ("map_pos", "authority", "agent_terms", "src_ptr", "payload", "receipts", "parent_id")


class CheckedTuple(msgspec.Struct, frozen=True, kw_only=True):
    """A tuple that satisfies every rule."""

    tuple: Tuple
    fields: dict[str, Any]
    """Exactly the fields that are hashed."""
    body: bytes
    """Canonical JSON of `fields`."""
    id: str
    has_id: bool
    """True if the caller gave its id, and `created_at` may therefore not be changed."""
    limits: TupleLimits
    receipt_count: int = 0
    """Number of receipts the caller says it has."""


def read_tuple(draft: Mapping[str, Any], authority: Mapping[str, Any], now_us: int) -> CheckedTuple:
    """Parse and check the tuple a caller sent, with or without its id.

    Without an id, absent fields are filled in, and authority and time are stamped. With one, the tuple is taken as it
    was created, before it had receipts; `check_new` then decides whether it may still be put, if it is new.
    """
    fields = dict(draft)
    named_id = fields.pop("id", None)
    if fields.get("schema", SCHEMAS[0]) not in SCHEMAS:
        raise TupleSchema(field="schema", used=str(fields["schema"])[:80], limit=", ".join(SCHEMAS))
    receipt_count = 0
    if named_id is None:
        fields = _completed(fields, authority, now_us)
        shape = _convert(fields)
    else:
        for name in _REQUIRED_WITH_ID:
            if name not in fields:
                raise FieldMissing(f"The field `{name}` is required.", field=name)
        shape = _convert(fields)
        _normalized_time(shape.created_at)  # only checked: the id covers the time as it was written
        receipt_count = len(shape.receipts)
        fields["receipts"], shape = [], msgspec.structs.replace(shape, receipts=())
    body = canonical(fields, max_depth=MAX_DEPTH)
    if len(body) > MAX_TUPLE_BYTES:
        raise TupleTooLarge(
            field="payload",
            limit=MAX_TUPLE_BYTES,
            used=len(body),
            hint="Store large input as a file and put its path or a pointer into the arguments.",
        )
    content_id = digest(body)
    if named_id is not None and named_id != content_id:
        raise TupleIdMismatch(
            field="id",
            used=str(named_id)[:80],
            limit=content_id,
            hint="Leave the id out: it is computed from the content.",
        )
    return CheckedTuple(
        tuple=shape,
        fields=fields,
        body=body,
        id=content_id,
        has_id=named_id is not None,
        limits=_check(shape),
        receipt_count=receipt_count or len(shape.receipts),
    )


def with_delay(draft: Mapping[str, Any], delay: str, now_us: int) -> dict[str, Any]:
    """Return a draft that may first be claimed after a delay from now, an ISO 8601 duration."""
    terms = draft.get("agent_terms") or {}
    if "id" in draft:
        raise FieldValue(
            "A tuple with an id has its time already.", field="delay", hint="Leave the id out: it is computed."
        )
    if "not_before_iso" in terms:
        raise FieldValue("A delay is given once: as `delay` or as `agent_terms.not_before_iso`.", field="delay")
    try:
        not_before = print_time(now_us + parse_duration(delay, "delay"))
    except OverflowError:
        raise FieldValue("The delay ends after the last time that can be written.", field="delay") from None
    return {**draft, "agent_terms": {**terms, "not_before_iso": not_before}}


def check_new(checked: CheckedTuple, now_us: int) -> None:
    """Refuse a new tuple that has receipts or whose deadline is past; one already in the space may have both."""
    if checked.receipt_count:
        raise FieldValue("A tuple is created without receipts.", field="receipts", limit=0, used=checked.receipt_count)
    deadline_us = checked.limits.deadline_us
    if deadline_us is not None and deadline_us <= now_us:
        raise DeadlinePast(
            field="agent_terms.deadline_iso",
            used=checked.tuple.agent_terms["deadline_iso"],
            limit=print_time(now_us),
        )
    not_before_us = checked.limits.not_before_us
    if deadline_us is not None and not_before_us is not None and not_before_us >= deadline_us:
        raise NotBeforePastDeadline(
            field="agent_terms.not_before_iso",
            used=checked.tuple.agent_terms["not_before_iso"],
            limit=checked.tuple.agent_terms["deadline_iso"],
        )


def moved_later(checked: CheckedTuple, microseconds: int = 1) -> CheckedTuple:
    """Return the same tuple created some microseconds later, and so with another id."""
    try:
        created_at = print_time(parse_time(checked.tuple.created_at) + microseconds)
    except OverflowError:
        raise TimeInvalid("Every later moment is taken by a tuple with the same content.", field="created_at") from None
    fields = {**checked.fields, "created_at": created_at}
    body = canonical(fields)
    return msgspec.structs.replace(
        checked,
        tuple=msgspec.structs.replace(checked.tuple, created_at=created_at),
        fields=fields,
        body=body,
        id=digest(body),
    )


def with_free_id(draft: CheckedTuple, is_taken: Callable[[str], bool]) -> CheckedTuple:
    """Return the tuple, created as much later as is needed for an id that is not taken.

    Many equal tuples usually occupy consecutive microseconds. After a few single moves the end of such a stretch is
    found by doubling and bisection, which leads to the same microsecond.
    """
    for _ in range(MAX_SINGLE_MOVES):
        if not is_taken(draft.id):
            return draft
        draft = moved_later(draft)

    def is_taken_after(microseconds: int) -> bool:
        try:
            return is_taken(moved_later(draft, microseconds).id)
        except TimeInvalid:  # after the last time that can be written
            return False

    low, high = -1, 0
    while is_taken_after(high):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_taken_after(middle) else (low, middle)
    return moved_later(draft, high) if high else draft


_TERMS = (*TERMS, "deadline_iso", "not_before_iso", KEY_TERM)
_TERMS_V2 = tuple("budget_micros" if name == "budget_usd" else name for name in _TERMS)
_NO_LIMITS = TupleLimits(terms=Terms())


def read_limits(agent_terms: Mapping[str, Any], schema: str) -> TupleLimits:
    """Parse the `agent_terms` of a tuple of that schema."""
    if not agent_terms:
        return _NO_LIMITS
    terms = dict(agent_terms)
    deadline_us = _read_moment(terms, "deadline_iso", "A deadline")
    not_before_us = _read_moment(terms, "not_before_iso", "`not_before_iso`")
    if KEY_TERM in terms:
        check_key(terms.pop(KEY_TERM))
    if schema != V2:
        # The same few terms are read over and over; those that are plain numbers can be cached.
        return TupleLimits(
            terms=_cached_terms(frozenset(terms.items()))
            if _all_numbers(terms)
            else read_terms(terms, suggested=_TERMS),
            deadline_us=deadline_us,
            not_before_us=not_before_us,
        )
    micros = terms.pop("budget_micros", None)
    if micros is not None and (isinstance(micros, bool) or not isinstance(micros, int) or micros < 0):
        raise TermsInvalid("'budget_micros' is an integer: millionths of a dollar.", field="agent_terms.budget_micros")
    if "budget_usd" in terms:
        raise TermsInvalid(
            "In yool-tuple/v2 money is given as 'budget_micros', in millionths of a dollar.",
            field="agent_terms.budget_usd",
            limit="budget_micros",
        )
    return TupleLimits(
        terms=msgspec.structs.replace(read_terms(terms, suggested=_TERMS_V2), budget_micros=micros),
        deadline_us=deadline_us,
        not_before_us=not_before_us,
    )


def check_key(key: Any, field: str = f"agent_terms.{KEY_TERM}") -> str:
    """Return a concurrency key, or refuse it."""
    if not isinstance(key, str) or not is_key(key) or "*" in key:
        raise TermsInvalid(
            f"A concurrency key is a text of 1 to {MAX_KEY} composed characters without control characters and '*'.",
            field=field,
            limit=MAX_KEY,
            used=str(key)[:40],
        )
    return key


def is_key(text: str) -> bool:
    """True if a text can be a key, or another name that is shown in a line."""
    printable = text.isprintable() if text.isascii() else all(unicodedata.category(letter)[0] != "C" for letter in text)
    return 0 < len(text) <= MAX_KEY and printable and nfc(text) == text


def _read_moment(terms: dict[str, Any], name: str, what: str) -> int | None:
    """Take a time out of the terms and return it in microseconds; None if it is not set."""
    text = terms.pop(name, None)
    if text is None:
        return None
    field = f"agent_terms.{name}"
    if not isinstance(text, str):
        raise TermsInvalid(f"{what} is a time.", field=field)
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        raise TermsInvalid(
            f"{what} is a time with an offset, like 2027-01-31T12:00:00Z.", field=field, used=text[:40]
        ) from None


def _all_numbers(terms: Mapping[str, Any]) -> bool:
    return all(type(value) in (int, float) for value in terms.values())


@lru_cache(maxsize=1024)
def _cached_terms(terms: frozenset[tuple[str, Any]]) -> Terms:
    return read_terms(dict(terms), suggested=_TERMS)


def dependencies(steps: int, after: tuple[tuple[int, ...] | msgspec.UnsetType, ...]) -> list[frozenset[int]]:
    """Return for each step the positions of the steps it waits for; the previous step if no step sets `after`."""
    if all(positions is msgspec.UNSET for positions in after):
        return [frozenset({position - 1} if position else ()) for position in range(steps)]
    return [frozenset() if positions is msgspec.UNSET else frozenset(positions) for positions in after]


def _completed(fields: dict[str, Any], authority: Mapping[str, Any], now_us: int) -> dict[str, Any]:
    payload = fields.get("payload", [])
    if isinstance(payload, list | tuple):
        payload = [{**step, "args": {}} if isinstance(step, dict) and "args" not in step else step for step in payload]
    created_at = fields.get("created_at")
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
        "created_at": print_time(now_us) if created_at is None else _normalized_time(created_at),
    }


def _normalized_time(created_at: Any) -> str:
    try:
        return print_time(parse_time(created_at))
    except (TypeError, ValueError, OverflowError):
        raise TimeInvalid(
            "'created_at' is a time with an offset, like 2027-01-31T12:00:00Z.", field="created_at"
        ) from None


def _convert(fields: dict[str, Any]) -> Tuple:
    try:
        return msgspec.convert(fields, Tuple)
    except msgspec.ValidationError as problem:
        raise _refusal(str(problem)) from None


def _refusal(message: str) -> FieldRefusal:
    """Return the error for a message of msgspec, which names a field in backticks and a path behind ` - at `."""
    problem, _, path = message.partition(" - at `")
    parent = path.removesuffix("`").removeprefix("$").removeprefix(".")
    name = problem.split("`")[1][:80] if "`" in problem else ""
    field = f"{parent}.{name}" if parent and name else name or parent
    if "unknown field" in problem:
        return FieldUnknown(f"A tuple has no field '{name}'.", field=field)
    if "missing required field" in problem:
        return FieldMissing(f"The field `{name}` is required.", field=field)
    return FieldType(f"{problem}.", field=parent or None)


def _check(shape: Tuple) -> TupleLimits:
    check_lane(shape.lane)
    if shape.parent_id is not None and not is_digest(shape.parent_id):
        raise FieldValue("A parent is named by its full id.", field="parent_id", used=shape.parent_id[:80])
    if len(shape.src_ptr) > MAX_POINTERS:
        raise FieldValue(field="src_ptr", limit=MAX_POINTERS, used=len(shape.src_ptr))
    if shape.priority is not msgspec.UNSET and abs(shape.priority) > MAX_PRIORITY:
        raise FieldValue("A priority lies between -1000 and 1000.", field="priority", limit=MAX_PRIORITY)
    if shape.flags is not msgspec.UNSET:
        for name, value in shape.flags.items():
            if name not in _FLAGS or not isinstance(value, bool):
                raise FieldValue("The only flag is 'no_cache', true or false.", field=f"flags.{name[:40]}")
    if shape.after is not msgspec.UNSET:
        _check_after(shape.after)
    _check_steps(shape.payload)
    return read_limits(shape.agent_terms, shape.schema)


def _check_after(after: tuple[str, ...]) -> None:
    if len(after) > MAX_DEPENDENCIES:
        raise TooManyDependencies(field="after", limit=MAX_DEPENDENCIES, used=len(after))
    for position, tuple_id in enumerate(after):
        if not is_digest(tuple_id):
            raise FieldValue(
                "A tuple to wait for is named by its full id.", field=f"after[{position}]", used=tuple_id[:80]
            )


def check_lane(lane: str, *, field: str = "lane") -> None:
    """Refuse a lane that is empty, too long or has control characters; `field` names it in the error."""
    # The lookup of categories is slow and only needed outside ASCII, where `isprintable` would also refuse some spaces.
    if (
        not 0 < len(lane) <= MAX_LANE
        or (not lane.isascii() and any(unicodedata.category(character)[0] in "C" for character in lane))
        or (lane.isascii() and not lane.isprintable())
    ):
        raise FieldValue(
            f"A lane is a text of 1 to {MAX_LANE} characters without control characters.",
            field=field,
            limit=MAX_LANE,
            used=len(lane),
        )
    if nfc(lane) != lane:  # decision 73: two spellings would be two lanes
        raise FieldValue("A lane is written with composed characters.", field=field, hint=f"Write it as {nfc(lane)}.")


def _check_steps(steps: Sequence[Step]) -> None:
    if len(steps) > MAX_STEPS:
        raise FieldValue("A tuple has too many steps.", field="payload", limit=MAX_STEPS, used=len(steps))
    for position, step in enumerate(steps):
        # Most tuples have one step, and its name repeats; only that one is worth a cache entry.
        _check_first_name(step.yool) if position == 0 else parse_name(step.yool, f"payload[{position}].yool")
        if step.after is not msgspec.UNSET:
            for awaited in step.after:
                if not 0 <= awaited < len(steps):
                    raise StepUnknown(
                        f"Step {position} waits for step {awaited}, which does not exist.",
                        field=f"payload[{position}].after",
                        limit=len(steps) - 1,
                    )
    if all(step.after is msgspec.UNSET for step in steps):  # a sequence has no cycle
        return
    _check_acyclic(dependencies(len(steps), tuple(step.after for step in steps)))


def _check_acyclic(waits_for: list[frozenset[int]]) -> None:
    done: set[int] = set()
    while len(done) < len(waits_for):
        ready = {position for position, awaited in enumerate(waits_for) if position not in done and awaited <= done}
        if not ready:
            stuck = sorted(set(range(len(waits_for))) - done)
            raise StepCycle(
                f"Steps {', '.join(map(str, stuck[:8]))} wait for each other.", field=f"payload[{stuck[0]}].after"
            )
        done |= ready


@lru_cache(maxsize=1024)
def _check_first_name(name: str) -> None:
    parse_name(name, "payload[0].yool")
