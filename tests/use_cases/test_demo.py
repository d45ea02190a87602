"""`engrambus demo`: a minute with a team that reviews a commit."""  # EB-24, EB-26, EB-30, LESS 10 UC3

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from use_cases.review import GOAL, MEMBERS

from engrambus import Bus, Settings
from engrambus.edges.cli.commands import demo as command
from tests.cli.runner import COMMAND, Shell
from tests.cli.test_up_and_mcp import up
from tests.projects import commit_files, git


def journal(shell: Shell) -> list[dict[str, Any]]:
    """Every fact of the project."""
    lines = (shell.path / ".catalog" / "memory.jsonl").read_bytes().splitlines()[1:]
    return [fact for line in lines for fact in json.loads(line)["facts"]]


def kinds(shell: Shell) -> list[str]:
    """The tags of every fact."""
    return [fact["fact"] for fact in journal(shell)]


def files(folder: Path) -> dict[str, bytes]:
    """Every file outside git's and our own folders."""
    matches = (path for path in folder.rglob("*") if path.is_file() and not {".git", ".catalog"} & set(path.parts))
    return {str(path.relative_to(folder)): path.read_bytes() for path in matches}


def test_a_team_reviews_a_commit_of_the_repository_here(shell: Shell) -> None:
    shell.ok("init")
    mine = shell.ok("stats", "--json").json["run_id"]
    original = files(shell.path)
    result = shell.ok("demo", "--json").json
    assert result["commit"] == git(shell.path, "rev-parse", "HEAD")
    assert (result["changed"], result["reached"]) == (5, 5)
    assert result["states"] == {"changed": 3, "same": 1}
    assert (result["findings"], result["passed"]) == (3, False)
    assert result["refusals"] == ["DEREF_DENIED", "BUDGET_EXCEEDED"]
    tokens = result["tokens"]
    assert tokens["bus"] == sum(tokens["by_kind"].values())
    assert files(shell.path) == original
    facts = journal(shell)
    ours = [fact for fact in facts if fact.get("run") == result["run_id"]]
    agents = {member.name: member.role for member in MEMBERS}
    assert {fact["name"]: fact["role"] for fact in ours if fact["fact"] == "agent.added"} == agents
    payload = [fact["fact"] for fact in ours]
    for kind in ("message.rejected", "deref.requested", "grant.issued", "deref.answered"):
        assert payload.count(kind) >= 1, kind
    assert payload.count("broadcast.sent") == 2
    resent = [fact for fact in ours if fact["fact"] == "message.accepted" and "resends" in fact]
    assert [fact["agent"] for fact in resent] == ["ada"]
    rejected = next(fact for fact in ours if fact["fact"] == "message.rejected")
    assert rejected["rejection_id"] == resent[0]["resends"]
    assert [fact["granted"] for fact in ours if fact["fact"] == "deref.proved" and fact.get("granted")] == [True]
    assert shell.ok("verify", "--json").json["sound"]
    assert shell.ok("stats", "--json").json["run_id"] == mine


def test_it_never_runs_the_code_of_somebodys_repository(shell: Shell) -> None:
    trap = "import pathlib\n\nimport pytest\n\npathlib.Path(__file__).with_name('ran').touch()\n\n\n"
    office = (shell.path / "tests" / "test_office.py").read_text("utf-8")
    commit_files(shell.path, {"tests/test_office.py": trap + office})
    shell.ok("demo", "--json")
    assert not (shell.path / "tests" / "ran").exists()


def test_the_demos_engrams_stay_in_its_own_run(shell: Shell) -> None:
    shell.ok("init")
    run = shell.ok("demo", "--json").json["run_id"]
    assert shell.ok("query", "--json").json["engrams"] == []
    engrams = shell.ok("query", "--json", "--run", run, "--k", "20").json["engrams"]
    assert len(engrams) == 9
    assert {engram["scope"] for engram in engrams} == {"run"}
    assert {engram["ttl"] for engram in engrams} == {"P1D"}
    refused = shell.run("put", "Too late.", "--at", "README.md:1", "--run", run, "--json")
    assert refused.problem["code"] == "RUN_ENDED"


def test_the_demo_prints_the_pages_first_figure(shell: Shell) -> None:  # EB-26
    shell.ok("init")
    printed = shell.ok("demo").out
    (run,) = [run["run_id"] for run in shell.ok("run", "list", "--json").json["runs"] if run["goal"] == GOAL]
    figures = {row["agent_id"]: row["figures"] for row in shell.ok("stats", "--run", run, "--json").json["agents"]}
    read, pointed = (sum(row[name] for row in figures.values()) for name in ("pointed_read_tokens", "pointed_tokens"))
    assert f"first figure: {pointed - read:,} tokens not copied" in printed
    assert f"{pointed:,} tokens, and these agents read {read:,} of them" in printed
    assert 0 < read < pointed
    assert read < sum(row["deref_tokens"] for row in figures.values())  # cleo read tests that nobody pointed at


def test_the_demo_says_that_it_is_scripted_and_leaves_the_page_on_its_run(shell: Shell) -> None:  # EB-30
    shell.ok("init")
    shell.ok("put", "The parser trusts its input.", "--at", "README.md:1")
    assert "This is scripted: no model runs" in shell.ok("demo").out
    runs = shell.ok("run", "list", "--json").json["runs"]
    assert [(run["goal"], run["current"]) for run in runs if run.get("shown")] == [(GOAL, False)]
    shell.ok("put", "The lexer is small.", "--at", "README.md:1")
    runs = shell.ok("run", "list", "--json").json["runs"]
    assert [(run["goal"], run["current"]) for run in runs if run.get("shown")] == [("first run", True)]


