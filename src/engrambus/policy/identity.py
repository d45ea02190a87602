"""Runs, agents, their roles and their parents: the values, their lineage, and what a name means."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, get_args

import msgspec

from engrambus.core import TimeReads, is_ulid
from engrambus.errors import AgentAmbiguous, AgentNotFound, AgentRemoved, FieldValue, NotYourDescendant
from engrambus.policy.names import similar_names
from engrambus.policy.tokens import TokenClaims

LeadRole = Literal["architect", "director", "manager", "programmer"]
ParentRole = Literal["architect", "director", "manager"]
"""A role that can have children, as the lead of a session with sub-agents must."""
Role = Literal["architect", "director", "manager", "programmer", "tool", "admin"]
ROLES: tuple[str, ...] = get_args(Role)

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
MAX_NAME_CHARS = 64
MAX_GENERATIONS = 64
MAX_QUOTED_NAME = 96
"""Characters of an unknown agent's name that an error repeats."""
ROLE_PREFIX = "role:"
"""Stands before a role where names of agents are given, too."""
MAX_AMBIGUOUS = 8
"""Full names that an error lists for a name that fits several agents."""
MAX_NAMES_COMPARED = 1000
"""Agents of the project whose names a near miss is compared with."""
ADMIN = "admin"
PEOPLE = "people:"
"""The session of the run that holds the project's people; no client's session can be called so (decision 120)."""
LEARN = "learn"
"""The author of what was learned from the repository; no agent has this name."""


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
    client_id: str | None = None
    """The id its client knows it by: hooks find the agent of a session or a sub-agent again by it."""
    session_turns: int = 1
    """How many turns' worth it may read in one turn: more than 1 where one process serves a whole session."""
    removed: bool = False
    """True if it was removed from its run; the record stays, so that its name is not used again."""
    tokens_revoked: bool = False
    """True if its tokens of versions in which tokens had no id are revoked."""

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
    token: TokenClaims | None = None
    """The content of the token that was presented; None for the admin at the machine."""
    is_member: bool = False
    """True if it is a person with a token who does not administer the project."""

    @property
    def full_name(self) -> str:
        """The name in outputs: `<run>/<name>`."""
        return f"{self.run.run_id}/{self.name}"


class AgentsBelow(NamedTuple):
    """The descendants of a topmost agent."""

    total: int
    recent_us: tuple[int, ...]
    """Times at which the newest were added, in order."""


class IdentityReads(Protocol):
    """Reads of runs and agents."""

    def run(self, run_id: str) -> Run | None:
        """Return the run with this id."""
        ...

    def current_run(self) -> Run | None:
        """Return the newest run that has not ended; if all have, the newest. Runs of client sessions do not count."""
        ...

    def run_of_session(self, session: str) -> Run | None:
        """Return the newest run that was opened for a client session."""
        ...

    def agent(self, run_id: str, name: str) -> Agent | None:
        """Return the agent with this name in the run."""
        ...

    def agents(self, run_id: str) -> list[Agent]:
        """Return the agents of a run that were not removed, in the order they were added."""
        ...

    def agents_named(self, name: str) -> list[Agent]:
        """Return the agents of all runs that have this name, also removed ones, in the order they were added."""
        ...

    def newest_agents(self, *, limit: int) -> list[Agent]:
        """Return the agents of all runs that were added last and not removed, newest first."""
        ...

    def agents_below(self, run_id: str, root: str, since_us: int) -> AgentsBelow:
        """Return how many descendants a topmost agent has, and when those after `since_us` were added."""
        ...

    def agent_of_client(self, run_id: str, client_id: str) -> Agent | None:
        """Return the agent of the run that its client knows by this id."""
        ...


class IdentityView(IdentityReads, TimeReads, Protocol):
    """The store at one moment, as the rules about runs and agents read it."""


def with_article(role: str) -> str:
    """Return a role for a sentence: `an architect`, `a manager`."""
    return f"an {role}" if role[0] == "a" else f"a {role}"


def is_role(reads: IdentityReads, caller: Caller, name: str) -> bool:
    """True if a name stands for a role: `role:programmer`, or `programmer` if no agent of the run is called so."""
    # decision 59: an agent that is called like a role is meant by its name
    if name.startswith(ROLE_PREFIX):
        return name.removeprefix(ROLE_PREFIX) in ROLES
    return name in ROLES and reads.agent(caller.run.run_id, name) is None


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
    if name == LEARN:
        raise FieldValue("The name 'learn' is reserved for what is learned from the repository.", field=field)
    return name


def parent_of(reads: IdentityReads, caller: Caller) -> str:
    """Return the name of the caller's parent; the admin for agents without one."""
    agent = reads.agent(caller.run.run_id, caller.name)
    return agent.parent if agent is not None and agent.parent is not None else ADMIN


def lineage_of(reads: IdentityReads, caller: Caller) -> tuple[str, ...]:
    """Return the names of the caller and its ancestors, the caller first."""
    return lineage_of_agent(reads, caller.run.run_id, caller.name)


