"""The rules that open and end a run and add agents to it."""

from __future__ import annotations

from engrambus.core import SECOND_US, Randomness, new_ulid
from engrambus.errors import AgentExists, RoleForbidden, RunNotFound, TooManyAgents
from engrambus.policy.facts import AgentAdded, AgentDismissed, RunClosed, RunOpened
from engrambus.policy.identity import (
    ADMIN,
    PEOPLE,
    Agent,
    Caller,
    IdentityReads,
    IdentityView,
    check_descends,
    check_name,
    lineage_of,
    removed_agent,
    with_article,
)
from engrambus.policy.limits import LimitChecks
from engrambus.policy.names import generate_name
from engrambus.policy.project_policy import Policy
from engrambus.policy.token_rules import check_alive, with_descendants

MAX_SESSION_TURNS = 16
WINDOW_US = 60 * SECOND_US
_RANK = {"admin": 5, "architect": 4, "director": 3, "manager": 2, "programmer": 1, "tool": 0}


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
    if run is None or run.session == PEOPLE:
        raise RunNotFound(field="run_id")
    return [] if run.ended else [RunClosed(run=run.run_id, by=caller.full_name)]


def remove_agent(view: IdentityView, *, caller: Caller, name: str) -> list[AgentDismissed]:
    """Remove an agent and its descendants from their run; an ancestor may, or the admin."""
    agent = check_descends(view, caller, name, "name")
    if caller.role != ADMIN and agent.name == caller.name:
        raise RoleForbidden("An agent does not remove itself.", field="name", hint="Its parent or an admin does.")
    if agent.removed:
        raise removed_agent(agent, "name")
    return [AgentDismissed(run=agent.run, name=below, by=caller.full_name) for below in with_descendants(view, agent)]


def add_agent(
    view: IdentityView,
    *,
    caller: Caller,
    name: str | None,
    role: str,
    parent: str | None,
    client_id: str | None = None,
    session_turns: int = 1,
    randomness: Randomness,
    policy: Policy,
    limits: LimitChecks,
) -> tuple[list[AgentAdded], Agent]:
    """Add an agent to the caller's run, as a child of `parent` or else of the caller.

    Without a name it gets one of two words that no agent of the project ever had. A `client_id` that the run knows
    returns that agent and adds none: a hook is a new process each time and finds its agents again by it.
    """
    previous = view.agent_of_client(caller.run.run_id, client_id) if client_id else None
    if previous is not None:
        check_descends(view, caller, previous.name, "client_id")
        return [], check_alive(view, previous.run, previous.name, "client_id")
    _check_only_admin_gives(caller, role, session_turns)
    parent_name = parent or (None if caller.role == ADMIN else caller.name)
    parent_agent = check_descends(view, caller, parent_name, "parent") if parent_name else None
    if parent_agent is not None and parent_agent.removed:
        raise removed_agent(parent_agent, "parent")
    check_below(role, parent_agent.role if parent_agent else ADMIN)
    if name is None:
        name = _unused_name(view, randomness)
    check_name(name)
    _check_not_a_person(view, name)
    namesake = view.agent(caller.run.run_id, name)
    if namesake is not None:
        get_token = f"Get another token: engrambus agent token {name}."
        raise AgentExists(
            f"'{name}' was in this run and was removed." if namesake.removed else f"'{name}' is already in this run.",
            field="name",
            # decision 69: names are never used again, so that what a name has said stays one agent's
            hint="Choose another name, or leave it out." if namesake.removed else get_token,
        )
    if parent_name is not None and caller.role != ADMIN:
        _check_added(view, caller, policy, limits)
    return _added(
        caller,
        Agent(
            run=caller.run.run_id,
            name=name,
            role=role,
            parent=parent_name,
            client_id=client_id,
            session_turns=session_turns,
        ),
    )


def _check_not_a_person(view: IdentityReads, name: str) -> None:
    people = view.run_of_session(PEOPLE)
    if people is not None and view.agent(people.run_id, name) is not None:
        raise AgentExists(f"'{name}' is the name of a person.", field="name", hint="Choose another, or leave it out.")


