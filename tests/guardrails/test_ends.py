"""How steps end: nothing of one reaches into the next, and all it took, spent and was refused for is told."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engrambus.policy.guardrails import MB, StepLimits
from engrambus.space.tuples import Price
from engrambus.space.work.guard.process_tree import ProcessTree
from engrambus.space.work.guard.processes import PeakRam, ProcTable, reap
from tests.guardrails.test_steps import Steps

RUNS = ["agent.run.python", "agent.run.called"]
SPEND = """spend() { echo '{"usd":1,"tokens_in":50}' >> $ENGRAMBUS_COST; }; """


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    made = Steps(tmp_path)
    yield made
    made.runner.close()


def until(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait until something holds; whether it did."""
    ends = time.monotonic() + seconds
    while not holds() and time.monotonic() < ends:
        time.sleep(0.01)
    return holds()


def ended(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# YT-06, YT-12: the limit enforcer, slow to hear that the first step ended, must not end what the second started.
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("ends", [signal.SIGCONT, signal.SIGKILL], ids=["late", "gone"])
def test_what_a_step_started_is_safe_from_the_end_of_the_step_before_it(steps: Steps, ends: signal.Signals) -> None:
    first, second = steps.folder / "first", steps.folder / "second"
    go, go_on = steps.folder / "go", steps.folder / "go-on"
    answers: list[int] = []

    def both() -> None:
        for started, waits in ((first, go), (second, go_on)):
            answers.append(steps.answered(steps.run("agent.run.child", started=str(started), go=str(waits))))

    working = threading.Thread(target=both)
    working.start()
    assert until(first.exists)
    enforcer = steps.runner._enforcer._process
    assert enforcer is not None
    enforcer.send_signal(signal.SIGSTOP)
    go.touch()
    until(second.exists, 1.0)  # it is not begun, as it should be
    enforcer.send_signal(ends)
    assert until(second.exists)
    child = int(second.read_text())
    until(lambda: ended(child), 1.0)  # it is not, as it should be
    go_on.touch()
    working.join(60)
    assert answers == [0, 0]


# YT-06
def test_many_steps_that_run_children_one_after_another(steps: Steps) -> None:
    code = "import subprocess; subprocess.run(['sleep', '0.005'], check=True)"
    assert [steps.run("agent.run.called", code=code).error for _ in range(30)] == [None] * 30


# YT-13
@pytest.mark.parametrize("name", RUNS)
def test_how_long_a_file_was_before_does_not_count(steps: Steps, name: str) -> None:
    with (steps.folder / "log").open("wb") as file:
        file.truncate(200 * MB)
    outcome = steps.run(
        name, StepLimits(disk_bytes=10 * MB), code="with open('log', 'ab') as log: log.write(b'a line')"
    )
    assert (outcome.exit, outcome.error) == (0, None)


# YT-14
@pytest.mark.parametrize("name", RUNS)
def test_memory_that_is_reserved_and_not_used_does_not_count(steps: Steps, name: str) -> None:
    code = (
        "import mmap, threading; go = threading.Event(); held = mmap.mmap(-1, 400_000_000, flags=mmap.MAP_PRIVATE)\n"
        "threads = [threading.Thread(target=go.wait) for _ in range(60)]\n"
        "for each in threads: each.start()\n"
        "go.set()\n"
        "for each in threads: each.join()"
    )
    outcome = steps.run(name, StepLimits(ram_bytes=100 * MB), code=code)
    assert (outcome.exit, outcome.error) == (0, None)


# YT-13: it is past its quota and gone before anybody could look.
@pytest.mark.parametrize("name", RUNS)
def test_a_step_that_wrote_too_much_in_no_time_has_failed(steps: Steps, name: str) -> None:
    code = "file = open('large', 'wb'); file.write(bytes(40_000_000)); file.close()"
    outcome = steps.run(name, StepLimits(disk_bytes=MB), code=code)
    assert (outcome.exit, outcome.error) == (143, "DISK_QUOTA")
    assert f"of {MB})" in steps.said(outcome)
    if name == "agent.run.called":  # what the step before wrote is not held against the next
        assert steps.run(name, StepLimits(disk_bytes=MB), code="print(1)").error is None


# YT-14
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("code", ["held = b'x' * 400_000_000", "import subprocess, sys; subprocess.run({0})"])
def test_a_step_that_held_too_much_in_no_time_has_failed(tmp_path: Path, name: str, code: str) -> None:
    code = code.format([sys.executable, "-S", "-c", "held = b'x' * 400_000_000"])
    script = (
        "import sys; from pathlib import Path; from tests.guardrails.test_steps import *\n"
        "made = Steps(Path(sys.argv[1]))\n"
        "outcome = made.run(sys.argv[2], StepLimits(ram_bytes=150 * MB), code=sys.argv[3])\n"
        "print(outcome.exit, outcome.error, made.said(outcome)); made.runner.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), name, code], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("143 MEMORY_QUOTA ")
    assert f"of {150 * MB})" in done.stdout


# YT-14
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_step_that_the_kernel_ended_for_its_memory_was_past_its_quota(tmp_path: Path) -> None:
    """Ended here as the kernel would, at once and without a word, while it holds more than it may."""
    script = (
        "import sys; from pathlib import Path; from tests.guardrails.test_steps import *\n"
        "made = Steps(Path(sys.argv[1])); limits = StepLimits(ram_bytes=150 * MB)\n"
        "code = \"import os; held = b'x' * 400_000_000; os.kill(os.getpid(), 9)\"\n"
        "print(*(made.run(name, limits, code=code).error for name in ('agent.run.python', 'agent.run.called')))\n"
        "made.runner.close()"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["MEMORY_QUOTA", "MEMORY_QUOTA"]


# YT-14
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_kernel_is_told_to_end_steps_first(steps: Steps) -> None:
    outcome = steps.run("agent.run.called", code="print(open('/proc/self/oom_score_adj').read())")
    assert steps.bodies.get(outcome.stdout_sha).split() == [b"1000"]


# YT-14: the kernel counts what a process held as a copy of the one that started it.
def test_what_we_hold_ourselves_is_not_held_against_a_step() -> None:
    held = b"x" * 50_000_000
    process = subprocess.Popen(["true"])
    assert reap(process) == 0
    assert process.returncode == 0
    assert len(held) < resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_peak_is_counted_from_when_it_was_asked_for() -> None:
    held = b"x" * 100_000_000
    most = PeakRam().peak()
    assert most > len(held)
    del held
    assert PeakRam().peak() < most


# YT-14: though it was the first step that left it, and had more room.
def test_what_the_code_of_one_yool_keeps_is_not_held_against_another(steps: Steps) -> None:
    keep = "import sys; sys.kept = bytearray(b'x') * 300_000_000"
    assert steps.run("agent.run.called", StepLimits(ram_bytes=2000 * MB), code=keep).error is None
    outcome = steps.run("agent.echo.later", StepLimits(ram_bytes=150 * MB), value=1)
    assert steps.answered(outcome) == {"said": 1}


# YT-14: a new process would hold as much, and have it to fetch again.
def test_what_the_code_of_a_yool_keeps_is_there_for_its_next_step(steps: Steps) -> None:
    keep = "import os, sys; sys.kept = getattr(sys, 'kept', None) or bytearray(b'x') * 300_000_000"
    keep += "; print(os.getpid(), file=sys.stderr)"
    limits = StepLimits(ram_bytes=400 * MB)
    said = [steps.said(steps.run("agent.run.called", limits, code=keep)) for _ in range(2)]
    assert said[0] == said[1] != ""


# YT-14
def test_a_warm_process_full_of_what_steps_left_is_not_held_against_the_next(steps: Steps) -> None:
    steps.run("agent.run.called", code="pass")
    steps.run("agent.run.called", code="import builtins; builtins.left = b'x' * 200_000_000")
    assert steps.run("agent.run.called", StepLimits(ram_bytes=150 * MB), code="pass").error is None


# YT-11, YT-14
@pytest.mark.parametrize(
    ("code", "error", "micros", "tokens"),
    [
        ("spend; echo dear >> $ENGRAMBUS_COST; spend", "FIELD_VALUE", 2_000_000, 100),
        ("""spend; printf '{"usd":0.5}' >> $ENGRAMBUS_COST""", None, 1_500_000, 50),
        ("""spend; printf '{"usd":0.' >> $ENGRAMBUS_COST""", "FIELD_VALUE", 1_000_000, 50),
        ("trap 'spend; exit' TERM; spend; spend; while :; do sleep 0.05; done", "BUDGET_EXCEEDED", 3_000_000, 150),
    ],
)
def test_what_a_step_said_it_spent_is_never_lost(
    steps: Steps, code: str, error: str | None, micros: int, tokens: int
) -> None:
    limits = StepLimits(tokens=99) if error == "BUDGET_EXCEEDED" else StepLimits()
    outcome = steps.run("agent.run.shell", limits, code=SPEND + code)
    assert (outcome.error, outcome.usd_micros, outcome.tokens_in) == (error, micros, tokens), steps.said(outcome)
    assert steps.spent[-1] == Price(micros=micros, tokens=tokens)


# YT-12: a child that left group, session and parent is found at the very next look.
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_got_away_between_two_looks_is_found_at_the_next() -> None:
    code = (
        "import os\n"
        "if os.fork() == 0:\n"
        "  os.setsid()\n"
        "  if os.fork() == 0: print(os.getpid(), flush=True); os.read(0, 1)\n"
        "  os._exit(0)\n"
        "os.wait(); os.read(0, 1)"
    )
    table, name = ProcTable(), f"ENGRAMBUS_TEST={os.getpid()}"
    table.refresh(force=True)
    before = list(table.pids())
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict([name.split("=")]),
        start_new_session=True,
    ) as process:
        tree = ProcessTree(process.pid, name.encode() + b"\0", table, before)
        tree.begin(warm=False)
        assert process.stdout is not None
        away = int(process.stdout.readline())
        until(lambda: Path(f"/proc/{away}/stat").read_text().rpartition(")")[2].split()[1] != str(process.pid))
        table.refresh()
        tree.measure(full_scan=False)
        assert {process.pid, away} <= set(tree.pids)
        assert not set(before) & set(tree.pids)
        process.communicate(b"..")


# YT-06: the reason, the field and the limit are where people look for them.
@pytest.mark.parametrize(
    ("name", "args", "exit", "said"),
    [
        ("agent.run.shell", {}, 127, "YOOL_ARGUMENTS: The argument 'code' is missing. (args.code)"),
        ("agent.run.shell", {"code": "true", "more": 1}, 127, "takes no argument 'more'. (args.more, limit code)"),
        ("agent.run.shell", {"code": "-x"}, 127, "would be an option. (args.code, -x)"),
        ("agent.leave.many", {"files": 257}, 1, "FIELD_VALUE: A step left too many artifacts. (artifacts, 257 of 256)"),
        ("agent.leave.link", {"called": "out"}, 1, "ARTIFACT_PATH: 'out' is not a regular file. (artifacts, out)"),
        ("agent.leave.link", {"called": os.fsdecode(b"\xff")}, 1, "ARTIFACT_PATH: '\\udcff' is not a regular file."),
    ],
)
def test_a_refused_step_says_why(steps: Steps, name: str, args: dict[str, Any], exit: int, said: str) -> None:
    outcome = steps.run(name, **args)
    assert outcome.exit == exit
    assert said in steps.said(outcome)
    assert steps.said(outcome).startswith("refused: ")


# YT-13: it goes on saying things while it is being stopped.
def test_why_a_step_was_stopped_is_the_last_thing_on_its_standard_error(steps: Steps) -> None:
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: [os.write(2, b'going\\n' * 100), os._exit(0)])\n"
        "open(os.environ['ENGRAMBUS_COST'], 'a').write('{\"tokens_in\": 50}\\n')\n"
        "while True: os.write(2, b'still here\\n'); time.sleep(0.001)"
    )
    outcome = steps.run("agent.run.python", StepLimits(tokens=10), code=code)
    assert outcome.error == "BUDGET_EXCEEDED"
    *_, before, last = steps.said(outcome).splitlines()
    assert (before, last) == (
        "going",
        "stopped: BUDGET_EXCEEDED: The step has spent its tokens. (budget_tokens, 50 of 10)",
    )


# YT-13
@pytest.mark.parametrize("descriptor", [1, 2])
def test_no_more_is_kept_of_a_step_than_it_may_write(steps: Steps, descriptor: int) -> None:
    code = (
        "import os\n"
        "open(os.environ['ENGRAMBUS_ARTIFACTS'] + '/large', 'wb').write(bytes(20_000_000))\n"
        f"for _ in range(30): os.write({descriptor}, b'x' * 1_000_000)"
    )
    outcome = steps.run("agent.run.python", StepLimits(disk_bytes=2 * MB), code=code)
    assert (outcome.exit, outcome.error, outcome.artifacts) == (143, "DISK_QUOTA", ())
    assert outcome.stored_bytes < 2 * MB + 1000
    assert steps.said(outcome).splitlines()[-1].startswith(f"Output beyond {2 * MB} bytes")
    assert "stopped: DISK_QUOTA: " in steps.said(outcome)[-400:]
