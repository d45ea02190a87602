"""The worker's side of its warden: says what is to be watched, and hears what went too far."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from engrambus.errors import DiskQuota, MemoryQuota, QuotaRefusal
from engrambus.policy.guardrails import StepLimits

_REFUSALS: dict[str, type[QuotaRefusal]] = {each.code: each for each in (MemoryQuota, DiskQuota)}


class Watch:
    """A step under guard."""

    def __init__(self, warden: Warden, pid: int, limits: StepLimits, mark: str, *, warm: bool) -> None:
        self._warden = warden
        self.pid = pid
        self.mark = mark
        """What stands in the environment of everything the step starts, and of nothing else."""
        self.order = {"do": "watch", "pid": pid, "limits": msgspec.to_builtins(limits), "mark": mark, "warm": warm}
        self.past: QuotaRefusal | None = None
        """The quota it is past, once it is."""

    def end(self, *, keep: bool = False) -> None:
        """Guard it no more; what it started is ended, its first process too unless it is kept for the next step.

        That is so when this returns: the next step in the same process has nothing to fear. It is also known then
        whether the step was past a quota at its end."""
        self._warden.forget(self, keep=keep)

    def note(self, past: Sequence[Any] | None) -> None:
        """What the warden says of it."""
        if past is not None and self.past is None:
            code, used, limit = past
            self.past = _REFUSALS[code](limit=limit, used=used)


class _Asked:
    """An order whose answer is waited for."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.answered = threading.Event()
        self.past: Sequence[Any] | None = None


class Warden:
    """One for each worker; its process is started with the first step, and goes with the worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._watches: dict[int, Watch] = {}
        self._asked: dict[int, _Asked] = {}
        self._number = 0
        self._told = threading.Event()
        self._note = ""

    def expect(self, mark: str) -> None:
        """A process with this mark is about to be started: should the worker end before it is watched, it ends too."""
        self._ask({"do": "expect", "mark": mark})

    def expect_no_more(self, mark: str) -> None:
        """No process was started with this mark."""
        self._ask({"do": "forget", "pid": 0, "mark": mark, "keep": False})

    def watch(self, pid: int, limits: StepLimits, mark: str, *, warm: bool = False) -> Watch:
        """Hold a process, and everything it starts, to what it may take from now on."""
        watch = Watch(self, pid, limits, mark, warm=warm)
        _give_up_first(pid)
        with self._lock:
            self._watches[pid] = watch
        self._ask(watch.order | {"again": False})
        return watch

    def forget(self, watch: Watch, *, keep: bool) -> None:
        """Guard a step no more."""
        past = self._ask({"do": "forget", "pid": watch.pid, "mark": watch.mark, "keep": keep})
        with self._lock:
            if self._watches.get(watch.pid) is watch:
                del self._watches[watch.pid]
        watch.note(past)

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

    def _ask(self, order: dict[str, Any]) -> Sequence[Any] | None:
        """Have something done; returns when it is, or when there is no warden who could."""
        asked = _Asked(order)
        with self._lock:
            self._number += 1
            order["number"] = self._number
            self._asked[self._number] = asked
            try:
                self._send(order)
            except OSError:  # no process could be started
                del self._asked[self._number]
                raise
        asked.answered.wait()
        return asked.past

    def _send(self, order: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # somebody ended it: whoever hears it notices, and starts another
            _write(self._started(), order)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "engrambus.space.work.guard.warden_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={"PYTHONPATH": os.pathsep.join(each for each in sys.path if each), "PATH": os.defpath},
                start_new_session=True,
            )
            threading.Thread(target=self._hear, args=(self._process,), name="warden", daemon=True).start()
        return self._process

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        came_up = False
        for line in process.stdout or ():
            said, came_up = json.loads(line), True
            if "note" in said:
                self._note = said["note"]
                self._told.set()
            elif "done" in said:
                # Without the lock: whoever has it may be waiting for the warden to read.
                asked = self._asked.pop(said["done"], None)
                if asked is not None:
                    asked.past = said["past"]
                    asked.answered.set()
            elif (watch := self._watches.get(said["pid"])) is not None:
                watch.note(said["past"])
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
                    if came_up:
                        self._tell_anew()
                        return
            # It was let go, or none can be had: nobody waits for its answers.
            for number in list(self._asked):
                self._asked.pop(number).answered.set()

    def _tell_anew(self) -> None:
        """Tell a new warden what the one before it knew."""
        waiting = {asked.order["pid"]: number for number, asked in self._asked.items() if asked.order["do"] == "watch"}
        for watch in self._watches.values():
            self._send(watch.order | {"again": True, "number": waiting.get(watch.pid, 0)})
        for asked in list(self._asked.values()):
            if asked.order["do"] != "watch":
                self._send(asked.order)


def _write(process: subprocess.Popen[bytes], order: dict[str, Any]) -> None:
    if process.stdin is None:
        raise BrokenPipeError
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()


def _give_up_first(pid: int) -> None:
    """Should the machine run out of memory between two looks of the warden, the kernel ends the step, not us."""
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000", "ascii")
