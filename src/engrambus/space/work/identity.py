"""Who a worker is, so that others can tell whether it is alive."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def worker_name(pid: int | None = None) -> str:
    """`<host>/<process>.<when it started>`: no other process ever has the same."""
    process = os.getpid() if pid is None else pid
    return f"{socket.gethostname()}/{process}.{_started(process) or 0}"


def is_dead(worker: str) -> bool:
    """Whether a worker is known to be gone; of another machine's nothing is known."""
    host, _, rest = worker.rpartition("/")
    process, _, started = rest.partition(".")
    if host != socket.gethostname() or not process.isdigit():
        return False
    now = _started(int(process))
    return now is None or str(now) != started


def _started(pid: int) -> int | None:
    """When a process started, in ticks since the machine did; 0 where that cannot be had, none when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return None
    except ProcessLookupError:
        return None
    else:
        fields = text.rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[19])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return 0
    return 0
