"""An event, who may see it, and the mark a reader leaves off at."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from engrambus.errors import FieldValue
from engrambus.policy import ADMIN, PROJECT_SPACE, Caller, space_of

EVERYONE = PROJECT_SPACE
"""The audience of what the whole project may see."""
NOBODY = ""
"""The audience of what only an admin may see."""

_MARK = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened."""

    id: str | None
    """`<line>.<fact>` of the journal; none for what is not journalled."""
    type: str
    time: str
    project: str
    run: str | None
    """The run it happened in."""
    agent: str | None
    """Who did it, by its name in the run."""
    data: dict[str, str | int]
    """Ids, names out of fixed lists, and counts."""
    audience: str
    """Who may see it: everyone in the project, one run by its id or its space, or nobody but an admin."""

    def shown(self) -> dict[str, Any]:
        """The event as a reader gets it, without what is not said."""
        fields = ("id", "type", "time", "project", "run", "agent", "data")
        return {name: value for name in fields if (value := getattr(self, name)) is not None}


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What of all that happens a reader is told; all readers with the same sight are told the same."""

    audiences: frozenset[str] | None
    """The audiences the reader belongs to; none for an admin, who sees all."""
    types: frozenset[str]
    """The types of events the reader asked for; all if there are none."""

    def sees(self, event: Event) -> bool:
        """Whether the reader is told of an event."""
        return (not self.types or event.type in self.types) and (
            self.audiences is None or event.audience in self.audiences
        )


def sight_of(caller: Caller, types: frozenset[str] = frozenset()) -> Sight:
    """What a caller may see: an admin sees all, others what is the project's or their own run's."""
    own = {EVERYONE, caller.run.run_id, space_of("run", caller.run)}
    return Sight(audiences=None if caller.role == ADMIN else frozenset(own), types=types)


class Mark(NamedTuple):
    """Where a reader left off: behind one fact of a line, or behind the whole line."""

    seq: int
    fact: int | None = None

    def __str__(self) -> str:
        return str(self.seq) if self.fact is None else f"{self.seq}.{self.fact}"


def read_mark(text: str, field: str) -> Mark:
    """A mark from the id of an event."""
    found = _MARK.fullmatch(text)
    if found is None:
        raise FieldValue("This is not the id of an event.", field=field, hint="Give the id of the last event you got.")
    return Mark(int(found[1]), None if found[2] is None else int(found[2]))
