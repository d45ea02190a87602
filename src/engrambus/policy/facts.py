"""Journal facts about runs, agents, the policy, dereferences and turns."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from engrambus.evidence.pointers import ReadSpan


class RunOpened(msgspec.Struct, frozen=True, kw_only=True, tag="run.opened", tag_field="fact", omit_defaults=True):
    """A run began; it became the current one unless it belongs to a client session."""

    run: str
    goal: str
    by: str
    session: str | None = None
    """The client session that the run was opened for."""


class RunClosed(msgspec.Struct, frozen=True, kw_only=True, tag="run.ended", tag_field="fact"):
    """A run ended, and with it everything its agents could do."""

    run: str
    by: str


class AgentAdded(msgspec.Struct, frozen=True, kw_only=True, tag="agent.added", tag_field="fact", omit_defaults=True):
    """An agent joined a run."""

    run: str
    name: str
    role: str
    by: str
    parent: str | None = None
    client_id: str | None = None
    """The id its client knows it by, unique in the run."""
    session_turns: int = 1
    """How many turns' worth it may read in one turn."""


class AgentDismissed(msgspec.Struct, frozen=True, kw_only=True, tag="agent.removed", tag_field="fact"):
    """An agent was removed from its run. Its name stays used."""

    run: str
    name: str
    by: str


class TokenIssued(msgspec.Struct, frozen=True, kw_only=True, tag="token.issued", tag_field="fact"):
    """A token was issued to an agent. The token itself is not recorded."""

    token_id: str
    run: str
    agent: str
    by: str
    """Full name of the parent or the admin, or of the agent itself for a renewal."""
    first_us: int
    """When somebody else than the agent issued the first token of this chain of renewals."""
    expires_us: int


class TokenWithdrawn(
    msgspec.Struct, frozen=True, kw_only=True, tag="token.revoked", tag_field="fact", omit_defaults=True
):
    """A token of an agent was revoked, or all of them; all of the project if no agent is named."""

    run: str
    agent: str
    by: str
    token_id: str | None = None


class PolicyApplied(msgspec.Struct, frozen=True, kw_only=True, tag="policy.applied", tag_field="fact"):
    """An admin put a policy into force."""

    policy: dict[str, Any]
    by: str


class DerefProved(msgspec.Struct, frozen=True, kw_only=True, tag="deref.proved", tag_field="fact", omit_defaults=True):
    """An agent dereferenced a pointer: the digest of the content, and its cost."""

    run: str
    agent: str
    turn: int
    type: str
    """The pointer's type."""
    ref: str
    digest: str
    tokens: int
    granted: bool = False
    """True if a grant paid instead of the turn."""
    spans: tuple[ReadSpan, ...] = ()
    """The parts of contents that were returned; all of the content with `digest` unless one of them is of it."""


class ContentDrawn(msgspec.Struct, frozen=True, kw_only=True, tag="content.drawn", tag_field="fact"):
    """An agent was given content without following a pointer; its turn pays for it."""

    run: str
    agent: str
    turn: int
    tokens: int


class TurnCharged(msgspec.Struct, frozen=True, kw_only=True, tag="turn.charged", tag_field="fact", omit_defaults=True):
    """An agent's turn paid for an artifact, or also for what it read or put under the name of a descendant."""

    run: str
    agent: str
    turn: int
    speaks_for: str
    """The descendant that the read or the put belongs to; the agent itself for an artifact."""
    type: str | None = None
    """The type of the pointer that was dereferenced."""
    tokens: int = 0
    """Tokens that were read."""
    put_tokens: int = 0
    """Tokens of the engrams or artifacts that were put."""
    granted: bool = False
    """True if a grant paid instead of the turn; the ceiling of the run counts it."""


class TurnClosed(msgspec.Struct, frozen=True, kw_only=True, tag="turn.closed", tag_field="fact"):
    """An agent's turn ended and the next one opened."""

    run: str
    agent: str
    turn: int
    why: str


class CallDenied(msgspec.Struct, frozen=True, kw_only=True, tag="call.denied", tag_field="fact", omit_defaults=True):
    """A call was refused by a rule about who may do what, or how much; or only warned about. No text of it is kept."""

    run: str
    agent: str
    operation: str
    code: str
    field: str | None = None
    """The field or the counter whose limit was met, such as `claim` or `turn.tokens`."""
    limit: int | float | None = None
    used: int | float | None = None
    tokens: int = 0
    """Tokens of the refused text, where they were counted."""
    mode: Literal["enforce", "warn"] = "enforce"
    count: int = 1
    """Calls that this fact stands for: more than one if there were too many in a minute."""


class DerefRequested(
    msgspec.Struct, frozen=True, kw_only=True, tag="deref.requested", tag_field="fact", omit_defaults=True
):
    """An agent asked to read more than its turn allows."""

    request_id: str
    run: str
    agent: str
    to: str
    """The agent's parent, or the admin."""
    ref: str
    reason: str
    intended_use: str = ""
    max_tokens: int


class DerefAnswered(
    msgspec.Struct, frozen=True, kw_only=True, tag="deref.answered", tag_field="fact", omit_defaults=True
):
    """A request to read more was approved or denied."""

    request_id: str
    run: str
    by: str
    grant_id: str | None = None
    """The grant that approves the request; None if it was denied."""
    agent: str | None = None
    """The agent that asked; its mail says that it was denied. None in journals of earlier versions."""
    ref: str | None = None
    """What it asked to read."""
