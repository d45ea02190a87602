"""The worker's side of its limit enforcer: it orders which processes to watch and receives exceeded quotas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from engrambus.errors import (
    DiskQuota,
    EngramBusError,
    LimitEnforcerLost,
    MemoryQuota,
    ProcessQuota,
    QuotaRefusal,
    WorkerQuota,
)
from engrambus.policy.guardrails import Ceiling, StepLimits
from engrambus.space.work.guard.contained_process import ContainedProcess

_REFUSALS: dict[str, type[QuotaRefusal]] = {kind.code: kind for kind in (MemoryQuota, DiskQuota, ProcessQuota)}
_SHARED: dict[str, tuple[str, str]] = {
    MemoryQuota.code: ("memory_mb", "used more memory"),
    ProcessQuota.code: ("max_processes", "had more processes"),
}
"""Term and words of a quota that several steps share."""


class StepWatch:
    """A step whose processes are watched."""

    def __init__(
        self,
        enforcer: LimitEnforcer,
        process: ContainedProcess,
        limits: StepLimits,
        mark: str,
        ceilings: Iterable[Ceiling],
        *,
        warm: bool,
    ) -> None:
        """`mark` is a variable that is in the environment of everything the step starts, and of nothing else."""
        self._enforcer = enforcer
        self.pid = process.pid
        self.mark = mark
        self.order = {
            "do": "watch",
            "pid": process.pid,
            "limits": msgspec.to_builtins(limits),
            "ceilings": msgspec.to_builtins(list(ceilings)),
            "mark": mark,
            "warm": warm,
            "supervisors": process.containment.supervisors,
        }
        self.refusal: EngramBusError | None = None
        """The first quota the step has exceeded, or that nobody watches it any more."""
        self.is_clean = True
        """False if the step started processes faster than they could be killed."""
        self.is_ending = False
        self.written_bytes = 0
        """Bytes the step wrote to disks, known once it has ended."""

    def end(self, *, keep_process: bool = False) -> None:
        """Stop watching and end what the step started; its first process too, unless it is kept for the next step.

        When this returns all of that has ended, and `refusal` covers the step to its end.
        """
        self._enforcer.end_watch(self, keep_process=keep_process)

    def record(self, exceeded: Sequence[Any] | None) -> None:
        """Keep the first exceeded quota that the enforcer reports."""
        if exceeded is not None and self.refusal is None:
            self.refusal = _refusal(*exceeded)


class _PendingOrder:
    """An order whose answer is awaited."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.answered = threading.Event()
        self.exceeded: Sequence[Any] | None = None
        self.is_clean = True
        self.written_bytes = 0


