"""Every edge that shows an engram says what became of the lines behind it."""  # BX-01

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engrambus import Bus
from engrambus.app import init_project, open_project
from engrambus.edges.integrations.client_hook import answer_event
from engrambus.edges.integrations.hook_events import read_event
from engrambus.edges.mcp.calls import ToolCalls
from engrambus.evidence.pointers import Pointer, describe_state
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.settings import Settings
from tests.cli.runner import Shell
from tests.http.running_server import RunningServer, run_server
from tests.integrations.told import recorded_event
from tests.projects import Repository, commit_files, git, make_repository, make_settings

KINDS = {"same": "decision", "changed": "constraint", "moved": "policy", "renamed": "fact", "gone": "risk"} | {
    "unresolved": "todo"
}
CLAIMS = {
    "same": "Alpha holds at the end of the design.",
    "changed": "Bravo is in the middle of the parser.",
    "moved": "Charlie is at the end of the parser.",
    "renamed": "Delta is what the words say.",
    "gone": "Echo was the second line of the parser.",
    "unresolved": "Foxtrot is in another repository.",
}
WORDS = {
    "changed": "changed since, 67 % left, now src/parser.py:11-13",
    "moved": "moved to src/parser.py:29-31",
    "renamed": "moved to src/vocabulary.py:1-4",
    "gone": "gone",
    "unresolved": "unresolved",
}
PLACES = {
    "same": "docs/design.md:11",
    "changed": "src/parser.py:10-12",
    "moved": "src/parser.py:28-30",
    "renamed": "src/words.py:1-4",
    "gone": "src/parser.py:2",
}
STALE = ("changed", "gone")


class Project(NamedTuple):
    """A project whose engrams have evidence in every state."""

    repository: Repository
    home: Path
    gateway: Gateway
    server: RunningServer
    ids: dict[str, str]

    @property
    def bus(self) -> Bus:
        """The bus of a person, in process."""
        return Bus(self.gateway, LOCAL_ADMIN, owns_transport=False, worktree=self.repository.path)

    @property
    def settings(self) -> Settings:
        return make_settings(self.home)

    def mcp(self, tool: str, **arguments: Any) -> str:
        """Return the text of a tool's answer."""
        result = ToolCalls(lambda: self.gateway).call_tool(tool, arguments, LOCAL_ADMIN)
        assert not result["isError"], result
        text: str = result["content"][0]["text"]
        return text

    def page(self, address: str) -> str:
        """Return the text of a view of the page."""
        headers = {"Engrambus-Session": self.server.open_session()}
        body = self.server.call("GET", address, token=None, headers=headers).body.decode()
        return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("told")
    made = make_repository(folder / "repository")
    words = "".join(f"word {number}\n" for number in range(4))
    repository = made._replace(sha=commit_files(made.path, {"src/words.py": words}))
    settings = make_settings(folder / "home")
    init_project(repository.path, settings)
    file = repository.path / ".catalog/project.yaml"
    file.write_text(f'{file.read_text().splitlines()[0]}\nrepositories: {{"lib": "../not-here"}}\n')
    with ExitStack() as stack:
        gateway = open_project(repository.path, settings)
        stack.callback(gateway.close)
        bus = Bus(gateway, LOCAL_ADMIN, owns_transport=False)
        ids = {
            state: bus.put_engram(CLAIMS[state], kind=KINDS[state], at=[place]).id  # type: ignore[arg-type]
            for state, place in PLACES.items()
        }
        absent = Pointer(type="repo", ref=f"repo:lib//lexer.py@{repository.sha}")
        ids["unresolved"] = bus.put_engram(CLAIMS["unresolved"], kind="todo", pointers=[absent]).id
        git(repository.path, "mv", "src/words.py", "src/vocabulary.py")
        text = (repository.path / "src/parser.py").read_text("utf-8")
        text = text.replace("line 11 of", "line eleven of").replace("line 2 of", "the second line of")
        commit_files(repository.path, {"src/parser.py": f"# A new first line\n{text}"})
        server = stack.enter_context(run_server(gateway, repository))
        yield Project(repository, folder / "home", gateway, server, ids)


def http_query(project: Project) -> str:
    """Return the answer of a query over HTTP, each engram with its evidence in words."""
    answer = project.server.call("GET", "/engram/query").json
    return "\n".join(_in_words(engram, answer["about"][engram["id"]]) for engram in answer["engrams"])


def _in_words(engram: dict[str, Any], about: dict[str, Any]) -> str:
    evidence = about["evidence"]
    parts = {
        "moved": f"moved to {evidence.get('now')}",
        "changed": f"changed since, {evidence.get('share', 0):.0%} left, now {evidence.get('now')}".replace("%", " %"),
    }
    return f"{engram['claim']} {parts.get(evidence['state'], evidence['state'])}"


