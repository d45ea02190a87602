"""Runs and agents."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from engrambus.core import new_ulid, parse_duration, print_time
from engrambus.errors import AgentExists, AgentNotFound, RunNotFound
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, PARENTS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.policy import (
    ADMIN,
    Agent,
    AgentAdded,
    Claims,
    Role,
    RunEnded,
    RunOpened,
    check_below,
    check_descends,
    check_name,
)

_NO_TOOL = {"mcp": "runs and agents are for whoever orchestrates"}

MAX_RUNS = 50

Goal = Annotated[str, Meta(min_length=1, max_length=500, description="What the run is for")]


class OpenRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    goal: Goal
    session: (
        Annotated[
            str,
            Meta(
                pattern=r"^[A-Za-z0-9_.-]{1,64}$",
                description="Id of a coding agent's session; asking again returns the same run",
            ),
        ]
        | None
    ) = None


class RunAnswer(Struct, frozen=True, kw_only=True):
    run_id: str


@operation(
    "run.open",
    roles=ADMINS,
    writes=True,
    route=Route("POST", "/run"),
    command=Command(
        "run new",
        section="team",
        example='engrambus run new "Move billing to the new ledger"',
        renderer="team:run",
        rank=10,
        arguments=("goal",),
    ),
    absent_from=_NO_TOOL,
)
def open_run(context: Context, request: OpenRun) -> RunAnswer:
    """Start a run, a piece of work with a goal, and make it the current one."""

    def decide(view: View) -> tuple[list[RunOpened], RunAnswer]:
        before = view.run_of_session(request.session) if request.session else None
        if before is not None and not before.ended:
            return [], RunAnswer(run_id=before.run_id)
        run_id = new_ulid(view.as_of, context.randomness)
        by = context.caller.full_name
        opened = RunOpened(run=run_id, goal=request.goal, by=by, session=request.session)
        return [opened], RunAnswer(run_id=run_id)

    return context.commit(decide, RunAnswer, in_run=False)


class EndRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: Annotated[str, Meta(max_length=26, description="The run's id")]


@operation(
    "run.end",
    roles=ADMINS,
    writes=True,
    route=Route("POST", "/run/{run_id}/end"),
    command=Command(
        "run end",
        section="team",
        example="engrambus run end 01K7Z3V5QX0000000000000000",
        renderer="team:run",
        rank=12,
        arguments=("run_id",),
    ),
    absent_from=_NO_TOOL,
)
def end_run(context: Context, request: EndRun) -> RunAnswer:
    """End a run: its agents can still read, but no longer write."""

    def decide(view: View) -> tuple[list[RunEnded], RunAnswer]:
        run = view.run(request.run_id)
        if run is None:
            raise RunNotFound(field="run_id")
        facts = [] if run.ended else [RunEnded(run=run.run_id, by=context.caller.full_name)]
        return facts, RunAnswer(run_id=run.run_id)

    return context.commit(decide, RunAnswer, in_run=False)


class ListRuns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class RunRow(Struct, frozen=True, kw_only=True):
    run_id: str
    goal: str
    opened_at: str
    ended: bool
    current: bool
    """Whether those who name no run work in it."""


class RunsAnswer(Struct, frozen=True, kw_only=True):
    runs: list[RunRow]
    """Newest first."""


@operation(
    "run.list",
    roles=ADMINS,
    route=Route("GET", "/run"),
    command=Command(
        "run list",
        section="team",
        example="engrambus run list",
        renderer="team:run_list",
        rank=14,
    ),
    absent_from=_NO_TOOL,
)
def list_runs(context: Context, request: ListRuns) -> RunsAnswer:
    """List the newest runs."""
    current = context.view.current_run()
    return RunsAnswer(
        runs=[
            RunRow(
                run_id=run.run_id,
                goal=run.goal,
                opened_at=print_time(run.opened_at),
                ended=run.ended,
                current=run == current,
            )
            for run in context.view.runs(limit=MAX_RUNS)
        ]
    )


class AddAgent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="Its name, unique in the run")]
    role: Annotated[Role, Meta(description="Its role, which must rank below its parent's")] = "programmer"
    parent: Annotated[str | None, Meta(description="Its parent, an agent of the same run; you by default")] = None


class AgentAnswer(Struct, frozen=True, kw_only=True):
    agent_id: str
    run_id: str
    role: str
    token: str
    expires_at: str


@operation(
    "agent.add",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/agent"),
    command=Command(
        "agent add",
        section="team",
        example="engrambus agent add coder-1 --role programmer --parent lead",
        renderer="team:agent",
        rank=20,
        arguments=("name",),
    ),
    absent_from=_NO_TOOL,
)
def add_agent(context: Context, request: AddAgent) -> AgentAnswer:
    """Add an agent to the run and print its token."""
    caller = context.caller
    name = check_name(request.name)

    def decide(view: View) -> tuple[list[AgentAdded], Agent]:
        parent_name = request.parent or (None if caller.role == ADMIN else caller.name)
        parent = check_descends(view, caller, parent_name, "parent") if parent_name else None
        check_below(request.role, parent.role if parent else ADMIN)
        if view.agent(caller.run.run_id, name) is not None:
            raise AgentExists(f"'{name}' is already in this run.", field="name", hint=f"engrambus agent token {name}")
        agent = Agent(run=caller.run.run_id, name=name, role=request.role, parent=parent_name)
        fact = AgentAdded(run=agent.run, name=agent.name, role=agent.role, parent=agent.parent, by=caller.full_name)
        return [fact], agent

    return _with_token(context, context.commit(decide, Agent), None)


class AgentToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="The agent's name")]
    expires_in: Annotated[
        str | None, Meta(description="Lifetime of the token: P7D is 7 days; by default what the policy says")
    ] = None


@operation(
    "agent.token",
    roles=PARENTS,
    route=Route("POST", "/agent/{name}/token"),
    command=Command(
        "agent token",
        section="team",
        example="engrambus agent token coder-1 --expires-in P7D",
        renderer="team:agent",
        rank=22,
        arguments=("name",),
    ),
    absent_from=_NO_TOOL,
)
def agent_token(context: Context, request: AgentToken) -> AgentAnswer:
    """Print another token for an agent."""
    if request.name == ADMIN:
        raise AgentNotFound(field="name")
    agent = check_descends(context.view, context.caller, request.name, "name")
    return _with_token(context, agent, request.expires_in)


class ListAgents(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class AgentRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    agent_id: str
    role: str
    parent: str | None = None


class AgentsAnswer(Struct, frozen=True, kw_only=True):
    run_id: str
    goal: str
    agents: list[AgentRow]


@operation(
    "agent.list",
    route=Route("GET", "/agent"),
    command=Command(
        "agent list",
        section="team",
        example="engrambus agent list",
        renderer="team:agent_list",
        rank=24,
    ),
    absent_from=_NO_TOOL,
)
def list_agents(context: Context, request: ListAgents) -> AgentsAnswer:
    """List the agents of the run."""
    run = context.caller.run
    rows = [
        AgentRow(agent_id=agent.name, role=agent.role, parent=agent.parent) for agent in context.view.agents(run.run_id)
    ]
    return AgentsAnswer(run_id=run.run_id, goal=run.goal, agents=rows)


def _with_token(context: Context, agent: Agent, expires_in: str | None) -> AgentAnswer:
    lifetime = parse_duration(expires_in or context.policy.token_ttl, "expires_in")
    expires_at = context.as_of + lifetime
    claims = Claims(
        agent=agent.name,
        role=agent.role,
        parent=agent.parent,
        project=context.caller.project,
        run=agent.run,
        expires_at=expires_at,
    )
    return AgentAnswer(
        agent_id=agent.name,
        run_id=agent.run,
        role=agent.role,
        token=context.key.sign(claims),
        expires_at=print_time(expires_at),
    )
