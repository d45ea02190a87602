"""The types of events: which facts of the journal and which calls become events, and with which data.

A row names the fields that go into the event. Lists become their length, numbers stay, texts stay only if they have the
form of an id: no claim, reason or excerpt can get into an event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from engrambus.core import print_time
from engrambus.gateway.events.values import ADMINS_ONLY, EVERYONE, Event, EventSubject
from engrambus.policy import ADMIN, UNTRUSTED_SPACE, Caller, confirmed_space

_ID = re.compile(r"[A-Za-z0-9_.:/-]{1,80}")
Audience = Literal["run", "space", "scope", "project"]


class FactMapping(msgspec.Struct, frozen=True, kw_only=True):
    """The event made from one kind of fact."""

    type: str
    data: dict[str, str]
    """Each member of the event's data, and its path in the fact, with a dot for each level."""
    agent: str = "by"
    """Path of the acting agent in the fact."""
    audience: Audience = "run"
    """The part of the fact that decides who may see the event: its run, the engram's space, the engram's scope, or none
    (the whole project)."""


FACT_EVENTS: dict[str, FactMapping] = {
    "engram.put": FactMapping(
        type="less.engram.put",
        data={"engram": "engram.id", "kind": "engram.kind", "scope": "engram.scope", "pointers": "engram.pointers"},
        agent="engram.provenance.created_by",
        audience="scope",
    ),
    "engram.confirmed": FactMapping(type="less.engram.confirm", data={"engram": "id"}, audience="space"),
    "engram.adopted": FactMapping(
        type="less.engram.adopt",
        data={"engram": "engram.id", "kind": "engram.kind", "from": "adoption.from", "pointers": "engram.pointers"},
        agent="engram.provenance.created_by",
        audience="project",
    ),
    "engram.captured": FactMapping(
        type="less.engram.capture",
        data={"engram": "engram.id", "kind": "engram.kind", "scope": "engram.scope", "pointers": "engram.pointers"},
        agent="engram.provenance.created_by",
        audience="scope",
    ),
    "repository.learned": FactMapping(type="less.repository.learn", data={"commit": "commit"}, audience="project"),
    "engram.trusted": FactMapping(type="less.engram.trust", data={"engram": "id"}, audience="project"),
    "engram.promoted": FactMapping(
        type="less.engram.promote", data={"engram": "id", "scope": "scope"}, audience="project"
    ),  # the engram was visible in its run only and now is to everyone
    "promotion.requested": FactMapping(
        type="less.promotion.request", data={"request": "request_id", "engram": "id", "scope": "scope"}
    ),
    "promotion.answered": FactMapping(
        type="less.promotion.answer", data={"request": "request_id", "approved": "approved"}
    ),
    "gate.overridden": FactMapping(
        type="less.gate.override", data={"engram": "engram", "rule": "rule", "head": "head"}, audience="project"
    ),
    "engram.forgotten": FactMapping(type="less.engram.forget", data={"engram": "id"}, audience="space"),
    "engram.replaced": FactMapping(
        type="less.engram.replace", data={"engram": "id", "replaced_by": "replaced_by"}, audience="space"
    ),
    "contradiction.recorded": FactMapping(
        type="less.contradiction.record",
        data={"contradiction": "contradiction_id", "newer": "newer", "older": "older", "risk": "risk"},
        audience="space",
    ),
    "contradiction.settled": FactMapping(
        type="less.contradiction.settle", data={"contradiction": "contradiction_id", "keep": "keep"}, audience="space"
    ),
    "engram.pinned": FactMapping(type="less.engram.pin", data={"engram": "id"}, audience="space"),
    "engram.unpinned": FactMapping(type="less.engram.unpin", data={"engram": "id"}, audience="space"),
    "deref.proved": FactMapping(
        type="less.deref.prove",
        data={"pointer_type": "type", "digest": "digest", "tokens": "tokens", "turn": "turn"},
        agent="agent",
    ),
    "deref.requested": FactMapping(
        type="less.deref.request",
        data={"request": "request_id", "to": "to", "max_tokens": "max_tokens"},
        agent="agent",
    ),
    "deref.answered": FactMapping(type="less.deref.answer", data={"request": "request_id", "grant": "grant_id"}),
    "grant.issued": FactMapping(
        type="less.deref.grant",
        data={
            "grant": "grant_id",
            "parent": "parent",
            "child": "child",
            "cap_tokens": "cap_tokens",
            "uses": "uses",
            "inline_code_chars": "inline_code_chars",
            "narrowed_from": "narrowed_from",
        },
    ),
    "grant.spent": FactMapping(
        type="less.grant.spend", data={"grant": "grant_id", "block": "block_id", "tokens": "tokens"}
    ),
    "grant.revoked": FactMapping(type="less.grant.revoke", data={"block": "block_id"}),
    "reservation.made": FactMapping(
        type="less.reservation.make",
        data={"reservation": "reservation_id", "holder": "agent", "paths": "paths", "expires_us": "expires_at"},
        audience="project",
    ),
    "reservation.changed": FactMapping(
        type="less.reservation.change",
        data={"reservation": "reservation_id", "paths": "paths", "expires_us": "expires_at"},
        audience="project",
    ),
    "reservation.released": FactMapping(
        type="less.reservation.release",
        data={"reservation": "reservation_id", "holder": "agent", "cause": "cause"},
        audience="project",
    ),
    "message.accepted": FactMapping(
        type="less.message.accept",
        data={
            "message": "message_id",
            "to": "to",
            "to_run": "to_run",
            "tokens": "tokens",
            "engrams": "engrams",
            "resends": "resends",
        },
        agent="agent",
    ),
    "message.rejected": FactMapping(
        type="less.budget.reject",
        data={"rejection": "rejection_id", "tokens": "tokens", "exceeded": "exceeded"},
        agent="agent",
    ),
    "call.denied": FactMapping(
        type="less.denied",
        data={
            "operation": "operation",
            "code": "code",
            "field": "field",
            "limit": "limit",
            "used": "used",
            "tokens": "tokens",
            "mode": "mode",
            "count": "count",
        },
        agent="agent",
    ),
    "broadcast.sent": FactMapping(
        type="less.message.broadcast",
        data={"broadcast": "broadcast_id", "to": "to", "tokens": "tokens"},
        agent="agent",
    ),
    "memory.read": FactMapping(
        type="memory.read", data={"selected": "data.selected_count", "package": "data.package_hash"}
    ),
    "sam.kept": FactMapping(
        type="sam.keep",
        data={"memory": "episode.slug", "kind": "episode.kind", "version": "episode.version"},
        audience="project",
    ),
    "snapshot.taken": FactMapping(
        type="cortex.inherit", data={"snapshot": "snapshot_id", "heir": "heir", "items": "items", "chars": "chars"}
    ),
    "contribution.submitted": FactMapping(
        type="cortex.contribute",
        data={
            "contribution": "contribution.contribution_id",
            "status": "contribution.status",
        },
        agent="agent",
    ),
    "contribution.moved": FactMapping(
        type="cortex.review", data={"contribution": "contribution_id", "status": "status"}
    ),
    "brief.made": FactMapping(type="less.brief.make", data={"role": "role", "version": "version", "lines": "lines"}),
    "turn.closed": FactMapping(type="less.turn.close", data={"turn": "turn"}, agent="agent"),
    "run.opened": FactMapping(type="less.run.open", data={}),
    "run.ended": FactMapping(type="less.run.end", data={}),
    "agent.added": FactMapping(type="less.agent.add", data={"name": "name", "role": "role", "parent": "parent"}),
    "agent.removed": FactMapping(type="less.agent.remove", data={"name": "name"}),
    "token.issued": FactMapping(type="less.token.issue", data={"token": "token_id", "name": "agent"}),
    "token.revoked": FactMapping(type="less.token.revoke", data={"token": "token_id", "name": "agent"}),
    "policy.applied": FactMapping(type="less.policy.apply", data={}, audience="project"),
}
"""The event of each fact by its journal tag. Other facts make no event."""


