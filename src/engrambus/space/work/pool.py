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
from contextlib import suppress

import msgspec

from engrambus.core import Clock
from engrambus.errors import EngramBusError, YoolNotFound
from engrambus.policy.guardrails import niceness
from engrambus.space.work.commands import LOOK_SECONDS, STOPPED, conclude, end_group, has_ended, look, mark_of
from engrambus.space.work.folder import StepFolder
from engrambus.space.work.guard import Warden, Watch, reap
from engrambus.space.work.ports import StepRequest, Told
from engrambus.space.work.script import Script, own_script

GONE = 137
FEW = 8
"""So many processes are kept in any case; more only if as many were in use at once."""
_MARK = "ENGRAMBUS_PROCESS"
_BEGIN = (
    "import sys; sys.path[:] = sys.argv[1:]; del sys.argv[1:]\n"
    "from engrambus.space.work.pool_process import main; main()"
)
Seen = tuple[tuple[str, str], ...]
"""What a process sees of the world; only steps that see the same share it."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a warm process says when a step has ended."""

    exit: int
    error: str | None = None
    """The code of what is wrong with what the step gave back."""
    peak: int = 0
    """The most memory it, or a child of it, held at once meanwhile; 0 when it does not know."""
    held: int = 0
    """What it holds now."""


