"""Short pointers: `path:10-20` is accepted wherever a pointer is, in every operation, section and interface.

# EB-03 EB-04 EB-16
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from mcp.types import CallToolResult

from engrambus import Bus
from engrambus.errors import EngramBusError
from engrambus.gateway import LOCAL_ADMIN, find_pointer_fields, to_request
from engrambus.gateway.pointer_fields import complete_pointers
from engrambus.operations import OPERATIONS
from mcp import Client
from tests.cli.runner import Shell
from tests.http.running_server import run_server
from tests.limits.interfaces import Project
from tests.limits.team import Team
from tests.mcp.transports import over_http, over_stdio
from tests.projects import commit_files, git, make_gateway, make_repository, make_settings

PLACE = "src/parser.py:3-4"
NAMES = {"at", "pointer", "pointers", "ref", "refs", "prefix"}
"""What a field that holds a pointer is called."""


class Sample(NamedTuple):
    """A request with a short pointer in each field that takes one."""

    agent: str
    fields: dict[str, Any]


SAMPLES = {
    "put_engram": Sample("paul", {"claim": "The parser is old.", "at": [PLACE], "pointers": [PLACE]}),
    "put_found": Sample("mia", {"claim": "The parser is slow.", "source": "rag", "at": [PLACE], "pointers": [PLACE]}),
    "put_engrams": Sample(
        "paul", {"engrams": [{"claim": "It is big.", "at": [PLACE], "pointers": [{"type": "repo", "ref": PLACE}]}]}
    ),
    "put_text": Sample("paul", {"text": "The parser is long.", "at": [PLACE], "pointers": [PLACE]}),
    "deref_pointer": Sample("paul", {"pointer": PLACE}),
    "validate_deref": Sample("paul", {"pointer": PLACE}),
    "link_pointer": Sample("paul", {"ref": PLACE}),
    "request_deref": Sample("paul", {"pointer": PLACE, "reason": "To check the limit."}),
    "issue_grant": Sample("mia", {"child_id": "paul", "pointer": PLACE}),
    "narrow_grant": Sample("mia", {"budget_token": "{grant}", "child_id": "paul", "pointer": PLACE}),
    "add_task": Sample("paul", {"title": "Rename the parser", "at": [PLACE]}),
    "keep_episode": Sample("mia", {"text": "We keep the parser.", "at": [PLACE], "pointers": [PLACE]}),
}  # fmt: skip
EDGES = {
    "sdk": "client",
    "http": "http",
    "cli": "cli",
    "stdio mcp": "mcp",
    "/mcp": "mcp",
}
"""The interfaces, each with its name in a declaration."""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A manager and a programmer, and a grant that the manager holds."""
    repository = make_repository(tmp_path / "repo")
    settings = make_settings(tmp_path / "home")
    gateway = make_gateway(repository.path, settings)

    def call(operation: str, **fields: Any) -> Any:
        declared = OPERATIONS[operation]
        return gateway.call(declared, to_request(fields, declared.request), LOCAL_ADMIN)

    tokens = {"mia": call("add_agent", name="mia", role="manager").token}
    tokens["paul"] = call("add_agent", name="paul", role="programmer", parent="mia").token
    tokens["grant"] = call("issue_grant", child_id="mia", pointer="src/parser.py", cap_tokens=900).budget_token
    yield Project(gateway, repository, settings, tokens)
    gateway.close()


def test_every_operation_that_takes_a_pointer_is_tried_here() -> None:
    found = {name for name, operation in OPERATIONS.items() if find_pointer_fields(operation.request)}
    found.remove("confirm_engram")  # needs an engram whose lines have changed: tests/evidence/test_confirm_lines.py
    assert set(SAMPLES) == found
    for name, sample in SAMPLES.items():
        assert set(find_pointer_fields(OPERATIONS[name].request)) <= set(sample.fields)