class CallMapping(msgspec.Struct, frozen=True, kw_only=True):
    """The event made from a call that leaves nothing in the journal."""

    type: str
    request: dict[str, str]
    """Each member of the event's data that is a field of the request."""
    answer: dict[str, str]
    """Each member of the event's data that is a field of the answer."""


CALL_EVENTS: dict[str, CallMapping] = {
    "query_engrams": CallMapping(
        type="less.engram.query",
        request={"k": "k", "keys": "keys", "scope": "scope", "kind": "kind"},
        answer={"found": "engrams", "truncated": "truncated"},
    ),
}
"""The event of each call by the operation's name. Other calls make no event."""

WORK_CHANGED = "work.changed"
# decision 22: work has a journal of its own. This event says only that it has grown; `work_board` shows the work.

EVENT_TYPES = frozenset(
    {WORK_CHANGED, *(row.type for row in FACT_EVENTS.values()), *(row.type for row in CALL_EVENTS.values())}
)


def fact_events(line: int, time_us: int, facts: Sequence[Mapping[str, Any]], *, project: str) -> list[Event]:
    """Return the events of one commit, given the number and time of its journal line and its facts as decoded JSON."""
    time = print_time(time_us)
    events = []
    for position, fact in enumerate(facts):
        row = FACT_EVENTS.get(str(fact.get("fact")))
        if row is None:
            continue
        acting_run, _, agent = _id_or_empty(_value_at(fact, row.agent)).rpartition("/")
        run = _id_or_empty(fact.get("run")) or acting_run
        events.append(
            Event(
                id=f"{line}.{position}",
                type=row.type,
                time=time,
                project=project,
                run=run or None,
                agent=agent or None,
                data=_members((name, _value_at(fact, path)) for name, path in row.data.items()),
                audience=_audience(row, fact, run, agent),
                other_run=_id_or_empty(fact.get("to_run")) or None,
                subject=_subject(fact),
            )
        )
    return events


