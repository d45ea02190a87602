"""Locks between processes: files that one process at a time has locked, waited for within a limit (decision 92).

Who waits too long is refused STORE_BUSY, which names the process that holds the lock. The kernel releases a lock when
its process dies, so a lock that stays held belongs to a process that is stopped, hangs, or works for a long time.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from engrambus.core.files import open_file
from engrambus.errors import StoreBusy

LOCK_SECONDS = 30.0
"""How long a caller waits for a lock unless ENGRAMBUS_LOCK_SECONDS says otherwise."""

_FIRST_PAUSE_SECONDS = 0.0002
_LONGEST_PAUSE_SECONDS = 0.01
_KERNEL_LOCKS = Path("/proc/locks")
_NOTES_HOLDER = not sys.platform.startswith("linux")
"""True where the kernel does not list locks: there the holder writes its id into the file."""
_SUBCOMMAND = re.compile(r"[a-z][a-z-]{0,30}")
_INTERPRETER = re.compile(r"python[0-9.]*")


class LockHolder(NamedTuple):
    """The process that holds a lock."""

    pid: int
    command: str
    """The program and its subcommand, without arguments: those may hold a claim that the reader may not see."""
    is_stopped: bool
    """True if it was stopped by a signal, as by Ctrl-Z, and goes on only when it is continued."""

    def advice(self) -> str:
        """Say what a person can do about the lock."""
        if self.pid == os.getpid():
            return "Another call of this process is writing; try again."
        if self.is_stopped:
            return f"It is stopped: continue it with `kill -CONT {self.pid}`, or end it with `kill -KILL {self.pid}`."
        return f"Try again; if it hangs, end it with `kill {self.pid}`. Reading goes on."


@contextmanager
def file_lock(path: Path, limit_seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock on a file, creating it if necessary; the kernel releases it when the process dies."""
    lock = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        take_lock(lock, path, time.monotonic() + limit_seconds, limit_seconds)
        yield
    finally:
        os.close(lock)


def take_lock(descriptor: int, path: Path, deadline: float, limit_seconds: float) -> None:
    """Lock an open file, or raise StoreBusy if it is still locked at a moment of `time.monotonic`."""
    # Tried again and again: a blocking flock has no time limit, and a signal would reach the main thread only.
    pause = _FIRST_PAUSE_SECONDS
    while not try_lock(descriptor):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise store_busy(path, find_holder(descriptor), limit_seconds)
        time.sleep(min(pause, remaining))
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def try_lock(descriptor: int) -> bool:
    """Lock an open file if no other process has it locked; return True if it is locked now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    if _NOTES_HOLDER:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return True


def store_busy(path: Path, holder: LockHolder | None, limit_seconds: float) -> StoreBusy:
    """Return the refusal of a caller that waited too long for a lock."""
    named = "A process that could not be determined" if holder is None else f"Process {holder.pid} ({holder.command})"
    advice = f"See `fuser -v {path}` for the process; reading goes on." if holder is None else holder.advice()
    return StoreBusy(
        f"{named} holds {path.name} for more than {limit_seconds:g} s; nothing was stored.",
        limit=limit_seconds,
        hint=advice,
    )


def find_holder(descriptor: int) -> LockHolder | None:
    """Return the process that has an open file locked; None if it cannot be determined."""
    pid = _kernel_lock_pid(descriptor) or (_noted_pid(descriptor) if _NOTES_HOLDER else None)
    return None if pid is None else LockHolder(pid, _command(pid), _is_stopped(pid))


def this_process() -> LockHolder:
    """Return this process as the holder, for a lock that another thread has."""
    return LockHolder(os.getpid(), _command(os.getpid()), is_stopped=False)


def _kernel_lock_pid(descriptor: int) -> int | None:
    status = os.fstat(descriptor)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    other_pid = None
    with suppress(OSError, ValueError):
        for line in _KERNEL_LOCKS.read_text("ascii").splitlines():
            # 3: FLOCK  ADVISORY  WRITE 4711 08:01:131090 0 EOF — with `->` after the number for one that waits
            words = line.split()
            if len(words) < 6 or words[1] != "FLOCK" or int(words[4]) <= 0:
                continue
            lock_device, _, inode = words[5].rpartition(":")
            if int(inode) == status.st_ino:
                if lock_device == device:
                    return int(words[4])
                other_pid = int(words[4])  # some file systems show another device number in stat
    return other_pid


def _noted_pid(descriptor: int) -> int | None:
    with suppress(OSError, ValueError):
        pid = int(os.pread(descriptor, 20, 0))
        os.kill(pid, 0)
        return pid
    return None


def _command(pid: int) -> str:
    """Return the program of a process and, for one of ours, its subcommand."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
        if words != [""]:
            return _without_arguments(words)
    return "unknown command"


def _without_arguments(words: list[str]) -> str:
    program, arguments = words[0].rpartition("/")[2], words[1:]
    if _INTERPRETER.fullmatch(program):
        while arguments and arguments[0].startswith("-") and arguments[0] not in ("-m", "-c"):
            arguments = arguments[1:]
        if not arguments or arguments[0] == "-c":
            return program
        arguments = arguments[1:] if arguments[0] == "-m" else arguments
        program, arguments = arguments[0].rpartition("/")[2] if arguments else program, arguments[1:]
    if program.partition(".")[0] == "engrambus" and arguments and _SUBCOMMAND.fullmatch(arguments[0]):
        return f"{program} {arguments[0]}"
    return program


def _is_stopped(pid: int) -> bool:
    with suppress(OSError, IndexError):
        # the name in parentheses may hold anything, so the state is looked for behind the last one
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] in ("T", "t")
    return False