def lineage_of_agent(reads: IdentityReads, run_id: str, name: str) -> tuple[str, ...]:
    """Return the names of an agent and its ancestors, the agent first."""
    # Bounded, so that a cycle of parents in a damaged journal ends.
    names = [name]
    agent = reads.agent(run_id, name)
    while agent is not None and agent.parent is not None and len(names) < MAX_GENERATIONS:
        names.append(agent.parent)
        agent = reads.agent(agent.run, agent.parent)
    return tuple(names)


def root_of(reads: IdentityReads, caller: Caller) -> str:
    """Return the full name of the caller's topmost ancestor."""
    return f"{caller.run.run_id}/{lineage_of(reads, caller)[-1]}"


def find_agent(reads: IdentityReads, caller: Caller, name: str, field: str = "as") -> Agent:
    """Return the agent that a caller means by `<name>` or `<run>/<name>`: itself or a descendant; for an admin, any.

    A bare name means an agent of the caller's run; if there is none, the only one of the project.
    """
    run_id, _, bare = name.rpartition("/")
    agent: Agent | None = None
    if run_id in ("", caller.run.run_id):
        agent = reads.agent(caller.run.run_id, bare)
    elif caller.role == ADMIN and is_ulid(run_id):
        agent = reads.agent(run_id, bare)
    if agent is None and caller.role == ADMIN and not run_id:
        agent = only_agent([named for named in reads.agents_named(bare) if not is_person(reads, named)], bare, field)
    # decision 120: nobody acts as a person or gets a person's token by naming it like an agent
    if agent is None or is_person(reads, agent):
        raise _not_found(reads, caller, name, field)
    if caller.role != ADMIN:
        check_descends(reads, caller, agent.name, field)
    if agent.removed:
        raise removed_agent(agent, field)
    return agent


def is_person(reads: IdentityReads, agent: Agent) -> bool:
    """True if an agent's record stands for a person who works over a server."""
    run = reads.run(agent.run)
    return run is not None and run.session == PEOPLE


def removed_agent(agent: Agent, field: str | None) -> AgentRemoved:
    """Return the refusal of an agent that was removed."""
    return AgentRemoved(
        f"'{agent.name}' was removed from its run.", field=field, hint="A parent or an admin adds another: `agent.add`."
    )


def only_agent(agents: list[Agent], name: str, field: str) -> Agent | None:
    """Return the agent of a name that is not in the caller's run; refuse a name that several agents have."""
    if len(agents) > 1:
        newest = [agent.full_name for agent in reversed(agents)][:MAX_AMBIGUOUS]
        more = f" and {len(agents) - len(newest)} more" if len(agents) > len(newest) else ""
        raise AgentAmbiguous(
            f"{len(agents)} agents of the project are called '{name}', none of them in this run: "
            f"{', '.join(newest)}{more}.",
            field=field,
            used=len(agents),
            limit=1,
            hint="Write the full name, `<run>/<name>`.",
        )
    return agents[0] if agents else None


def _not_found(reads: IdentityReads, caller: Caller, name: str, field: str) -> AgentNotFound:
    """Return the refusal of an unknown name, with similar names of agents that the caller may name."""
    agents = reads.agents(caller.run.run_id)
    if caller.role == ADMIN:
        agents = [*agents, *reads.newest_agents(limit=MAX_NAMES_COMPARED)]
    else:
        agents = [agent for agent in agents if descends(reads, caller, agent.name)]
    similar = similar_names(name.rpartition("/")[2][:MAX_NAME_CHARS], (agent.name for agent in agents))
    where = "project" if caller.role == ADMIN else "run"
    otherwise = "`agent.list` lists the agents of a run."
    if field == "as" and caller.role != ADMIN:
        otherwise = "Leave `as` out to act in your own name; otherwise it names one of your descendants."
    return AgentNotFound(
        f"There is no agent '{name[:MAX_QUOTED_NAME]}' in this {where}.",
        field=field,
        hint=f"Did you mean {' or '.join(similar)}?" if similar else otherwise,
    )


def check_descends(reads: IdentityReads, ancestor: Caller, name: str, field: str = "as") -> Agent:
    """Return the agent `name` of the caller's run if it is the caller or one of its descendants."""
    agent = reads.agent(ancestor.run.run_id, name)
    if agent is None:
        raise AgentNotFound(f"There is no agent '{name[:MAX_NAME_CHARS]}' in this run.", field=field)
    if ancestor.role == ADMIN or descends(reads, ancestor, name):
        return agent
    raise NotYourDescendant(f"'{agent.name}' is not a descendant of '{ancestor.name}'.", field=field)


def descends(reads: IdentityReads, ancestor: Caller, name: str) -> bool:
    """True if the agent `name` of the caller's run is the caller or one of its descendants."""
    current = reads.agent(ancestor.run.run_id, name)
    for _ in range(MAX_GENERATIONS):
        if current is None or current.name == ancestor.name:
            return current is not None
        current = reads.agent(current.run, current.parent) if current.parent else None
    return False