class LimitEnforcer:
    """Client of the enforcer process of one worker, which starts with the first order and ends with the worker."""

    # decision 27: a process of its own, because it must not wait for the interpreter lock of a busy worker, and must
    # outlive a killed worker to end the processes it left stopped or running.

    def __init__(self, ceiling: Ceiling | None = None, end_idle: Callable[[], None] = lambda: None) -> None:
        """`ceiling` limits all steps together; `end_idle` ends processes that wait for a step, to free their RAM."""
        self._ceiling = ceiling
        self._end_idle = end_idle
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._watches: dict[int, StepWatch] = {}
        self._pending: dict[int, _PendingOrder] = {}
        self._last_number = 0
        self._description = ""
        self._has_description = threading.Event()

    def expect(self, mark: str) -> None:
        """Announce a process with this mark: if the worker dies before it is watched, it is ended too."""
        self._order({"do": "expect", "mark": mark})

    def cancel_expected(self, mark: str) -> None:
        """Withdraw `expect`: no process was started with this mark."""
        self._order({"do": "end", "pid": 0, "mark": mark, "keep_process": False})

    def watch(
        self,
        process: ContainedProcess,
        limits: StepLimits,
        mark: str,
        ceiling: Ceiling | None = None,
        *,
        warm: bool = False,
    ) -> StepWatch:
        """Enforce limits on a process and everything it starts from now on; `ceiling` is that of its tuple."""
        ceilings = filter(None, (ceiling, self._ceiling))
        watch = StepWatch(self, process, limits, mark, ceilings, warm=warm)
        if not process.containment.supervisors:
            _prefer_for_oom_kill(process.pid)
        with self._lock:
            self._watches[process.pid] = watch
        self._order(watch.order | {"restarted": False})
        return watch

    def end_watch(self, watch: StepWatch, *, keep_process: bool) -> None:
        watch.is_ending = True
        ended = self._order({"do": "end", "pid": watch.pid, "mark": watch.mark, "keep_process": keep_process})
        with self._lock:
            if self._watches.get(watch.pid) is watch:
                del self._watches[watch.pid]
        watch.record(ended.exceeded)
        watch.is_clean = ended.is_clean
        watch.written_bytes = ended.written_bytes

    def describe(self, seconds: float = 10.0) -> str:
        """Say how limits are enforced on this machine, and why not by a better method."""
        with self._lock:
            self._started()
        self._has_description.wait(seconds)
        return self._description

    def close(self) -> None:
        """Close the pipe and wait: the enforcer then ends everything it still watches, and exits."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()

    def _order(self, order: dict[str, Any]) -> _PendingOrder:
        """Send an order and wait until it is carried out, or until no enforcer can be started."""
        pending = _PendingOrder(order)
        with self._lock:
            self._last_number += 1
            order["number"] = self._last_number
            self._pending[self._last_number] = pending
            try:
                self._send(order)
            except OSError:  # no process could be started
                del self._pending[self._last_number]
                raise
        pending.answered.wait()
        return pending

    def _send(self, order: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # it was killed: `_read_answers` notices that and starts another
            _write(self._started(), order)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "engrambus.space.work.guard.limit_enforcer_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": os.defpath},
                start_new_session=True,
            )
            threading.Thread(
                target=self._read_answers, args=(self._process,), name="limit-enforcer", daemon=True
            ).start()
        return self._process

    def _read_answers(self, process: subprocess.Popen[bytes]) -> None:
        answered = False
        for line in process.stdout or ():
            answer, answered = json.loads(line), True
            if "description" in answer:
                self._description = answer["description"]
                self._has_description.set()
            elif "done" in answer:
                # Without the lock: the thread that holds it may be blocked until the enforcer reads its order.
                pending = self._pending.pop(answer["done"], None)
                if pending is not None:
                    pending.exceeded, pending.is_clean = answer["exceeded"], answer["is_clean"]
                    pending.written_bytes = answer["written_bytes"]
                    pending.answered.set()
            elif "end_idle" in answer:
                self._end_idle()
            elif (watch := self._watches.get(answer["pid"])) is not None:
                watch.record(answer["exceeded"])
        if process.stdout is not None:
            process.stdout.close()
        with self._lock:
            if self._process is process:
                process.wait()
                if process.stdin is not None:
                    with suppress(BrokenPipeError):
                        process.stdin.close()
                self._process = None
                with suppress(OSError):
                    if answered:
                        self._restart()
                        return
            # It was closed, or cannot be started: release the threads that wait for its answers.
            for number in list(self._pending):
                self._pending.pop(number).answered.set()

    def _restart(self) -> None:
        """Start another enforcer and send it all watches and pending orders.

        Steps that were running are stopped: what they did while they were not watched is unknown (decision 95).
        """
        for watch in self._watches.values():
            if not watch.is_ending and watch.refusal is None:
                watch.refusal = LimitEnforcerLost()
        numbers = {
            pending.order["pid"]: number for number, pending in self._pending.items() if pending.order["do"] == "watch"
        }
        for watch in self._watches.values():
            self._send(watch.order | {"restarted": True, "number": numbers.get(watch.pid, 0)})
        for pending in list(self._pending.values()):
            if pending.order["do"] != "watch":
                self._send(pending.order)


def _refusal(code: str, used: int, limit: int, scope: str) -> EngramBusError:
    """Return the error of a step that was stopped for a limit of its own, of its tuple or of its worker."""
    if scope == "step":
        return _REFUSALS[code](limit=limit, used=used)
    term, words = _SHARED[code]
    if scope == "tuple":
        detail = f"The steps of the tuple that ran at once together {words} than it may; this one most."
        return _REFUSALS[code](detail, field=f"agent_terms.{term}", limit=limit, used=used)
    detail = f"The steps of the worker together {words} than it may; this one most."
    return WorkerQuota(detail, field=term, limit=limit, used=used)


def _write(process: subprocess.Popen[bytes], order: dict[str, Any]) -> None:
    if process.stdin is None:
        raise BrokenPipeError
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()


def _prefer_for_oom_kill(pid: int) -> None:
    """Have the kernel kill the step rather than the worker if the machine runs out of RAM between two checks."""
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000", "ascii")
