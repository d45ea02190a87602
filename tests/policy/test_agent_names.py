"""What a name means to a caller: its run first, then the project for an admin; never more than the caller may name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.backends.memory.state import KnowledgeState, MemoryView
from engrambus.core import ProjectTime, Stamp
from engrambus.errors import AgentAmbiguous, AgentNotFound, EngramBusError, NotYourDescendant
from engrambus.policy import ADMIN, Agent, AgentAdded, Caller, RunOpened, find_agent, lineage_of
from engrambus.policy.identity import descends

RUNS = tuple(f"01KDVP9R00000000000000000{number}" for number in range(3))
NAMES = ("amber-fox", "amber-wolf", "misty-otter", "misty-oter", "lead")


@st.composite
def projects(draw: st.DrawFn) -> MemoryView:
    """Draw a project of a few runs, in which each agent is the child of an earlier one or of nobody."""
    state = KnowledgeState()
    for run in RUNS:
        state.apply(RunOpened(run=run, goal="g", by=f"{run}/admin"), 0)
        added: list[str | None] = [None]
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
            parent = draw(st.sampled_from(added))
            state.apply(AgentAdded(run=run, name=name, role="manager", by=f"{run}/admin", parent=parent), 0)
            added.append(name)
    return MemoryView(state, ProjectTime(0, 0, Stamp(0)), commits=0, journal_bytes=0)


def all_agents(view: MemoryView) -> list[Agent]:
    return [agent for run in RUNS for agent in view.agents(run)]


def caller_of(view: MemoryView, run_id: str, name: str, role: str) -> Caller:
    run = view.run(run_id)
    assert run is not None
    return Caller(project="p", run=run, name=name, role=role)


SPELLED = st.sampled_from((*NAMES, "ambr-fox", ADMIN, "")) | st.builds(
    "{}/{}".format, st.sampled_from((*RUNS, "nowhere")), st.sampled_from((*NAMES, ADMIN, ""))
)


@given(projects(), st.data())
def test_an_agent_reaches_itself_and_its_descendants_and_hears_of_no_other(
    view: MemoryView, data: st.DataObject
) -> None:
    agents = all_agents(view)
    if not agents:
        return
    me = data.draw(st.sampled_from(agents))
    caller = caller_of(view, me.run, me.name, me.role)
    mine = {agent.name for agent in view.agents(me.run) if descends(view, caller, agent.name)}
    spelled = data.draw(SPELLED)
    try:
        found = find_agent(view, caller, spelled)
    except NotYourDescendant:
        assert spelled.rpartition("/")[2] not in mine
    except AgentNotFound as refusal:
        said = (refusal.hint or "").removesuffix("?").replace(" or ", " ").split()
        assert {name for name in NAMES if name in said} <= mine
    else:
        assert found.run == me.run
        assert found.name in mine


@given(projects(), st.sampled_from(RUNS), SPELLED)
def test_an_admin_reaches_this_run_then_the_only_one_of_the_project(view: MemoryView, run: str, spelled: str) -> None:
    named_run, _, bare = spelled.rpartition("/")
    fitting = [agent for agent in all_agents(view) if agent.name == bare and named_run in ("", agent.run)]
    here = [agent for agent in fitting if agent.run == run]
    caller = caller_of(view, run, ADMIN, ADMIN)
    if here or len(fitting) == 1:
        assert find_agent(view, caller, spelled) == (here or fitting)[0]
        return
    expected: type[EngramBusError] = AgentAmbiguous if fitting else AgentNotFound
    with pytest.raises(expected) as caught:
        find_agent(view, caller, spelled)
    assert all(agent.full_name in caught.value.detail for agent in fitting)


@given(projects(), st.data())
def test_a_descendant_has_its_ancestor_in_its_lineage(view: MemoryView, data: st.DataObject) -> None:
    agents = all_agents(view)
    if not agents:
        return
    one, other = data.draw(st.sampled_from(agents)), data.draw(st.sampled_from(agents))
    caller = caller_of(view, one.run, one.name, one.role)
    lineage = lineage_of(view, caller_of(view, one.run, other.name, other.role))
    known = view.agent(one.run, other.name) is not None
    assert descends(view, caller, other.name) == (known and one.name in lineage)