def sdk_query(project: Project) -> str:
    """Return the answer of a query in Python, each engram with its evidence in words."""
    answer = project.bus.query_engrams("")
    return "\n".join(f"{engram.claim} {describe_state(answer.about[engram.id].evidence)}" for engram in answer.engrams)


def mcp_query(project: Project) -> str:
    return project.mcp("less_query_engrams")


def page_feed(project: Project) -> str:
    return "\n".join(re.split(r"(?= (?:decision|constraint|policy|fact|risk|todo) )", project.page("/page/feed")))


LISTS: dict[str, Callable[[Project], str]] = {
    "HTTP": http_query,
    "SDK": sdk_query,
    "MCP": mcp_query,
    "page": page_feed,
}


@pytest.mark.parametrize("edge", LISTS)
@pytest.mark.parametrize("state", CLAIMS)
def test_a_list_of_engrams_says_what_became_of_each(project: Project, edge: str, state: str) -> None:
    (line,) = [line for line in LISTS[edge](project).split("\n") if CLAIMS[state] in line]
    if state == "same":
        assert not any(word in line for word in ("changed", "moved", "gone", "unresolved")), line
    elif edge == "page" and state not in STALE:
        assert "changed" not in line, "moved lines are not stale; the drawer says where they are"
    else:
        assert WORDS[state] in line


@pytest.mark.parametrize("command", ["query", "feed", "check"])
@pytest.mark.parametrize("state", CLAIMS)
def test_commands_say_what_became_of_each(
    project: Project, monkeypatch: pytest.MonkeyPatch, command: str, state: str
) -> None:
    shell = Shell(project.repository, project.home, monkeypatch)
    lines = shell.ok(command).out.split("\n")
    places = [number for number, line in enumerate(lines) if CLAIMS[state] in line]
    if state == "same":
        assert not places if command == "check" else "changed" not in lines[places[0] + 1]
    else:
        assert WORDS[state] in lines[places[0] + 1]


@pytest.mark.parametrize("state", WORDS)
def test_one_engram_says_what_became_of_its_lines(
    project: Project, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    shell = Shell(project.repository, project.home, monkeypatch)
    assert WORDS[state] in shell.ok("show", project.ids[state]).out
    assert WORDS[state] in project.page(f"/page/feed?engram={project.ids[state]}")


def briefs(project: Project) -> dict[str, str]:
    """Return the brief on every edge that shows it."""
    event = read_event(recorded_event("claude-code", "SessionStart", project.repository.path))
    assert event is not None
    hook = answer_event(event, project.settings, Path("/"))["hookSpecificOutput"]["additionalContext"]
    return {
        "HTTP": "\n".join(project.server.call("GET", "/brief?role=programmer").json["lines"]),
        "SDK": "\n".join(project.bus.brief(role="programmer").lines),
        "MCP": project.mcp("less_brief"),
        "hook": str(hook),
        "page": project.page("/page/brief?for=programmer"),
    }


def test_a_brief_leaves_stale_engrams_out_and_counts_them(project: Project) -> None:
    for edge, text in briefs(project).items():
        assert CLAIMS["same"] in text, edge
        assert CLAIMS["moved"] in text or edge == "MCP", edge  # an admin's brief begins with other kinds
        assert CLAIMS["changed"] not in text, edge
        assert CLAIMS["gone"] not in text, edge
        assert CLAIMS["unresolved"] not in text, edge
        assert re.search("2 claims (are stale and )?left out", text), edge


@pytest.mark.parametrize("state", ["changed", "moved", "renamed", "gone", "same"])
def test_reading_a_pointer_shows_the_old_lines_and_says_so(
    project: Project, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    ref = f"{PLACES[state]}@{project.repository.sha[:7]}"
    answer = project.bus.deref_pointer(ref)
    line, mcp = answer.evidence, project.mcp("less_deref_pointer", pointer=ref).split("\n")[1]
    out = Shell(project.repository, project.home, monkeypatch).ok("deref", ref).out
    drawer = project.page(f"/page/feed?pointer={answer.pointer.ref.replace('#', '%23')}")
    if state == "same":
        assert line is None
        assert "changed" not in out
        assert "unchanged" in drawer
        return
    assert line is not None
    assert mcp == f"({WORDS[state]})"
    assert WORDS[state] in out
    assert WORDS[state] in drawer
    assert "line 11 of the parser" in answer.excerpt or state != "changed"


def test_stale_engrams_come_last_in_an_answer(project: Project) -> None:
    claims = [engram.claim for engram in project.bus.query_engrams("parser").engrams]
    assert set(claims[-2:]) == {CLAIMS["changed"], CLAIMS["gone"]}
    assert CLAIMS["moved"] in claims[:-2]
    # The best answer stays the best, however small the answer; it is marked.
    answer = project.bus.query_engrams(CLAIMS["changed"], k=1)
    assert [engram.claim for engram in answer.engrams] == [CLAIMS["changed"]]
    evidence = answer.about[answer.engrams[0].id].evidence
    assert evidence is not None
    assert evidence.state == "changed"
