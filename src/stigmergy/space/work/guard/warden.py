"""The worker's side of its warden: says what is to be watched, and hears what went too far."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import msgspec

from stigmergy.errors import DiskQuota, MemoryQuota, QuotaRefusal
from stigmergy.policy.guardrails import MB, StepLimits

_REFUSALS: dict[str, type[QuotaRefusal]] = {each.code: each for each in (MemoryQuota, DiskQuota)}


class Watch:
    """A step under guard."""

    def __init__(self, warden: Warden, pid: int, limits: StepLimits, mark: str) -> None:
        self._warden = warden
        self.pid = pid
        self.limits = limits
        self.mark = mark
        """What stands in the environment of everything the step starts, and of nothing else."""
        self.past: QuotaRefusal | None = None
        """The quota it is past, once it is."""

    def end(self, *, keep: bool = False) -> None:
        """Guard it no more; what it started is ended, its first process too unless it is kept for the next step."""
        self._warden.forget(self, keep=keep)
        if keep:
            _bound(self.pid, None, warm=True)


class Warden:
    """One for each worker; its process is started with the first step, and goes with the worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._watches: dict[int, Watch] = {}
        self._told = threading.Event()
        self._note = ""

    def expect(self, mark: str) -> None:
        """A process with this mark is about to be started: should the worker end before it is watched, it ends too."""
        with self._lock:
            self._send({"do": "expect", "mark": mark})

    def watch(self, pid: int, limits: StepLimits, mark: str, *, warm: bool = False) -> Watch:
        """Hold a process, and everything it starts, to what it may take from now on."""
        watch = Watch(self, pid, limits, mark)
        _bound(pid, limits, warm=warm)
        with self._lock:
            self._watches[pid] = watch
            self._send(_order(watch))
        return watch

    def forget(self, watch: Watch, *, keep: bool) -> None:
        """Guard a step no more."""
        with self._lock:
            if self._watches.get(watch.pid) is watch:
                del self._watches[watch.pid]
                self._send({"do": "forget", "pid": watch.pid, "mark": watch.mark, "keep": keep})

    def note(self, seconds: float = 10.0) -> str:
        """How quotas are held on this machine, and why not better."""
        with self._lock:
            self._started()
        self._told.wait(seconds)
        return self._note

    def close(self) -> None:
        """Let the process go; it ends whatever is still under guard."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()

    def _send(self, order: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # somebody ended it: whoever hears it notices, and starts another
            _write(self._started(), order)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "stigmergy.space.work.guard.warden_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={"PYTHONPATH": os.pathsep.join(each for each in sys.path if each), "PATH": os.defpath},
                start_new_session=True,
            )
            threading.Thread(target=self._hear, args=(self._process,), name="warden", daemon=True).start()
        return self._process

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        for line in process.stdout or ():
            said = json.loads(line)
            if "note" in said:
                self._note = said["note"]
                self._told.set()
                continue
            watch = self._watches.get(said["pid"])
            if watch is not None and watch.past is None:
                watch.past = _REFUSALS[said["past"]](limit=said["limit"], used=said["used"])
        if process.stdout is not None:
            process.stdout.close()
        with self._lock:
            if self._process is not process:
                return  # it was let go
            process.wait()
            if process.stdin is not None:
                with suppress(BrokenPipeError):
                    process.stdin.close()
            self._process = None
            for each in self._watches.values():
                self._send(_order(each))


def _order(watch: Watch) -> dict[str, Any]:
    return {"do": "watch", "pid": watch.pid, "limits": msgspec.to_builtins(watch.limits), "mark": watch.mark}


def _write(process: subprocess.Popen[bytes], order: dict[str, Any]) -> None:
    if process.stdin is None:
        raise BrokenPipeError
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()


def _bound(pid: int, limits: StepLimits | None, *, warm: bool) -> None:
    """Bounds the kernel keeps for each process by itself, above what the warden watches for all of them together: what
    takes too much between two looks of the warden meets these. A warm process gets its own back."""
    if not hasattr(resource, "prlimit"):
        return
    said = StepLimits() if limits is None else limits
    for what, limit in ((resource.RLIMIT_DATA, said.memory), (resource.RLIMIT_FSIZE, said.disk)):
        wanted = None if limit is None else limit * 5 // 4 + 64 * MB
        with suppress(ProcessLookupError, PermissionError, ValueError):
            _, most = resource.prlimit(pid, what)
            if wanted is None:
                if warm:
                    resource.prlimit(pid, what, (most, most))
                continue
            soft = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
            resource.prlimit(pid, what, (soft, most if warm else soft))
