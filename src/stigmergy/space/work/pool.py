"""Callables in warm processes: started when they are needed, kept for the next step, ended when they must stop."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping

from stigmergy.core import Clock
from stigmergy.policy.guardrails import niceness
from stigmergy.space.work.commands import LOOK_SECONDS, STOPPED, end_group, look, mark_of
from stigmergy.space.work.folder import StepFolder
from stigmergy.space.work.guard import Warden
from stigmergy.space.work.ports import StepRequest, Told

GONE = 137
_MARK = "STIGMERGY_PROCESS"


class WarmProcess:
    """One process that runs callables."""

    def __init__(self, env: Mapping[str, str], root: str) -> None:
        name = secrets.token_hex(16)
        self.mark = mark_of(_MARK, name)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stigmergy.space.work.pool_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # It finds what we find.
            env={**env, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each), _MARK: name},
            cwd=root,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process and its process group."""
        return self._process.pid

    def begin(self, request: StepRequest, folder: StepFolder, modules: Iterable[str]) -> None:
        """Hand a step over."""
        job = {
            "yool": request.yool.entry.full_name,
            "args": dict(request.args),
            "modules": list(modules),
            "stdout": str(folder.stdout),
            "stderr": str(folder.stderr),
            "artifacts": str(folder.artifacts),
            "cost": str(folder.cost),
            "temporary": str(folder.temporary),
        }
        stdin = self._process.stdin
        if stdin is None:
            raise BrokenPipeError
        stdin.write(json.dumps(job).encode() + b"\n")
        stdin.flush()

    def answer(self, seconds: float) -> int | None:
        """The exit of the step, if it has come; GONE when the process is."""
        stdout = self._process.stdout
        if stdout is None:
            return GONE
        ready, _, _ = select.select([stdout], [], [], seconds)
        if not ready:
            return None
        line = stdout.readline()
        return int(json.loads(line)["exit"]) if line else GONE

    def end(self) -> None:
        """End the process and everything it started."""
        end_group(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class WarmPool:
    """Processes for callables, one step in each at a time. Those of one environment serve only steps that see it."""

    def __init__(self, modules: Iterable[str], clock: Clock, warden: Warden) -> None:
        self._modules = tuple(modules)
        self._warden = warden
        self._clock = clock
        self._idle: dict[tuple[tuple[str, str], ...], list[WarmProcess]] = {}
        self._all: set[WarmProcess] = set()
        self._lock = threading.Lock()

    def run(
        self, request: StepRequest, folder: StepFolder, told: Told, stop: threading.Event
    ) -> tuple[int, str | None]:
        """Run a callable to its end; its exit, and why it was stopped."""
        process = self._take(request)
        watch = self._warden.watch(process.pid, request.limits, process.mark, warm=True)
        kept = False
        try:
            process.begin(request, folder, self._modules_of(request))
            while True:
                code = process.answer(LOOK_SECONDS)
                error = look(request, folder, told, stop, self._clock, watch)
                if error is not None or code == GONE:
                    return (STOPPED, error) if error is not None else (GONE, "the process died")
                if code is not None:
                    kept = True
                    return code, f"exit {code}" if code else None
        except BrokenPipeError:
            return GONE, "the process was gone"
        finally:
            if not kept:
                self._drop(process)
            watch.end(keep=kept)
            if kept:
                self._give_back(request, process)

    def close(self) -> None:
        """End every process."""
        with self._lock:
            processes, self._all, self._idle = list(self._all), set(), {}
        for process in processes:
            process.end()

    def _modules_of(self, request: StepRequest) -> list[str]:
        own = getattr(request.yool.run, "__module__", None)
        return [*self._modules, *([own] if own and own not in self._modules else [])]

    def _take(self, request: StepRequest) -> WarmProcess:
        with self._lock:
            idle = self._idle.get(_seen(request), [])
            if idle:
                return idle.pop()
        process = WarmProcess(request.env, str(request.root))
        with self._lock:
            self._all.add(process)
        return process

    def _give_back(self, request: StepRequest, process: WarmProcess) -> None:
        with self._lock:
            if process in self._all:
                self._idle.setdefault(_seen(request), []).append(process)

    def _drop(self, process: WarmProcess) -> None:
        with self._lock:
            self._all.discard(process)
        process.end()


def _seen(request: StepRequest) -> tuple[tuple[str, str], ...]:
    # A process that stood back for others stands back for good: only steps that stand back as far share it.
    return (*sorted(request.env.items()), ("", str(request.root)), (" nice", str(niceness(request.limits.cores))))
