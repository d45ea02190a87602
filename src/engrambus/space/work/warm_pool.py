"""Warm processes for callables: started on demand, reused by later steps, ended when a step must stop."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from engrambus.core import Clock
from engrambus.errors import EngramBusError
from engrambus.policy.guardrails import niceness
from engrambus.space.work.guard import (
    ContainedProcess,
    Containment,
    LimitEnforcer,
    StepWatch,
    WriteLimits,
    reap,
    write_limits,
)
from engrambus.space.work.guard.processes import pid_namespace
from engrambus.space.work.main_script import MainScript, check_loadable, current_script
from engrambus.space.work.ports import ReportSpending, StepRequest
from engrambus.space.work.step_folder import StepFolder
from engrambus.space.work.step_process import (
    POLL_SECONDS,
    STOPPED_EXIT,
    check_running,
    conclude,
    environment_mark,
)

DIED_EXIT = 137
"""Exit status recorded when the process died while it ran a step: 128 + SIGKILL."""
MIN_PROCESSES = 8
"""Processes that are always kept; more only if as many were in use at the same time."""
_MARK_VARIABLE = "ENGRAMBUS_PROCESS"
_BOOTSTRAP = (
    "import sys; sys.path[:] = sys.argv[1:]; del sys.argv[1:]\n"
    "from engrambus.space.work.warm_process import main; main()"
)
PoolKey = tuple[tuple[str, str], ...]
"""Environment, folder, niceness, disk limit and effect of a process; only steps with the same key share it."""


class StepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Message of a warm process when a step has ended."""

    exit: int
    error: str | None = None
    """Error code of the step's return value, if that is invalid."""
    peak_bytes: int = 0
    """Most RAM that the process or a child held during the step; 0 if unknown."""
    ram_bytes: int = 0
    """RAM the process holds now."""
    shared_memory_bytes: int = 0
    """Bytes the step left in a /dev/shm of the process's own."""


