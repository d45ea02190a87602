"""Tokens: getting another one, listing those that are live, revoking them. The rules are in `policy/token_rules.py`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

import engrambus.policy as policy
from engrambus.core import is_ulid, parse_duration, print_time, ulid_time
from engrambus.errors import FieldMissing, FieldValue
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.policy import ADMIN, Agent, TokenIssued, TokenWithdrawn, is_person

_NO_TOOL = {"mcp": "tokens are managed by the orchestrator"}

MAX_LISTED = 200
MAX_COUNTED = 100_000
"""Tokens that are counted when all are revoked."""


class AgentAnswer(Struct, frozen=True, kw_only=True):
    agent_id: str
    run_id: str
    role: str
    token: str
    token_id: str
    """The token's id in the list of tokens."""
    expires_at: str


class NewToken(Struct, frozen=True, kw_only=True):
    """An agent and the token that was issued to it, without the token itself: a remembered answer is journalled."""

    agent: Agent
    issued: TokenIssued


class AgentToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="The agent's name")]
    expires_in: Annotated[
        str | None,
        Meta(description="Lifetime of the token: P7D is 7 days; by default, and at most, what the policy says"),
    ] = None


@operation(
    "agent.token",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/agent/{name}/token"),
    command=Command(
        "agent token",
        section="team",
        example="engrambus agent token coder-1 --expires-in P7D",
        renderer="team:agent",
        rank=22,
        arguments=("name",),
        override="people:with_token",
    ),
    absent_from=_NO_TOOL,
    agent_fields=("name",),
)
def agent_token(context: Context, request: AgentToken) -> AgentAnswer:
    """Print another token for an agent.

    An agent renews its own token only up to the ceiling of the one that its parent or an admin issued.
    """
    asked_us = None if request.expires_in is None else parse_duration(request.expires_in, "expires_in")

    def decide(view: View) -> tuple[list[TokenIssued], NewToken]:
        agent = policy.check_descends(view, context.caller, request.name, "name")
        issued = policy.issue_token(
            view,
            caller=context.caller,
            agent=agent,
            lifetime=view.policy().token_lifetime,
            asked_us=asked_us,
            randomness=context.randomness,
        )
        return [issued], NewToken(agent=agent, issued=issued)

    return answer_with_token(context, context.commit(decide, NewToken))


class ListTokens(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A selection of tokens."""

    cursor: Annotated[str, Meta(max_length=26, description="Continue after this token")] | None = None


class TokenRow(Struct, frozen=True, kw_only=True):
    token_id: str
    agent_id: str
    role: str
    run_id: str
    issued_by: str
    """Full name of who issued it."""
    issued_at: str
    expires_at: str


class TokensAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    tokens: list[TokenRow]
    """Newest first."""
    as_of: str
    cursor: str | None = None
    """Set if there are more."""


@operation(
    "token.list",
    roles=PARENTS,
    route=Route("GET", "/token"),
    command=Command("token list", section="team", example="engrambus token list", renderer="team:token_list", rank=30),
    absent_from=_NO_TOOL,
)
def list_tokens(context: Context, request: ListTokens) -> TokensAnswer:
    """List the tokens that are live: yours and those of your descendants; for an admin, all of the project."""
    if request.cursor is not None and not is_ulid(request.cursor):
        raise FieldValue("This is not the id of a token.", field="cursor")
    found, cursor = policy.visible_tokens(context.view, context.caller, before=request.cursor, limit=MAX_LISTED)
    return TokensAnswer(
        tokens=[_row(context, issued) for issued in found], as_of=print_time(context.as_of), cursor=cursor
    )


class RevokeTokens(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=26, description="The id of one token")] | None = None
    agent: Annotated[str | None, Meta(description="All tokens of this agent and its descendants")] = None
    all: Annotated[bool, Meta(description="All tokens of the project; for an admin")] = False


class RevokedAnswer(Struct, frozen=True, kw_only=True):
    tokens: int
    """Tokens of the list that were live until now; tokens of earlier versions are in no list."""


@operation(
    "token.revoke",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/token/revoke"),
    command=Command(
        "token revoke",
        section="team",
        example="engrambus token revoke --agent coder-1",
        renderer="team:tokens_revoked",
        rank=32,
        arguments=("id",),
    ),
    absent_from=_NO_TOOL,
    agent_fields=("agent",),
)
def revoke_tokens(context: Context, request: RevokeTokens) -> RevokedAnswer:
    """Revoke a token by its id, all tokens of an agent and its descendants, or all tokens of the project.

    A revoked token is refused from now on, and the streams it has opened end. The agent stays: its parent or an admin
    can issue another token.
    """
    given = [name for name in ("id", "agent", "all") if getattr(request, name)]
    if len(given) != 1:
        raise FieldMissing(
            "Name what to revoke: one of `id`, `agent` and `all`.",
            field=given[1] if given else "id",
            hint="`token.list` lists the tokens that are live.",
        )

    def decide(view: View) -> tuple[list[TokenWithdrawn], RevokedAnswer]:
        facts = _revoke(context, view, request)
        agents = {(fact.run, fact.agent) for fact in facts}
        live = len(view.tokens(None, before=None, limit=MAX_COUNTED)) if request.all else 0
        live += sum(len(view.tokens_of(*agent)) for agent in agents if request.agent)
        return facts, RevokedAnswer(tokens=live if request.id is None else 1)

    return context.commit(decide, RevokedAnswer, in_run=False)


def _revoke(context: Context, view: View, request: RevokeTokens) -> list[TokenWithdrawn]:
    if request.id is not None:
        return [policy.revoke_token(view, caller=context.caller, token_id=request.id)]
    if request.agent is not None:
        return policy.revoke_tokens_of(view, caller=context.caller, name=request.agent)
    return [policy.revoke_all_tokens(context.caller)]


def answer_with_token(context: Context, new: NewToken) -> AgentAnswer:
    """Return an agent with its token, which is signed after the commit, so that no journal has it."""
    claims = policy.claims_of(new.issued, new.agent, context.caller.project)
    return AgentAnswer(
        agent_id=new.agent.name,
        run_id=new.agent.run,
        role=new.agent.role,
        token=context.key.sign(claims),
        token_id=new.issued.token_id,
        expires_at=print_time(new.issued.expires_us),
    )


def _role(agent: Agent | None, *, is_person: bool) -> str:
    if agent is None:
        return ""
    return "person" if is_person and agent.role != ADMIN else agent.role


def _row(context: Context, issued: TokenIssued) -> TokenRow:
    agent = context.view.agent(issued.run, issued.agent)
    ends_us = policy.end_of(policy.span_of(issued), context.policy.token_lifetime.ceiling_us)
    return TokenRow(
        token_id=issued.token_id,
        agent_id=issued.agent,
        role=_role(agent, is_person=agent is not None and is_person(context.view, agent)),
        run_id=issued.run,
        issued_by=issued.by,
        issued_at=print_time(ulid_time(issued.token_id)),
        expires_at=print_time(ends_us),
    )
