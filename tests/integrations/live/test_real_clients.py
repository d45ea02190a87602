"""The clients people use, as their vendors ship them, with a model that follows a script."""  # BX-05

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

import pytest

from engrambus.edges.mcp.tools import listed_tools
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
    """Put what was learnt on the bus; no model says who it is."""
    return Call(request.tool("less_put_engram"), {"claim": CLAIM, "at": ["src/parser.py:1-2"]})


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
def test_the_model_receives_the_brief(day: Day) -> None:
    assert KNOWN in day.lead[0].prompt


@of_teams
def test_the_model_is_told_its_name(day: Day) -> None:
    name = day.lead[0].agent_name
    with day.place.bus() as bus:
        rows = bus.speak_as(name).list_agents().agents
    assert [row.agent_id for row in rows if row.parent is None] == [name]


@of_every
def test_the_model_is_given_all_our_tools_and_the_skill(day: Day) -> None:
    first = day.lead[0]
    assert first.ours == {tool.name for tool in listed_tools(has_yools=False)}
    assert "Find what the other agents of a project know" in first.body


@of_teams
def test_a_sub_agent_has_a_name_and_a_brief_of_its_own(day: Day) -> None:
    main, scout = day.lead[0].agent_name, day.scout[0].agent_name
    assert KNOWN in day.scout[0].prompt
    with day.place.bus() as bus:
        rows = {row.agent_id: row.parent for row in bus.speak_as(main).list_agents().agents}
    assert rows == {main: None, scout: main}


@of_teams
def test_a_sub_agents_engram_names_it_as_the_author(day: Day) -> None:
    author = day.scout[0].agent_name
    with day.place.bus() as bus:
        (matches,) = [row for row in bus.query_engrams("head of the parser").engrams if row.claim == CLAIM]
    assert matches.provenance.created_by.rpartition("/")[2] == author
    assert matches.pointers[0].ref == f"repo:src/parser.py#L1-L2@{day.place.repository.sha}"
    answer = json.loads(day.place.ok(COMMAND, "query", "head of the parser", "--json").out)
    authors = [row["provenance"]["created_by"] for row in answer["engrams"] if row["claim"] == CLAIM]
    assert authors == [matches.provenance.created_by]


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
                return Call(request.tool("less_deref_pointer"), {"pointer": pointer})
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
        assert len(bus.speak_as(request[0].agent_name).list_agents().agents) == 1


@pytest.mark.parametrize("place", WITH_TEAMS, indirect=True)
def test_no_limit_is_exceeded_by_models_that_never_say_who_they_are(place: Place) -> None:  # EB-08 EB-31
    """Each agent reads four times; the sub-agent then claims to be the lead."""
    program = place.program
    assert isinstance(program, Leader)
    place.install()
    pointer = {"pointer": f"repo:src/parser.py#L1-L2@{place.repository.sha}"}

    def read(request: ModelRequest, **more: str) -> Call:
        return Call(request.tool("less_deref_pointer"), {**pointer, **more})

    def put(request: ModelRequest, claim: str, **more: str) -> Call:
        learnt = {"claim": claim, "at": ["src/parser.py:1-2"]}
        return Call(request.tool("less_put_engram"), {**learnt, **more})

    lead_name = ""

    def script(request: ModelRequest) -> Answer:
        nonlocal lead_name
        count = len(request.results)
        if GOAL not in request.prompt:
            steps = [*[read(request)] * 4, read(request, **{"as": lead_name})]
            steps += [put(request, "The scout was here."), put(request, "The lead was here.", **{"as": lead_name})]
            return steps[count] if count < len(steps) else REPORT
        lead_name = request.agent_name
        if count < 2:
            return read(request)
        if count == 2:
            return put(request, "Only the lead says this.")
        delegated = program.delegate(request._replace(results=request.results[3:]), TASK)
        if delegated is not None:
            return delegated
        done = sum("line 1 of the parser" in result or "DEREF_DENIED" in result for result in request.results)
        return read(request) if done < 4 else END

    asked = place.session(GOAL, script).asked
    lead = [request for request in asked if GOAL in request.prompt][-1]
    scout = [request for request in asked if GOAL not in request.prompt][-1]
    for results, reads in ((lead.results, 4), (scout.results, 5)):
        seen = [result for result in results if "line 1 of the parser" in result or "DEREF_DENIED" in result]
        assert ["DEREF_DENIED" in result for result in seen] == [False] * 3 + [True] * (reads - 3)
    with place.bus() as bus:
        authors = {
            engram.claim: engram.provenance.created_by.rpartition("/")[2]
            for engram in bus.query_engrams("lead scout says here", k=10).engrams
        }
    scout_name = scout.agent_name
    assert authors == {
        "Only the lead says this.": lead_name,
        "The scout was here.": scout_name,
        "The lead was here.": scout_name,
    }


@pytest.mark.parametrize("place", WITH_TEAMS, indirect=True)
def test_a_parent_reads_its_childs_message(place: Place) -> None:  # EB-16 EB-32
    """The child reports over MCP, the parent's next boundary shows a line, and the parent reads the whole by its id."""
    program = place.program
    assert isinstance(program, Leader)
    place.install()
    pointer = f"repo:src/parser.py#L1-L2@{place.repository.sha}"
    report = f'''ROLE: programmer
TASK_STATUS: done
ENGRAMS:
  - {{ kind: fact, claim: "{CLAIM}", pointers: ["{pointer}"] }}
OUTPUT:
  summary: "The head takes two lines."
  next: "Look at the tail."
'''

    def script(request: ModelRequest) -> Answer:
        if GOAL not in request.prompt:
            return REPORT if request.results else Call(request.tool("less_message"), {"text": report})
        mail = re.search(r"- (\w{13}) message from (\S+), .*: The head takes two lines\. \(1 engram\)", request.prompt)
        if mail is None:
            return program.delegate(request, TASK) or END
        if any("Look at the tail." in result for result in request.results):
            return END
        return Call(request.tool("less_inbox"), {"action": "read", "id": mail[1]})

    asked = place.session(GOAL, script).asked
    lead, scout = ([r for r in asked if (GOAL in r.prompt) is is_lead][-1] for is_lead in (True, False))
    assert f"message from {scout.agent_name}, " in lead.prompt
    (read,) = [result for result in lead.results if "Look at the tail." in result]
    assert CLAIM in read
    assert lead.prompt.count("Mail that waits for you on Engram Bus") == 1, "it is announced once"
    with place.bus() as bus:
        assert bus.speak_as(lead.agent_name).inbox(unseen=True).mail == []


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
def test_the_plugins_own_hook_names_the_caller(place: Place) -> None:  # EB-31
    """The plugin's server has another name, and so have its tools."""

    def script(request: ModelRequest) -> Answer:
        return END if request.results else keep(request)

    words = ["--plugin-dir", str(ROOT / "plugin"), "--allowedTools", "mcp__plugin_engrambus_engrambus"]
    asked = place.session(GOAL, script, *words).asked
    with place.bus() as bus:
        (matches,) = [row for row in bus.query_engrams("head of the parser").engrams if row.claim == CLAIM]
    assert matches.provenance.created_by.rpartition("/")[2] == asked[0].agent_name


@pytest.mark.parametrize("place", ["claude-code"], indirect=True)
@pytest.mark.parametrize("folder", ["", "plugin"])
def test_claude_code_accepts_the_marketplace_and_the_plugin(place: Place, folder: str) -> None:
    assert "Validation passed" in place.client("plugin", "validate", "--strict", str(ROOT / folder))