class WarmProcess:
    """One process that runs callables."""

    def __init__(
        self,
        env: Mapping[str, str],
        root: str,
        containment: Containment,
        disk_bytes: int | None = None,
        limits: WriteLimits | None = None,
    ) -> None:
        token = secrets.token_hex(16)
        self._first_ram_bytes = self._last_ram_bytes = 0
        self._first_yool = ""
        self._peak_bytes = 0
        self.has_answered = False
        """True once it has run a step to its end."""
        self.mark = environment_mark(_MARK_VARIABLE, token)
        self.process = ContainedProcess(
            # It imports from the same path as this process; -P keeps the folder it starts in off that path. The path is
            # passed as arguments because steps inherit the environment, and may start another Python.
            [sys.executable, "-P", "-c", _BOOTSTRAP, *(folder or os.getcwd() for folder in sys.path)],
            {**env, _MARK_VARIABLE: token},
            cwd=root,
            streams=(subprocess.PIPE, subprocess.PIPE, None),
            containment=containment,
            disk_bytes=disk_bytes,
            write_limits=limits,
        )
        self.process.begin()

    def begin(
        self, request: StepRequest, folder: StepFolder, modules: Iterable[str], script: MainScript | None
    ) -> None:
        """Send a step to the process; the modules, or the script, register its code."""
        yool = request.yool.entry.full_name
        self._first_yool = self._first_yool or yool
        job = {
            "yool": yool,
            "args": dict(request.args),
            "modules": list(modules),
            "script": script and msgspec.to_builtins(script),
            "stdout": str(folder.stdout),
            "stderr": str(folder.stderr),
            "artifacts": str(folder.artifacts),
            "cost": str(folder.cost),
            "tuple_id": request.tuple_id,
            "temporary": str(folder.temporary),
            "worker_namespace": pid_namespace(),
        }
        stdin = self.process.popen.stdin
        if stdin is None:
            raise BrokenPipeError
        stdin.write(json.dumps(job).encode() + b"\n")
        stdin.flush()

    def wait_for_answer(self, seconds: float) -> StepAnswer | None:
        """Return the answer if it comes in time; one with DIED_EXIT if the process has died."""
        stdout = self.process.popen.stdout
        if stdout is None:
            return StepAnswer(exit=DIED_EXIT)
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return None
        line = stdout.readline()
        if not line:
            return StepAnswer(exit=DIED_EXIT)
        answer = msgspec.json.decode(line, type=StepAnswer)
        self.has_answered = True
        self._first_ram_bytes = self._first_ram_bytes or answer.ram_bytes
        self._last_ram_bytes = answer.ram_bytes
        self._peak_bytes = max(self._peak_bytes, answer.peak_bytes)
        return answer

    @property
    def is_alive(self) -> bool:
        return not self.process.has_ended(0.0)

    def has_room_for(self, yool: str, ram_bytes: int | None) -> bool:
        """True if a step limited to `ram_bytes` can run here: earlier steps left at least a quarter of that free.

        Also true if a new process would hold as much after its first step of the same yool.
        """
        if ram_bytes is None or self._last_ram_bytes <= ram_bytes * 3 // 4:
            return True
        return yool == self._first_yool and self._last_ram_bytes <= self._first_ram_bytes * 5 // 4

    def stop(self) -> None:
        """End the process and everything in its group."""
        self.process.end()

    def reap(self) -> int:
        """Reap the ended process; return the most RAM it held in its last step, 0 if unknown."""
        for pipe in (self.process.popen.stdin, self.process.popen.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        peak_bytes = reap(self.process.popen)
        self.process.close()
        return peak_bytes if peak_bytes > self._peak_bytes else 0  # otherwise it may be the peak of an earlier step


class WarmPool:
    """Processes for callables, each running one step at a time."""

    def __init__(
        self,
        modules: Iterable[str],
        clock: Clock,
        enforcer: LimitEnforcer,
        containment: Callable[[Path], Containment],
        scratch: Path,
    ) -> None:
        """`scratch` is the folder in which the folders of steps are."""
        self._scratch = scratch
        self._modules = tuple(modules)
        self._enforcer = enforcer
        self._containment = containment
        self._clock = clock
        self._idle: dict[PoolKey, list[WarmProcess]] = {}
        self._all: set[WarmProcess] = set()
        self._most_in_use = 0
        self._lock = threading.Lock()

    def run(
        self, request: StepRequest, folder: StepFolder, report_spending: ReportSpending, stop: threading.Event
    ) -> tuple[int, str | None]:
        """Run a callable to its end; return its exit status, and why it failed or was stopped."""
        process, watch = self._begin(request, folder)
        refusal: EngramBusError | None = None
        answer: StepAnswer | None = None
        reusable, peak_bytes = False, 0
        try:
            while answer is None and refusal is None and not stop.is_set():
                answer = process.wait_for_answer(POLL_SECONDS)
                refusal = check_running(request, folder, report_spending, self._clock, watch)
            reusable = refusal is None and answer is not None and answer.exit != DIED_EXIT
        finally:
            if not reusable:
                process.stop()
            # Returned to the pool only after this: the enforcer must not end what the next step starts (decision 27).
            watch.end(keep_process=reusable)
            if reusable and not watch.is_clean:
                reusable = False
                process.stop()
            if reusable:
                self._give_back(request, process)
            else:
                peak_bytes = self._drop(process)
        if answer is not None and answer.exit != DIED_EXIT:
            peak_bytes = answer.peak_bytes
        left_bytes = 0 if answer is None else answer.shared_memory_bytes
        refusal = conclude(request, folder, report_spending, watch, refusal, peak_bytes, left_bytes)
        if refusal is not None or answer is None:
            return STOPPED_EXIT, "stopped" if refusal is None else refusal.code
        if answer.exit == DIED_EXIT:
            return DIED_EXIT, "the process died"
        return answer.exit, answer.error or (f"exit {answer.exit}" if answer.exit else None)

    def end_idle(self) -> None:
        """End the processes that wait for a step, in a thread of its own."""
        with self._lock:
            idle = [process for processes in self._idle.values() for process in processes]
            self._idle = {}
            self._all.difference_update(idle)
        if idle:
            threading.Thread(target=_end_all, args=(idle,), name="end-idle", daemon=True).start()

    def close(self) -> None:
        with self._lock:
            processes, self._all, self._idle = list(self._all), set(), {}
        _end_all(processes)

    def _code_of(self, request: StepRequest) -> tuple[list[str], MainScript | None]:
        """Return the modules, and the script if needed, that register the step's code."""
        module = getattr(request.yool.run, "__module__", None)
        if module != "__main__":
            return [*self._modules, *([module] if module and module not in self._modules else [])], None
        check_loadable(request.yool)
        return [*self._modules], current_script()

    def _begin(self, request: StepRequest, folder: StepFolder) -> tuple[WarmProcess, StepWatch]:
        """Start the step in a watched process; an idle one that died is replaced."""
        modules, script = self._code_of(request)
        while True:
            process = self._take(request)
            watch = self._enforcer.watch(process.process, request.limits, process.mark, request.ceiling, warm=True)
            with suppress(BrokenPipeError):
                process.begin(request, folder, modules, script)
                return process, watch
            if not process.has_answered:
                return process, watch  # a new process died at once, the next would too: the step fails
            process.stop()
            watch.end()
            self._drop(process)

    def _take(self, request: StepRequest) -> WarmProcess:
        """Return an idle process for the step, or a new one; then the longest idle one may be ended."""
        key = _pool_key(request)
        while (process := self._pop_idle(key)) is not None:
            if process.is_alive and process.has_room_for(request.yool.entry.full_name, request.limits.ram_bytes):
                return process
            process.stop()
            self._drop(process)
        # A process serves steps of one effect only, since it can never write more than it could at first.
        limits = write_limits(request.yool.entry.contract.effect, request.root, self._scratch)
        containment, disk_bytes = self._containment(request.root), request.limits.disk_bytes
        process = WarmProcess(request.env, str(request.root), containment, disk_bytes, limits)
        with self._lock:
            self._all.add(process)
            idle_count = sum(map(len, self._idle.values()))
            self._most_in_use = max(self._most_in_use, len(self._all) - idle_count)
            too_many = len(self._all) > max(self._most_in_use, MIN_PROCESSES)
            longest_idle = next((idle.pop(0) for idle in self._idle.values() if idle), None) if too_many else None
        if longest_idle is not None:
            longest_idle.stop()
            self._drop(longest_idle)
        return process

    def _pop_idle(self, key: PoolKey) -> WarmProcess | None:
        with self._lock:
            idle = self._idle.pop(key, [])
            self._idle[key] = idle  # moved to the end: keys are ordered by their last use
            return idle.pop() if idle else None

    def _give_back(self, request: StepRequest, process: WarmProcess) -> None:
        with self._lock:
            if process in self._all:
                self._idle.setdefault(_pool_key(request), []).append(process)

    def _drop(self, process: WarmProcess) -> int:
        with self._lock:
            self._all.discard(process)
        return process.reap()


def _end_all(processes: Iterable[WarmProcess]) -> None:
    for process in processes:
        process.stop()
        process.reap()


def _pool_key(request: StepRequest) -> PoolKey:
    # Niceness is part of it: a process can raise its own but, without privileges, never lower it again.
    # The disk limit is part of it: it sizes the process's own /dev/shm. So is the effect, which limits where it writes.
    own = (
        ("", str(request.root)),
        (" nice", str(niceness(request.limits.cores))),
        (" disk", str(request.limits.disk_bytes)),
        (" effect", request.yool.entry.contract.effect),
    )
    return (*sorted(request.env.items()), *own)
