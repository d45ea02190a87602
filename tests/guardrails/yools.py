"""Yools that exceed limits: callables, and commands that do the same."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from engrambus.space.catalog import yool
from engrambus.space.work import step_context

BURN = "import time\nends = time.monotonic() + 2\nwhile time.monotonic() < ends: pass"
FAMILY = (
    "import os\n"
    "for _ in range(4):\n"
    "  if os.fork() == 0:\n"
    f"    exec({BURN!r})\n"
    "    os._exit(0)\n"
    "for _ in range(4): os.wait()\n"
)
FIXED = "import time\nwhile time.process_time() < 1.0: pass"
RUNAWAY = "while True: pass"
GROWING = "import os, time\nheld = []\nwhile True:\n  held.append(os.urandom(1_000_000))\n  time.sleep(0.002)"
WRITING = (
    "import os, time\n"
    "with open('grown.bin', 'wb') as file:\n"
    "  while True:\n"
    "    file.write(os.urandom(1_000_000)); file.flush(); os.fsync(file.fileno()); time.sleep(0.005)"
)
PRINTING = "import os\nfor _ in range(400): os.write(1, (b'x' * 99 + b'\\n') * 10_000)"
PRINTING_SOME = PRINTING.replace("400", "128")
DAEMON = (
    "import os, sys, time\n"
    "if os.fork() == 0:\n"
    "  os.setsid()\n"
    "  if os.fork() == 0:\n"
    "    open(sys.argv[1], 'w').write(str(os.getpid()))\n"
    "    os.close(1); os.close(2)\n"
    "    time.sleep(60)\n"
    "  os._exit(0)\n"
    "os.wait()\n"
    "while not os.path.exists(sys.argv[1]): time.sleep(0.01)"
)

SCRIPTS = {
    "agent.burn.alone": BURN,
    "agent.burn.family": FAMILY,
    "agent.burn.fixed": FIXED,
    "agent.burn.ever": RUNAWAY,
    "agent.hold.memory": GROWING,
    "agent.write.much": WRITING,
    "agent.print.much": PRINTING,
    "agent.print.some": PRINTING_SOME,
}
for name, script in SCRIPTS.items():
    yool(name, lane="guard", cached=False)([sys.executable, "-S", "-c", script])
yool("agent.run.python", lane="guard", cached=False)([sys.executable, "-S", "-c", "${code}"])
yool("agent.run.shell", lane="guard", cached=False)(["sh", "-c", "${code}"])
yool("agent.leave.daemon", lane="guard", cached=False)([sys.executable, "-S", "-c", DAEMON, "${file}"])


@yool("agent.burn.called", lane="guard", cached=False)
def burn_called(children: int) -> dict[str, float]:
    """Use CPU for two seconds here, or in children; return the CPU seconds used."""
    start, children_start = time.process_time(), _children_cpu()
    started = [subprocess.Popen([sys.executable, "-S", "-c", BURN]) for _ in range(children)]
    if not started:
        exec(BURN, {})
    for process in started:
        process.wait()
    return {"cpu": time.process_time() - start + _children_cpu() - children_start}


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@yool("agent.hold.called", lane="guard", cached=False)
def hold_called() -> None:
    """Use more and more RAM."""
    exec(GROWING, {})


@yool("agent.write.called", lane="guard", cached=False)
def write_called(megabytes: int) -> None:
    """Leave a large artifact."""
    with (step_context.artifacts() / "large.bin").open("wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(1_000_000))
            file.flush()
            time.sleep(0.01)
    time.sleep(60)


@yool("agent.spend.called", lane="guard", cached=False)
def spend_called(tokens: int, times: int) -> None:
    """Report spent tokens, then wait until stopped."""
    for _ in range(times):
        step_context.spend(tokens_in=tokens)
        time.sleep(0.02)
    time.sleep(60)


@yool("agent.echo.later", lane="guard", cached=False)
async def echo_later(value: Any) -> Any:
    """Return a value after a while, as a coroutine."""
    await asyncio.sleep(0.01)
    return {"echoed": value}


@yool("agent.leave.child", lane="guard", cached=False)
def leave_child(mark: str) -> int:
    """Start a child with this argument, and return without waiting for it."""
    child = [sys.executable, "-S", "-c", "import time; time.sleep(60)", mark]
    return subprocess.Popen(child, start_new_session=True).pid


@yool("agent.run.called", lane="guard", cached=False)
def run_called(code: str) -> None:
    """Run code in this process."""
    exec(code, {})


@yool("agent.run.child", lane="guard", cached=False)
def run_child(started: str, go: str) -> int:
    """Run a child until a file appears; return its exit status."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    Path(started + ".part").write_text(str(child.pid))
    os.rename(started + ".part", started)
    while not os.path.exists(go):
        time.sleep(0.01)
    child.communicate(b"\n")
    return child.returncode


@yool("agent.leave.many", lane="guard", cached=False)
def leave_many(files: int) -> None:
    """Leave many files."""
    for number in range(files):
        (step_context.artifacts() / str(number)).touch()


@yool("agent.leave.link", lane="guard", cached=False)
def leave_link(link: str) -> None:
    """Leave a link to a file outside."""
    (step_context.artifacts() / link).symlink_to("/etc/passwd")
