"""A callable may do with its process what a program may; no other step is the worse for it. # YT-06"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stigmergy.core import SECOND, SystemClock
from tests.guardrails.test_steps import Steps


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    made = Steps(tmp_path)
    yield made
    made.runner.close()


@pytest.mark.parametrize("how", ["sys.exit(0)", "sys.exit(3)", "raise ValueError('only the child')", "pass"])
def test_what_a_callable_forks_does_not_answer_for_it(steps: Steps, how: str) -> None:
    code = (
        "import os, sys\n"
        "child = os.fork()\n"
        f"if child == 0: {how}\n"
        "else:\n"
        "  os.waitpid(child, 0)\n"
        "  raise RuntimeError('the deploy failed')"
    )
    outcome = steps.run("agent.run.called", code=code)
    assert (outcome.exit, outcome.error) == (1, "exit 1")
    assert "the deploy failed" in steps.said(outcome)
    assert steps.answered(steps.run("agent.echo.later", value="its own")) == {"said": "its own"}


@pytest.mark.parametrize("how", ["sys.exit(5)", "raise ValueError('so')", "pass"])
def test_what_a_callable_forks_ends_as_a_program_does(steps: Steps, how: str) -> None:
    code = (
        "import os, sys\n"
        "child = os.fork()\n"
        f"if child == 0: {how}\n"
        "else: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) + 10)"
    )
    assert steps.run("agent.run.called", code=code).exit == {"s": 15, "r": 11, "p": 10}[how[0]]


def test_a_callable_that_dies_is_not_kept_waiting_for_by_what_it_forked(steps: Steps) -> None:
    code = "import os, time\nif os.fork() == 0: time.sleep(3600)\nos._exit(3)"
    outcome = steps.run("agent.run.called", code=code, deadline=SystemClock().now() + 20 * SECOND)
    assert (outcome.exit, outcome.error) == (137, "the process died")
