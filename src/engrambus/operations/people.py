"""People: colleagues who work on the project over a server, and who the caller is."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

from msgspec import Meta, Struct

import engrambus.policy as policy
from engrambus.core import is_hex, parse_duration, print_time
from engrambus.errors import EngramBusError
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, PEOPLE, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.operations.tokens import NewToken
from engrambus.policy import ADMIN, AgentDismissed

_NO_TOOL = {"mcp": "people are added by an administrator"}
MAX_COMMITS = 20

PersonName = Annotated[str, Meta(min_length=1, max_length=64, description="The person's name; capitals do not count")]
ExpiresIn = Annotated[
    str | None,
    Meta(description="Lifetime of the token: P30D is 30 days; by default, and at most, what the policy says"),
]


class AddPerson(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: PersonName
    admin: Annotated[
        bool, Meta(description="May administer the project: add people, apply the policy, use the page")
    ] = False
    expires_in: ExpiresIn = None


class PersonAnswer(Struct, frozen=True, kw_only=True):
    name: str
    admin: bool
    token: str
    """The token, which is shown this once and stored nowhere."""
    token_id: str
    expires_at: str


@operation(
    "person.add",
    roles=ADMINS,
    writes=True,
    route=Route("POST", "/person"),
    command=Command(
        "person add",
        section="team",
        example="engrambus person add Anna",
        renderer="people:person",
        rank=32,
        arguments=("name",),
        override="people:with_token",
    ),
    absent_from=_NO_TOOL,
)
def add_person(context: Context, request: AddPerson) -> PersonAnswer:
    """Add a colleague who works on the project over a server, and print a token, this once.

    The colleague logs in with it: engrambus login URL. Calls are a person's, in the current run.
    """

    def decide(view: View) -> tuple[list[Any], NewToken]:
        facts, person, issued = policy.add_person(
            view,
            caller=context.caller,
            name=request.name.lower(),
            is_admin=request.admin,
            lifetime=view.policy().token_lifetime,
            asked_us=_asked_us(request.expires_in),
            randomness=context.randomness,
        )
        return [*facts], NewToken(agent=person, issued=issued)

    return _answer(context, context.commit(decide, NewToken, in_run=False))


class PersonToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: PersonName
    expires_in: ExpiresIn = None


@operation(
    "person.token",
    roles=PEOPLE,
    writes=True,
    route=Route("POST", "/person/{name}/token"),
    command=Command(
        "person token",
        section="team",
        example="engrambus person token anna",
        renderer="people:person",
        rank=33,
        arguments=("name",),
        override="people:with_token",
    ),
    absent_from=_NO_TOOL,
)
def person_token(context: Context, request: PersonToken) -> PersonAnswer:
    """Print another token for a person, as for a second machine; only administrators do that for others."""

    def decide(view: View) -> tuple[list[Any], NewToken]:
        facts, person, issued = policy.issue_person_token(
            view,
            caller=context.caller,
            name=request.name.lower(),
            lifetime=view.policy().token_lifetime,
            asked_us=_asked_us(request.expires_in),
            randomness=context.randomness,
        )
        return [*facts], NewToken(agent=person, issued=issued)

    return _answer(context, context.commit(decide, NewToken, in_run=False))


class ListPeople(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class PersonRow(Struct, frozen=True, kw_only=True):
    name: str
    admin: bool
    tokens: int
    """Tokens that are live."""


class PeopleAnswer(Struct, frozen=True, kw_only=True):
    people: list[PersonRow]


@operation(
    "person.list",
    roles=PEOPLE,
    route=Route("GET", "/person"),
    command=Command("person list", section="team", example="engrambus person list", renderer="people:people", rank=34),
    absent_from=_NO_TOOL,
)
def list_people(context: Context, request: ListPeople) -> PeopleAnswer:
    """List the people who work on the project over a server."""
    view = context.view
    return PeopleAnswer(
        people=[
            PersonRow(name=person.name, admin=person.role == ADMIN, tokens=len(view.tokens_of(person.run, person.name)))
            for person in policy.people_of(view)
        ]
    )


class RemovePerson(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: PersonName


class RemovedPerson(Struct, frozen=True, kw_only=True):
    name: str


@operation(
    "person.remove",
    roles=ADMINS,
    writes=True,
    route=Route("POST", "/person/{name}/remove"),
    command=Command(
        "person remove",
        section="team",
        example="engrambus person remove anna",
        renderer="people:removed",
        rank=35,
        arguments=("name",),
    ),
    absent_from=_NO_TOOL,
)
def remove_person(context: Context, request: RemovePerson) -> RemovedPerson:
    """Remove a person: all tokens end at once. What the person has put and decided stays."""

    def decide(view: View) -> tuple[list[AgentDismissed], RemovedPerson]:
        facts = policy.remove_person(view, caller=context.caller, name=request.name.lower())
        return facts, RemovedPerson(name=facts[0].name)

    return context.commit(decide, RemovedPerson, in_run=False)


class Whoami(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    commits: Annotated[
        list[str], Meta(max_length=MAX_COMMITS, description="Commits of your clone, to compare the repositories by")
    ] = []


class WhoamiAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    project: str
    name: str
    role: str
    """The agent's role, or `person`, or `admin` for a person who administers the project."""
    run_id: str
    expires_at: str | None = None
    """When the token ends."""
    repository: bool = False
    """True if the server has a repository."""
    takes_commits: bool = False
    """True if commits can be pushed to it."""
    commits: list[str] = []
    """Those of the given commits that are in it."""
    empty: bool = False
    """True if it has no commit yet."""


@operation(
    "session.whoami",
    route=Route("GET", "/whoami"),
    command=Command(
        "whoami",
        section="start",
        example="engrambus whoami",
        renderer="people:whoami",
        rank=26,
        override="people:whoami",
    ),
    absent_from={"mcp": "agents are told their name by their client's hook"},
)
def whoami(context: Context, request: Whoami) -> WhoamiAnswer:
    """Show which server and project you work with, and as whom."""
    caller, token = context.caller, context.caller.token
    expires_at = None
    if token is not None:
        span = policy.TokenSpan(first_us=token.first_us or 0, expires_us=token.expires_us)
        ceiling_us = context.policy.token_lifetime.ceiling_us
        expires_at = print_time(token.expires_us if token.first_us is None else policy.end_of(span, ceiling_us))
    mirror = context.project_files.repositories
    return WhoamiAnswer(
        project=caller.project,
        name=caller.name,
        role="person" if caller.is_member else caller.role,
        run_id=caller.run.run_id,
        expires_at=expires_at,
        repository=mirror.has_own,
        takes_commits=mirror.takes_commits,
        commits=[commit for commit in request.commits if _has(context, commit)],
        empty=mirror.has_own and mirror.select().is_empty(),
    )


def _has(context: Context, commit: str) -> bool:
    if is_hex(commit, 40, 64):
        with suppress(EngramBusError):
            context.project_files.repositories.select().check_commit(commit)
            return True
    return False


def _asked_us(expires_in: str | None) -> int | None:
    return None if expires_in is None else parse_duration(expires_in, "expires_in")


def _answer(context: Context, new: NewToken) -> PersonAnswer:
    claims = policy.claims_of(new.issued, new.agent, context.caller.project, person=True)
    return PersonAnswer(
        name=new.agent.name,
        admin=new.agent.role == ADMIN,
        token=context.key.sign(claims),  # after the commit, so that no journal has it
        token_id=new.issued.token_id,
        expires_at=print_time(new.issued.expires_us),
    )
