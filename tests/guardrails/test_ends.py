"""The end of a step: it does not affect the next one, and its use, spending and refusal are recorded."""

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
    steps = Steps(tmp_path)
    yield steps
    steps.runner.close()


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait until a condition is true; return False if it never was."""
    ends = time.monotonic() + seconds
    while not condition() and time.monotonic() < ends:
        time.sleep(0.01)
    return condition()


def has_ended(pid: int) -> bool:
    """True if a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# YT-06, YT-12: the limit enforcer, slow to hear that the first step ended, must not end what the second started.
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("signal_number", [signal.SIGCONT, signal.SIGKILL], ids=["late", "gone"])
def test_the_end_of_a_step_does_not_end_what_the_next_step_started(steps: Steps, signal_number: signal.Signals) -> None:
    first, second = steps.folder / "first", steps.folder / "second"
    go_first, go_second = steps.folder / "go", steps.folder / "go-on"
    answers: list[int] = []

    def run_both() -> None:
        for started, release in ((first, go_first), (second, go_second)):
            answers.append(steps.result(steps.run("agent.run.child", started=str(started), go=str(release))))

    thread = threading.Thread(target=run_both)
    thread.start()
    assert wait_until(first.exists)
    enforcer = steps.runner._enforcer._process
    assert enforcer is not None
    enforcer.send_signal(signal.SIGSTOP)
    go_first.touch()
    wait_until(second.exists, 1.0)  # must not start yet
    enforcer.send_signal(signal_number)
    assert wait_until(second.exists)
    child = int(second.read_text())
    wait_until(lambda: has_ended(child), 1.0)  # must not end
    go_second.touch()
    thread.join(60)
    assert answers == [0, 0]


# YT-06
def test_many_steps_with_children_succeed_one_after_another(steps: Steps) -> None:
    code = "import subprocess; subprocess.run(['sleep', '0.005'], check=True)"
    assert [steps.run("agent.run.called", code=code).error for _ in range(30)] == [None] * 30


# YT-13
@pytest.mark.parametrize("name", RUNS)
def test_the_previous_size_of_a_file_does_not_count(steps: Steps, name: str) -> None:
    with (steps.folder / "log").open("wb") as file:
        file.truncate(200 * MB)
    outcome = steps.run(
        name, StepLimits(disk_bytes=10 * MB), code="with open('log', 'ab') as log: log.write(b'a line')"
    )
    assert (outcome.exit, outcome.error) == (0, None)


# YT-14
@pytest.mark.parametrize("name", RUNS)
def test_ram_that_is_reserved_and_not_used_does_not_count(steps: Steps, name: str) -> None:
    code = (
        "import mmap, threading; go = threading.Event(); held = mmap.mmap(-1, 400_000_000, flags=mmap.MAP_PRIVATE)\n"
        "threads = [threading.Thread(target=go.wait) for _ in range(60)]\n"
        "for thread in threads: thread.start()\n"
        "go.set()\n"
        "for thread in threads: thread.join()"
    )
    outcome = steps.run(name, StepLimits(ram_bytes=100 * MB), code=code)
    assert (outcome.exit, outcome.error) == (0, None)


# YT-13: it exceeds its quota and ends between two checks.
@pytest.mark.parametrize("name", RUNS)
def test_a_short_step_that_wrote_too_much_fails(steps: Steps, name: str) -> None:
    code = "file = open('large', 'wb'); file.write(bytes(40_000_000)); file.close()"
    outcome = steps.run(name, StepLimits(disk_bytes=MB), code=code)
    assert (outcome.exit, outcome.error) == (143, "DISK_QUOTA")
    assert f"of {MB})" in steps.stderr(outcome)
    if name == "agent.run.called":  # what an earlier step wrote does not count for the next
        assert steps.run(name, StepLimits(disk_bytes=MB), code="print(1)").error is None