def test_no_field_that_is_called_like_a_pointer_is_plain_text() -> None:
    for name, operation in OPERATIONS.items():
        called_so = NAMES.intersection(operation.request.__struct_fields__)
        if name == "add_schedule":
            called_so -= {"at"}  # a time
        assert called_so <= set(find_pointer_fields(operation.request)), name


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("suffix", ["", "@{short}", "@HEAD", "@{sha}"])
def test_an_operation_gets_full_pointers(name: str, suffix: str, project: Project) -> None:
    sha = project.repository.sha
    kind = OPERATIONS[name].request
    short = json.dumps(SAMPLES[name].fields).replace(PLACE, PLACE + suffix.format(sha=sha, short=sha[:9]))
    full = json.dumps(SAMPLES[name].fields).replace(PLACE, f"repo:src/parser.py#L3-L4@{sha}")
    files = project.gateway.project_files
    completed = complete_pointers(to_request(json.loads(short), kind), files.completer())
    assert completed == complete_pointers(to_request(json.loads(full), kind), files.completer())
    assert PLACE not in str(completed)
    assert sha in str(completed)


@pytest.mark.parametrize(
    ("name", "edge"),
    [
        (name, edge)
        for name in SAMPLES
        for edge, declared in EDGES.items()
        if declared not in OPERATIONS[name].absent_from
    ],
)
def test_every_interface_takes_a_short_pointer(
    name: str, edge: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = SAMPLES[name]
    fields = {field: project.tokens["grant"] if value == "{grant}" else value for field, value in sample.fields.items()}
    CALLS[edge](project, sample.agent, name, fields, monkeypatch)


def _over_sdk(project: Project, agent: str, name: str, fields: dict[str, Any], _: Any) -> None:
    with Bus.open(project.repository.path, token=project.tokens[agent], settings=project.settings) as bus:
        bus.call(OPERATIONS[name], to_request(fields, OPERATIONS[name].request))


def _over_http(project: Project, agent: str, name: str, fields: dict[str, Any], _: Any) -> None:
    with (
        run_server(project.gateway, project.repository) as server,
        Bus.connect(f"http://127.0.0.1:{server.port}", token=project.tokens[agent]) as bus,
    ):
        bus.call(OPERATIONS[name], to_request(fields, OPERATIONS[name].request))


def _over_cli(project: Project, agent: str, name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    command = OPERATIONS[name].command
    assert command is not None
    shell = Shell(project.repository, project.repository.path.parent / "home", monkeypatch)
    words = [*command.words.split(), *(fields.pop(argument) for argument in command.arguments if argument in fields)]
    for field, value in fields.items():
        flag = "--" + (field.removesuffix("s") if isinstance(value, list) else field).replace("_", "-")
        for item in value if isinstance(value, list) else [value]:
            words += [flag, item]
    shell.ok(*words, env={"ENGRAMBUS_TOKEN": project.tokens[agent]})


def _over_stdio(project: Project, agent: str, name: str, fields: dict[str, Any], _: Any) -> None:
    _over_mcp(lambda talk: over_stdio(project.repository, "auto", talk, project.tokens[agent]), name, fields)


def _over_mcp_endpoint(project: Project, agent: str, name: str, fields: dict[str, Any], _: Any) -> None:
    with run_server(project.gateway, project.repository) as server:
        _over_mcp(lambda talk: over_http(server, "auto", talk, project.tokens[agent]), name, fields)


def _over_mcp(connect: Callable[[Any], None], name: str, fields: dict[str, Any]) -> None:
    results: list[CallToolResult] = []

    async def talk(client: Client) -> None:
        with anyio.fail_after(60):
            tool = OPERATIONS[name].tool
            action = {"action": tool.action} if tool and tool.action else {}
            results.append(await client.call_tool(OPERATIONS[name].tool_name, {**fields, **action}))

    connect(talk)
    assert not results[0].is_error, results[0].content


CALLS: dict[str, Callable[[Project, str, str, dict[str, Any], pytest.MonkeyPatch], None]] = {
    "sdk": _over_sdk,
    "http": _over_http,
    "cli": _over_cli,
    "stdio mcp": _over_stdio,
    "/mcp": _over_mcp_endpoint,
}

CHILD = """ROLE: programmer
TASK_STATUS: in_progress
ENGRAMS:
- kind: risk
  claim: The parser trusts its input.
  at: [src/parser.py:10-20]
- kind: fact
  claim: The lexer is small.
  at: docs/design.md
  pointers:
  - src/parser.py:1@{short}
  - { ref: src/parser.py, span: L2-L3 }
POINTER_PACK:
- src/parser.py:1-5
DEREF_REQUESTS:
- pointer: src/parser.py
  reason: To see how the input is taken.
OUTPUT: One risk found.
"""


ABSENT = "src/parser.py:31"
ENGRAM = "ENGRAMS:\n- kind: fact\n  claim: The parser is old."
SECOND = "- kind: risk\n  claim: The parser is slow."
REQUEST = "DEREF_REQUESTS:\n- reason: To see how the input is taken.\n  pointer"


class TestMessages:
    """Pointers in the sections of messages."""

    @pytest.mark.parametrize("as_json", [False, True])
    def test_a_report_may_write_every_pointer_short(self, team: Team, as_json: bool) -> None:
        text = CHILD.replace("{short}", team.sha[:9])
        if as_json:
            import yaml

            text = json.dumps(yaml.safe_load(text))
        sent = team.send(text)
        refs = [
            [pointer.ref for pointer in team.client.call("get_engram", team.paul, id=id).pointers]
            for id in sent.engrams
        ]
        design = f"repo:docs/design.md@{team.sha}"
        assert refs == [[team.lines(10, 20)], [team.lines(1, 1), team.lines(2, 3), design]]
        (mail, *_) = [item for item in team.client.call("inbox", team.mia).mail if item.kind == "message"]
        assert team.lines(1, 5) in mail.text
        (asked,) = team.client.call("list_requests", team.mia).requests
        assert asked.ref == f"repo:src/parser.py@{team.sha}"

    def test_a_broadcast_may_write_every_pointer_short(self, team: Team) -> None:
        grant = team.client.call("issue_grant", team.mia, child_id="paul", pointer="src/*", cap_tokens=500)
        text = (
            f"ROLE: manager\nGRANTS:\n- budget_token: {grant.budget_token}\n  pointer: src/parser.py:1-30\n"
            "  cap_tokens: 200\nTARGET_POINTER_PACK: [src/parser.py:1-5, docs/design.md]\n"
        )
        team.client.call("broadcast", team.mia, text=text)
        (mail,) = [item for item in team.client.call("inbox", team.paul).mail if item.kind == "broadcast"]
        for ref in (team.lines(1, 30), team.lines(1, 5), f"repo:docs/design.md@{team.sha}"):
            assert ref in mail.text

    def test_the_budget_counts_the_message_as_it_was_sent(self, team: Team) -> None:
        report = "ROLE: programmer\nTASK_STATUS: done\nOUTPUT: All lines were read.\nPOINTER_PACK:\n"
        full = report + "".join(f"- {team.lines(line, line)}\n" for line in range(1, 29))
        short = report + "".join(f"- src/parser.py:{line}\n" for line in range(1, 29))
        with pytest.raises(EngramBusError) as caught:
            team.send(full)
        assert caught.value.code == "BUDGET_EXCEEDED"
        team.send(short)

    @pytest.mark.parametrize(
        ("section", "code", "field", "line"),
        [
            (f"{ENGRAM}\n  at: [src/parser.py:1, none.py:1]", "FILE_NOT_FOUND", "ENGRAMS[0].at[1]", None),
            (f"{ENGRAM}\n  pointers: src/parser.py\n  at: {ABSENT}", "SPAN_NOT_FOUND", "ENGRAMS[0].at[0]", None),
            (f"{ENGRAM}\n  at: [src/parser.py:1]\n{SECOND}\n  at: [../x]", "POINTER_PATH", "ENGRAMS[1].at[0]", 9),
            (f"{ENGRAM}\n  at: [repo:src/parser.py#L1]", "POINTER_NOT_PINNED", "ENGRAMS[0].at[0]", 6),
            (f"{ENGRAM}\n  at: [src/parser.py:1@0000000]", "REVISION_NOT_FOUND", "ENGRAMS[0].at[0]", 6),
            (f"{ENGRAM}\n  at: [7]", "FIELD_TYPE", "ENGRAMS[0].at[0]", 6),
            ("POINTER_PACK:\n- src/parser.py:1\n- src/parser.py#L1", "POINTER_SPAN", "POINTER_PACK[1]", 5),
            (f"{REQUEST}: repo:x.py@main", "POINTER_REVISION", "DEREF_REQUESTS[0].pointer.ref", 5),
        ],
    )  # fmt: skip
    def test_an_error_names_what_the_author_wrote(
        self, team: Team, section: str, code: str, field: str, line: int | None
    ) -> None:
        refusal = team.refusal(
            "send_message", team.paul, text=f"ROLE: programmer\nTASK_STATUS: done\n{section}\nOUTPUT: Done.\n"
        )
        assert (refusal.code, refusal.field, refusal.line) == (code, field, line)


def test_an_error_of_a_put_names_the_place(team: Team) -> None:
    refusal = team.refusal(
        "put_engram", team.paul, claim="A.", pointers=[team.lines()], at=["src/parser.py:1", "new.py"]
    )
    assert (refusal.code, refusal.field) == ("FILE_NOT_FOUND", "at[1]")
    assert "`snapshot`" in (refusal.hint or "")
    engrams = [{"claim": "A.", "at": ["src/parser.py:1"]}, {"claim": "B.", "at": ["src/parser.py:99"]}]
    assert team.refusal("put_engrams", team.paul, engrams=engrams).field == "engrams[1].at[0]"


@pytest.mark.parametrize("ref", ["repo:src/parser.py", "repo:src/parser.py#L1@main", "repo:src/parser.py#L1@HEAD"])
def test_a_ref_still_needs_a_full_commit(team: Team, ref: str) -> None:
    refusal = team.refusal("deref_pointer", team.paul, pointer=ref)
    assert refusal.code in ("POINTER_NOT_PINNED", "POINTER_REVISION")


def test_links_of_code_hosts_are_pointers(team: Team) -> None:
    link = f"https://github.com/o/r/blob/{team.sha}/src/parser.py#L1-L2"
    assert team.client.call("deref_pointer", team.paul, pointer=link).pointer.ref == team.lines(1, 2)


def test_head_is_that_of_the_callers_worktree(team: Team, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(team.repository.path, "worktree", "add", "-q", "-b", "other", str(linked))
    commit = commit_files(linked, {"src/new.py": "one\ntwo\n"})
    report = f"ROLE: programmer\nTASK_STATUS: done\n{ENGRAM}\n  at: [src/new.py:2]\nOUTPUT: Done.\n"
    with Bus(team.gateway, team.paul, owns_transport=False, worktree=linked) as bus:
        sent = bus.send_message(report)
        assert bus.get_engram(sent.engrams[0]).pointers[0].ref == f"repo:src/new.py#L2-L2@{commit}"
    with (
        run_server(team.gateway, team.repository) as server,
        Bus.connect(f"http://127.0.0.1:{server.port}", token=team.paul.token, worktree=linked) as remote,
    ):
        assert remote.deref_pointer("src/new.py:1").pointer.ref == f"repo:src/new.py#L1-L1@{commit}"
        git(linked, "pack-refs", "--all")
        assert remote.deref_pointer("src/new.py:2").pointer.ref == f"repo:src/new.py#L2-L2@{commit}"


def test_a_put_with_snapshot_points_at_the_files_on_disk(team: Team) -> None:
    path = team.repository.path
    (path / "src" / "parser.py").write_text("changed\n")
    (path / "src" / "fresh.py").write_text("fresh\n")
    engram = team.client.call(
        "put_engram", team.paul, claim="It changes.", at=["src/parser.py:1", "src/fresh.py:1"], snapshot=True
    )
    excerpts = [team.client.call("deref_pointer", team.paul, pointer=item.ref).excerpt for item in engram.pointers]
    assert excerpts == ["changed\n", "fresh\n"]
    assert git(path, "status", "--porcelain", "src").split() == ["M", "src/parser.py", "??", "src/fresh.py"]
