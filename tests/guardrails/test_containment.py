"""Nothing of a step outlives it, its worker or its limit enforcer, however it tries. # YT-12 # YT-14 # YT-20"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from engrambus.core import SECOND_US, SystemClock
from engrambus.policy.guardrails import MB, StepLimits
from engrambus.space.work.guard import Containment, find_containment
from tests.guardrails.test_steps import Steps
from tests.space.worker_harness import open_worker_harness, step

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

LEVELS = ["pid namespace", "subreaper"]
RUNS = ["agent.run.python", "agent.run.called"]
# Escapes: each beats as long as it lives, by writing to a file, and gives up by itself after a minute.
BEAT = (
    "import os, sys, time\n"
    "ends = time.monotonic() + 60\n"
    "def beat():\n"
    "  with open({0!r}, 'a') as file: file.write('.')\n"
)
LOOP = BEAT + "while time.monotonic() < ends:\n  beat(); time.sleep(0.01)\n"
EMPTY_ENVIRONMENT = (
    "import os, sys, time\n"
    "if os.fork() == 0:\n"
    "  os.setsid()\n"
    "  if os.fork() == 0:\n"
    "    os.execve({1!r}, [{1!r}, '-I', '-S', '-c', {2!r}], {{}})\n"
    "  os._exit(0)\n"
    "os.wait()\n"
)
HOPPING = BEAT + (
    "if os.fork() == 0:\n"
    "  os.setsid()\n"
    "  while time.monotonic() < ends:\n"
    "    beat()\n"
    "    if os.fork(): os._exit(0)\n"
    "  os._exit(0)\n"
)
WAIT_FOR_BEATS = "while not os.path.exists({0!r}) or os.path.getsize({0!r}) < 3: time.sleep(0.001)\n"


def empty_environment(beats: Path) -> str:
    """Return code that starts a daemon without any trace of the step: no group, session, parent or environment."""
    return EMPTY_ENVIRONMENT.format(str(beats), sys.executable, LOOP.format(str(beats)))


def hopping(beats: Path) -> str:
    """Return code of processes that each start the next one and exit at once."""
    return HOPPING.format(str(beats))


ESCAPES: dict[str, Callable[[Path], str]] = {"empty environment": empty_environment, "hopping": hopping}


def stops_beating(beats: Path) -> bool:
    """True if nothing writes to the file any more, within ten seconds."""
    ends = time.monotonic() + 10
    size = -1
    while time.monotonic() < ends:
        size, previous = beats.stat().st_size, size
        if size == previous:
            return True
        time.sleep(0.3)
    return False


@pytest.fixture(params=LEVELS)
def steps(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Steps]:
    if request.param == "pid namespace" and find_containment().level != request.param:
        pytest.skip(find_containment().describe())
    steps = Steps(tmp_path, Containment(level=request.param))
    yield steps
    steps.runner.close()


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("escape", ESCAPES)
def test_no_process_escapes_the_end_of_its_step(steps: Steps, escape: str, name: str) -> None:
    for number in range(3):
        beats = steps.folder / f"beats-{number}"
        outcome = steps.run(name, code=ESCAPES[escape](beats) + WAIT_FOR_BEATS.format(str(beats)))
        assert outcome.exit == 0, steps.stderr(outcome)
        assert beats.stat().st_size
        assert stops_beating(beats)


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_process_escapes_a_step_that_is_stopped(steps: Steps, escape: str) -> None:
    beats = steps.folder / "beats"
    deadline = SystemClock().now() + 2 * SECOND_US
    outcome = steps.run("agent.run.python", code=ESCAPES[escape](beats) + "time.sleep(60)", deadline=deadline)
    assert outcome.error == "DEADLINE_PAST"
    assert beats.stat().st_size
    assert stops_beating(beats)


KILL_GUARDS = (
    "import os, signal, time\n"
    "def kill_guards():\n"
    "  for name in os.listdir('/proc'):\n"
    "    if name.isdigit() and int(name) != os.getpid():\n"
    "      try:\n"
    "        if b'guard' in open(f'/proc/{name}/cmdline', 'rb').read(): os.kill(int(name), 9)\n"
    "      except OSError: pass\n"
)


# YT-14: a step that keeps killing its limit enforcer used 300 MB to its end, and left a child.
def test_a_step_that_kills_its_guard_does_not_go_on(steps: Steps) -> None:
    beats = steps.folder / "beats"
    code = (
        empty_environment(beats)
        + WAIT_FOR_BEATS.format(str(beats))
        + KILL_GUARDS.replace("b'guard'", "b'limit_enforcer_process'")
        + "ends = time.monotonic() + 20\nheld = b''\n"
        "while time.monotonic() < ends: kill_guards(); held = held or b'x' * 300_000_000; time.sleep(0.001)\n"
    )
    outcome = steps.run("agent.run.python", StepLimits(ram_bytes=100 * MB), code=code)
    assert (outcome.exit, outcome.error) in ((143, "MEMORY_QUOTA"), (143, "LIMIT_ENFORCER_LOST"))
    assert stops_beating(beats)
    # Another enforcer watches the next step.
    again = steps.run("agent.hold.memory", StepLimits(ram_bytes=100 * MB))
    assert again.error == "MEMORY_QUOTA"


WORKER = (
    "import sys; from pathlib import Path; from tests.guardrails.test_steps import *\n"
    "from engrambus.space.work.guard import Containment\n"
    "steps = Steps(Path(sys.argv[1]), Containment(level=sys.argv[2])); steps.runner.describe_limits()\n"
    "print(steps.runner._enforcer._process.pid, flush=True)\n"
    "steps.run(sys.argv[3], StepLimits(cores=float(sys.argv[5])), code=sys.argv[4])"
)


@pytest.mark.parametrize("victims", ["worker", "worker and enforcer"])
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("cores", [1.0, 0.1])  # with little CPU it is usually stopped when they are killed
def test_a_step_ends_when_its_worker_is_killed(steps: Steps, victims: str, name: str, cores: float) -> None:
    beats = steps.folder / "beats"
    level = steps.runner._find_containment(steps.folder).level
    code = empty_environment(beats) + "while True: pass"
    command = [sys.executable, "-c", WORKER, str(steps.folder), level, name, code, str(cores)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    enforcer = int(worker.stdout.readline())
    while not beats.exists():
        assert worker.poll() is None
        time.sleep(0.01)
    if victims != "worker":
        os.kill(enforcer, signal.SIGKILL)
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert stops_beating(beats)


# YT-13: writes to a file system in RAM, and what `fallocate` allocates, are in no counter of written bytes.
@pytest.mark.parametrize("name", RUNS)
def test_shared_memory_counts_towards_the_disk_quota(tmp_path: Path, name: str) -> None:
    if find_containment().level != "pid namespace":
        pytest.skip(find_containment().describe())
    steps = Steps(tmp_path)
    place = f"/dev/shm/{tmp_path.name}-{os.getpid()}"
    code = (
        f"file = open({place!r}, 'wb', buffering=0)\n"
        "try:\n  for _ in range(100): file.write(bytes(1_000_000))\nexcept OSError: pass"
    )
    outcome = steps.run(name, StepLimits(disk_bytes=20 * MB), code=code)
    assert (outcome.exit, outcome.error) == (143, "DISK_QUOTA"), steps.stderr(outcome)
    assert not os.path.exists(place)
    assert steps.run(name, StepLimits(disk_bytes=20 * MB), code="pass").error is None
    steps.runner.close()


@pytest.mark.parametrize("name", RUNS)
def test_space_is_not_allocated_past_the_disk_quota(tmp_path: Path, name: str) -> None:
    if find_containment().level != "pid namespace":
        pytest.skip(find_containment().describe())
    steps = Steps(tmp_path)
    code = "import os\nos.posix_fallocate(os.open('large', os.O_RDWR | os.O_CREAT), 0, 200_000_000)"
    outcome = steps.run(name, StepLimits(disk_bytes=10 * MB), code=code)
    assert outcome.error == "DISK_QUOTA"
    assert steps.run("agent.run.shell", StepLimits(disk_bytes=10 * MB), code="fallocate -l 200M other").exit != 0
    assert (tmp_path / "other").stat().st_size == 0
    steps.runner.close()


PLACES = {
    "the project": "'written'",
    "its temporary folder": "os.path.join(os.environ['TMPDIR'], 'written')",
    "its artifacts": "os.path.join(os.environ['ENGRAMBUS_ARTIFACTS'], 'written')",
    "/tmp": "os.path.join('/tmp', {0!r})",
    "/dev/shm": "os.path.join('/dev/shm', {0!r})",
}


# YT-13: a receipt said 0.00008 MB of a step that wrote 10 MB into the project.
@pytest.mark.parametrize("place", PLACES)
def test_what_a_step_wrote_is_counted_wherever_it_is(tmp_path: Path, place: str) -> None:
    if place == "/dev/shm" and find_containment().level != "pid namespace":
        pytest.skip(find_containment().describe())
    if place == "/tmp" and _file_system("/tmp") == "tmpfs":
        pytest.skip("/tmp is in RAM")
    steps, name = Steps(tmp_path), f"{tmp_path.name}-{os.getpid()}"
    path = PLACES[place].format(name)
    code = f"import os\nwith open({path}, 'wb') as file:\n  for _ in range(10): file.write(os.urandom(1_000_000))"
    try:
        for _ in range(2):
            written = steps.run("agent.run.python", StepLimits(disk_bytes=100 * MB), code=code).written_bytes
            assert 10 * MB <= written < 11 * MB
    finally:
        Path("/tmp", name).unlink(missing_ok=True)
    assert steps.run("agent.run.python", StepLimits(disk_bytes=100 * MB), code="pass").written_bytes < MB
    steps.runner.close()


@pytest.mark.parametrize("name", RUNS)
def test_a_project_in_shared_memory_can_run_steps(name: str) -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("this machine has no /dev/shm")
    with TemporaryDirectory(dir="/dev/shm") as folder:
        steps = Steps(Path(folder))
        outcome = steps.run(name, code="open('written', 'w').close()")
        assert outcome.error is None, steps.stderr(outcome)
        assert Path(folder, "written").exists()
        steps.runner.close()


def _file_system(folder: str) -> str:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next((mount[2] for mount in reversed(mounts) if mount[1] == folder), "")


# YT-13: each step of a process that is used again counts by itself.
def test_what_a_callable_wrote_is_counted(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    code = "import os\nwith open('written', 'wb') as file: file.write(os.urandom({0}_000_000))"
    written = [steps.run("agent.run.called", code=code.format(size)).written_bytes for size in (10, 3, 20)]
    assert [round(count / MB) for count in written] == [10, 3, 20]
    steps.runner.close()


# YT-13
def test_the_receipt_of_a_step_says_what_it_wrote(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project") as harness:
        (tmp_path / "project" / "grown").touch()
        tuple_id = harness.put(step("agent.count.slowly", path="grown", addition="x" * 500_000))
        assert harness.work() == ["miss", "done"]
        of_step, of_tuple = (receipt.cost.disk_mb for receipt in harness.receipts(tuple_id))
        assert 0.5 <= of_step < 1
        assert of_tuple == of_step


def children(pid: int) -> list[int]:
    """Return the children of a process that are supervisors."""
    found = [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
    return [child for child in found if b"step_supervisor" in Path(f"/proc/{child}/cmdline").read_bytes()]


KILLED = [
    ("enforcer",),
    ("outer supervisor",),
    ("inner supervisor",),
    ("worker", "outer supervisor"),
    ("enforcer", "outer supervisor"),
    ("worker", "enforcer", "outer supervisor"),
]


@pytest.mark.parametrize("victims", KILLED, ids=" and ".join)
@pytest.mark.parametrize("name", RUNS)
def test_a_step_ends_when_its_guards_are_killed(steps: Steps, victims: tuple[str, ...], name: str) -> None:
    level = steps.runner._find_containment(steps.folder).level
    if level == "subreaper" and ("inner supervisor" in victims or {"enforcer", "outer supervisor"} <= set(victims)):
        pytest.skip("not promised without a PID namespace")
    beats = steps.folder / "beats"
    code = empty_environment(beats) + WAIT_FOR_BEATS.format(str(beats)) + "time.sleep(0.5)\nwhile True: pass"
    command = [sys.executable, "-c", WORKER, str(steps.folder), level, name, code, "1.0"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    found = {"worker": worker.pid, "enforcer": int(worker.stdout.readline())}
    while not beats.exists() or beats.stat().st_size < 100:  # by then the enforcer has seen the daemon
        assert worker.poll() is None
        time.sleep(0.01)
    (found["outer supervisor"],) = children(worker.pid)
    if level == "pid namespace":
        (found["inner supervisor"],) = children(found["outer supervisor"])
    for victim in victims:
        os.kill(found[victim], signal.SIGKILL)
    ended = stops_beating(beats)
    worker.wait(30)
    worker.stdout.close()
    assert ended
