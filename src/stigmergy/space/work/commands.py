"""Commands, each in a process group of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress

from stigmergy.core import Clock
from stigmergy.errors import StigmergyError
from stigmergy.space.catalog import fill_argv
from stigmergy.space.work import here
from stigmergy.space.work.folder import StepFolder
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
    places = {here.ARTIFACTS: str(folder.artifacts), here.COST: str(folder.cost)}
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
) -> tuple[int, str | None]:
    """Wait for a command's end; end it, with all it started, when it must stop. Its exit, and why it was stopped."""
    error: str | None = None
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
            error = look(request, folder, told, stop, clock)
            if error is not None or process.returncode is not None:
                break
    finally:
        # Also what it left running behind its back.
        end_group(process)
    code = process.returncode
    if error is not None:
        return STOPPED, error
    return (code if code >= 0 else 128 - code), (f"exit {code}" if code else None)


def look(request: StepRequest, folder: StepFolder, told: Told, stop: threading.Event, clock: Clock) -> str | None:
    """Why a running step must stop, if it must."""
    try:
        folder.note_spending(told)
    except StigmergyError as refusal:
        return refusal.code
    if stop.is_set():
        return "stopped"
    if request.deadline is not None and clock.now() >= request.deadline:
        return "DEADLINE_PAST"
    return None


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything in its group: asked first, then without asking."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    ends = time.monotonic() + GRACE_SECONDS
    while process.poll() is None and time.monotonic() < ends:
        time.sleep(0.01)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
