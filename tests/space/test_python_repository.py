"""A Python repository with the real ruff and pytest as yools: nothing is green that was not checked. # YT-09, YT-22"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engrambus.settings import Settings
from tests.projects import Repository
from tests.space.terminal import Terminal, open_terminal

YOOLS = f"""
from engrambus import yool
from engrambus.space.work import step_context

PYTHON = {sys.executable!r}
RUFF = [PYTHON, "-m", "ruff", "check", "src"]
yool("agent.naive.lint", lane="build")(RUFF)
yool("agent.lint.python", lane="build", effect="reads", inputs=["src"])(RUFF)
yool("agent.test.python", lane="build", inputs=["src", "tests"])([PYTHON, "-m", "pytest", "-q", "tests"])
yool("agent.security.scan", lane="build", effect="reads", inputs=["."])(["sh", "-c", "! grep -rn password src"])


@yool("op.jira.fetch_sprint", lane="build", cached=False)
def fetch_sprint(sprint_id: str) -> list[str]:
    step_context.spend(usd=0.001)
    return ["ITEM-1"]


@yool("agent.dev.python", lane="build", inputs=[])
def develop(item: str) -> str:
    step_context.spend(usd=0.12)
    return "done"
"""
WORK = ("worker", "--lane", "build", "--until-empty", "--import", "yools", "--concurrency", "1")
STEP_LINE = re.compile(r"^\[t=\d+s\] (\S+) +(HIT|MISS|FAIL)", re.MULTILINE)


def git(folder: Path, *args: str) -> None:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """A repository as a person has it: source, tests, a virtual environment, caches that git ignores."""
    terminal, root = open_terminal(repository, settings, tmp_path), repository.path
    shutil.rmtree(root / "src")
    for name, text in (
        ("src/a.py", "def double(number):\n    return 2 * number\n"),
        (
            "tests/test_a.py",
            "import sys\nsys.path.insert(0, 'src')\nfrom a import double\n\n\n"
            "def test_double():\n    assert double(2) == 4\n",
        ),
        ("yools.py", YOOLS),
        (".gitignore", "__pycache__/\n.venv/\n.pytest_cache/\n.ruff_cache/\n"),
        (".venv/pyvenv.cfg", "home = /usr\n"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / ".venv/bin").mkdir()
    (root / ".venv/bin/python").symlink_to(sys.executable)
    git(root, "add", ".")
    git(root, "commit", "-qm", "all of it")
    return terminal


def steps(project: Terminal, *yools: str) -> dict[str, str]:
    """Put a tuple with one step of each yool and work; return how each step went."""
    terms = {"max_retries": 0}
    for yool in yools:
        draft = {"lane": "build", "payload": [{"yool": yool, "args": {}}], "agent_terms": terms}
        (project.path / ".catalog/step.json").write_text(json.dumps(draft))
        project.run("dispatch", ".catalog/step.json")
    printed, _ = project.start(*WORK).communicate(timeout=120)  # it exits with 1 where a check failed
    return dict(STEP_LINE.findall(printed))


def test_no_check_is_green_that_did_not_run_and_no_cache_makes_one_run_again(project: Terminal) -> None:
    built = project.start("catalog", "build", "--import", "yools").communicate(timeout=120)[1]
    assert [line for line in built.splitlines() if "declares no inputs" in line] == [
        "warning: agent.naive.lint.v1: It declares no inputs, so every step runs: write inputs=[…] with the files it "
        "reads, inputs=[] if it reads no file, or cached=False. (no-inputs)"
    ]
    checks = ("agent.naive.lint", "agent.lint.python", "agent.test.python", "agent.security.scan")

    assert steps(project, *checks) == dict.fromkeys(checks, "MISS")
    assert (project.path / "src/__pycache__").exists(), "pytest has left its caches"
    (project.path / ".venv/more").touch()
    assert steps(project, *checks) == {**dict.fromkeys(checks, "HIT"), checks[0]: "MISS"}

    os.utime(project.path / "src/a.py")
    assert steps(project, *checks[1:]) == dict.fromkeys(checks[1:], "HIT")

    (project.path / "src/a.py").write_text("import os\n\n\ndef double(number):\n    return 3 * number\n")
    assert steps(project, *checks) == {**dict.fromkeys(checks, "FAIL"), checks[3]: "MISS"}


def test_a_sprint_that_is_run_again_costs_only_the_fetch(project: Terminal) -> None:
    """As in section 5.4 of the specification, in an ordinary Python repository."""
    project.run("catalog", "build", "--import", "yools")
    names = ("agent.dev.python", "agent.lint.python", "agent.test.python", "agent.security.scan")
    (project.path / ".git/info/exclude").write_text("sprint.yaml\n")
    (project.path / "sprint.yaml").write_text(
        "lane: build\npayload:\n- {yool: op.jira.fetch_sprint, args: {sprint_id: JIRA-456}}\n"
        "- {yool: agent.dev.python, args: {item: ITEM-1}}\n" + "".join(f"- {{yool: {name}}}\n" for name in names[1:])
    )
    totals = []
    for kind in ("MISS", "HIT"):
        project.run("dispatch", "sprint.yaml")
        printed = project.run(*WORK)
        assert STEP_LINE.findall(printed) == [("op.jira.fetch_sprint", "MISS"), *((name, kind) for name in names)]
        totals.append(printed.splitlines()[-1])
    assert totals == ["TOTAL: $0.121", "TOTAL: $0.001"]


def test_a_step_that_writes_into_its_own_inputs_is_told_which(project: Terminal) -> None:
    yool = """
from engrambus import yool

yool("agent.format.python", lane="build", inputs=["src"])(["sh", "-c", "echo >> src/a.py"])
"""
    (project.path / "yools.py").write_text(YOOLS + yool)
    project.run("catalog", "build", "--import", "yools")
    project.run("out", "--lane", "build", "--yool", "agent.format.python")
    printed = project.run(*WORK)
    assert "agent.format.python          MISS exec cost=$0 (not cached: src/a.py changed while it ran)\n" in printed
    found = project.json("rd", "--state", "done")
    receipt = project.run("receipt", "get", found["tuple"]["receipts"][0])
    assert "not cached  src/a.py changed while it ran" in receipt
