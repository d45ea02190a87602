"""Patterns: which tuples are meant, by any of their fields.

    {"lane": "build", "map_pos.stack": {"prefix": "dot"}, "priority": {"ge": 5}, "flags.no_cache": {"exists": false}}

A field is named by its path, a step of a list by its position. A plain value means equal. Besides the tuple's own
fields there are `state` and `run`. Numbers are compared with numbers and texts with texts; nothing else matches. A
field that is not there is not equal (`ne`) to anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from engrambus.errors import FieldValue, PatternOperator, PatternValue
from engrambus.space.tuples.values import STATES

MAX_CONDITIONS = 32
MAX_PATH = 200
ABSENT: Any = object()
SEEN = tuple(state for state in STATES if state != "taken")
"""The states tuples can be found in."""


class Condition(msgspec.Struct, frozen=True):
    """What one field must be."""

    path: str
    operator: str
    value: Any

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Whether it is."""
        return _HOLDS[self.operator](look_up(fields, self.path), self.value)


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern, read."""

    conditions: tuple[Condition, ...] = ()

    def matches(self, fields: Mapping[str, Any]) -> bool:
        """Whether a tuple is meant; its fields hold its `state` too."""
        return all(condition.holds(fields) for condition in self.conditions)

    def equal_to(self, path: str) -> Any:
        """The value a field must be equal to; ABSENT when the pattern does not say."""
        for condition in self.conditions:
            if condition.path == path and condition.operator == "eq":
                return condition.value
        return ABSENT

    def without(self, path: str) -> Pattern:
        """The pattern with the value `equal_to` gives for a field taken as settled; what else it asks of it stays."""
        settled = Condition(path, "eq", self.equal_to(path))
        return Pattern(conditions=tuple(each for each in self.conditions if each != settled))

    def narrowed(self, other: Pattern) -> Pattern:
        """What both patterns mean."""
        return Pattern(conditions=(*other.conditions, *self.conditions))

    def only(self, path: str) -> Pattern:
        """What the pattern asks of one field."""
        return Pattern(conditions=tuple(each for each in self.conditions if each.path == path))

    def but(self, ids: Iterable[str]) -> Pattern:
        """The pattern without some of the tuples it means."""
        return Pattern(conditions=(*self.conditions, Condition("id", "none of", frozenset(ids))))


def look_up(fields: Any, path: str) -> Any:
    """What stands at a path; ABSENT when nothing does. A whole key comes before its parts."""
    if isinstance(fields, Mapping):
        if path in fields:
            return fields[path]
        for at, sign in enumerate(path):
            if sign == "." and path[:at] in fields:
                found = look_up(fields[path[:at]], path[at + 1 :])
                if found is not ABSENT:
                    return found
        return ABSENT
    if isinstance(fields, list):
        head, _, rest = path.partition(".")
        if head.isascii() and head.isdigit() and int(head) < len(fields):
            return look_up(fields[int(head)], rest) if rest else fields[int(head)]
    return ABSENT


def _equal(found: Any, value: Any) -> bool:
    return found is not ABSENT and type(found) in _alike(value) and bool(found == value)


def _alike(value: Any) -> tuple[type, ...]:
    kind = type(value)
    return (int, float) if kind in (int, float) else (kind,)


def _compared(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(found: Any, value: Any) -> bool:
        return type(found) in _alike(value) and holds(found, value)

    return compare


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal,
    "ne": lambda found, value: not _equal(found, value),
    "prefix": lambda found, value: isinstance(found, str) and found.startswith(value),
    "lt": _compared(lambda found, value: found < value),
    "le": _compared(lambda found, value: found <= value),
    "gt": _compared(lambda found, value: found > value),
    "ge": _compared(lambda found, value: found >= value),
    "exists": lambda found, value: (found is not ABSENT) == value,
}
"""What a pattern can say."""
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {**OPERATORS, "none of": lambda found, value: found not in value}


def read_pattern(said: Mapping[str, Any]) -> Pattern:
    """The pattern a mapping says; an operator nobody knows is refused, not ignored."""
    conditions = []
    for path, wanted in said.items():
        if not isinstance(path, str) or not 0 < len(path) <= MAX_PATH:
            raise FieldValue("A pattern names fields by their paths.", field="pattern", limit=MAX_PATH)
        if not isinstance(wanted, Mapping):
            conditions.append(_condition(path, "eq", wanted))
            continue
        if not wanted:
            raise PatternOperator("An empty condition.", field=f"pattern.{path}", limit=", ".join(OPERATORS))
        conditions += [_condition(path, operator, value) for operator, value in wanted.items()]
    if len(conditions) > MAX_CONDITIONS:
        raise FieldValue(field="pattern", limit=MAX_CONDITIONS, used=len(conditions))
    return Pattern(conditions=tuple(conditions))


def _condition(path: str, operator: str, value: Any) -> Condition:
    if operator not in OPERATORS:
        raise PatternOperator(
            f"'{str(operator)[:40]}' is not an operator.", field=f"pattern.{path}", limit=", ".join(OPERATORS)
        )
    fits = {
        "eq": True,
        "ne": True,
        "prefix": isinstance(value, str),
        "exists": isinstance(value, bool),
    }.get(operator, isinstance(value, int | float | str) and not isinstance(value, bool))
    if not fits:
        raise PatternValue(f"'{operator}' does not compare with this.", field=f"pattern.{path}", used=str(value)[:80])
    if path == "state" and operator in ("eq", "ne") and value not in SEEN:
        raise PatternValue(
            "There is no such state.", field="pattern.state", limit=", ".join(SEEN), used=str(value)[:80]
        )
    return Condition(path, operator, value)
