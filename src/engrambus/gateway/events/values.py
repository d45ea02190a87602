"""An event, the filter that decides who may read it, and the point from which a reader resumes."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from engrambus.errors import FieldValue
from engrambus.evidence.pointers import ArtifactAddress, DiffAddress, Pointer
from engrambus.policy import ADMIN, PROJECT_SPACE, Caller, RoleVisibility, space_of

EVERYONE = PROJECT_SPACE
"""Audience of events that all callers of the project may see."""
ADMINS_ONLY = ""
"""Audience of events that only an admin may see."""

_EVENT_ID = re.compile(r"(?P<line>[0-9]{1,15})(?:\.(?P<fact>[0-9]{1,9}))?")


class EventSubject(msgspec.Struct, frozen=True, kw_only=True):
    """What an event is about, as far as a rule of visibility asks for it."""

    kind: str | None = None
    """Kind of the engram; None if the journal line names only its id."""
    scope: str | None = None
    refs: tuple[str, ...] = ()
    """Refs of its pointers."""
    is_engram: bool = True
    """False for an episode, of which only the pointers count."""


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
    data: dict[str, str | int | bool]
    """Ids, words from fixed lists, and counts."""
    audience: str
    """Callers that may see it: all of the project, those of one run by its id or its space, or admins only."""
    other_run: str | None = None
    """A second run whose agents may see it: that of a message's receiver."""
    subject: EventSubject | None = None
    """The engram or episode it is about, for roles that do not see all of them."""

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
    rule: RoleVisibility | None = None
    """What the reader's role sees; None if it sees everything."""

    def matches(self, event: Event) -> bool:
        """True if the reader gets this event."""
        return (
            (not self.types or event.type in self.types)
            and (self.audiences is None or not self.audiences.isdisjoint((event.audience, event.other_run)))
            and (self.rule is None or event.subject is None or _sees_subject(self.rule, event.subject))
        )


def filter_for(caller: Caller, types: frozenset[str] = frozenset(), rule: RoleVisibility | None = None) -> EventFilter:
    """Return the filter of a caller: an admin sees all events, others those of the project and of their run.

    `rule` is what the policy lets the caller's role see.
    """
    audiences = frozenset({EVERYONE, caller.run.run_id, space_of("run", caller.run)})
    return EventFilter(audiences=None if caller.role == ADMIN else audiences, types=types, rule=rule)


def _sees_subject(rule: RoleVisibility, subject: EventSubject) -> bool:
    from engrambus.knowledge.engrams import RoleFilter

    if subject.is_engram:
        # decision 50: a line that names only an engram's id does not tell whether a role sees it
        if subject.kind is None or subject.scope is None:
            return False
        if not rule.sees_kind(subject.kind) or not rule.sees_scope(subject.scope):
            return False
    role_filter = RoleFilter(rule, _paths_in_ref)
    return role_filter.sees_pointers(Pointer(type="", ref=ref) for ref in subject.refs)


def _paths_in_ref(address: ArtifactAddress | DiffAddress) -> tuple[str, ...] | None:
    # A document named without its folder, or a file that may have been renamed, would have to be looked up in git; what
    # is not known counts as hidden.
    return (address.name,) if isinstance(address, ArtifactAddress) and "/" in address.name else None


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
