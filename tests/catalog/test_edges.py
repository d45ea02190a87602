"""The catalog on every edge: the same answers and errors everywhere, and no way to change it remotely."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

import engrambus
from engrambus import Bus
from engrambus.core import estimate_tokens
from engrambus.edges.mcp.tools import tools
from engrambus.errors import YoolName, YoolNotFound
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.operations import OPERATIONS
from engrambus.space.catalog import Catalog, read_catalog, write_catalog
from mcp import Client, StdioServerParameters
from tests.catalog.test_agents_file import PRINTED
from tests.catalog.test_names import make_entry
from tests.cli.runner import Shell
from tests.http.running_server import run_server
from tests.mcp.transports import call_full, problem_of
from tests.projects import Repository

SOURCE = str(Path(engrambus.__file__).parents[1])


@pytest.fixture
def declared(shell: Shell) -> Shell:
    """Set up a project of two stacks with the AGENTS.md of the specification."""
    (shell.path / "AGENTS.md").write_text(PRINTED)
    for name in ("pyproject.toml", "go.mod"):
        (shell.path / name).touch()
    return shell


def test_a_build_prints_what_the_specification_shows(declared: Shell) -> None:  # YT-03
    result = declared.ok("catalog", "build")
    size = (declared.path / ".catalog/capabilities.json").stat().st_size
    assert result.out.splitlines() == [
        "[build] parsed 2 agents from AGENTS.md",
        "[build] hashing yools ... 4/4",
        "[build] inserting into HAMT ... done",
        f"[build] wrote .catalog/capabilities.json ({size / 1024:.1f} KB)",
        "[build] popcount root: 4/32",
    ]
    catalog = read_catalog(declared.path / ".catalog/capabilities.json")
    assert [entry.full_name for entry in catalog] == [
        "agent.dev.go.v1",
        "agent.dev.python.v1",
        "agent.lint.go.v1",
        "agent.lint.python.v1",
    ]
    answer = declared.ok("catalog", "build", "--stack", "dotnet", "--json", folder=declared.path / "src").json
    assert (answer["yools"], answer["stacks"]) == (2, ["dotnet"])
    assert [flaw["rule"] for flaw in answer["flaws"]] == ["gone"] * 4


def test_a_build_includes_yools_of_imported_modules(declared: Shell, tmp_path: Path) -> None:  # YT-03
    (declared.path / "yools_for_this_test.py").write_text(
        "from engrambus.space.catalog import yool\n"
        "yool('net.fetch', lane='net', effect='reads', about='Fetches')(['curl', '${url}'])\n"
    )
    output = tmp_path / "out" / "capabilities.json"
    result = declared.ok("catalog", "build", "--import", "yools_for_this_test", "--output", str(output))
    assert "[build] took 1 yool from yools_for_this_test" in result.out
    assert read_catalog(output).lookup("net.fetch").contract.effect == "reads"
    assert "curl" not in output.read_text(), "commands are never written to the file"
    assert not (declared.path / ".catalog/capabilities.json").exists()
    unknown = declared.run("catalog", "build", "--import", "no_such_module")
    assert (unknown.code, "no_such_module" in unknown.err) == (2, True)


BROKEN = {
    "raises": ("1 / 0\n", "line 1): ZeroDivisionError"),
    "misspelt": ("x = 1\ndef (:\n", "line 2): SyntaxError"),
    "ends": ("import sys\n\nsys.exit(3)\n", "line 3): SystemExit: 3"),
    "needs": ("import no_such_module\n", "line 1): No module named 'no_such_module'"),
}


@pytest.mark.parametrize(
    "command", [("catalog", "build"), ("worker", "--lane", "build", "--until-empty")], ids=" ".join
)
@pytest.mark.parametrize("fault", BROKEN)
def test_an_error_in_an_imported_module_is_reported_with_its_line(  # YT-03 # YT-06
    declared: Shell, command: tuple[str, ...], fault: str
) -> None:
    name = f"broken_{fault}_{command[0]}"
    text, message = BROKEN[fault]
    (declared.path / f"{name}.py").write_text(text)
    result = declared.run(*command, "--import", name)
    assert result.code == 2
    printed = "".join(result.err.split("\n"))
    assert f"'{name}' cannot be imported" in printed
    assert message in printed


@pytest.mark.parametrize(
    "command", [("catalog", "build"), ("worker", "--lane", "build", "--until-empty")], ids=" ".join
)
def test_an_invalid_yool_is_reported_with_its_module(declared: Shell, command: tuple[str, ...]) -> None:  # YT-03
    name = f"invalid_yool_{command[0]}"
    (declared.path / f"{name}.py").write_text("from engrambus import yool\n\nyool('net.x', lane='net', inputs='a')\n")
    problem = declared.run(*command, "--import", name, "--json").problem
    assert (problem["code"], problem["field"]) == ("YOOL_CONTRACT", "inputs")
    assert f"'{name}'" in problem["hint"]
    assert f"{name}.py, line 3" in problem["hint"]


@pytest.mark.parametrize("name", ["", ".yools"])
def test_modules_are_named_by_full_names_only(declared: Shell, name: str) -> None:  # YT-03
    for command in (("catalog", "build"), ("worker", "--lane", "build", "--until-empty")):
        result = declared.run(*command, "--import", name)
        assert (result.code, f"'{name}' is not the full name of a module" in result.err) == (2, True)


def test_a_build_replaces_a_damaged_file(declared: Shell) -> None:  # YT-03
    file = declared.path / ".catalog/capabilities.json"
    declared.ok("catalog", "build")
    original = file.read_bytes()
    file.write_bytes(b"<<<<<<< ours\n" + original)
    broken = declared.run("catalog", "list", "--json").problem
    assert (broken["code"], "engrambus catalog build" in broken["hint"]) == ("CATALOG_FILE", True)
    result = declared.ok("catalog", "build")
    assert "warning: The last build could not be read" in result.err
    assert "line 1" in result.err
    assert file.read_bytes() == original


def test_build_list_and_file_have_the_same_root(declared: Shell) -> None:  # YT-02
    built = declared.ok("catalog", "build", "--json").json["root"]
    assert declared.ok("catalog", "list", "--json").json["root"] == built
    assert read_catalog(declared.path / ".catalog/capabilities.json").root == built


def test_the_agents_file_of_the_current_worktree_is_read(declared: Shell, tmp_path: Path) -> None:  # YT-03
    linked = tmp_path / "linked"
    subprocess.run(["git", "worktree", "add", "-q", str(linked)], cwd=declared.path, check=True, capture_output=True)
    (linked / "AGENTS.md").write_text(PRINTED.replace("${stack}", "here"))
    (linked / "deep").mkdir()
    result = declared.ok("catalog", "build", folder=linked / "deep")
    assert result.out.startswith(f"[build] parsed 2 agents from {linked / 'AGENTS.md'}\n")
    catalog = read_catalog(declared.path / ".catalog/capabilities.json")
    assert catalog.names() == ["agent.dev.here", "agent.lint.here"]


def test_the_agents_file_of_a_submodule_is_read(declared: Shell, tmp_path: Path) -> None:  # YT-03
    outer = tmp_path / "outer"
    outer.mkdir()
    for words in (("init", "-q"), ("submodule", "add", "-q", str(declared.path), "inner")):
        command = ["git", "-c", "protocol.file.allow=always", *words]
        subprocess.run(command, cwd=outer, check=True, capture_output=True)
    inner = outer / "inner"
    (inner / "AGENTS.md").write_text(PRINTED)
    (inner / "Cargo.toml").touch()
    declared.ok("init", folder=inner)
    result = declared.ok("catalog", "build", folder=inner)
    assert result.out.startswith("[build] parsed 2 agents from AGENTS.md\n")
    assert "agent.dev.rust.v1" in declared.ok("catalog", "list", folder=inner).out
    (inner / "yools_of_a_submodule.py").write_text(
        "from engrambus import yool\nyool('fs.where.here', lane='build', cached=False)(['pwd'])\n"
    )
    declared.ok("catalog", "build", "--import", "yools_of_a_submodule", folder=inner)
    declared.ok("out", "--lane", "own", "--yool", "catalog.lookup", "--arg", "name=fs.where.here", folder=inner)
    result = declared.ok("worker", "--lane", "own", "--until-empty", folder=inner)
    assert "catalog.lookup  " in result.out
    assert "MISS exec" in result.out, "the catalog of a submodule is found"
    declared.ok("out", "--lane", "build", "--yool", "fs.where.here", folder=inner)
    worker = ("worker", "--lane", "build", "--until-empty", "--import", "yools_of_a_submodule")
    declared.ok(*worker, folder=inner)
    done = declared.ok("rd", "--lane", "build", "--state", "done", "--json", folder=inner).json
    [step, *_] = done["tuple"]["receipts"]
    body = declared.ok("receipt", "get", step, "--json", folder=inner).json["receipt"]["stdout_sha"]
    digits = body.removeprefix("sha256:")
    stored = outer / ".git/modules/inner/.catalog/cas" / digits[:2] / digits[2:]
    assert stored.read_text() == f"{inner}\n"


def test_lookup_and_list_on_the_command_line(declared: Shell) -> None:  # YT-01
    declared.ok("catalog", "build")
    printed = declared.ok("catalog", "lookup", "agent.dev.python").out
    assert printed.startswith("agent.dev.python.v1  implements code from spec\n")
    assert "budget_usd     0.5\n" in printed
    listed = declared.ok("catalog", "list", "--lane", "build").out
    assert listed.count("agent.") == 4
    assert "catalog.lookup" in declared.ok("catalog", "list").out
    problem = declared.run("catalog", "lookup", "agent.dev.pyton", "--json").problem
    assert (problem["code"], problem["nearest"][0]) == ("YOOL_NOT_FOUND", "agent.dev.python")
    assert declared.run("catalog", "lookup", "Agent", "--json").problem["code"] == "YOOL_NAME"


def test_lint_and_diff_show_what_a_build_would_break(declared: Shell) -> None:  # YT-01
    assert declared.ok("catalog", "lint").out == "All yools follow the rules.\n"
    declared.ok("catalog", "build")
    assert declared.ok("catalog", "diff").out == "They are the same.\n"
    old = declared.path / "old file.json"
    old.write_bytes((declared.path / ".catalog/capabilities.json").read_bytes())
    (declared.path / "AGENTS.md").write_text(
        PRINTED.replace("agent.lint.", "agent.lint_and_test.").replace("cpu_quota_pct: 60", "cpu_quota_pct: 50")
    )
    linted = declared.run("catalog", "lint", "--json")
    assert linted.code == 1
    assert [flaw["rule"] for flaw in linted.json["flaws"]] == ["several-verbs", "several-verbs", "gone", "gone"]
    assert linted.json["flaws"][0]["line"] == 15
    printed = declared.ok("catalog", "diff").out
    assert "- agent.lint.go.v1  build\n" in printed
    assert "+ agent.lint_and_test.go.v1  build\n" in printed
    assert '"cpu_quota_pct": 60' in printed
    declared.ok("catalog", "build")
    answer = declared.ok("catalog", "diff", str(old), "--json").json
    assert answer["changed"] == ["agent.dev.go.v1", "agent.dev.python.v1"]
    assert declared.ok("catalog", "diff", str(old), "--new", str(old)).out == "They are the same.\n"
    assert declared.run("catalog", "diff", "--new", str(old)).code == 2


def test_errors_in_files_are_reported_with_field_and_line(declared: Shell) -> None:  # YT-03
    (declared.path / "AGENTS.md").write_text(PRINTED + "- command: rm\n")
    problem = declared.run("catalog", "build", "--json").problem
    assert (problem["code"], problem["field"], problem["line"]) == ("COMMAND_DECLARED", "command", 24)
    assert not (declared.path / ".catalog/capabilities.json").exists()
    (declared.path / "AGENTS.md").write_bytes(b"\xff")
    assert declared.run("catalog", "build", "--json").problem["code"] == "AGENTS_FILE"
    (declared.path / "AGENTS.md").unlink()
    assert declared.run("catalog", "lint", "--json").problem["code"] == "AGENTS_FILE"
    (declared.path / "AGENTS.md").mkdir()
    assert declared.run("catalog", "lint", "--json").problem["code"] == "INPUT_NOT_A_FILE"
    (declared.path / ".catalog/capabilities.json").write_text('{"schema": "yool-catalog/v1",\n"yools": 1}')
    broken = declared.run("catalog", "list", "--json").problem
    assert (broken["code"], broken["field"], broken["line"]) == ("CATALOG_FILE", "yools", 2)


@pytest.fixture
def stocked(gateway: Gateway, repository: Repository) -> Gateway:
    """Set up a project with two versions of one yool, and many other yools."""
    many = [make_entry(f"op.jira.fetch{number}") for number in range(250)]
    catalog = Catalog(
        [make_entry("agent.lint.ruff.v1"), make_entry("agent.lint.ruff.v2", about="Enforces style"), *many]
    )
    write_catalog(repository.path / ".catalog" / "capabilities.json", catalog)
    return gateway


def test_http_serves_lookups_and_lists(stocked: Gateway, repository: Repository) -> None:  # YT-01
    with run_server(stocked, repository) as bus:
        agent = bus.add("coder")
        answer = bus.call("GET", "/catalog/agent.lint.ruff", token=agent)
        assert answer.json["yool_id"] == "agent.lint.ruff.v2"
        assert answer.json["versions"] == [1, 2]
        assert bus.call("GET", "/catalog/agent.lint.ruff.v1").json["yool_id"] == "agent.lint.ruff.v1"
        missing = bus.call("GET", "/catalog/agent.lint.rufff")
        assert (missing.status, missing.code) == (404, "YOOL_NOT_FOUND")
        assert missing.json["nearest"] == ["agent.lint.ruff"]
        assert bus.call("GET", "/catalog/nothing").code == "YOOL_NAME"
        assert [row["yool_id"] for row in bus.call("GET", "/catalog?lane=catalog").json["yools"]] == [
            "catalog.diff.v1",
            "catalog.list_by_lane.v1",
            "catalog.lookup.v1",
        ]
        assert bus.call("GET", "/catalog?lane=nowhere").json["yools"] == []
        assert bus.call("GET", "/catalog?lane=NO").code == "LANE_NAME"
        for method in ("POST", "DELETE"):  # a catalog cannot be changed remotely
            assert bus.call(method, "/catalog/agent.lint.ruff", {}).status == 405
            assert bus.call(method, "/catalog", {}).status == 405


def test_a_long_list_is_paged_without_gaps(stocked: Gateway) -> None:  # YT-02
    bus = Bus(stocked, LOCAL_ADMIN)
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = bus.catalog_list_by_lane(lane="build", cursor=cursor)
        assert len(page.yools) <= 100
        names += [row.yool_id for row in page.yools]
        if page.cursor is None:
            break
        cursor = page.cursor
    assert len(names) == len(set(names)) == 252
    assert bus.catalog_list_by_lane(lane="build", cursor="zzz.last").yools == []
    with pytest.raises(YoolName) as invalid:
        bus.catalog_list_by_lane(cursor="5")
    assert invalid.value.field == "cursor"
    assert bus.catalog_lookup("agent.lint.ruff").about == "Enforces style"
    with pytest.raises(YoolNotFound) as refused:
        bus.catalog_lookup("agent.lint.ruf")
    assert refused.value.nearest == ("agent.lint.ruff",)


def test_agents_look_up_yools_over_mcp(stocked: Gateway, repository: Repository) -> None:  # YT-15
    async def talk() -> None:
        environment = {"HOME": str(repository.path.parent / "home"), "PYTHONPATH": SOURCE}
        command = ["-c", "from engrambus.edges.cli import main; main()", "mcp", "--project", str(repository.path)]
        server = StdioServerParameters(command=sys.executable, args=command, env=environment)
        async with Client(server) as client:
            with anyio.fail_after(30):
                answer = await call_full(client, "catalog_lookup", {"name": "agent.lint.ruff"})
                listed = await call_full(client, "catalog_list_by_lane", {"lane": "catalog"})
                missing = await client.call_tool("catalog_lookup", {"name": "agent.lint.ruf"})
        assert answer["yool_id"] == "agent.lint.ruff.v2"
        assert len(listed["yools"]) == 3
        assert problem_of(missing)["nearest"] == ["agent.lint.ruff"]

    anyio.run(talk)


def test_the_two_tools_cost_an_agent_few_tokens() -> None:  # YT-15
    """A model reads the name, description and schema of every tool."""
    definitions = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in tools().values()
        if tool.name.startswith("catalog_")
    ]
    assert len(definitions) == 2
    assert estimate_tokens(json.dumps(definitions, separators=(",", ":"))) <= 130


def test_the_operations_of_the_catalog_only_read() -> None:  # YT-15
    for name in ("catalog_lookup", "catalog_list_by_lane"):
        operation = OPERATIONS[name]
        assert not operation.writes
        assert operation.route is not None
        assert operation.route.method == "GET"


# YT-15: a snapshot that clients may keep, and ask about
def test_http_answers_of_the_catalog_are_cacheable(stocked: Gateway, repository: Repository) -> None:
    with run_server(stocked, repository) as bus:
        agent = bus.add("coder")
        targets = ["/catalog", "/catalog?lane=build", "/catalog?lane=catalog", "/catalog/agent.lint.ruff"]
        first = {target: bus.call("GET", target, token=agent) for target in targets}
        etags = {target: answer.headers["etag"] for target, answer in first.items()}
        assert len(set(etags.values())) == len(targets), "a filter decides the answer as well"
        assert all(answer.headers["cache-control"] == "private, no-cache" for answer in first.values())
        for target, etag in etags.items():
            unchanged = bus.call("GET", target, token=agent, headers={"If-None-Match": etag})
            assert (unchanged.status, unchanged.body, unchanged.headers["etag"]) == (304, b"", etag)
        path = repository.path / ".catalog/capabilities.json"
        write_catalog(path, Catalog([*read_catalog(path), make_entry("agent.lint.added")]))
        for target in ("/catalog", "/catalog?lane=build"):
            changed = bus.call("GET", target, token=agent, headers={"If-None-Match": etags[target]})
            assert (changed.status, changed.json["root"] != first[target].json["root"]) == (200, True)
        same = bus.call("GET", targets[-1], token=agent, headers={"If-None-Match": etags[targets[-1]]})
        assert same.status == 304, "another yool changes nothing about this one"


# YT-03
def test_triggers_are_kept_and_shown(declared: Shell) -> None:
    (declared.path / "AGENTS.md").write_text(
        PRINTED + "\n### docs-agent\n- yool_id: agent.docs.build\n- authority: [user]\n- lane: docs\n"
        "- Triggers:\n  - a page changed\n  - a release\n"
    )
    declared.ok("catalog", "build", "--stack", "python")
    assert '"triggers":"new task in .specs/sprints/"' in (declared.path / ".catalog/capabilities.json").read_text()
    looked_up = declared.ok("catalog", "lookup", "agent.lint.python")
    assert re.search(r"triggers +post-edit$", looked_up.out, re.M)
    assert (
        declared.ok("catalog", "lookup", "agent.docs.build", "--json").json["triggers"] == "a page changed; a release"
    )
    head, *rows = declared.ok("catalog", "list", "--lane", "build").out.splitlines()
    assert head.split() == ["YOOL", "LANE", "ABOUT", "TRIGGERS"]
    assert [row.endswith(("new task in .specs/sprints/", "post-edit")) for row in rows] == [True, True]


# YT-03: a build is compared with the file it replaces
def test_a_build_into_another_file_is_compared_with_that_file(declared: Shell) -> None:
    declared.ok("catalog", "build", "--stack", "python")
    elsewhere = ("catalog", "build", "--stack", "go", "--output", str(declared.path / "other.json"))
    assert declared.ok(*elsewhere, "--json").json["flaws"] == []
    (declared.path / "AGENTS.md").write_text(PRINTED.partition("### lint-agent")[0])
    flaws = declared.ok(*elsewhere, "--json").json["flaws"]
    assert [(flaw["yool"], flaw["rule"]) for flaw in flaws] == [("agent.lint.go.v1", "gone")]
