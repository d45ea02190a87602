"""The first process of a step, under a supervisor: what it starts ends with it, and with its worker."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Literal

import msgspec

from engrambus.space.work.guard.effects import WriteLimits
from engrambus.space.work.guard.step_supervisor import PID_NAMESPACE, PROBE, SHARED_MEMORY, SUBREAPER, command_message

TERMINATE_SECONDS = 2.0
"""Time a process has between SIGTERM and SIGKILL."""
END_SECONDS = 5.0
"""Time a supervisor has to end everything before it is killed itself."""
START_SECONDS = 60.0
"""Time a supervisor has to start, on a machine that is overloaded."""
PROCESS_GROUP = "process group"
ContainmentLevel = Literal["pid namespace", "subreaper", "process group"]
_SUPERVISORS: dict[str, int] = {PID_NAMESPACE: 2, SUBREAPER: 1, PROCESS_GROUP: 0}
_PROGRAM = str(Path(__file__).with_name("step_supervisor.py"))
Stream = int | IO[bytes] | None


class Containment(msgspec.Struct, frozen=True, kw_only=True):
    """Level at which the processes of a step are kept together."""

    level: ContainmentLevel
    reason: str = ""
    """Why not a stronger level, where the kernel says so."""

    @property
    def supervisors(self) -> int:
        """Processes between the worker and the step's first process."""
        return _SUPERVISORS[self.level]

    def describe(self) -> str:
        return f"{self.level}; {self.reason}" if self.reason else self.level


def find_containment(*folders: Path) -> Containment:
    """Return the strongest level that works for this account on this machine, for a step that needs these folders."""
    strongest = _strongest_containment()
    if strongest.level == PID_NAMESPACE:
        hidden = next((folder for folder in folders if folder.resolve().is_relative_to(SHARED_MEMORY)), None)
        if hidden is not None:
            return Containment(level="subreaper", reason=f"a private {SHARED_MEMORY} would hide {hidden}")
    return strongest


@cache
def _strongest_containment() -> Containment:
    if sys.platform != "linux":
        return Containment(level="process group", reason=f"{sys.platform} has no PID namespaces")
    command = [sys.executable, "-I", "-S", _PROGRAM, PROBE]
    answer = subprocess.run(command, capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL).stdout
    level, _, reason = answer.strip().partition("\n")
    if level == PID_NAMESPACE:
        return Containment(level="pid namespace")
    return Containment(level="subreaper", reason=reason or "the kernel refuses a PID namespace")


class ContainedProcess:
    """A program that runs from `begin` on; until then it can be put under limits."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str,
        streams: tuple[Stream, Stream, Stream],
        containment: Containment,
        disk_bytes: int | None = None,
        write_limits: WriteLimits | None = None,
    ) -> None:
        """`streams` are its input, output and errors; `disk_bytes` is the most that its /dev/shm may hold.

        `write_limits` need a supervisor, which every step on Linux has.
        """
        self.containment = containment
        self.not_started: OSError | None = None
        """Why the program could not be started, known once it has ended."""
        self.shared_memory_bytes = 0
        """Bytes it left in a /dev/shm of its own, known once it has ended."""
        self._program = argv[0]
        self._command = command_message(argv, env, () if write_limits is None else write_limits.to_rules())
        self._control: socket.socket | None = None
        self._status: int | None = None
        self._answers = b""
        stdin, stdout, stderr = streams
        if not containment.supervisors:
            self.popen = subprocess.Popen(
                list(argv), env=dict(env), cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
            )
            return
        self._control, theirs = socket.socketpair()
        with theirs:
            options = [str(os.getpid()), containment.level, str(theirs.fileno())]
            # One block more than allowed: a step that fills it is over its quota.
            options += ["", ""] if disk_bytes is None else [str(disk_bytes + (1 << 16)), "refuse"]
            try:
                self.popen = subprocess.Popen(
                    [sys.executable, "-I", "-S", _PROGRAM, *options],
                    env={},
                    cwd=cwd,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                    pass_fds=[theirs.fileno()],
                )
            except BaseException:
                self._control.close()
                raise
        self._wait_until_ready()

    @property
    def pid(self) -> int:
        """Id of the process this one waits for: the supervisor, or the program itself where there is none."""
        return self.popen.pid

    def _wait_until_ready(self) -> None:
        if self._control is not None:
            self._control.settimeout(START_SECONDS)
            with suppress(OSError):
                self._read_until(b"\n")
        if not self._answers:
            self.end()
            self.popen.wait()
            self.close()
            raise ChildProcessError(errno.ECHILD, "The supervisor of the step could not be started", sys.executable)

    def begin(self) -> None:
        """Let the program run."""
        if self._control is not None:
            with suppress(OSError):  # the supervisor has ended, and that is seen by `has_ended`
                self._control.sendall(self._command)

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds` for the end of the program and everything it started."""
        return has_ended(self.popen, seconds)

    def end(self) -> None:
        """Terminate the program, then kill what remains of everything it started."""
        end_group(self.popen, supervised=self._control is not None)

    def close(self) -> int | None:
        """Read what the supervisor reported; return the program's exit status, None if it has not reported one."""
        if self._control is None:
            return None
        self._control.settimeout(0.0)
        with suppress(OSError):
            self._read_until(None)
        self._control.close()
        self._control = None
        for line in self._answers.splitlines():
            name, _, value = line.partition(b" ")
            with suppress(ValueError):
                self._take(name, int(value))
        return self._status

    def _take(self, name: bytes, value: int) -> None:
        match name:
            case b"status":
                self._status = value
            case b"shared_memory_bytes":
                self.shared_memory_bytes = value
            case b"not_started":
                self.not_started = OSError(value, os.strerror(value) if value else "It could not be run", self._program)

    def _read_until(self, ending: bytes | None) -> None:
        while self._control is not None and (ending is None or not self._answers.endswith(ending)):
            part = self._control.recv(1 << 16)
            if not part:
                return
            self._answers += part


def has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait up to `seconds` for a process to end, without reaping it where the platform allows that.

    Unreaped, its process id cannot be reused and the kernel still reports what it has written.
    """
    ends, delay = time.monotonic() + seconds, 0.0005
    while True:
        if hasattr(os, "waitid"):
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        else:
            ended = process.poll() is not None
        remaining = ends - time.monotonic()
        if ended or remaining <= 0:
            return ended
        delay = min(delay * 2, remaining, 0.05)
        time.sleep(delay)


def end_group(process: subprocess.Popen[bytes], *, supervised: bool = False) -> None:
    """Terminate a process and its group, then kill what remains; the process is reaped by `guard.reap`."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        os.killpg(process.pid, signal.SIGCONT)  # the enforcer may have stopped it, and SIGTERM waits until it runs
    if not has_ended(process, TERMINATE_SECONDS) and supervised:
        os.kill(process.pid, signal.SIGUSR2)  # the supervisor kills all of it; only then may it end itself
        has_ended(process, END_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
