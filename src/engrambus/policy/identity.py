"""Who is who: runs, agents, their roles and their parents."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

import msgspec

from engrambus.errors import AgentNotFound, FieldValue, NotYourDescendant, RoleForbidden

Role = Literal["architect", "director", "manager", "programmer", "tool", "admin"]
ROLES: tuple[str, ...] = get_args(Role)

_RANK = {"admin": 5, "architect": 4, "director": 3, "manager": 2, "programmer": 1, "tool": 0}
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
MAX_NAME = 64
MAX_GENERATIONS = 64
ADMIN = "admin"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of work with a goal."""

    run_id: str
    goal: str
    number: int
    """The how-manieth run of the project it is, from 1."""
    opened_at: int
    ended: bool = False
    session: str | None = None
    """The session of a client it was opened for."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a run."""

    run: str
    name: str
    role: str
    parent: str | None = None
    """The agent that made it; none for those the admin made."""

    @property
    def full_name(self) -> str:
        """How outputs name it: `<run>/<name>`."""
        return f"{self.run}/{self.name}"


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf an operation runs."""

    project: str
    run: Run
    name: str
    role: str
    spoken_by: str | None = None
    """The agent whose token was used, when it speaks for a descendant."""

    @property
    def full_name(self) -> str:
        """How outputs name it: `<run>/<name>`."""
        return f"{self.run.run_id}/{self.name}"


class IdentityReads(Protocol):
    """What policy asks of a back end about runs and agents."""

    def run(self, run_id: str) -> Run | None:
        """The run of that id."""
        ...

    def current_run(self) -> Run | None:
        """The run opened last that goes on; when all have ended, the last of them."""
        ...

    def run_of_session(self, session: str) -> Run | None:
        """The last run opened for a client's session."""
        ...

    def agent(self, run_id: str, name: str) -> Agent | None:
        """The agent of that name in that run."""
        ...

    def agents(self, run_id: str) -> list[Agent]:
        """Every agent of a run, in the order they came."""
        ...


def check_name(name: str, field: str = "name") -> str:
    """The name if an agent may bear it: lower-case letters, digits, `-`, `_` and `.`, at most 64."""
    if not 0 < len(name) <= MAX_NAME or not _NAME.issuperset(name) or name[0] in "-.":
        raise FieldValue(
            "A name is 1 to 64 lower-case letters, digits, '-', '_' or '.', beginning with a letter, a digit or '_'.",
            field=field,
            limit=MAX_NAME,
            used=len(name),
        )
    if name == ADMIN:
        raise FieldValue("The name 'admin' belongs to the person at the machine.", field=field)
    return name


def check_below(role: str, parent_role: str, field: str = "role") -> None:
    """Refuse a child whose role does not stand below its parent's; tools may serve anyone."""
    if role == ADMIN:
        raise RoleForbidden("Nobody can make another admin.", field=field)
    if parent_role == "tool" or _RANK[role] >= _RANK[parent_role]:
        raise RoleForbidden(f"A {role} cannot be the child of a {parent_role}.", field=field, limit=parent_role)


def lineage_of(reads: IdentityReads, caller: Caller) -> tuple[str, ...]:
    """A caller's name and those of its ancestors, itself first."""
    names = [caller.name]
    agent = reads.agent(caller.run.run_id, caller.name)
    while agent is not None and agent.parent is not None and len(names) < MAX_GENERATIONS:
        names.append(agent.parent)
        agent = reads.agent(agent.run, agent.parent)
    return tuple(names)


def root_of(reads: IdentityReads, caller: Caller) -> str:
    """The full name of the agent at the top of a caller's line."""
    return f"{caller.run.run_id}/{lineage_of(reads, caller)[-1]}"


def check_descends(reads: IdentityReads, ancestor: Caller, name: str, field: str = "as") -> Agent:
    """The agent of that name in the caller's run, if it is the caller or descends from it."""
    agent = reads.agent(ancestor.run.run_id, name)
    if agent is None:
        raise AgentNotFound(f"There is no agent '{name[:MAX_NAME]}' in this run.", field=field)
    if ancestor.role == ADMIN:
        return agent
    above: Agent | None = agent
    for _ in range(MAX_GENERATIONS):
        if above is None:
            break
        if above.name == ancestor.name:
            return agent
        above = reads.agent(agent.run, above.parent) if above.parent else None
    raise NotYourDescendant(f"'{agent.name}' is not a descendant of '{ancestor.name}'.", field=field)
