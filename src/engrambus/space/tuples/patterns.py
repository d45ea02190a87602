"""Patterns: which tuples match, by any of their fields.

    {"lane": "build", "map_pos.stack": {"prefix": "dot"}, "priority": {"ge": 5}, "flags.no_cache": {"exists": false}}

A field is named by its path, an element of a list by its position: `payload.0.yool`, or `payload[0].yool` as errors
write it. A plain value means equal. Besides the tuple's own fields there are `state` and `run`. Numbers are compared
with numbers and texts with texts; nothing else matches. A field that is absent is not equal (`ne`) to any value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from engrambus.errors import FieldValue, PatternOperator, PatternPath, PatternValue
from engrambus.space.catalog import TERMS, nearest_names
from engrambus.space.tuples.values import STATES, Step, Tuple

STAMPED_FIELDS = frozenset({"id", "run", "state"})
"""Fields that patterns match but the body does not contain; tuples cannot be indexed by them."""

_FIELDS = frozenset({*Tuple.__struct_fields__, *STAMPED_FIELDS})
_KNOWN_PARTS = {
    "agent_terms": frozenset({*TERMS, "deadline_iso", "not_before_iso", "concurrency_key", "budget_micros"}),
    "authority": frozenset({"user", "agent", "ci"}),
    "flags": frozenset({"no_cache"}),
}
"""Fields whose parts are all known, by name."""
_POSITION = re.compile(r"\[(\d+)\]")
MAX_CONDITIONS = 32
MAX_PATH = 200
ABSENT: Any = object()
"""The value of a field that does not exist; None would be JSON null."""
VISIBLE_STATES = tuple(state for state in STATES if state != "taken")
"""States in which patterns match tuples."""


class Condition(msgspec.Struct, frozen=True):
    """A condition on one field."""

    path: str
    operator: str
    value: Any

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """True if the field satisfies the condition."""
        return OPERATORS[self.operator](look_up(fields, self.path), self.value)


class TuplePattern(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions that a tuple must all satisfy."""

    conditions: tuple[Condition, ...] = ()

    def matches(self, fields: Mapping[str, Any]) -> bool:
        """True if a tuple matches; `fields` must include its `state`, see `pattern_fields`."""
        return all(condition.holds(fields) for condition in self.conditions)

    def equal_to(self, path: str) -> Any:
        """Return the value a field must be equal to; ABSENT if the pattern does not require one."""
        for condition in self.conditions:
            if condition.path == path and condition.operator == "eq":
                return condition.value
        return ABSENT

    def without(self, path: str) -> TuplePattern:
        """Return the pattern without the condition that `equal_to` found, for callers that looked up by that value."""
        used = Condition(path, "eq", self.equal_to(path))
        return TuplePattern(conditions=tuple(condition for condition in self.conditions if condition != used))

    def narrowed(self, extra: TuplePattern) -> TuplePattern:
        """Return a pattern that matches what both match."""
        # `extra` first: its few plain conditions rule most tuples out early.
        return TuplePattern(conditions=(*extra.conditions, *self.conditions))

    def for_field(self, path: str) -> TuplePattern:
        """Return the conditions on one field."""
        return TuplePattern(conditions=tuple(condition for condition in self.conditions if condition.path == path))


def look_up(fields: Any, path: str) -> Any:
    """Return the value at a path, or ABSENT. A key that itself contains dots is preferred to nested keys."""
    if isinstance(fields, Mapping):
        if path in fields:
            return fields[path]
        for index, character in enumerate(path):
            if character == "." and path[:index] in fields:
                value = look_up(fields[path[:index]], path[index + 1 :])
                if value is not ABSENT:
                    return value
        return ABSENT
    if isinstance(fields, list):
        head, _, tail = path.partition(".")
        if head.isascii() and head.isdigit() and int(head) < len(fields):
            return look_up(fields[int(head)], tail) if tail else fields[int(head)]
    return ABSENT


def _equal(actual: Any, value: Any) -> bool:
    return actual is not ABSENT and type(actual) in _comparable_types(value) and bool(actual == value)


def _comparable_types(value: Any) -> tuple[type, ...]:
    # Exact types, because in Python True == 1 and in JSON it is not.
    kind = type(value)
    return (int, float) if kind in (int, float) else (kind,)


