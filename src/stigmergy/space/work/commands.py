"""Commands, each in a process group of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress

from stigmergy.core import Clock
from stigmergy.errors import BudgetExceeded, DeadlinePast, DiskQuota, StigmergyError
from stigmergy.space.catalog import fill_argv
from stigmergy.space.work.folder import StepFolder
from stigmergy.space.work.guard import Warden, Watch
from stigmergy.space.work.here import ARTIFACTS, COST
from stigmergy.space.work.ports import StepRequest, Told

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
    places = {ARTIFACTS: str(folder.artifacts), COST: str(folder.cost), "TMPDIR": str(folder.temporary)}
    with folder.stdout.open("wb") as stdout, folder.stderr.open("wb") as stderr:
        return subprocess.Popen(
            argv,
            cwd=request.root,
            env={**request.env, **places},
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
    error: str | None = None
    watch = warden.watch(process.pid, request.limits, mark_of_step(folder))
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
            error = look(request, folder, told, stop, clock, watch)
            if error is not None or process.returncode is not None:
                break
    finally:
        # Also what it left running behind its back: in its group, and then wherever it went.
        end_group(process)
        watch.end()
    code = process.returncode
    if error is not None:
        return STOPPED, error
    return (code if code >= 0 else 128 - code), (f"exit {code}" if code else None)


def mark_of_step(folder: StepFolder) -> str:
    """What stands in the environment of everything a command starts."""
    return mark_of(COST, str(folder.cost))


def mark_of(name: str, value: str) -> str:
    """A variable as it stands in a process's environment."""
    return f"{name}={value}\0"


def look(
    request: StepRequest, folder: StepFolder, told: Told, stop: threading.Event, clock: Clock, watch: Watch
) -> str | None:
    """Why a running step must stop, if it must; those who read its output are told too."""
    try:
        folder.note_spending(told)
        check_within(request, folder, clock, watch)
    except StigmergyError as refusal:
        folder.say(f"stopped: {refusal.code}: {refusal.detail}{_figures(refusal)}")
        return refusal.code
    return "stopped" if stop.is_set() else None


def check_within(request: StepRequest, folder: StepFolder, clock: Clock, watch: Watch) -> None:
    """Refuse to let a step go on that is past its time or past what it may take."""
    limits = request.limits
    if watch.past is not None:
        raise watch.past
    if limits.disk is not None and (size := folder.size(limits.disk)) > limits.disk:
        raise DiskQuota(limit=limits.disk, used=size)
    spent = folder.tokens_in + folder.tokens_out
    if limits.tokens is not None and spent > limits.tokens:
        raise BudgetExceeded("The step has spent its tokens.", field="budget_tokens", limit=limits.tokens, used=spent)
    if limits.micros is not None and folder.micros > limits.micros:
        raise BudgetExceeded(
            "The step has spent its money.", field="budget_usd", limit=limits.micros, used=folder.micros
        )
    if request.deadline is not None and clock.now() >= request.deadline:
        raise DeadlinePast


def _figures(refusal: StigmergyError) -> str:
    return "" if refusal.used is None else f" ({refusal.used} of {refusal.limit})"


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything in its group: asked first, then without asking."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        os.killpg(process.pid, signal.SIGCONT)  # it may be standing still, and hears nothing then
    ends = time.monotonic() + GRACE_SECONDS
    while process.poll() is None and time.monotonic() < ends:
        time.sleep(0.01)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
