"""Whom an agent may write to: its parent, its descendants and, from one lead to another, the leads of the project.

decision 58: a lead is an agent that no other agent has added. Two sessions in two terminals have no common parent, so
their leads write to each other.
"""

from __future__ import annotations

from typing import NamedTuple

from engrambus.errors import AgentNotFound, FieldValue, NotYourPeer, RunEnded
from engrambus.policy.identity import (
    ADMIN,
    MAX_NAME_CHARS,
    MAX_NAMES_COMPARED,
    MAX_QUOTED_NAME,
    Agent,
    Caller,
    IdentityReads,
    descends,
    find_agent,
    only_agent,
    parent_of,
    removed_agent,
)
from engrambus.policy.names import similar_names

MAX_LISTED_LEADS = 8


class Receiver(NamedTuple):
    """The agent, or the person, that a message is for."""

    run: str
    name: str
    is_parent: bool = False
    """True if it is the sender's parent, to which the sender reports."""


def find_receiver(reads: IdentityReads, caller: Caller, name: str | None, field: str = "to") -> Receiver:
    """Return whom the caller means by a name; its parent if it names none. Refuse whom it may not write to."""
    own_run = caller.run.run_id
    parent = parent_of(reads, caller)
    if name is None:
        return Receiver(own_run, parent, is_parent=True)
    run_id, _, bare = name.rpartition("/")
    if caller.role == ADMIN:
        agent = find_agent(reads, caller, name, field)
        return _of_open_run(reads, agent, field)
    if run_id in ("", own_run):
        if bare == caller.name:
            raise FieldValue("An agent does not write to itself.", field=field, hint=_whom(reads, caller))
        if bare == parent:
            return Receiver(own_run, parent, is_parent=True)
        below = reads.agent(own_run, bare)
        if below is not None and descends(reads, caller, bare):
            return _of_open_run(reads, below, field)
    if parent != ADMIN:
        # The same for every other name, so that it does not tell which agents there are.
        raise NotYourPeer(
            f"'{caller.name}' writes to its parent '{parent}' and to its own descendants.",
            field=field,
            hint=f"Leave `to` out to report to '{parent}', which can write to other leads.",
        )
    return _of_open_run(reads, _find_lead(reads, caller, run_id, bare, field), field)


def open_leads(reads: IdentityReads, caller: Caller) -> list[Agent]:
    """Return the other leads of runs that have not ended, newest first."""
    newest = reads.newest_agents(limit=MAX_NAMES_COMPARED)
    return [agent for agent in newest if _is_lead(agent) and _is_open(reads, agent) and not _is(agent, caller)]


def _find_lead(reads: IdentityReads, caller: Caller, run_id: str, bare: str, field: str) -> Agent:
    named = [agent for agent in reads.agents_named(bare) if _is_lead(agent) and not _is(agent, caller)]
    named = [agent for agent in named if agent.run == run_id or not run_id]
    in_own_run = [agent for agent in named if agent.run == caller.run.run_id]
    still_open = [agent for agent in named if _is_open(reads, agent) and not agent.removed]
    lead = in_own_run[0] if in_own_run else only_agent(still_open or named[-1:], bare, field)
    if lead is not None:
        return lead
    similar = similar_names(bare[:MAX_NAME_CHARS], (agent.name for agent in open_leads(reads, caller)))
    raise AgentNotFound(
        f"There is no lead '{bare[:MAX_QUOTED_NAME]}' in this project.",
        field=field,
        hint=f"Did you mean {' or '.join(similar)}?" if similar else _whom(reads, caller),
    )


def _of_open_run(reads: IdentityReads, agent: Agent, field: str) -> Receiver:
    if agent.removed:
        raise removed_agent(agent, field)
    if not _is_open(reads, agent):
        raise RunEnded(
            f"The run of '{agent.name}' has ended, so nobody reads its mail.",
            field=field,
            hint="`run.list` lists the runs that go on.",
        )
    return Receiver(agent.run, agent.name)


def _whom(reads: IdentityReads, caller: Caller) -> str:
    """Return the hint that lists whom a lead can write to."""
    leads = open_leads(reads, caller)
    if not leads:
        return "There is no other lead at the moment. Leave `to` out to report to the person at the machine."
    more = f" and {len(leads) - MAX_LISTED_LEADS} more" if len(leads) > MAX_LISTED_LEADS else ""
    return f"Leads you can write to: {', '.join(agent.name for agent in leads[:MAX_LISTED_LEADS])}{more}."


def _is(agent: Agent, caller: Caller) -> bool:
    return (agent.run, agent.name) == (caller.run.run_id, caller.name)


def _is_lead(agent: Agent) -> bool:
    return agent.parent is None


def _is_open(reads: IdentityReads, agent: Agent) -> bool:
    run = reads.run(agent.run)
    return run is not None and not run.ended
