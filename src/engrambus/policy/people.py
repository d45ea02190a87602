"""The rules of people: colleagues who work on a project over a server, each with tokens of their own (decision 120).

A person is recorded as an agent of one run that holds all of them, is never the current one and never ends. Its calls
are those of a person at the machine, under the person's name and in the current run; only an administrator among them
may do what concerns the server and its people.
"""

from __future__ import annotations

from engrambus.core import Randomness, new_ulid
from engrambus.errors import AgentExists, AgentNotFound, RoleForbidden
from engrambus.policy.facts import AgentAdded, AgentDismissed, RunOpened, TokenIssued
from engrambus.policy.identity import ADMIN, PEOPLE, Agent, Caller, IdentityReads, check_name
from engrambus.policy.lifetimes import TokenLifetime, fresh_span
from engrambus.policy.names import similar_names
from engrambus.policy.token_rules import TokenView, check_alive

MEMBER = "architect"
"""The role under which a person who does not administer the server is recorded."""
_GOAL = "The people of the project"


def people_of(view: IdentityReads) -> list[Agent]:
    """Return the people of a project who were not removed, in the order they were added."""
    run = view.run_of_session(PEOPLE)
    return view.agents(run.run_id) if run is not None else []


def add_person(
    view: TokenView,
    *,
    caller: Caller,
    name: str,
    is_admin: bool,
    lifetime: TokenLifetime,
    asked_us: int | None,
    randomness: Randomness,
) -> tuple[list[RunOpened | AgentAdded | TokenIssued], Agent, TokenIssued]:
    """Add a person and issue a first token."""
    check_name(name)
    run = view.run_of_session(PEOPLE)
    facts: list[RunOpened | AgentAdded | TokenIssued] = []
    # A name stands behind everything that its bearer puts, so it is one person's or one agent's, for ever.
    if view.agents_named(name):
        raise AgentExists(
            f"The name '{name}' is or was in use.",
            field="name",
            hint="Choose another; a person's new token: person.token.",
        )
    run_id = run.run_id if run is not None else new_ulid(view.as_of, randomness)
    if run is None:
        facts.append(RunOpened(run=run_id, goal=_GOAL, by=caller.full_name, session=PEOPLE))
    person = Agent(run=run_id, name=name, role=ADMIN if is_admin else MEMBER)
    facts.append(AgentAdded(run=run_id, name=name, role=person.role, by=caller.full_name))
    issued = _issue(view, caller, person, lifetime, asked_us, randomness)
    return [*facts, issued], person, issued


def issue_person_token(
    view: TokenView,
    *,
    caller: Caller,
    name: str,
    lifetime: TokenLifetime,
    asked_us: int | None,
    randomness: Randomness,
) -> tuple[list[TokenIssued], Agent, TokenIssued]:
    """Issue another token to a person; a member gets one for itself only, and an administrator for anybody."""
    person = find_person(view, name)
    if caller.is_member and caller.name != person.name:
        raise RoleForbidden("Only an administrator issues tokens to other people.", field="name", limit=ADMIN)
    check_alive(view, person.run, person.name, "name")
    issued = _issue(view, caller, person, lifetime, asked_us, randomness)
    return [issued], person, issued


def remove_person(view: TokenView, *, caller: Caller, name: str) -> list[AgentDismissed]:
    """Remove a person, whose tokens end with it."""
    person = find_person(view, name)
    return [AgentDismissed(run=person.run, name=person.name, by=caller.full_name)]


def find_person(view: IdentityReads, name: str) -> Agent:
    """Return the person of that name."""
    people = {person.name: person for person in people_of(view)}
    if name not in people:
        similar = similar_names(name[:64], people)
        raise AgentNotFound(
            f"There is no person '{name[:64]}' in this project.",
            field="name",
            hint=f"Did you mean {' or '.join(similar)}?" if similar else "`person.list` lists them.",
        )
    return people[name]


def _issue(
    view: TokenView,
    caller: Caller,
    person: Agent,
    lifetime: TokenLifetime,
    asked_us: int | None,
    randomness: Randomness,
) -> TokenIssued:
    # Afresh, and never as a renewal of the token that is presented: a person answers for the own tokens.
    span = fresh_span(lifetime, now_us=view.as_of, asked_us=asked_us)
    return TokenIssued(
        token_id=new_ulid(view.as_of, randomness),
        run=person.run,
        agent=person.name,
        by=caller.full_name,
        first_us=span.first_us,
        expires_us=span.expires_us,
    )
