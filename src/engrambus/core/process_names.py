"""Names of processes: a name that no other process of any machine has, and whether its process has ended."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def process_name(pid: int | None = None) -> str:
    """Return `<host>:<namespace>/<pid>.<start time>`, a name that no other process ever has."""
    number = os.getpid() if pid is None else pid
    return f"{_host()}/{number}.{_start_ticks(number) or 0}"


def is_dead(name: str) -> bool:
    """True if a process of this machine has ended; False for one of another machine, which cannot be looked up."""
    host, _, process = name.rpartition("/")
    pid, _, start_ticks = process.partition(".")
    if host != _host() or not pid.isdigit():
        return False
    current = _start_ticks(int(pid))
    return current is None or str(current) != start_ticks


def _host() -> str:
    """Return the name of this machine, with the number of the process ids' namespace: containers may share a name."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}:{namespace}"


def _start_ticks(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; 0 if that is unknown, None if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return None
    except ProcessLookupError:
        return None
    else:
        # The name of the program stands in brackets and may itself contain brackets and spaces.
        fields = text.rpartition(b")")[2].split()
        return None if fields[0] == b"Z" else int(fields[19])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return 0
    return 0