def test_every_pointer_leads_to_lines_of_the_repository(shell: Shell) -> None:
    run = shell.ok("demo", "--json").json["run_id"]
    with Bus.open(shell.path, settings=Settings.from_environment({"HOME": str(shell.home)}), run=run) as bus:
        for engram in bus.query_engrams(k=20).engrams:
            for pointer in engram.pointers:
                assert bus.deref_pointer(pointer, max_tokens=2000).content_digest == pointer.digest


def test_the_demo_can_be_repeated(shell: Shell) -> None:
    first, second = (shell.ok("demo", "--json").json for _ in range(2))
    assert first.pop("run_id") != second.pop("run_id")
    tokens, others = first.pop("tokens"), second.pop("tokens")
    assert tokens["bus"] == pytest.approx(others["bus"], rel=0.01), "ids and times differ, and with them some tokens"
    assert {name: first[name] for name in ("commit", "reached", "tests", "states", "findings", "refusals")} == {
        name: second[name] for name in ("commit", "reached", "tests", "states", "findings", "refusals")
    }


def test_it_reads_well_in_eighty_columns_and_without_colour(shell: Shell) -> None:
    result = shell.ok("demo", env={"COLUMNS": "200"})
    assert "\x1b" not in result.out
    lines = result.out.splitlines()
    body = lines[next(number for number, line in enumerate(lines) if line.startswith("Before the commit")) :]
    upto = next(number for number, line in enumerate(body) if "reached" in line or "Agents read" in line)
    assert max(len(line.rstrip()) for line in body[:upto]) <= 80
    for words in ("BUDGET_EXCEEDED", "DEREF_DENIED", "verdict of the gate", "stale decision", "only the patch"):
        assert words in result.out
    assert "Made a project in" in result.out
    assert [line.partition(":")[0] for line in lines[-3:]] == [
        "See it on the page", "Ask what the team found", "Let your own agents do it",
    ]  # fmt: skip
    assert lines[-3].endswith(" engrambus up")
    assert not [line for line in lines if line != line.rstrip()]


def test_no_colour_is_honoured_on_a_terminal(shell: Shell) -> None:
    shell.ok("init")
    script = ["script", "-qec", f"{COMMAND} demo --pace 0", "/dev/null"]
    bare = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    for extra, coloured in ((dict[str, str](), True), ({"NO_COLOR": "1"}, False)):
        environment = bare | {"TERM": "xterm-256color"} | extra
        done = subprocess.run(script, cwd=shell.path, env=environment, capture_output=True, timeout=60)
        assert done.returncode == 0
        assert (b"\x1b[31m" in done.stdout) is coloured


@pytest.mark.parametrize("there", ["no repository", "nothing committed", "nothing to review", "one commit"])
def test_a_small_repository_is_made_where_there_is_none_to_review(shell: Shell, tmp_path: Path, there: str) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    if there != "no repository":
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    if there in ("nothing to review", "one commit"):
        name, text = ("notes.md", "# Notes\n") if there == "nothing to review" else ("a.py", "def go():\n    pass\n")
        (folder / name).write_text(text)
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
        subprocess.run(["git", *who, "commit", "-qm", "x"], cwd=folder, check=True)
    result = shell.ok("demo", folder=folder)
    assert "a small one is made" in result.out
    assert "The repository is a small post office in" in result.out
    assert not (folder / ".catalog").exists()
    assert "cd " in result.out.splitlines()[-3]
    assert "runs them: 10 passed and 0 failed" in result.out


def test_fresh_leaves_the_repository_here_alone(shell: Shell) -> None:
    shell.ok("demo", "--fresh")
    assert not (shell.path / ".catalog").exists()


def test_the_page_is_linked_to_while_it_is_served(shell: Shell) -> None:
    shell.ok("init")
    with up(shell) as served:
        result = shell.ok("demo").out
    links = [line for line in result.splitlines() if f"{served['url']}/?run=" in line]
    assert len(links) == 2
    assert all("#code=" in link for link in links)
    assert f"{served['url']}/?run=" not in shell.ok("demo").out


def test_an_interrupted_demo_leaves_the_previous_run_current(shell: Shell) -> None:
    shell.ok("init")
    mine = shell.ok("stats", "--json").json["run_id"]
    with subprocess.Popen(
        [COMMAND, "demo", "--pace", "30"], cwd=shell.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as playing:
        deadline = time.monotonic() + 60
        while "broadcast.sent" not in kinds(shell) and time.monotonic() < deadline:
            time.sleep(0.05)
        playing.send_signal(signal.SIGINT)
        playing.communicate(timeout=60)
    assert playing.returncode != 0
    assert shell.ok("stats", "--json").json["run_id"] == mine


def test_steps_are_paced(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    shell.ok("demo", "--pace", "2")
    pauses = [seconds for seconds in slept if seconds >= 1]  # waiting for git sleeps for milliseconds
    assert set(pauses) == {2.0}
    assert 30 <= len(pauses) * command.PAUSE_SECONDS <= 75, "about a minute on a terminal"
    slept.clear()
    shell.ok("demo")
    assert [seconds for seconds in slept if seconds >= 1] == []


def test_the_demo_refuses_a_remote_gateway(shell: Shell) -> None:
    result = shell.run("demo", env={"ENGRAMBUS_URL": "http://127.0.0.1:1"})
    assert result.code == 2
    assert "ENGRAMBUS_URL" in result.err


def test_the_runs_goal_names_the_demo(shell: Shell) -> None:
    run = shell.ok("demo", "--json").json["run_id"]
    assert shell.ok("agent", "list", "--run", run, "--json").json["goal"] == GOAL
