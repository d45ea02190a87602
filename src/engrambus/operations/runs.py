"""Runs and their agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

import engrambus.policy as policy
from engrambus.core import print_time
from engrambus.gateway.caller import begun_run
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, PEOPLE, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.gateway.tallies import has_worked
from engrambus.operations.tokens import AgentAnswer, NewToken, answer_with_token
from engrambus.policy import MAX_SESSION_TURNS, Agent, AgentDismissed, LeadRole, Role, Run, RunClosed, RunOpened

_NO_TOOL = {"mcp": "runs and agents are managed by the orchestrator"}

MAX_RUNS = 50
NEWEST_ENGRAMS = 20

Goal = Annotated[str, Meta(min_length=1, max_length=500, description="The goal of the run")]
Session = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_.-]{1,64}$",
        description="Id of a coding agent's session; asking again returns the same run",
    ),
]


class OpenRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    goal: Goal
    session: Session | None = None


class RunAnswer(Struct, frozen=True, kw_only=True):
    run_id: str


@operation(
    "run.open",
    roles=PEOPLE,
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
    prose=("goal",),
)
def open_run(context: Context, request: OpenRun) -> RunAnswer:
    """Start a run, a piece of work with a goal, and make it the current one.

    The run of a coding agent's session is never the current one.
    """

    def decide(view: View) -> tuple[list[RunOpened], RunAnswer]:
        facts, run_id = policy.open_run(
            view,
            caller=context.caller,
            goal=request.goal,
            session=request.session,
            randomness=context.randomness,
        )
        return facts, RunAnswer(run_id=run_id)

    return context.commit(decide, RunAnswer, in_run=False)


class EndRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: Annotated[str, Meta(max_length=26, description="The run's id")]


@operation(
    "run.end",
    roles=PEOPLE,
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
    """End a run: its agents can no longer do anything, and their tokens, grants and streams end."""

    def decide(view: View) -> tuple[list[RunClosed], RunAnswer]:
        run = begun_run(view, request.run_id)
        run_id = request.run_id if run is None else run.run_id
        return policy.end_run(view, caller=context.caller, run_id=run_id), RunAnswer(run_id=run_id)

    return context.commit(decide, RunAnswer, in_run=False)


class ListRuns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class RunRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    run_id: str
    goal: str
    opened_at: str
    ended: bool
    current: bool
    """True if callers that name no run work in this one."""
    shown: bool = False
    """True if the page shows it while no run is chosen: the current run, or one that has ended since it was busy."""
    session: bool = False
    """True if it belongs to a coding agent's session; such a run is never the current one."""
    lead: str | None = None
    """The session's lead."""


class RunsAnswer(Struct, frozen=True, kw_only=True):
    runs: list[RunRow]
    """Newest first."""


@operation(
    "run.list",
    roles=PEOPLE,
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
    """List the newest runs, those of coding agents' sessions with their lead."""
    view = context.view
    current = view.current_run()
    shown = _latest_run(view, current)
    # Listed apart, so that many sessions do not push out the runs that people opened.
    runs = [*view.runs(limit=MAX_RUNS), *view.runs(limit=MAX_RUNS, of_sessions=True)]
    return RunsAnswer(
        runs=[
            RunRow(
                run_id=run.run_id,
                goal=run.goal,
                opened_at=print_time(run.opened_us),
                ended=run.ended,
                current=run == current,
                shown=run == shown,
                session=run.session is not None,
                lead=_lead_of(view, run),
            )
            for run in sorted(runs, key=lambda run: run.number, reverse=True)
            if run.session != policy.PEOPLE
        ]
    )


def _latest_run(view: View, current: Run | None) -> Run | None:
    """Return the run in which a person's team worked last: the current one, or a later one that has ended."""
    # decision 80: the demo's run has ended when its reader opens the page
    newest = next(iter(view.runs(limit=1)), None)
    if current is None or newest is None or not newest.ended or newest.number < current.number:
        return current
    is_busy = has_worked(view, current.run_id, newest.opened_us) or _has_put(view, current, newest.opened_us)
    return current if is_busy else newest


def _has_put(view: View, run: Run, since_us: int) -> bool:
    """True if one of the newest engrams was put in a run after a moment; figures are counted by the minute."""
    spaces = (policy.space_of("run", run), policy.PROJECT_SPACE)
    newest = view.engrams(view.newest(spaces, kind=None, limit=NEWEST_ENGRAMS, older_than=None))
    since = print_time(since_us)
    return any(
        engram.provenance.created_by.startswith(f"{run.run_id}/") and engram.provenance.created_at > since
        for engram in newest
    )


def _lead_of(view: View, run: Run) -> str | None:
    agents = view.agents(run.run_id) if run.session is not None else []
    return agents[0].name if agents else None


ClientId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_.-]{1,64}$",
        description="The id its client knows it by; asking again returns the same agent",
    ),
]
SessionTurns = Annotated[
    int,
    Meta(
        ge=1,
        le=MAX_SESSION_TURNS,
        description="How many turns' worth it may read in one turn, 1 to 16; more than 1 is for an admin to give",
    ),
]


