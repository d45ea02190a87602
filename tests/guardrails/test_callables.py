"""A callable may change its process as a program may; other steps are not affected. # YT-06"""

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
    steps = Steps(tmp_path)
    yield steps
    steps.runner.close()


@pytest.mark.parametrize("ending", ["sys.exit(0)", "sys.exit(3)", "raise ValueError('only the child')", "pass"])
def test_a_fork_of_a_callable_does_not_answer_for_it(steps: Steps, ending: str) -> None:
    code = (
        "import os, sys\n"
        "child = os.fork()\n"
        f"if child == 0: {ending}\n"
        "else:\n"
        "  os.waitpid(child, 0)\n"
        "  raise RuntimeError('the deploy failed')"
    )
    outcome = steps.run("agent.run.called", code=code)
    assert (outcome.exit, outcome.error) == (1, "exit 1")
    assert "the deploy failed" in steps.stderr(outcome)
    assert steps.result(steps.run("agent.echo.later", value="its own")) == {"echoed": "its own"}


@pytest.mark.parametrize("ending", ["sys.exit(5)", "raise ValueError('so')", "pass"])
def test_a_fork_of_a_callable_ends_as_a_program_does(steps: Steps, ending: str) -> None:
    code = (
        "import os, sys\n"
        "child = os.fork()\n"
        f"if child == 0: {ending}\n"
        "else: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) + 10)"
    )
    assert steps.run("agent.run.called", code=code).exit == {"s": 15, "r": 11, "p": 10}[ending[0]]


def test_a_callable_that_dies_is_noticed_while_its_fork_still_runs(steps: Steps) -> None:
    code = "import os, time\nif os.fork() == 0: time.sleep(3600)\nos._exit(3)"
    outcome = steps.run("agent.run.called", code=code, deadline=SystemClock().now() + 20 * SECOND_US)
    assert (outcome.exit, outcome.error) == (137, "the process died")


ODD_OUTPUT = {
    "wrapped": "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')",
    "detached": "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8')",
    "both": "sys.stderr = sys.stdout = io.TextIOWrapper(sys.__stdout__.buffer, encoding='utf-8')",
    "saved": "sys.kept_stream = sys.stdout = codecs.getwriter('utf-8')(sys.stdout.buffer)",
}


@pytest.mark.parametrize("change", ODD_OUTPUT.values(), ids=ODD_OUTPUT)
def test_a_callable_may_replace_its_streams_and_the_next_finds_them_restored(steps: Steps, change: str) -> None:
    first = steps.run("agent.run.called", code=f"import codecs, io, sys\n{change}\nprint('grüße', end='')")
    assert (first.exit, steps.bodies.get(first.stdout_sha).decode()) == (0, "grüße"), steps.stderr(first)
    for _ in range(2):
        second = steps.run("agent.run.called", code="import sys; print('next'); print('why', file=sys.__stderr__)")
        assert (second.exit, steps.bodies.get(second.stdout_sha)) == (0, b"next\n"), steps.stderr(second)
        assert steps.stderr(second) == "why\n"


@pytest.mark.parametrize("change", ["sys.stdout.close()", "sys.stdout = sys.stderr = None", "sys.stdin.close()"])
def test_a_callable_may_close_its_streams(steps: Steps, change: str) -> None:
    assert steps.run("agent.run.called", code=f"import sys\nprint('said')\n{change}").exit == 0
    after = steps.run("agent.run.called", code="import sys; print(sys.stdin.read() + 'nothing to read')")
    assert (after.exit, steps.bodies.get(after.stdout_sha)) == (0, b"nothing to read\n"), steps.stderr(after)


def test_a_stream_kept_from_an_earlier_step_prints_for_the_running_step(steps: Steps) -> None:
    """Some modules look up `sys.stdout` once, on import."""
    keep = "import sys; sys.ours = sys.stdout; print('first', file=sys.ours)"
    for code, printed in ((keep, b"first\n"), ("import sys; print('second', file=sys.ours)", b"second\n")):
        outcome = steps.run("agent.run.called", code=code)
        assert (outcome.exit, steps.bodies.get(outcome.stdout_sha)) == (0, printed), steps.stderr(outcome)


def test_output_that_cannot_be_written_fails_the_step(steps: Steps) -> None:
    outcome = steps.run("agent.run.called", code="import sys\nsys.stdout = open('/dev/full', 'w')\nprint('lost')")
    assert (outcome.exit, outcome.error) == (1, "exit 1")
    assert "No space left" in steps.stderr(outcome)


def test_a_child_of_a_callable_sees_the_same_environment(steps: Steps) -> None:
    """A PYTHONPATH of ours would mislead another Python. # YT-06"""
    code = "import json, os, subprocess\nprint(json.dumps(sorted(os.environ)), flush=True)\nsubprocess.run(['env'])"
    outcome = steps.run("agent.run.called", code=code)
    first, *variables = steps.bodies.get(outcome.stdout_sha).decode().splitlines()
    assert {line.partition("=")[0] for line in variables} == set(json.loads(first))
    assert set(json.loads(first)) <= {*PATH, "ENGRAMBUS_PROCESS", "LC_CTYPE"}  # Python sets the last


def test_a_callable_has_the_import_path_of_its_worker(steps: Steps) -> None:
    code = "import json, sys; print(json.dumps([sys.path, sys.argv]))"
    path, arguments = json.loads(steps.bodies.get(steps.run("agent.run.called", code=code).stdout_sha))
    assert path == [folder or os.getcwd() for folder in sys.path]
    assert len(arguments) == 1
