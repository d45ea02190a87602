"""The most memory processes held at once, told by the kernel after the fact: what no look could have missed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

_UNIT = 1 if sys.platform == "darwin" else 1024


class OwnPeak:
    """The most that this process, or one of its children that has ended, held since this was made."""

    def __init__(self) -> None:
        self._own, self._children = _most(resource.RUSAGE_SELF), _most(resource.RUSAGE_CHILDREN)
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
        except OSError:  # then only what is more than ever before is known
            return
        self._own = 0

    def read(self) -> int:
        """Bytes; 0 when it was no more than before, or nobody tells."""
        own, children = (
            _status("VmHWM:") if self._own == 0 else _most(resource.RUSAGE_SELF),
            _most(resource.RUSAGE_CHILDREN),
        )
        return max(own if own > self._own else 0, children if children > self._children else 0)

    def held(self) -> int:
        """Bytes this process holds now; 0 when nobody tells."""
        return _status("VmRSS:")


def reap(process: subprocess.Popen[bytes]) -> int:
    """Take the exit of a process that has ended; the most that it or a child it waited for held at once, in bytes.

    0 when that is no more than we hold ourselves: until it becomes a program of its own a process is a copy of us, and
    the kernel counts that too."""
    if process.returncode is not None:
        return 0
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    most = used.ru_maxrss * _UNIT
    return most if most > _most(resource.RUSAGE_SELF) else 0


def _most(who: int) -> int:
    return resource.getrusage(who).ru_maxrss * _UNIT


def _status(name: str) -> int:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(name)), 0)
    except OSError:
        return 0
