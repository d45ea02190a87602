"""Runs, agents, their roles and their parents: the values, and the rules that open, end and extend a run."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

import msgspec

from engrambus.core import Randomness, new_ulid
from engrambus.errors import AgentExists, AgentNotFound, FieldValue, NotYourDescendant, RoleForbidden, RunNotFound
from engrambus.policy.facts import AgentAdded, RunClosed, RunOpened

Role = Literal["architect", "director", "manager", "programmer", "tool", "admin"]
ROLES: tuple[str, ...] = get_args(Role)

_RANK = {"admin": 5, "architect": 4, "director": 3, "manager": 2, "programmer": 1, "tool": 0}
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
MAX_NAME_CHARS = 64
MAX_GENERATIONS = 64
ADMIN = "admin"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A period of work with one goal."""

    run_id: str
    goal: str
    number: int
    """1-based sequence number within the project."""
    opened_us: int
    ended: bool = False
    session: str | None = None
    """The client session that the run was opened for."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a run."""

    run: str
    name: str
    role: str
    parent: str | None = None
    """The agent that added it; None if the admin did."""
    session_turns: int = 1
    """Turns' worth of budget in each of its turns: more than 1 where one agent stands for a client's whole session."""

    @property
    def full_name(self) -> str:
        """The name in outputs: `<run>/<name>`."""
        return f"{self.run}/{self.name}"


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The agent, or the admin, on whose behalf an operation runs."""

    project: str
    run: Run
    name: str
    role: str
    spoken_by: str | None = None
    """The agent whose token was used, if it speaks for a descendant."""

    @property
    def full_name(self) -> str:
        """The name in outputs: `<run>/<name>`."""
        return f"{self.run.run_id}/{self.name}"


class IdentityReads(Protocol):
    """Reads of runs and agents."""

    def run(self, run_id: str) -> Run | None:
        """Return the run with this id."""
        ...

    def current_run(self) -> Run | None:
        """Return the newest run that has not ended; if all have, the newest."""
        ...

    def run_of_session(self, session: str) -> Run | None:
        """Return the newest run that was opened for a client session."""
        ...

    def agent(self, run_id: str, name: str) -> Agent | None:
        """Return the agent with this name in the run."""
        ...

    def agents(self, run_id: str) -> list[Agent]:
        """Return all agents of a run, in the order they were added."""
        ...


class IdentityView(IdentityReads, Protocol):
    """The store at one moment, as the rules about runs and agents read it."""

    @property
    def as_of(self) -> int:
        """The time of the commit in microseconds, by the project's clock."""
        ...


def open_run(
    view: IdentityView, *, caller: Caller, goal: str, session: str | None, randomness: Randomness
) -> tuple[list[RunOpened], str]:
    """Open a run and return its id; a session that has an open run gets that one."""
    # decision 18: a hook is a new process each time and finds its run by the session
    previous = view.run_of_session(session) if session else None
    if previous is not None and not previous.ended:
        return [], previous.run_id
    run_id = new_ulid(view.as_of, randomness)
    return [RunOpened(run=run_id, goal=goal, by=caller.full_name, session=session)], run_id


def end_run(view: IdentityView, *, caller: Caller, run_id: str) -> list[RunClosed]:
    """End a run; ending it a second time changes nothing."""
    run = view.run(run_id)
    if run is None:
        raise RunNotFound(field="run_id")
    return [] if run.ended else [RunClosed(run=run.run_id, by=caller.full_name)]


def add_agent(
    view: IdentityView, *, caller: Caller, name: str, role: str, parent: str | None, session_turns: int = 1
) -> tuple[list[AgentAdded], Agent]:
    """Add an agent to the caller's run, as a child of `parent` or else of the caller."""
    check_name(name)
    parent_name = parent or (None if caller.role == ADMIN else caller.name)
    parent_agent = check_descends(view, caller, parent_name, "parent") if parent_name else None
    check_below(role, parent_agent.role if parent_agent else ADMIN)
    if view.agent(caller.run.run_id, name) is not None:
        raise AgentExists(
            f"'{name}' is already in this run.", field="name", hint=f"Get another token: engrambus agent token {name}."
        )
    agent = Agent(run=caller.run.run_id, name=name, role=role, parent=parent_name, session_turns=session_turns)
    added = AgentAdded(
        run=agent.run, name=name, role=role, parent=parent_name, by=caller.full_name, session_turns=session_turns
    )
    return [added], agent


def check_name(name: str, field: str = "name") -> str:
    """Return the name if it is valid for an agent."""
    if not 0 < len(name) <= MAX_NAME_CHARS or not _NAME_CHARACTERS.issuperset(name) or name[0] in "-.":
        raise FieldValue(
            "A name is 1 to 64 lower-case letters, digits, '-', '_' or '.', beginning with a letter, a digit or '_'.",
            field=field,
            limit=MAX_NAME_CHARS,
            used=len(name),
        )
    if name == ADMIN:
        raise FieldValue("The name 'admin' is reserved for the person at the machine.", field=field)
    return name


def check_below(role: str, parent_role: str, field: str = "role") -> None:
    """Refuse a child whose role does not rank below its parent's; a tool has no children."""
    if role == ADMIN:
        raise RoleForbidden("There is only one admin, the person at the machine.", field=field)
    if parent_role == "tool" or _RANK[role] >= _RANK[parent_role]:
        raise RoleForbidden(f"A {role} cannot be the child of a {parent_role}.", field=field, limit=parent_role)


def parent_of(reads: IdentityReads, caller: Caller) -> str:
    """Return the name of the caller's parent; the admin for agents without one."""
    agent = reads.agent(caller.run.run_id, caller.name)
    return agent.parent if agent is not None and agent.parent is not None else ADMIN


def lineage_of(reads: IdentityReads, caller: Caller) -> tuple[str, ...]:
    """Return the names of the caller and its ancestors, the caller first."""
    # Bounded, so that a cycle of parents in a damaged journal ends.
    names = [caller.name]
    agent = reads.agent(caller.run.run_id, caller.name)
    while agent is not None and agent.parent is not None and len(names) < MAX_GENERATIONS:
        names.append(agent.parent)
        agent = reads.agent(agent.run, agent.parent)
    return tuple(names)


def root_of(reads: IdentityReads, caller: Caller) -> str:
    """Return the full name of the caller's topmost ancestor."""
    return f"{caller.run.run_id}/{lineage_of(reads, caller)[-1]}"


def check_descends(reads: IdentityReads, ancestor: Caller, name: str, field: str = "as") -> Agent:
    """Return the agent `name` of the caller's run if it is the caller or one of its descendants."""
    agent = reads.agent(ancestor.run.run_id, name)
    if agent is None:
        raise AgentNotFound(f"There is no agent '{name[:MAX_NAME_CHARS]}' in this run.", field=field)
    if ancestor.role == ADMIN:
        return agent
    current: Agent | None = agent
    for _ in range(MAX_GENERATIONS):
        if current is None:
            break
        if current.name == ancestor.name:
            return agent
        current = reads.agent(agent.run, current.parent) if current.parent else None
    raise NotYourDescendant(f"'{agent.name}' is not a descendant of '{ancestor.name}'.", field=field)