class WarmProcess:
    """One process that runs callables."""

    def __init__(self, env: Mapping[str, str], root: str) -> None:
        name = secrets.token_hex(16)
        self._held: tuple[int, int] = (0, 0)
        self._first = ""
        self._peak = 0
        self.answered = False
        """Whether it has run a step to its end."""
        self.mark = mark_of(_MARK, name)
        self._process = subprocess.Popen(
            # It finds what we find, and nothing before that: -P keeps the folder it starts in off its path. It is told
            # in arguments, for its environment goes on to all that steps start, and another Python may be among that.
            [sys.executable, "-P", "-c", _BEGIN, *(each or os.getcwd() for each in sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**env, _MARK: name},
            cwd=root,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process and its process group."""
        return self._process.pid

    def begin(self, request: StepRequest, folder: StepFolder, modules: Iterable[str], script: Script | None) -> None:
        """Hand a step over; its code is registered by these modules, or by the script."""
        yool = request.yool.entry.full_name
        self._first = self._first or yool
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
        }
        stdin = self._process.stdin
        if stdin is None:
            raise BrokenPipeError
        stdin.write(json.dumps(job).encode() + b"\n")
        stdin.flush()

    def answer(self, seconds: float) -> Answer | None:
        """What became of the step, if it has come; GONE when the process is."""
        stdout = self._process.stdout
        if stdout is None:
            return Answer(exit=GONE)
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return None
        line = stdout.readline()
        if not line:
            return Answer(exit=GONE)
        answer = msgspec.json.decode(line, type=Answer)
        self.answered = True
        self._held = (self._held[0] or answer.held, answer.held)
        self._peak = max(self._peak, answer.peak)
        return answer

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return not has_ended(self._process, 0.0)

    def fits(self, yool: str, memory: int | None) -> bool:
        """Whether a step that may hold so much can be run in it: not when the steps before it left most of that, unless
        a new process would have as much after its first step of this yool."""
        first, last = self._held
        return memory is None or last <= memory * 3 // 4 or (yool == self._first and last <= first * 5 // 4)

    def stop(self) -> None:
        """End the process and everything in its group."""
        end_group(self._process)

    def reap(self) -> int:
        """Let go of it once it has ended; the most memory it held at once, if that is known."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        most = reap(self._process)
        return most if most > self._peak else 0  # what a step before this one held is not this one's


class WarmPool:
    """Processes for callables, one step in each at a time. Those of one environment serve only steps that see it."""

    def __init__(self, modules: Iterable[str], clock: Clock, warden: Warden) -> None:
        self._modules = tuple(modules)
        self._warden = warden
        self._clock = clock
        self._idle: dict[Seen, list[WarmProcess]] = {}
        self._all: set[WarmProcess] = set()
        self._most = 0
        """How many were in use at once."""
        self._lock = threading.Lock()

    def run(
        self, request: StepRequest, folder: StepFolder, told: Told, stop: threading.Event
    ) -> tuple[int, str | None]:
        """Run a callable to its end; its exit, and why it was stopped."""
        process, watch = self._begin(request, folder)
        refusal: EngramBusError | None = None
        answer: Answer | None = None
        kept, peak = False, 0
        try:
            while answer is None and refusal is None and not stop.is_set():
                answer = process.answer(LOOK_SECONDS)
                refusal = look(request, folder, told, self._clock, watch)
            kept = refusal is None and answer is not None and answer.exit != GONE
        finally:
            if not kept:
                process.stop()
            watch.end(keep=kept)
            if kept:
                self._give_back(request, process)
            else:
                peak = self._drop(process)
        if kept and answer is not None:
            peak = answer.peak
        refusal = conclude(request, folder, told, watch, refusal, peak)
        if refusal is not None or answer is None:
            return STOPPED, "stopped" if refusal is None else refusal.code
        if answer.exit == GONE:
            return GONE, "the process died"
        return answer.exit, answer.error or (f"exit {answer.exit}" if answer.exit else None)

    def close(self) -> None:
        """End every process."""
        with self._lock:
            processes, self._all, self._idle = list(self._all), set(), {}
        for process in processes:
            process.stop()
            process.reap()

    def _code_of(self, request: StepRequest) -> tuple[list[str], Script | None]:
        """The modules, and the script if need be, that register what carries the step out."""
        own = getattr(request.yool.run, "__module__", None)
        if own != "__main__":
            return [*self._modules, *([own] if own and own not in self._modules else [])], None
        script = own_script()
        if script is None:
            raise YoolNotFound(
                f"'{request.yool.entry.full_name}' stands in a session, and processes of their own cannot load that.",
                field="name",
                used=request.yool.entry.full_name,
                hint="Write it into a file, and import or run that.",
            )
        return [*self._modules], script

    def _begin(self, request: StepRequest, folder: StepFolder) -> tuple[WarmProcess, Watch]:
        """A process that has the step, and is under guard; one that died while it waited costs the step nothing."""
        modules, script = self._code_of(request)
        while True:
            process = self._take(request)
            watch = self._warden.watch(process.pid, request.limits, process.mark, warm=True)
            with suppress(BrokenPipeError):
                process.begin(request, folder, modules, script)
                return process, watch
            if not process.answered:
                return process, watch  # none can be had; it does not answer
            process.stop()
            watch.end()
            self._drop(process)

    def _take(self, request: StepRequest) -> WarmProcess:
        """A process for the step: one that waits, or a new one in the place of the one that waited longest."""
        seen = _seen(request)
        while (process := self._waiting(seen)) is not None:
            if process.is_alive and process.fits(request.yool.entry.full_name, request.limits.memory):
                return process
            process.stop()
            self._drop(process)
        process = WarmProcess(request.env, str(request.root))
        with self._lock:
            self._all.add(process)
            waiting = sum(map(len, self._idle.values()))
            self._most = max(self._most, len(self._all) - waiting)
            many = len(self._all) > max(self._most, FEW)
            longest = next((each.pop(0) for each in self._idle.values() if each), None) if many else None
        if longest is not None:
            longest.stop()
            self._drop(longest)
        return process

    def _waiting(self, seen: Seen) -> WarmProcess | None:
        with self._lock:
            idle = self._idle.pop(seen, [])
            self._idle[seen] = idle  # used just now: others have waited longer
            return idle.pop() if idle else None

    def _give_back(self, request: StepRequest, process: WarmProcess) -> None:
        with self._lock:
            if process in self._all:
                self._idle.setdefault(_seen(request), []).append(process)

    def _drop(self, process: WarmProcess) -> int:
        with self._lock:
            self._all.discard(process)
        return process.reap()


def _seen(request: StepRequest) -> Seen:
    # A process that stood back for others stands back for good: only steps that stand back as far share it.
    return (*sorted(request.env.items()), ("", str(request.root)), (" nice", str(niceness(request.limits.cores))))