class AddAgent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str | None, Meta(description="Its name, unique in the run; by default two words, as amber-fox")] = (
        None
    )
    role: Annotated[Role, Meta(description="Its role, which must rank below its parent's; tool is for an admin")] = (
        "programmer"
    )
    parent: Annotated[str | None, Meta(description="Its parent, whose run it joins; you by default")] = None
    client_id: ClientId | None = None
    session_turns: SessionTurns = 1


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
        override="people:with_token",
    ),
    absent_from=_NO_TOOL,
    agent_fields=("parent",),
    prose=("name",),
)
def add_agent(context: Context, request: AddAgent) -> AgentAnswer:
    """Add an agent to the run and print its token.

    Agents form a tree: a parent hands out work and budgets to its children, and gets their reports.
    """

    def decide(view: View) -> tuple[list[Any], NewToken]:
        added, agent = policy.add_agent(
            view,
            caller=context.caller,
            name=request.name,
            role=request.role,
            parent=request.parent,
            client_id=request.client_id,
            session_turns=request.session_turns,
            randomness=context.randomness,
            policy=context.policy,
            limits=context.limits,
        )
        return _with_token(context, view, added, agent)

    return answer_with_token(context, context.commit(decide, NewToken))


class AddLead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    goal: Goal
    session: Session | None = None
    role: Annotated[
        LeadRole | None, Meta(description="Its role; by default the policy's `lead_role`, which it may not exceed")
    ] = None
    session_turns: SessionTurns = 1


@operation(
    "lead.add",
    roles=PEOPLE,
    writes=True,
    route=Route("POST", "/lead"),
    absent_from={**_NO_TOOL, "cli": "`engrambus mcp` and `engrambus hook` add it for their session"},
)
def add_lead(context: Context, request: AddLead) -> AgentAnswer:
    """Add the lead of a coding agent's session, in a run of its own, which is never the current one.

    It gets a name of two words. With a `session`, asking again returns the same lead and token: hooks find the
    lead of their session that way. If the caller chose a run, the lead joins that run and none is opened.
    """

    def decide(view: View) -> tuple[list[Any], NewToken]:
        added, lead = policy.add_lead(
            view,
            caller=context.caller,
            chosen_run=context.run_seen,
            goal=request.goal,
            session=request.session,
            role=request.role,
            highest_role=view.policy().lead_role,
            session_turns=request.session_turns,
            randomness=context.randomness,
        )
        return _with_token(context, view, added, lead)

    return answer_with_token(context, context.commit(decide, NewToken, in_run=context.run_seen is not None))


class RemoveAgent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="The agent's name")]


class RemovedAnswer(Struct, frozen=True, kw_only=True):
    run_id: str
    removed: list[str]
    """The agent and its descendants."""


@operation(
    "agent.remove",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/agent/{name}/remove"),
    command=Command(
        "agent remove",
        section="team",
        example="engrambus agent remove coder-1",
        renderer="team:agents_removed",
        rank=26,
        arguments=("name",),
    ),
    absent_from=_NO_TOOL,
    agent_fields=("name",),
)
def remove_agent(context: Context, request: RemoveAgent) -> RemovedAnswer:
    """Remove an agent and its descendants: their tokens, grants, sessions and streams end at once.

    What they have put, sent and read stays. Their names are not used again.
    """

    def decide(view: View) -> tuple[list[AgentDismissed], RemovedAnswer]:
        facts = policy.remove_agent(view, caller=context.caller, name=request.name)
        return facts, RemovedAnswer(run_id=context.caller.run.run_id, removed=[fact.name for fact in facts])

    return context.commit(decide, RemovedAnswer, in_run=False)


class ListAgents(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class AgentRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    agent_id: str
    role: str
    parent: str | None = None
    session_turns: int = 1
    """How many turns' worth it may read in one turn."""


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
        AgentRow(agent_id=agent.name, role=agent.role, parent=agent.parent, session_turns=agent.session_turns)
        for agent in context.view.agents(run.run_id)
    ]
    return AgentsAnswer(run_id=run.run_id, goal=run.goal, agents=rows)


def _with_token(context: Context, view: View, added: Sequence[Any], agent: Agent) -> tuple[list[Any], NewToken]:
    """Return the facts of an agent that was added or found again with those of its token."""
    lifetime, caller = view.policy().token_lifetime, context.caller
    if not added:
        issued_facts, issued = policy.token_of_known_agent(
            view, caller=caller, agent=agent, lifetime=lifetime, randomness=context.randomness
        )
        return [*issued_facts], NewToken(agent=agent, issued=issued)
    issued = policy.first_token(view, caller=caller, agent=agent, lifetime=lifetime, randomness=context.randomness)
    return [*added, issued], NewToken(agent=agent, issued=issued)
