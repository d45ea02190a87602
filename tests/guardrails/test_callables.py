"""A callable may do with its process what a program may; no other step is the worse for it. # YT-06"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus.core import SECOND_US, SystemClock
from tests.guardrails.test_steps import PATH, Steps


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
    outcome = steps.run("agent.run.called", code=code, deadline=SystemClock().now() + 20 * SECOND_US)
    assert (outcome.exit, outcome.error) == (137, "the process died")


ODD_OUTPUT = {
    "wrapped": "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')",
    "detached": "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8')",
    "both": "sys.stderr = sys.stdout = io.TextIOWrapper(sys.__stdout__.buffer, encoding='utf-8')",
    "kept": "sys.kept = sys.stdout = codecs.getwriter('utf-8')(sys.stdout.buffer)",
}


@pytest.mark.parametrize("how", ODD_OUTPUT.values(), ids=ODD_OUTPUT)
def test_a_callable_prints_in_its_own_way_and_the_next_finds_output_as_it_was(steps: Steps, how: str) -> None:
    first = steps.run("agent.run.called", code=f"import codecs, io, sys\n{how}\nprint('grüße', end='')")
    assert (first.exit, steps.bodies.get(first.stdout_sha).decode()) == (0, "grüße"), steps.said(first)
    for _ in range(2):
        second = steps.run("agent.run.called", code="import sys; print('next'); print('why', file=sys.__stderr__)")
        assert (second.exit, steps.bodies.get(second.stdout_sha)) == (0, b"next\n"), steps.said(second)
        assert steps.said(second) == "why\n"


@pytest.mark.parametrize("how", ["sys.stdout.close()", "sys.stdout = sys.stderr = None", "sys.stdin.close()"])
def test_a_callable_may_close_what_it_was_given(steps: Steps, how: str) -> None:
    assert steps.run("agent.run.called", code=f"import sys\nprint('said')\n{how}").exit == 0
    after = steps.run("agent.run.called", code="import sys; print(sys.stdin.read() + 'nothing to read')")
    assert (after.exit, steps.bodies.get(after.stdout_sha)) == (0, b"nothing to read\n"), steps.said(after)


def test_a_stream_kept_from_an_earlier_step_prints_for_the_one_that_runs(steps: Steps) -> None:
    """As code does that asks for it once, when it is imported."""
    keep = "import sys; sys.ours = sys.stdout; print('first', file=sys.ours)"
    for code, printed in ((keep, b"first\n"), ("import sys; print('second', file=sys.ours)", b"second\n")):
        outcome = steps.run("agent.run.called", code=code)
        assert (outcome.exit, steps.bodies.get(outcome.stdout_sha)) == (0, printed), steps.said(outcome)


def test_what_cannot_be_printed_makes_the_step_fail(steps: Steps) -> None:
    outcome = steps.run("agent.run.called", code="import sys\nsys.stdout = open('/dev/full', 'w')\nprint('lost')")
    assert (outcome.exit, outcome.error) == (1, "exit 1")
    assert "No space left" in steps.said(outcome)


def test_what_a_callable_starts_sees_no_more_of_the_environment_than_it_does(steps: Steps) -> None:
    """Another Python would look for its library where ours is. # YT-06"""
    code = "import json, os, subprocess\nprint(json.dumps(sorted(os.environ)), flush=True)\nsubprocess.run(['env'])"
    outcome = steps.run("agent.run.called", code=code)
    first, *others = steps.bodies.get(outcome.stdout_sha).decode().splitlines()
    assert {line.partition("=")[0] for line in others} == set(json.loads(first))
    assert set(json.loads(first)) <= {*PATH, "ENGRAMBUS_PROCESS", "LC_CTYPE"}  # the last is Python's own doing


def test_a_callable_finds_the_modules_its_worker_finds(steps: Steps) -> None:
    code = "import json, sys; print(json.dumps([sys.path, sys.argv]))"
    path, arguments = json.loads(steps.bodies.get(steps.run("agent.run.called", code=code).stdout_sha))
    assert path == [each or os.getcwd() for each in sys.path]
    assert len(arguments) == 1
