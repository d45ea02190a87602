"""The clients people use, as their vendors ship them, with a model that follows a script."""  # BX-05

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import pytest

from engrambus.edges.mcp.tools import tool_operations
from tests.cli.runner import COMMAND
from tests.integrations.live.model import Answer, Call, Model, ModelRequest, Script
from tests.integrations.live.place import Place
from tests.integrations.live.programs import ROOT, Leader

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

EVERY = ["claude-code", "codex", "gemini"]
WITH_TEAMS = EVERY[:2]
"""Those that tell us of their sub-agents."""

GOAL = "Find out what the first lines of the parser hold."
TASK = "Look at src/parser.py for the lead."
KNOWN = "The parser trusts its input."
CLAIM = "The first two lines of the parser are its head."
REPORT = "Done: one engram about lines 1 to 2."
LONG = "The parser reads each line, looks at its head and goes on with the next one, as far as I can see. " * 60
END = "That is all."


def keep(request: ModelRequest) -> Call:
    """Put what was learnt on the bus, in the name that the model was told is its own."""
    learnt = {"claim": CLAIM, "at": ["src/parser.py:1-2"]}
    return Call(request.tool("less_put_engram"), {**learnt, "as": request.handle})


def alone(request: ModelRequest) -> Answer:
    """One agent that keeps what it learns."""
    return END if request.results else keep(request)


def team(program: Leader) -> Script:
    """A lead that lets a scout look, who keeps what it learns and says far too much, the first time."""

    def script(request: ModelRequest) -> Answer:
        if GOAL in request.prompt:
            return program.delegate(request, TASK) or END
        if not request.results:
            return keep(request)
        return REPORT if request.messages else LONG

    return script


class Day(NamedTuple):
    """A project in which a client has worked."""

    place: Place
    model: Model

    @property
    def lead(self) -> list[ModelRequest]:
        """What the session's own agent was asked."""
        return [request for request in self.model.asked if GOAL in request.prompt]

    @property
    def scout(self) -> list[ModelRequest]:
        """What its sub-agent was asked."""
        return [request for request in self.model.asked if GOAL not in request.prompt]


@pytest.fixture(scope="module")
def day(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Day:
    """A client that was told of us has worked in a project about which something is known."""
    place = make_place(request.param)
    place.install()
    with place.bus() as bus:
        bus.put_engram(KNOWN, at=["src/parser.py:3-4"], kind="constraint")
    program = place.program
    return Day(place, place.session(GOAL, team(program) if isinstance(program, Leader) else alone))


of_every = pytest.mark.parametrize("day", EVERY, indirect=True, scope="module")
of_teams = pytest.mark.parametrize("day", WITH_TEAMS, indirect=True, scope="module")


@of_every
def test_the_model_receives_its_handle_and_the_brief(day: Day) -> None:
    first = day.lead[0]
    run, _, name = first.handle.partition("/")
    assert name.startswith("main-")
    assert KNOWN in first.prompt
    with day.place.bus() as bus:
        agents = bus.list_agents()
    assert (agents.run_id, [row.agent_id for row in agents.agents if row.parent is None]) == (run, [name])


@of_every
def test_the_model_is_given_all_our_tools_and_the_skill(day: Day) -> None:
    first = day.lead[0]
    assert first.ours == set(tool_operations())
    assert "find what they know, through small claims anchored to pointers" in first.body


@of_teams
def test_a_sub_agent_has_a_handle_and_a_brief_of_its_own(day: Day) -> None:
    main, scout = day.lead[0].handle.partition("/"), day.scout[0].handle.partition("/")
    assert scout[0] == main[0]
    assert KNOWN in day.scout[0].prompt
    with day.place.bus() as bus:
        rows = {row.agent_id: row.parent for row in bus.list_agents().agents}
    assert rows == {main[2]: None, scout[2]: main[2]}


@of_every
def test_a_sub_agents_engram_names_it_as_the_author(day: Day) -> None:
    author = (day.scout or day.lead)[0].handle
    with day.place.bus() as bus:
        (matches,) = [row for row in bus.query_engrams("head of the parser").engrams if row.claim == CLAIM]
    assert matches.provenance.created_by == author
    assert matches.pointers[0].ref == f"repo:src/parser.py#L1-L2@{day.place.repository.sha}"
    answer = json.loads(day.place.ok(COMMAND, "query", "head of the parser", "--json").out)
    assert [row["provenance"]["created_by"] for row in answer["engrams"] if row["claim"] == CLAIM] == [author]


@of_teams
def test_an_answer_far_too_long_is_sent_back_once_with_the_reason(day: Day) -> None:
    unchanged, long, short = day.scout
    assert (unchanged.messages, long.messages) == ((), ())
    assert [text.strip() for text in short.messages] == [LONG.strip()]
    assert "BUDGET_EXCEEDED" not in long.prompt
    assert "BUDGET_EXCEEDED: The message is larger than its budget" in short.prompt
    heard = day.lead[-1].body  # as a result, or as a message once a sub-agent in the background is done
    assert REPORT in heard
    assert LONG[:100] not in heard


@of_every
def test_no_connection_went_beyond_loopback(day: Day) -> None:
    assert day.model.outside == []


@pytest.mark.parametrize("place", WITH_TEAMS, indirect=True)
def test_a_spawn_is_denied_once_the_teams_budget_is_used_up(place: Place) -> None:
    program = place.program
    assert isinstance(program, Leader)
    place.install()
    with place.bus() as bus:
        bus.apply_policy({"deref": {"tokens": 1200, "team_turns": 0}})
    pointer = f"repo:src/parser.py#L1-L9@{place.repository.sha}"

    def script(request: ModelRequest) -> Answer:
        match len(request.results):
            case 0:
                return Call(request.tool("less_deref_pointer"), {"pointer": pointer, "as": request.handle})
            case 1:
                return program.delegate(request._replace(results=()), TASK) or END
            case _:
                return END

    request = place.session(GOAL, script).asked
    assert all(GOAL in item.prompt for item in request), "a sub-agent was started"
    read, denied = request[-1].results
    assert "team.tokens" in read
    assert "The team's budget is used up: its 1 agents have read " in denied
    with place.bus() as bus:
        assert len(bus.list_agents().agents) == 1


@pytest.mark.parametrize("place", EVERY, indirect=True)
def test_a_client_lists_the_server_until_it_is_uninstalled(place: Place) -> None:
    original = place.files()
    place.install()
    listed = place.listed()
    assert listed is not None
    assert place.program.lively in listed
    place.ok(COMMAND, "uninstall", place.program.name)
    assert place.files() == original
    assert place.listed() is None


@pytest.mark.parametrize("place", ["claude-code"], indirect=True)
@pytest.mark.parametrize("folder", ["", "plugin"])
def test_claude_code_accepts_the_marketplace_and_the_plugin(place: Place, folder: str) -> None:
    assert "Validation passed" in place.client("plugin", "validate", "--strict", str(ROOT / folder))