def _comparing(predicate: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(actual: Any, value: Any) -> bool:
        return type(actual) in _comparable_types(value) and predicate(actual, value)

    return compare


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal,
    "ne": lambda actual, value: not _equal(actual, value),
    "prefix": lambda actual, value: isinstance(actual, str) and actual.startswith(value),
    "lt": _comparing(lambda actual, value: actual < value),
    "le": _comparing(lambda actual, value: actual <= value),
    "gt": _comparing(lambda actual, value: actual > value),
    "ge": _comparing(lambda actual, value: actual >= value),
    "exists": lambda actual, value: (actual is not ABSENT) == value,
}
"""Operators that callers may use."""


def read_pattern(fields: Mapping[str, Any]) -> TuplePattern:
    """Parse a pattern; an unknown operator is refused, never ignored."""
    conditions = []
    for path, required in fields.items():
        if not isinstance(path, str) or not 0 < len(path) <= MAX_PATH:
            raise FieldValue(
                f"A pattern names fields by paths of up to {MAX_PATH} characters.", field="pattern", limit=MAX_PATH
            )
        path = check_path(path)
        if not isinstance(required, Mapping):
            conditions.append(_condition(path, "eq", required))
            continue
        if not required:
            raise PatternOperator("The condition is empty.", field=f"pattern.{path}", limit=", ".join(OPERATORS))
        conditions += [_condition(path, operator, value) for operator, value in required.items()]
    if len(conditions) > MAX_CONDITIONS:
        raise FieldValue(field="pattern", limit=MAX_CONDITIONS, used=len(conditions))
    return TuplePattern(conditions=tuple(conditions))


def check_path(path: str, field: str = "pattern") -> str:
    """Return a path with positions after dots; refuse one that no tuple can have, which would silently match none."""
    dotted = _POSITION.sub(r".\1", path)
    name, *parts = dotted.split(".")
    if name not in _FIELDS:
        near = nearest_names(name, sorted(_FIELDS))
        raise PatternPath(
            f"A tuple has no field '{name[:40]}'.",
            field=f"{field}.{path}",
            limit=", ".join(sorted(_FIELDS)),
            hint=f"Did you mean '{near[0]}'?" if near else None,
        )
    possible = _possible_parts(name, parts)
    if possible is not None:
        raise PatternPath(f"No tuple has a field '{path[:80]}'.", field=f"{field}.{path}", limit=possible)
    return dotted


def _possible_parts(name: str, parts: list[str]) -> str | None:
    """Return what may stand after a field's name if `parts` may not; None if they may."""
    if not parts or name == "map_pos":
        return None
    if name in _KNOWN_PARTS:
        known = _KNOWN_PARTS[name]
        return None if parts[0] in known and len(parts) == 1 else ", ".join(sorted(known))
    if name == "src_ptr":
        return None if parts[0].isdecimal() and len(parts) == 1 else "a position: src_ptr.0"
    if name == "payload":
        return None if _is_step_path(parts) else "a position and a field of the step: payload.0.yool, payload.0.args.x"
    return f"only {name}"  # a text, a number, or a list that is empty in every tuple as it was created


def _is_step_path(parts: list[str]) -> bool:
    position, *inner = parts
    if not position.isdecimal() or not inner:
        return position.isdecimal()
    if inner[0] == "after":
        return len(inner) == 1 or (len(inner) == 2 and inner[1].isdecimal())
    return inner[0] == "args" or (inner[0] in Step.__struct_fields__ and len(inner) == 1)


def _condition(path: str, operator: str, value: Any) -> Condition:
    if operator not in OPERATORS:
        raise PatternOperator(
            f"'{str(operator)[:40]}' is not an operator.", field=f"pattern.{path}", limit=", ".join(OPERATORS)
        )
    comparable = {
        "eq": True,
        "ne": True,
        "prefix": isinstance(value, str),
        "exists": isinstance(value, bool),
    }.get(operator, isinstance(value, int | float | str) and not isinstance(value, bool))
    if not comparable:
        raise PatternValue(
            f"'{operator}' cannot be used with this value.", field=f"pattern.{path}", used=str(value)[:80]
        )
    if path == "state" and operator in ("eq", "ne") and value not in VISIBLE_STATES:
        raise PatternValue(
            "There is no such state.", field="pattern.state", limit=", ".join(VISIBLE_STATES), used=str(value)[:80]
        )
    return Condition(path, operator, value)
