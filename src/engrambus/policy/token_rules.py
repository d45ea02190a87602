"""The rules of tokens (decision 69): issuing, listing and revoking them, and the check of who is alive."""

from __future__ import annotations

from typing import Protocol

from engrambus.core import Randomness, TimeReads, new_ulid, only_beginning, print_time
from engrambus.errors import RoleForbidden, RunEnded, TokenExpired, TokenInvalid, TokenNotFound, TokenRevoked
from engrambus.policy.facts import TokenIssued, TokenWithdrawn
from engrambus.policy.identity import (
    ADMIN,
    PEOPLE,
    Agent,
    Caller,
    IdentityReads,
    check_descends,
    descends,
    removed_agent,
)
from engrambus.policy.lifetimes import TokenLifetime, TokenSpan, end_of, fresh_span, renewed_span
from engrambus.policy.tokens import TokenClaims

GET_ANOTHER = "Get another: engrambus agent token NAME."


class TokenReads(Protocol):
    """Reads of tokens."""

    def is_token_revoked(self, token_id: str) -> bool:
        """True if the token with this id was revoked, or is not recorded: its line was lost, or it expired long ago."""
        ...

    def token(self, token_id: str) -> TokenIssued | None:
        """Return the token with this id if it is live: neither revoked nor expired, its agent and its run alive."""
        ...

    def tokens(self, run_id: str | None, *, before: str | None, limit: int) -> list[TokenIssued]:
        """Return the live tokens of a run, or of the project, issued before the one of that id; newest first."""
        ...

    def tokens_of(self, run_id: str, agent: str) -> list[TokenIssued]:
        """Return the live tokens of an agent, newest first."""
        ...


class TokenView(IdentityReads, TokenReads, TimeReads, Protocol):
    """The store at one moment, as the rules about tokens read it."""


def check_alive(view: IdentityReads, run_id: str, name: str, field: str | None = None) -> Agent:
    """Return an agent of a run; refuse one that was removed, and every agent of a run that has ended."""
    # The only such check: `identify` makes it for every call on every edge, and a commit once more under its lock.
    run, agent = view.run(run_id), view.agent(run_id, name)
    if run is None or agent is None:
        raise TokenInvalid
    if run.ended:
        raise RunEnded(f"The run '{run_id}' has ended.", field=field, hint="Open another: engrambus run new GOAL.")
    if agent.removed:
        raise removed_agent(agent, field)
    return agent


def check_token(view: TokenView, claims: TokenClaims, ceiling_us: int) -> None:
    """Refuse an agent's token if its agent or run is gone, if it was revoked, or if its ceiling has passed."""
    agent = check_alive(view, claims.run, claims.agent)
    # A token is only as good as the agent it was made for: an agent that changed role or parent needs a new one.
    if agent.role != claims.role or agent.parent != claims.parent:
        raise TokenInvalid
    if agent.tokens_revoked if claims.id is None else view.is_token_revoked(claims.id):
        raise TokenRevoked(hint=GET_ANOTHER)
    ends_us = end_of(_span(claims, view.as_of, ceiling_us), ceiling_us)
    if claims.first_us is not None and ends_us <= view.expiry_us:
        raise TokenExpired("The token has reached the policy's ceiling.", limit=print_time(ends_us), hint=GET_ANOTHER)


def issue_token(
    view: TokenView,
    *,
    caller: Caller,
    agent: Agent,
    lifetime: TokenLifetime,
    asked_us: int | None = None,
    randomness: Randomness,
) -> TokenIssued:
    """Issue another token to an agent: afresh if a parent or an admin asks, else as a renewal of the agent's own."""
    check_alive(view, agent.run, agent.name, "name")
    presented = caller.token
    if presented is None or (presented.run, presented.agent) != (agent.run, agent.name):
        span = fresh_span(lifetime, now_us=view.as_of, asked_us=asked_us)
    else:
        earlier = _span(presented, view.as_of, lifetime.ceiling_us)
        span = renewed_span(lifetime, now_us=view.as_of, asked_us=asked_us, earlier=earlier)
    return _issued(view, caller, agent, span, randomness)


def first_token(
    view: TokenView, *, caller: Caller, agent: Agent, lifetime: TokenLifetime, randomness: Randomness
) -> TokenIssued:
    """Issue the first token of an agent that is added in the same commit."""
    return _issued(view, caller, agent, fresh_span(lifetime, now_us=view.as_of, asked_us=None), randomness)


def _issued(view: TokenView, caller: Caller, agent: Agent, span: TokenSpan, randomness: Randomness) -> TokenIssued:
    return TokenIssued(
        token_id=new_ulid(view.as_of, randomness),
        run=agent.run,
        agent=agent.name,
        by=caller.spoken_by or caller.full_name,
        first_us=span.first_us,
        expires_us=span.expires_us,
    )


