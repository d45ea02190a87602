"""Which waiters a commit may concern: they are woken by kind (decision 23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engrambus.space.schedules import (
    ScheduleAdded,
    ScheduleEmitted,
    ScheduleMoved,
    ScheduleRefused,
    ScheduleResumed,
    ScheduleSkipped,
    ScheduleView,
)
from engrambus.space.tuples import (
    AgentsFolded,
    BatchSpawned,
    FoldedEnded,
    LimitRemoved,
    LimitSet,
    TupleBlocked,
    TupleClaimed,
    TupleDone,
    TuplePut,
    TupleReleased,
    TupleTaken,
    TupleUnblocked,
)

NONE: frozenset[str] = frozenset()
WAITERS: dict[type[Any], frozenset[str]] = {
    TuplePut: frozenset({"work", "any"}),
    TupleReleased: frozenset({"work", "any"}),
    TupleDone: frozenset({"room", "any"}),
    TupleTaken: frozenset({"room", "any"}),
    TupleClaimed: frozenset({"room"}),
    LimitSet: frozenset({"work", "any"}),
    LimitRemoved: frozenset({"work", "any"}),
    TupleBlocked: frozenset({"any"}),
    TupleUnblocked: frozenset({"work", "any"}),
    BatchSpawned: frozenset({"work", "any"}),
    AgentsFolded: frozenset({"room", "any"}),
    FoldedEnded: frozenset({"any"}),
    ScheduleAdded: frozenset({"schedules"}),
    ScheduleEmitted: frozenset({"schedules"}),
    ScheduleSkipped: frozenset({"schedules"}),
    ScheduleRefused: frozenset({"schedules"}),
    ScheduleResumed: frozenset({"schedules"}),
    ScheduleMoved: frozenset({"schedules"}),
}
"""Kinds of waiters that each fact may concern."""


def kinds_concerned(facts: Sequence[Any], view: ScheduleView) -> frozenset[str]:
    """Return the kinds of waiters that facts may concern; `view` is what they were decided on."""
    kinds = NONE.union(*(WAITERS.get(kind, NONE) for kind in set(map(type, facts))))
    if "work" not in kinds and TupleDone in map(type, facts) and view.limit_rules():
        kinds |= {"work"}  # it may have freed a slot that others wait for
    return kinds
