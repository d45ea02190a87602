"""The first figure of the page counts what agents did; the page shows the run where the team worked last. # EB-26"""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from engrambus.edges.page.actions import ACTIONS
from engrambus.edges.page.session import Address, PageSession
from engrambus.edges.page.view import PageView
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.testing import ManualClock
from tests.projects import make_gateway, make_repository, make_settings

LINES = "repo:src/parser.py#L1-L2@{sha}"
COMPARED = (
    "Compared with pasting: for each agent, the content behind each pointer that a message brought to it, once, minus "
    "what that agent then read of it, at most all of it. What agents read on their own and what people read is not "
    "compared."
)


class Project:
    """A project with a manual clock, its page, and a lead with a programmer."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        repository = make_repository(folder / "repo")
        self.gateway: Gateway = make_gateway(repository.path, make_settings(folder / "home"), self.clock)
        self.sha = repository.sha
        self.lines = LINES.format(sha=repository.sha)

    def call(self, operation: str, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> Any:
        declared = OPERATIONS[operation]
        return self.gateway.call(declared, to_request(fields, declared.request), caller)

    def add_team(self) -> tuple[Credential, Credential]:
        lead = Credential(token=self.call("add_agent", name="lead", role="architect").token)
        paul = Credential(token=self.call("add_agent", lead, name="paul").token)
        return lead, paul

    def report(self, caller: Credential, role: str) -> None:
        found = {"kind": "risk", "claim": "The parser trusts its input.", "scope": "run", "ttl": "P1D"}
        engram = {**found, "pointers": [{"type": "repo", "ref": self.lines}]}
        message = {"ROLE": role, "TASK_STATUS": "done", "ENGRAMS": [engram], "OUTPUT": {"summary": "Read it."}}
        self.call("send_message", caller, text=json.dumps(message))

    def page(self, address: str = "/") -> str:
        parsed = Address.parse(address)
        return PageView(PageSession(self.gateway, LOCAL_ADMIN, parsed.params.get("run")), parsed).render()

    def first_tile(self) -> str:
        match = re.search(r'<dl class="tiles">\s*(<div.*?</div>)', self.page(), re.S)
        assert match is not None
        return match[1]

    def shown_goal(self) -> str:
        match = re.search(r"<summary[^>]*><bdi>(.*?)</bdi>", self.page())
        assert match is not None
        return match[1]


@pytest.fixture
def project(tmp_path: Path) -> Any:
    project = Project(tmp_path)
    yield project
    project.gateway.close()


def test_nothing_is_compared_before_an_agent_got_pointers(project: Project) -> None:
    assert "nothing compared yet" in project.first_tile()
    lead, paul = project.add_team()
    project.call("put_engram", paul, claim="The parser trusts its input.", at=["src/parser.py:1-2"])
    project.call("put_engram", claim="The lexer is small.", at=["src/parser.py:1"])
    project.call("deref_pointer", pointer=project.lines)
    project.report(lead, "architect")  # to a person
    tile = project.first_tile()
    assert "nothing compared yet" in tile
    assert 'class="lead"' not in tile


def test_a_person_who_looks_changes_no_figure(project: Project) -> None:
    _, paul = project.add_team()
    project.report(paul, "programmer")
    before = re.search(r'<dl class="tiles">.*?</dl>', project.page(), re.S)
    tile = project.first_tile()
    assert 'class="lead"' in tile
    assert "vs. pasting the lines" in tile
    assert COMPARED in tile
    project.call("deref_pointer", pointer=project.lines)
    project.page(f"/?pointer={project.lines}")
    after = re.search(r'<dl class="tiles">.*?</dl>', project.page(), re.S)
    assert before is not None
    assert after is not None
    assert after[0] == before[0]


def test_reading_what_it_was_pointed_at_is_subtracted_and_never_more(project: Project) -> None:
    lead, paul = project.add_team()
    project.report(paul, "programmer")
    project.call("deref_pointer", lead, pointer=f"repo:src/parser.py#L3-L30@{project.sha}")  # nobody pointed at it
    team = project.call("stats").team
    assert team.tokens_not_copied == team.pointed_tokens > 0
    assert team.deref_tokens > team.pointed_tokens
    assert f"<dd>{team.pointed_tokens}</dd>" in project.first_tile()
    for _ in range(2):
        project.call("deref_pointer", lead, pointer=project.lines)
    team = project.call("stats").team
    assert (team.tokens_not_copied, team.pointed_read_tokens) == (0, team.pointed_tokens)
    tile = project.first_tile()
    assert 'class="lead"' not in tile  # nothing was saved
    assert "vs. pasting the lines" in tile
    assert "<dd>0</dd>" in tile


def test_a_run_that_has_ended_is_shown_until_something_happens_in_the_current_one(project: Project) -> None:
    project.call("put_engram", claim="The lexer is small.", at=["src/parser.py:1"])
    project.clock.advance(seconds=90)
    run = project.call("open_run", goal="A scripted review").run_id
    _, paul = project.add_team()
    project.report(paul, "programmer")
    assert project.shown_goal() == "A scripted review"
    project.call("end_run", run_id=run)
    assert project.call("list_agents").goal == "first run"  # what a person does now is not the review's
    assert project.shown_goal() == "A scripted review"
    project.call("deref_pointer", pointer=project.lines)
    assert project.shown_goal() == "A scripted review"
    project.clock.advance(seconds=1)
    project.call("put_engram", claim="The lexer is fast.", at=["src/parser.py:1"])
    assert project.shown_goal() == "first run"


def test_reserved_files_are_listed_and_released(project: Project) -> None:  # BX-14
    lead, _ = project.add_team()
    assert "Reserved files" in project.page("/page/reserved")
    assert "Nothing is reserved" in project.page("/page/reserved")
    made = project.call("reserve", lead, paths=["src/parser.py"], reason="a < new grammar")
    page = project.page()
    assert f'id="l-{made.reservation_id}"' in page
    assert "a &lt; new grammar" in page
    session = PageSession(project.gateway, LOCAL_ADMIN)
    assert ACTIONS["release"](session, {"id": made.reservation_id}) == "Released. lead no longer has it."
    assert f'id="l-{made.reservation_id}"' not in project.page()


def test_help_and_manual_say_what_is_compared(project: Project) -> None:
    sentence = COMPARED.removeprefix("Compared")
    shell = (resources.files("engrambus.edges.page") / "static/shell.html").read_text("utf-8")
    manual = " ".join((Path(__file__).parents[2] / "docs/page.md").read_text("utf-8").split())
    assert sentence in shell
    assert sentence in manual
    assert COMPARED in project.first_tile()