def call_event(operation: str, caller: Caller, now_us: int, request: object, answer: object) -> Event | None:
    """Return the event of an answered call; None if the operation makes no event."""
    row = CALL_EVENTS.get(operation)
    if row is None:
        return None
    values = [(name, getattr(request, field)) for name, field in row.request.items()]
    values += [(name, getattr(answer, field)) for name, field in row.answer.items()]
    return Event(
        id=None,
        type=row.type,
        time=print_time(now_us),
        project=caller.project,
        run=caller.run.run_id,
        agent=caller.name,
        data=_members(values),
        audience=caller.run.run_id,
    )


def is_call_event(event: Event) -> bool:
    """True if another process may have sent this: an event of a call, with nothing but ids and counts in it."""
    row = next((row for row in CALL_EVENTS.values() if row.type == event.type), None)
    if row is None or event.id is not None:
        return False
    texts = (event.time, event.run, event.agent, event.audience)
    return (
        event.data.keys() <= row.request.keys() | row.answer.keys()
        and _members(event.data.items()) == event.data
        and all(text and _id_or_empty(text) for text in texts)
    )


def work_event(line: int, now_us: int, *, project: str) -> Event:
    """Return the event that the journal of work has grown to a line. It is for admins, as the board of work is."""
    return Event(
        id=None,
        type=WORK_CHANGED,
        time=print_time(now_us),
        project=project,
        run=None,
        agent=None,
        data={"line": line},
        audience=ADMINS_ONLY,
    )


def _audience(row: FactMapping, fact: Mapping[str, Any], run: str, agent: str) -> str:
    if row.audience == "project":
        return EVERYONE
    if row.audience == "space":
        space = _id_or_empty(fact.get("space")) or ADMINS_ONLY
        space = confirmed_space(space) or space
        return EVERYONE if space == UNTRUSTED_SPACE else space
    if row.audience == "scope" and _value_at(fact, "engram.scope") in ("project", "org", "global"):
        return EVERYONE
    if "run" not in fact and agent == ADMIN:
        return ADMINS_ONLY  # an admin may act on any run, so its own run does not say which run this belongs to
    return run or ADMINS_ONLY


_ENGRAM_FACTS = frozenset(
    {
        "engram.confirmed",
        "engram.promoted",
        "engram.forgotten",
        "engram.replaced",
        "contradiction.recorded",
        "contradiction.settled",
        "engram.trusted",
        "engram.pinned",
        "engram.unpinned",
        "promotion.requested",
    }
)
"""Facts that name an engram by its id alone. They, and those about reservations, are shown to no role with a rule."""


def _subject(fact: Mapping[str, Any]) -> EventSubject | None:
    match fact.get("fact"):
        case "engram.put" | "engram.adopted" | "engram.captured":
            kind, scope = _value_at(fact, "engram.kind"), _value_at(fact, "engram.scope")
            if kind == "risk" and _value_at(fact, "engram.provenance.source") == "tool":
                return EventSubject()  # decision 77: it quotes claims that a role may not see
            return EventSubject(kind=kind, scope=scope, refs=_refs(_value_at(fact, "engram.pointers")))
        case "sam.kept":
            return EventSubject(refs=_refs(_value_at(fact, "episode.pointers")), is_engram=False)
        case name if name in _ENGRAM_FACTS or str(name).startswith("reservation."):
            return EventSubject()
    return None


def _refs(pointers: Any) -> tuple[str, ...]:
    return tuple(str(_value_at(pointer, "ref")) for pointer in pointers or ())


def _value_at(fact: Mapping[str, Any], path: str) -> Any:
    value: Any = fact
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _id_or_empty(value: Any) -> str:
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


def _members(values: Any) -> dict[str, str | int | bool]:
    members: dict[str, str | int | bool] = {}
    for name, value in values:
        if isinstance(value, list | tuple):
            members[name] = len(value)
        elif isinstance(value, int):
            members[name] = value
        elif text := _id_or_empty(value):
            members[name] = text
    return members
