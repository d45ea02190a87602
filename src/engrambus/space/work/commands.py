"""Commands, each in a process group of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress

from engrambus.core import Clock
from engrambus.errors import BudgetExceeded, DeadlinePast, DiskQuota, EngramBusError, MemoryQuota
from engrambus.space.catalog import fill_argv
from engrambus.space.work.folder import StepFolder
from engrambus.space.work.guard import Warden, Watch, reap
from engrambus.space.work.here import ARTIFACTS, COST, TUPLE
from engrambus.space.work.ports import StepRequest, Told
from engrambus.space.work.refused import told_of

LOOK_SECONDS = 0.1
"""How often a running step is looked after: what it has spent, and whether it must stop."""
GRACE_SECONDS = 2.0
"""How long a process that was asked to end has for it."""
STOPPED = 143


def start_command(request: StepRequest, folder: StepFolder) -> subprocess.Popen[bytes]:
    """Start a step's command: its arguments as a list, its output to files, no terminal, no input."""
    if not isinstance(request.yool.run, tuple):
        raise TypeError("a command is a list of arguments")
    argv = fill_argv(request.yool.run, request.args)
    own = {ARTIFACTS: str(folder.artifacts), COST: str(folder.cost), TUPLE: request.tuple_id}
    with folder.stdout.open("ab") as stdout, folder.stderr.open("ab") as stderr:
        return subprocess.Popen(
            argv,
            cwd=request.root,
            env={**request.env, **own, "TMPDIR": str(folder.temporary)},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )


def look_after(
    process: subprocess.Popen[bytes],
    request: StepRequest,
    folder: StepFolder,
    told: Told,
    stop: threading.Event,
    clock: Clock,
    warden: Warden,
) -> tuple[int, str | None]:
    """Wait for a command's end; end it, with all it started, when it must stop. Its exit, and why it was stopped."""
    refusal: EngramBusError | None = None
    watch, ended, peak = warden.watch(process.pid, request.limits, mark_of_step(folder)), False, 0
    try:
        while not ended and refusal is None and not stop.is_set():
            ended = has_ended(process, LOOK_SECONDS)
            refusal = look(request, folder, told, clock, watch)
    finally:
        # Also what it left running behind its back: in its group, and then wherever it went.
        end_group(process)
        watch.end()
        peak = reap(process)
    refusal = conclude(request, folder, told, watch, refusal, peak)
    if refusal is not None or not ended:
        return STOPPED, "stopped" if refusal is None else refusal.code
    code: int = process.returncode
    return (code if code >= 0 else 128 - code), (f"exit {code}" if code else None)


def mark_of_step(folder: StepFolder) -> str:
    """What stands in the environment of everything a command starts."""
    return mark_of(COST, str(folder.cost))


def mark_of(name: str, value: str) -> str:
    """A variable as it stands in a process's environment."""
    return f"{name}={value}\0"


def look(request: StepRequest, folder: StepFolder, told: Told, clock: Clock, watch: Watch) -> EngramBusError | None:
    """Why a running step must stop, if it must; what it has spent meanwhile is passed on."""
    try:
        folder.note_spending(told)
        check_within(request, folder, watch)
        if request.deadline is not None and clock.now() >= request.deadline:
            raise DeadlinePast
    except EngramBusError as refusal:
        return refusal
    return None


def conclude(
    request: StepRequest, folder: StepFolder, told: Told, watch: Watch, refusal: EngramBusError | None, peak: int
) -> EngramBusError | None:
    """Judge a step that has ended by all it took and spent to its end; why it failed, if so, is added to what it said.

    The peak is the most memory one of its processes held at once, as far as that is known."""
    memory, disk = request.limits.memory, request.limits.disk
    try:
        folder.note_spending(told, last=True)
        if memory is not None and peak > memory:
            raise MemoryQuota(limit=memory, used=peak)
        check_within(request, folder, watch)
    except EngramBusError as another:
        refusal = refusal or another
    cut = disk is not None and folder.cut(disk)
    if refusal is not None:
        folder.say(f"stopped: {told_of(refusal)}")
    if cut:
        folder.say(f"No more than {disk} bytes of what the step printed are kept, and nothing of what it left.")
    return refusal


def check_within(request: StepRequest, folder: StepFolder, watch: Watch) -> None:
    """Refuse a step that is past what it may take or spend."""
    limits = request.limits
    if watch.past is not None:
        raise watch.past
    if limits.disk is not None and (size := folder.size(limits.disk)) > limits.disk:
        raise DiskQuota(limit=limits.disk, used=size)
    said = folder.cost_file.said
    if limits.tokens is not None and said.tokens > limits.tokens:
        raise BudgetExceeded(
            "The step has spent its tokens.", field="budget_tokens", limit=limits.tokens, used=said.tokens
        )
    if limits.micros is not None and said.micros > limits.micros:
        raise BudgetExceeded("The step has spent its money.", field="budget_usd", limit=limits.micros, used=said.micros)


def has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether a process has ended, waited for a little. Its exit is not taken yet where that can be left for later: as
    long as it is not, its number is nobody else's, and the kernel tells what it has written."""
    ends, delay = time.monotonic() + seconds, 0.0005
    while True:
        if hasattr(os, "waitid"):
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        else:
            ended = process.poll() is not None
        left = ends - time.monotonic()
        if ended or left <= 0:
            return ended
        delay = min(delay * 2, left, 0.05)
        time.sleep(delay)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything in its group: asked first, then without asking. Its exit is taken by `reap`."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        os.killpg(process.pid, signal.SIGCONT)  # it may be standing still, and hears nothing then
    has_ended(process, GRACE_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