def token_of_known_agent(
    view: TokenView, *, caller: Caller, agent: Agent, lifetime: TokenLifetime, randomness: Randomness
) -> tuple[list[TokenIssued], TokenIssued]:
    """Return a token for an agent that its client asks for again: the same one while half of its life is left."""
    # A hook is a new process each time; a new token for each would fill the journal and the list of tokens.
    check_alive(view, agent.run, agent.name, "name")
    for issued in view.tokens_of(agent.run, agent.name):
        left_us = end_of(span_of(issued), lifetime.ceiling_us) - view.as_of
        if issued.by != agent.full_name and 2 * left_us >= lifetime.default_us:
            return [], issued
    issued = issue_token(view, caller=caller, agent=agent, lifetime=lifetime, randomness=randomness)
    return [issued], issued


MAX_SEARCHED_TOKENS = 1000
"""Newest live tokens that are searched for the beginning of an id."""


def visible_tokens(
    view: TokenView, caller: Caller, *, before: str | None, limit: int
) -> tuple[list[TokenIssued], str | None]:
    """Return live tokens that a caller may see, and where to go on: an admin sees all, an agent its own lineage's."""
    records = view.tokens(None if caller.role == ADMIN else caller.run.run_id, before=before, limit=limit + 1)
    cursor = records[limit - 1].token_id if len(records) > limit else None
    rows = records[:limit]
    return (rows if caller.role == ADMIN else [row for row in rows if descends(view, caller, row.agent)]), cursor


def revoke_token(view: TokenView, *, caller: Caller, token_id: str) -> TokenWithdrawn:
    """Revoke one token: of the caller, of its descendants, or any for an admin."""
    issued = view.token(token_id) or _begun_token(view, caller, token_id)
    seen = issued is not None and (
        caller.role == ADMIN or (issued.run == caller.run.run_id and descends(view, caller, issued.agent))
    )
    run = view.run(issued.run) if issued is not None else None
    if issued is not None and run is not None and run.session == PEOPLE and caller.is_member:
        seen = issued.agent == caller.name  # decision 120: a member ends no other person's access
    # Not found rather than forbidden: tokens of others are not shown to exist.
    if issued is None or not seen:
        raise TokenNotFound(field="id", hint="`token.list` lists the tokens that are live.")
    return TokenWithdrawn(run=issued.run, agent=issued.agent, token_id=issued.token_id, by=caller.full_name)


def _begun_token(view: TokenView, caller: Caller, beginning: str) -> TokenIssued | None:
    """Return the only live token the caller sees whose id begins so."""
    rows, _ = visible_tokens(view, caller, before=None, limit=MAX_SEARCHED_TOKENS)
    full_id = only_beginning(beginning, (row.token_id for row in rows))
    return view.token(full_id) if full_id is not None else None


def revoke_tokens_of(view: TokenView, *, caller: Caller, name: str) -> list[TokenWithdrawn]:
    """Revoke all tokens of an agent and of its descendants, whose tokens it may have kept."""
    agent = check_descends(view, caller, name, "agent")
    return [TokenWithdrawn(run=agent.run, agent=below, by=caller.full_name) for below in with_descendants(view, agent)]


def revoke_all_tokens(caller: Caller) -> TokenWithdrawn:
    """Revoke every token of every agent of the project."""
    if caller.role != ADMIN or caller.is_member:
        raise RoleForbidden("Only an admin revokes the tokens of the whole project.", field="all", limit=ADMIN)
    return TokenWithdrawn(run="", agent="", by=caller.full_name)


def with_descendants(view: IdentityReads, agent: Agent) -> list[str]:
    """Return the names of an agent and its descendants that were not removed, in the order they were added."""
    names = {agent.name}
    for other in view.agents(agent.run):  # a parent is added before its children
        if other.parent in names:
            names.add(other.name)
    return [other.name for other in view.agents(agent.run) if other.name in names]


def span_of(issued: TokenIssued) -> TokenSpan:
    """Return the span of an issued token."""
    return TokenSpan(first_us=issued.first_us, expires_us=issued.expires_us)


def claims_of(issued: TokenIssued, agent: Agent, project: str, *, person: bool = False) -> TokenClaims:
    """Return what an issued token says. The same claims always make the same token."""
    return TokenClaims(
        agent=agent.name,
        role=agent.role,
        parent=agent.parent,
        project=project,
        run=agent.run,
        expires_us=issued.expires_us,
        id=issued.token_id,
        first_us=issued.first_us,
        person=person,
    )


def _span(claims: TokenClaims, now_us: int, ceiling_us: int) -> TokenSpan:
    if claims.first_us is not None:
        return TokenSpan(first_us=claims.first_us, expires_us=claims.expires_us)
    # A token of an earlier version does not say when it was issued: it is renewed up to its own end and no further.
    ends_us = min(claims.expires_us, now_us + ceiling_us)
    return TokenSpan(first_us=ends_us - ceiling_us, expires_us=claims.expires_us)