def _check_added(view: IdentityView, caller: Caller, policy: Policy, limits: LimitChecks) -> None:
    """Report one agent too many of the caller's lineage: each has rates, streams, sessions and threads of its own."""
    # decision 74: by lineage, since children that add children would multiply what one agent may add
    root = lineage_of(view, caller)[-1]
    below = view.agents_below(caller.run.run_id, root, view.as_of - WINDOW_US)
    who = f"'{root}' with all its descendants"
    if below.total >= policy.agents_per_lead:
        limits.exceeded(
            "added_agents",
            TooManyAgents(
                f"{who} may add {policy.agents_per_lead} agents in a run.",
                field="agents_per_lead",
                limit=policy.agents_per_lead,
                used=below.total,
                hint="Give the work to agents that are there; a new run begins anew.",
            ),
        )
    elif len(below.recent_us) >= policy.agents_per_minute:
        oldest = below.recent_us[-policy.agents_per_minute] if policy.agents_per_minute > 0 else view.as_of
        seconds = max(1, -(-(oldest + WINDOW_US - view.as_of) // SECOND_US))
        limits.exceeded(
            "added_agents",
            TooManyAgents(
                f"{who} may add {policy.agents_per_minute} agents in 60 seconds.",
                field="agents_per_minute",
                limit=policy.agents_per_minute,
                used=len(below.recent_us),
                hint=f"Try again in {seconds} s.",
            ),
        )


def add_lead(
    view: IdentityView,
    *,
    caller: Caller,
    chosen_run: str | None,
    goal: str,
    session: str | None,
    role: str | None,
    highest_role: str,
    session_turns: int,
    randomness: Randomness,
) -> tuple[list[RunOpened | AgentAdded], Agent]:
    """Add the lead of a client session, in a run of its own or in the one that was chosen; return it.

    A session that already has a lead gets that one. Its role is the policy's `highest_role` or a lower one.
    """
    role = role or highest_role
    if _RANK[role] > _RANK[highest_role]:
        raise RoleForbidden(
            f"The policy lets a lead be {highest_role} at most.",
            field="role",
            limit=highest_role,
            used=role,
            hint="An admin raises `lead_role` in .catalog/policy.yaml and runs `engrambus policy apply`.",
        )
    own = view.run_of_session(session) if session and chosen_run is None else None
    run_id = chosen_run or (own.run_id if own is not None and not own.ended else None)
    lead = view.agent_of_client(run_id, session) if run_id and session else None
    if lead is not None:
        return [], check_alive(view, lead.run, lead.name, "session")
    facts: list[RunOpened | AgentAdded] = []
    if run_id is None:
        run_id = new_ulid(view.as_of, randomness)
        # decision 43: a run with a session is never the current one, so a session never moves anybody's work
        facts.append(RunOpened(run=run_id, goal=goal, by=caller.full_name, session=session or run_id))
    name = _unused_name(view, randomness)
    added, lead = _added(
        caller, Agent(run=run_id, name=name, role=role, client_id=session, session_turns=session_turns)
    )
    return [*facts, *added], lead


def _added(caller: Caller, agent: Agent) -> tuple[list[AgentAdded], Agent]:
    fact = AgentAdded(
        run=agent.run,
        name=agent.name,
        role=agent.role,
        by=caller.full_name,
        parent=agent.parent,
        client_id=agent.client_id,
        session_turns=agent.session_turns,
    )
    return [fact], agent


def _unused_name(view: IdentityReads, randomness: Randomness) -> str:
    return generate_name(lambda name: bool(view.agents_named(name)), randomness)


def _check_only_admin_gives(caller: Caller, role: str, session_turns: int) -> None:
    """Refuse a tool, or more than one turn's worth per turn, from anybody but an admin."""
    if caller.role == ADMIN:
        return
    if role == "tool":
        raise RoleForbidden(
            "Only an admin adds an agent with the role tool.",
            field="role",
            hint="A tool may delete engrams. Ask the person at the machine, or add a programmer.",
        )
    if session_turns > 1:
        raise RoleForbidden(
            "Only an admin gives an agent more than one turn's worth per turn.", field="session_turns", limit=1
        )


def check_below(role: str, parent_role: str, field: str = "role") -> None:
    """Refuse a child whose role does not rank below its parent's; a tool has no children."""
    if role == ADMIN:
        raise RoleForbidden("There is only one admin, the person at the machine.", field=field)
    if parent_role == "tool" or _RANK[role] >= _RANK[parent_role]:
        raise RoleForbidden(
            f"{with_article(role).capitalize()} cannot be the child of {with_article(parent_role)}.",
            field=field,
            limit=parent_role,
        )
