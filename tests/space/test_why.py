"""`engrambus why`: the failed step with its output, what a task waits for, and what to do. # YT-06 # YT-15"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from engrambus.settings import Settings
from tests.projects import Repository
from tests.space.terminal import Terminal, open_terminal
from tests.space.worker_harness import wait_until

YOOLS = '''
"""Real tools as yools."""

import sys

from engrambus.space.catalog import yool
from engrambus.space.work import step_context

yool("agent.lint.ruff", lane="build", effect="reads", inputs=["${path}"])(["ruff", "check", "--no-cache", "${path}"])
yool("agent.test.pytest", lane="build", effect="reads", inputs=["price.py", "${path}"])(
    [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "${path}"]
)
yool("agent.print.much", lane="build", cached=False)(["sh", "-c", "seq 5000; printf '\\\\033[2Jgone' >&2; exit 3"])


@yool("agent.spend.usd", lane="build", cached=False)
def spend(usd: float) -> None:
    """Spend money."""
    step_context.spend(usd=usd)
'''
TEST = "from price import total\n\n\ndef test_total() -> None:\n    assert total([1, 2]) == 3\n"
UNUSED = "import os\n\n\ndef total(prices: list[int]) -> int:\n    return max(prices)\n"
WRONG = "def total(prices: list[int]) -> int:\n    return max(prices)\n"
RIGHT = "def total(prices: list[int]) -> int:\n    return sum(prices)\n"
WORKER = ("worker", "--lane", "build", "--until-empty", "--import", "real_yools")


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project whose yools are ruff and pytest."""
    terminal = open_terminal(repository, settings, tmp_path)
    tools = Path(sys.executable).parent
    terminal.environment["PATH"] = f"{tools}{os.pathsep}{terminal.environment['PATH']}"
    (terminal.path / "real_yools.py").write_text(YOOLS)
    terminal.run("catalog", "build", "--import", "real_yools")
    return terminal


def _work(terminal: Terminal) -> None:
    """Run what waits; the exit status says whether anything died."""
    terminal.start(*WORKER).communicate(timeout=240)


def _out(terminal: Terminal, *steps: dict[str, Any], **fields: Any) -> str:
    (terminal.path / "job.json").write_text(json.dumps({"lane": "build", "payload": list(steps), **fields}))
    return terminal.run("out", "job.json").split()[0]


def test_lint_and_tests_are_mended_by_what_why_shows(terminal: Terminal) -> None:
    """Every id is a short one, as it was printed."""
    (terminal.path / "price.py").write_text(UNUSED)
    (terminal.path / "test_price.py").write_text(TEST)
    first = _out(
        terminal,
        {"yool": "agent.lint.ruff", "args": {"path": "price.py"}},
        {"yool": "agent.test.pytest", "args": {"path": "test_price.py"}},
    )
    assert len(first) == 12
    _work(terminal)

    status = terminal.run("observe", first)
    assert "dead" in status
    assert "agent.lint.ruff  FAIL" in status
    shown = terminal.run("why", first[:6])
    assert "exit 1, attempt 1" in shown
    assert "`os` imported but unused" in shown
    assert "price.py:1:8" in shown
    assert f"engrambus again {first}" in shown

    (terminal.path / "price.py").write_text(WRONG)
    second = terminal.run("again", first).split()[0]
    assert f"engrambus why {second}" in terminal.run("why", first), "it was submitted again"
    _work(terminal)
    shown = terminal.run("why", second)
    assert "step 2, agent.test.pytest.v1: exit 1" in shown
    assert "assert 2 == 3" in shown

    (terminal.path / "price.py").write_text(RIGHT)
    third = terminal.run("again", second).split()[0]
    _work(terminal)
    assert "It is done: 2 of 2 steps succeeded." in terminal.run("why", third)
    assert terminal.run("why", terminal.json("observe", third)["steps"][1]["receipt"]).startswith(third)


def test_the_output_is_bounded_and_escaped(terminal: Terminal) -> None:
    tuple_id = _out(terminal, {"yool": "agent.print.much"})
    _work(terminal)
    shown = terminal.run("why", tuple_id)
    assert "\x1b" not in shown
    assert "\\x1b[2Jgone" in shown
    assert "    5000\n" in shown
    assert "    4970\n" not in shown
    answer = terminal.json("why", tuple_id, "--max-tokens", "420")
    assert len(answer["failed"]["stdout"]["lines"]) < 30
    assert answer["failed"]["stdout"]["cut"]
    assert answer["failed"]["stdout"]["lines"][-1] == "5000"
    (whole,) = [line for line in shown.splitlines() if line.startswith("  stdout")]
    assert "5000" in terminal.run(*whole.partition("engrambus ")[2].split()).split()
    assert "BUDGET_TOO_SMALL" in terminal.run("why", tuple_id, "--max-tokens", "50", code=1)


def test_a_waiting_task_says_that_no_running_worker_has_its_code(terminal: Terminal) -> None:
    tuple_id = _out(terminal, {"yool": "agent.lint.ruff", "args": {"path": "price.py"}})
    worker = terminal.start("worker", "--lane", "build", "--import", "tests.space.yools")
    try:
        wait_until(lambda: "The running worker of the lane 'build' has no code" in terminal.run("why", tuple_id))
    finally:
        worker.terminate()
        worker.communicate(timeout=60)
    assert "No worker runs in the lane 'build'." in terminal.run("why", tuple_id)


def test_a_waiting_task_says_what_it_waits_for(terminal: Terminal) -> None:
    tuple_id = _out(terminal, {"yool": "agent.lint.ruff", "args": {"path": "price.py"}})
    shown = terminal.run("why", tuple_id)
    assert "No worker runs in the lane 'build'." in shown
    assert "engrambus worker --lane build --until-empty --import MODULE" in shown
    terminal.run("catalog", "build")  # without the code that declares it
    assert "There is no yool 'agent.lint.ruff' in the catalog." in terminal.run("why", tuple_id)
    note = terminal.run("out", "--lane", "notes").split()[0]
    assert "waits for a reader" in terminal.run("why", note)


def test_a_budget_is_explained_in_dollars(terminal: Terminal) -> None:
    _out(terminal, {"yool": "agent.spend.usd", "args": {"usd": 0.2}})
    _work(terminal)
    terms = {"budget_usd": 0.05}
    poor = _out(terminal, {"yool": "agent.spend.usd", "args": {"usd": 0.2}}, agent_terms=terms)
    assert "would be refused, BUDGET_EXCEEDED: The tuple has $0.05 left" in terminal.run("why", poor)
    _work(terminal)
    shown = terminal.run("why", poor)
    assert "a new task with a larger agent_terms.budget_usd" in shown
    assert "$0 of $0.05" in shown
