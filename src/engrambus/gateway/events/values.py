"""An event, the filter that decides who may read it, and the point from which a reader resumes."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from engrambus.errors import FieldValue
from engrambus.policy import ADMIN, PROJECT_SPACE, Caller, space_of

EVERYONE = PROJECT_SPACE
"""Audience of events that all callers of the project may see."""
ADMINS_ONLY = ""
"""Audience of events that only an admin may see."""

_EVENT_ID = re.compile(r"(?P<line>[0-9]{1,15})(?:\.(?P<fact>[0-9]{1,9}))?")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a project: ids and counts, never content."""

    id: str | None
    """`<line>.<fact>` of the journal; None for an event that is not journalled."""
    type: str
    time: str
    project: str
    run: str | None
    """Id of the run in which it happened."""
    agent: str | None
    """Name, within the run, of the agent that caused it."""
    data: dict[str, str | int]
    """Ids, words from fixed lists, and counts."""
    audience: str
    """Callers that may see it: all of the project, those of one run by its id or its space, or admins only."""

    def to_wire(self) -> dict[str, Any]:
        """Return the event as readers get it: without its audience and without empty fields."""
        fields = ("id", "type", "time", "project", "run", "agent", "data")
        return {name: value for name in fields if (value := getattr(self, name)) is not None}


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The events one reader gets. Readers with equal filters get the same events."""

    audiences: frozenset[str] | None
    """Audiences the reader belongs to; None for an admin, who sees all events."""
    types: frozenset[str]
    """Types of events the reader asked for; empty for all types."""

    def matches(self, event: Event) -> bool:
        """True if the reader gets this event."""
        return (not self.types or event.type in self.types) and (
            self.audiences is None or event.audience in self.audiences
        )


def filter_for(caller: Caller, types: frozenset[str] = frozenset()) -> EventFilter:
    """Return the filter of a caller: an admin sees all events, others those of the project and of their run."""
    audiences = frozenset({EVERYONE, caller.run.run_id, space_of("run", caller.run)})
    return EventFilter(audiences=None if caller.role == ADMIN else audiences, types=types)


class ResumePoint(NamedTuple):
    """The last part of the journal a reader has seen: one fact of a line, or the whole line."""

    line: int
    fact: int | None = None

    def __str__(self) -> str:
        return str(self.line) if self.fact is None else f"{self.line}.{self.fact}"

    @property
    def last_complete_line(self) -> int:
        """Number of the last line of which the reader has seen every fact."""
        return self.line if self.fact is None else max(0, self.line - 1)


def parse_resume_point(text: str, field: str) -> ResumePoint:
    """Parse the id of an event; `field` names where it was sent, for the error."""
    match = _EVENT_ID.fullmatch(text)
    if match is None:
        raise FieldValue("This is not the id of an event.", field=field, hint="Send the id of the last event you got.")
    return ResumePoint(int(match["line"]), None if match["fact"] is None else int(match["fact"]))
