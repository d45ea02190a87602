"""What policy writes into the journal."""

from __future__ import annotations

from typing import Any

import msgspec


class RunOpened(msgspec.Struct, frozen=True, kw_only=True, tag="run.opened", tag_field="fact", omit_defaults=True):
    """A run began and became the current one."""

    run: str
    goal: str
    by: str
    session: str | None = None
    """The session of a client it was opened for."""


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, tag="run.ended", tag_field="fact"):
    """A run is over."""

    run: str
    by: str


class AgentAdded(msgspec.Struct, frozen=True, kw_only=True, tag="agent.added", tag_field="fact", omit_defaults=True):
    """An agent joined a run."""

    run: str
    name: str
    role: str
    by: str
    parent: str | None = None


class PolicyApplied(msgspec.Struct, frozen=True, kw_only=True, tag="policy.applied", tag_field="fact"):
    """An admin put a policy into force."""

    policy: dict[str, Any]
    by: str


class DerefProved(msgspec.Struct, frozen=True, kw_only=True, tag="deref.proved", tag_field="fact", omit_defaults=True):
    """An agent dereferenced a pointer: what it was given, proved by digest, and what it cost."""

    run: str
    agent: str
    turn: int
    type: str
    """The pointer's type."""
    ref: str
    digest: str
    tokens: int
    granted: bool = False
    """Whether a grant paid for it instead of the turn."""


class ContentDrawn(msgspec.Struct, frozen=True, kw_only=True, tag="content.drawn", tag_field="fact"):
    """An agent was given content that no pointer was followed for: it costs its turn all the same."""

    run: str
    agent: str
    turn: int
    tokens: int


class TurnClosed(msgspec.Struct, frozen=True, kw_only=True, tag="turn.closed", tag_field="fact"):
    """An agent's turn is over, and the next one open."""

    run: str
    agent: str
    turn: int
    why: str


class DerefRequested(
    msgspec.Struct, frozen=True, kw_only=True, tag="deref.requested", tag_field="fact", omit_defaults=True
):
    """An agent asks to read more than its turn allows."""

    request_id: str
    run: str
    agent: str
    to: str
    """Who is asked: its parent, or the admin."""
    ref: str
    reason: str
    intended_use: str = ""
    max_tokens: int


class DerefAnswered(
    msgspec.Struct, frozen=True, kw_only=True, tag="deref.answered", tag_field="fact", omit_defaults=True
):
    """A request to read more was granted or turned down."""

    request_id: str
    run: str
    by: str
    grant_id: str | None = None
    """The grant it was given; none when it was turned down."""