# YT-14
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("code", ["held = b'x' * 400_000_000", "import subprocess, sys; subprocess.run({0})"])
def test_a_short_step_that_used_too_much_ram_fails(tmp_path: Path, name: str, code: str) -> None:
    code = code.format([sys.executable, "-S", "-c", "held = b'x' * 400_000_000"])
    script = (
        "import sys; from pathlib import Path; from tests.guardrails.test_steps import *\n"
        "steps = Steps(Path(sys.argv[1]))\n"
        "outcome = steps.run(sys.argv[2], StepLimits(ram_bytes=150 * MB), code=sys.argv[3])\n"
        "print(outcome.exit, outcome.error, steps.stderr(outcome)); steps.runner.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), name, code], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("143 MEMORY_QUOTA ")
    assert f"of {150 * MB})" in done.stdout


# YT-14
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_step_that_the_kernel_killed_for_its_ram_is_over_its_quota(tmp_path: Path) -> None:
    """It kills itself as the kernel would, while it uses more than its quota."""
    script = (
        "import sys; from pathlib import Path; from tests.guardrails.test_steps import *\n"
        "steps = Steps(Path(sys.argv[1])); limits = StepLimits(ram_bytes=150 * MB)\n"
        "code = \"import os; held = b'x' * 400_000_000; os.kill(os.getpid(), 9)\"\n"
        "print(*(steps.run(name, limits, code=code).error for name in ('agent.run.python', 'agent.run.called')))\n"
        "steps.runner.close()"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["MEMORY_QUOTA", "MEMORY_QUOTA"]


# YT-14
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_kernel_kills_steps_before_workers(steps: Steps) -> None:
    outcome = steps.run("agent.run.called", code="print(open('/proc/self/oom_score_adj').read())")
    assert steps.bodies.get(outcome.stdout_sha).split() == [b"1000"]


# YT-14: before it executes its program a process is a copy of ours, and the kernel counts that.
def test_ram_of_the_worker_does_not_count_for_a_step() -> None:
    ballast = b"x" * 50_000_000
    process = subprocess.Popen(["true"])
    assert reap(process) == 0
    assert process.returncode == 0
    assert len(ballast) < resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_peak_is_measured_from_the_creation_of_its_object() -> None:
    ballast = b"x" * 100_000_000
    peak_bytes = PeakRam().peak()
    assert peak_bytes > len(ballast)
    del ballast
    assert PeakRam().peak() < peak_bytes


# YT-14: the first step may use more RAM, and keeps it.
def test_ram_kept_by_one_yool_does_not_count_for_another(steps: Steps) -> None:
    keep = "import sys; sys.kept = bytearray(b'x') * 300_000_000"
    assert steps.run("agent.run.called", StepLimits(ram_bytes=2000 * MB), code=keep).error is None
    outcome = steps.run("agent.echo.later", StepLimits(ram_bytes=150 * MB), value=1)
    assert steps.result(outcome) == {"echoed": 1}


# YT-14: a new process would use as much after its first step.
def test_a_yool_finds_what_it_kept_in_the_same_process(steps: Steps) -> None:
    keep = "import os, sys; sys.kept = getattr(sys, 'kept', None) or bytearray(b'x') * 300_000_000"
    keep += "; print(os.getpid(), file=sys.stderr)"
    limits = StepLimits(ram_bytes=400 * MB)
    pids = [steps.stderr(steps.run("agent.run.called", limits, code=keep)) for _ in range(2)]
    assert pids[0] == pids[1] != ""


# YT-14
def test_a_warm_process_with_too_much_ram_in_use_is_replaced(steps: Steps) -> None:
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
def test_spending_that_a_step_reported_is_never_lost(
    steps: Steps, code: str, error: str | None, micros: int, tokens: int
) -> None:
    limits = StepLimits(tokens=99) if error == "BUDGET_EXCEEDED" else StepLimits()
    outcome = steps.run("agent.run.shell", limits, code=SPEND + code)
    assert (outcome.error, outcome.usd_micros, outcome.tokens_in) == (error, micros, tokens), steps.stderr(outcome)
    assert steps.spent[-1] == Price(micros=micros, tokens=tokens)


# YT-12: a child that left its group, session and parent.
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_an_escaped_process_is_found_by_the_next_scan() -> None:
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
    strangers = list(table.pids())
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict([name.split("=")]),
        start_new_session=True,
    ) as process:
        tree = ProcessTree(process.pid, name.encode() + b"\0", table, strangers)
        tree.begin(warm=False)
        assert process.stdout is not None
        escaped = int(process.stdout.readline())
        wait_until(lambda: Path(f"/proc/{escaped}/stat").read_text().rpartition(")")[2].split()[1] != str(process.pid))
        table.refresh()
        tree.measure(full_scan=False)
        assert {process.pid, escaped} <= set(tree.pids)
        assert not set(strangers) & set(tree.pids)
        process.communicate(b"..")


# YT-06: with code, field and limit.
@pytest.mark.parametrize(
    ("name", "args", "exit", "message"),
    [
        ("agent.run.shell", {}, 127, "YOOL_ARGUMENTS: The argument 'code' is missing. (args.code)"),
        ("agent.run.shell", {"code": "true", "more": 1}, 127, "takes no argument 'more'. (args.more, limit code)"),
        ("agent.run.shell", {"code": "-x"}, 127, "would read it as an option. (args.code, -x)"),
        ("agent.leave.many", {"files": 257}, 1, "FIELD_VALUE: A step left too many artifacts. (artifacts, 257 of 256)"),
        ("agent.leave.link", {"link": "out"}, 1, "ARTIFACT_PATH: 'out' is not a regular file. (artifacts)"),
        ("agent.leave.link", {"link": os.fsdecode(b"\xff")}, 1, "ARTIFACT_PATH: '\\udcff' is not a regular file."),
    ],
)
def test_a_refused_step_has_the_reason_on_its_standard_error(
    steps: Steps, name: str, args: dict[str, Any], exit: int, message: str
) -> None:
    outcome = steps.run(name, **args)
    assert outcome.exit == exit
    assert message in steps.stderr(outcome)
    assert steps.stderr(outcome).startswith("refused: ")


# YT-13: it keeps printing while it is being stopped.
def test_the_reason_for_stopping_is_the_last_line_of_standard_error(steps: Steps) -> None:
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: [os.write(2, b'going\\n' * 100), os._exit(0)])\n"
        "open(os.environ['ENGRAMBUS_COST'], 'a').write('{\"tokens_in\": 50}\\n')\n"
        "while True: os.write(2, b'still here\\n'); time.sleep(0.001)"
    )
    outcome = steps.run("agent.run.python", StepLimits(tokens=10), code=code)
    assert outcome.error == "BUDGET_EXCEEDED"
    *_, previous, last = steps.stderr(outcome).splitlines()
    assert (previous, last) == (
        "going",
        "stopped: BUDGET_EXCEEDED: The step has spent its tokens. (budget_tokens, 50 of 10)",
    )


# YT-13
@pytest.mark.parametrize("descriptor", [1, 2])
def test_no_more_of_a_step_is_stored_than_its_disk_quota(steps: Steps, descriptor: int) -> None:
    code = (
        "import os\n"
        "open(os.environ['ENGRAMBUS_ARTIFACTS'] + '/large', 'wb').write(bytes(20_000_000))\n"
        f"for _ in range(30): os.write({descriptor}, b'x' * 1_000_000)"
    )
    outcome = steps.run("agent.run.python", StepLimits(disk_bytes=2 * MB), code=code)
    assert (outcome.exit, outcome.error, outcome.artifacts) == (143, "DISK_QUOTA", ())
    assert outcome.stored_bytes < 2 * MB + 1000
    assert steps.stderr(outcome).splitlines()[-1].startswith(f"Output beyond {2 * MB} bytes")
    assert "stopped: DISK_QUOTA: " in steps.stderr(outcome)[-400:]
