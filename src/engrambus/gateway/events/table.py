"""Which facts of the journal, and which calls, are told as events, and what is told of each.

A row names the fields that are passed on. Whatever a field holds, a list becomes its length, a number stays, a word
stays if it has the form of an id, and everything else is left out: no claim, no reason and no excerpt gets through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from engrambus.core import print_time
from engrambus.gateway.events.values import EVERYONE, NOBODY, Event
from engrambus.policy import ADMIN, Caller

_ID = re.compile(r"[A-Za-z0-9_.:/-]{1,80}")
Audience = Literal["run", "space", "scope", "project"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of fact is told."""

    type: str
    data: dict[str, str]
    """What each member of the event's data is called in the fact, with a dot for each step down."""
    agent: str = "by"
    """Where the fact says who did it."""
    audience: Audience = "run"
    """What decides who may see it: its run, the space the engram lies in, the engram's scope, or nothing."""


TABLE: dict[str, Row] = {
    "engram.put": Row(
        type="less.engram.put",
        data={"engram": "engram.id", "kind": "engram.kind", "scope": "engram.scope", "pointers": "engram.pointers"},
        agent="engram.provenance.created_by",
        audience="scope",
    ),
    "engram.confirmed": Row(type="less.engram.confirm", data={"engram": "id"}, audience="space"),
    "engram.promoted": Row(
        type="less.engram.promote", data={"engram": "id", "scope": "scope"}, audience="project"
    ),  # it was the run's and is now everyone's
    "engram.forgotten": Row(type="less.engram.forget", data={"engram": "id"}, audience="space"),
    "engram.pinned": Row(type="less.engram.pin", data={"engram": "id"}, audience="space"),
    "engram.unpinned": Row(type="less.engram.unpin", data={"engram": "id"}, audience="space"),
    "deref.proved": Row(
        type="less.deref.prove",
        data={"pointer_type": "type", "digest": "digest", "tokens": "tokens", "turn": "turn"},
        agent="agent",
    ),
    "deref.requested": Row(
        type="less.deref.request",
        data={"request": "request_id", "to": "to", "max_tokens": "max_tokens"},
        agent="agent",
    ),
    "deref.answered": Row(type="less.deref.answer", data={"request": "request_id", "grant": "grant_id"}),
    "grant.issued": Row(
        type="less.deref.grant",
        data={
            "grant": "grant_id",
            "parent": "parent",
            "child": "child",
            "cap_tokens": "cap_tokens",
            "uses": "uses",
            "inline_code_chars": "inline_code_chars",
        },
    ),
    "grant.spent": Row(type="less.grant.spend", data={"grant": "grant_id", "block": "block_id", "tokens": "tokens"}),
    "grant.revoked": Row(type="less.grant.revoke", data={"block": "block_id"}),
    "message.accepted": Row(
        type="less.message.accept",
        data={
            "message": "message_id",
            "to": "to",
            "tokens": "tokens",
            "engrams": "engrams",
            "resends": "resends",
        },
        agent="agent",
    ),
    "message.rejected": Row(
        type="less.budget.reject",
        data={"rejection": "rejection_id", "tokens": "tokens", "exceeded": "exceeded"},
        agent="agent",
    ),
    "broadcast.sent": Row(
        type="less.message.broadcast",
        data={"broadcast": "broadcast_id", "to": "to", "tokens": "tokens"},
        agent="agent",
    ),
    "memory.read": Row(type="memory.read", data={"selected": "data.selected_count", "package": "data.package_hash"}),
    "sam.kept": Row(
        type="sam.keep",
        data={"memory": "episode.slug", "kind": "episode.kind", "version": "episode.version"},
        audience="project",
    ),
    "snapshot.taken": Row(
        type="cortex.inherit", data={"snapshot": "snapshot_id", "heir": "heir", "items": "items", "chars": "chars"}
    ),
    "contribution.submitted": Row(
        type="cortex.contribute",
        data={
            "contribution": "contribution.contribution_id",
            "status": "contribution.status",
        },
        agent="agent",
    ),
    "contribution.moved": Row(type="cortex.review", data={"contribution": "contribution_id", "status": "status"}),
    "brief.made": Row(type="less.brief.make", data={"role": "role", "version": "version", "lines": "lines"}),
    "turn.closed": Row(type="less.turn.close", data={"turn": "turn"}, agent="agent"),
    "run.opened": Row(type="less.run.open", data={}),
    "run.ended": Row(type="less.run.end", data={}),
    "agent.added": Row(type="less.agent.add", data={"name": "name", "role": "role", "parent": "parent"}),
    "policy.applied": Row(type="less.policy.apply", data={}, audience="project"),
}
"""How each fact is told, by its tag. A fact that has no row is not."""


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """How a call that leaves nothing in the journal is told."""

    type: str
    asked: dict[str, str]
    answered: dict[str, str]


CALLS: dict[str, CallRow] = {
    "query_engrams": CallRow(
        type="less.engram.query",
        asked={"k": "k", "keys": "keys", "scope": "scope", "kind": "kind"},
        answered={"found": "engrams", "truncated": "truncated"},
    ),
}
"""Calls that are told, by the operation's name."""

WORK_CHANGED = "work.changed"
"""That work went on. It has a journal of its own: what there is to see, the board tells."""

TYPES = frozenset(row.type for row in TABLE.values()) | {row.type for row in CALLS.values()} | {WORK_CHANGED}
"""Every type of event there is."""


def events_of(seq: int, at: int, facts: Sequence[Mapping[str, Any]], *, project: str) -> list[Event]:
    """The events of one commit: its line's number, its time and its facts as they stand in the journal."""
    time = print_time(at)
    events = []
    for position, fact in enumerate(facts):
        row = TABLE.get(str(fact.get("fact")))
        if row is None:
            continue
        acted_in, _, agent = _word(_find(fact, row.agent)).rpartition("/")
        run = _word(fact.get("run")) or acted_in
        events.append(
            Event(
                id=f"{seq}.{position}",
                type=row.type,
                time=time,
                project=project,
                run=run or None,
                agent=agent or None,
                data=_members((name, _find(fact, path)) for name, path in row.data.items()),
                audience=_audience(row, fact, run, agent),
            )
        )
    return events


def event_of_call(operation: str, caller: Caller, at: int, request: object, answer: object) -> Event | None:
    """The event of a call that was answered, for those that are told."""
    row = CALLS.get(operation)
    if row is None:
        return None
    told = [(name, getattr(request, field)) for name, field in row.asked.items()]
    told += [(name, getattr(answer, field)) for name, field in row.answered.items()]
    return Event(
        id=None,
        type=row.type,
        time=print_time(at),
        project=caller.project,
        run=caller.run.run_id,
        agent=caller.name,
        data=_members(told),
        audience=caller.run.run_id,
    )


def event_of_work(line: int, at: int, *, project: str) -> Event:
    """The event of work that went on, up to a line of its journal; the board is for people, and so is this."""
    return Event(
        id=None,
        type=WORK_CHANGED,
        time=print_time(at),
        project=project,
        run=None,
        agent=None,
        data={"line": line},
        audience=NOBODY,
    )


def _audience(row: Row, fact: Mapping[str, Any], run: str, agent: str) -> str:
    if row.audience == "project":
        return EVERYONE
    if row.audience == "space":
        return _word(fact.get("space")) or NOBODY
    if row.audience == "scope" and _find(fact, "engram.scope") in ("project", "org", "global"):
        return EVERYONE
    if "run" not in fact and agent == ADMIN:
        return NOBODY  # an admin acts on any run: the one it happened to be in says nothing about whose this is
    return run or NOBODY


def _find(fact: Mapping[str, Any], path: str) -> Any:
    value: Any = fact
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _word(value: Any) -> str:
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


def _members(values: Any) -> dict[str, str | int]:
    members: dict[str, str | int] = {}
    for name, value in values:
        if isinstance(value, list | tuple):
            members[name] = len(value)
        elif isinstance(value, int):
            members[name] = value
        elif word := _word(value):
            members[name] = word
    return members
