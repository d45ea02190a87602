"""Control groups, version 2: the kernel itself holds a step to its quota, where it lets us make groups."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from engrambus.policy.guardrails import StepLimits

PERIOD_US = 100_000
WANTED = frozenset({"cpu", "memory"})
MOUNT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


class CgroupsRefused(Exception):
    """There is no control group here that we may divide; the reason is for people."""


class Cgroups:
    """A control group that is ours to divide among steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0

    @classmethod
    def find(cls, mount: Path = MOUNT, own: Path = OWN) -> Cgroups:
        """The group this process is in, if it may be divided; it is left as it was if not."""
        folder = _own_folder(mount, own)
        offered = set(_text(folder / "cgroup.controllers").split())
        if not offered >= WANTED:
            missing = " and ".join(sorted(WANTED - offered))
            raise CgroupsRefused(f"cgroup v2 does not offer {missing} here")
        if not os.access(folder / "cgroup.procs", os.W_OK) or not os.access(folder, os.W_OK):
            raise CgroupsRefused("the cgroup is not writable")
        _divide(folder)
        return cls(folder)

    def group(self, limits: StepLimits) -> Cgroup:
        """A group for one step."""
        self._made += 1
        folder = self._folder / f"engrambus-{os.getpid()}-{self._made}"
        folder.mkdir()
        (folder / "cpu.max").write_text(f"{max(1000, round(limits.cores * PERIOD_US))} {PERIOD_US}")
        if limits.memory is not None:
            (folder / "memory.max").write_text(str(limits.memory))
            with suppress(OSError):
                (folder / "memory.swap.max").write_text("0")
            with suppress(OSError):
                (folder / "memory.oom.group").write_text("1")
        return Cgroup(folder)


class Cgroup:
    """One step's group."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._in: set[int] = set()

    def take(self, pids: list[int]) -> None:
        """Have these processes, and all they start from now on, in the group."""
        for pid in pids:
            if pid not in self._in:
                with suppress(OSError):  # it has ended
                    (self._folder / "cgroup.procs").write_text(str(pid))
                self._in.add(pid)

    def give_back(self, pid: int) -> None:
        """Have a process out of the group again."""
        with suppress(OSError):
            (self._folder.parent / _WORKER / "cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """Whether the kernel ended processes because they held more memory than they may."""
        told = dict(line.split() for line in _text(self._folder / "memory.events").splitlines())
        return int(told.get("oom_kill", 0)) > 0

    def end(self) -> None:
        """End every process in it, and take it away."""
        with suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")
        with suppress(OSError):
            self._folder.rmdir()


_WORKER = "engrambus-worker"


def _divide(folder: Path) -> None:
    """Let the group have parts: then it holds no processes itself, so those in it, all ours, move into a part."""
    inside = [int(pid) for pid in _text(folder / "cgroup.procs").split()]
    ours = {os.getpid(), os.getppid()}
    if set(inside) - ours:
        raise CgroupsRefused("other processes are in the same cgroup")
    part = folder / _WORKER
    try:
        part.mkdir(exist_ok=True)
        for pid in inside:
            (part / "cgroup.procs").write_text(str(pid))
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(WANTED)))
    except OSError as problem:
        for pid in inside:
            with suppress(OSError):
                (folder / "cgroup.procs").write_text(str(pid))
        with suppress(OSError):
            part.rmdir()
        raise CgroupsRefused(f"the cgroup cannot be divided: {problem.strerror}") from None


def _own_folder(mount: Path, own: Path) -> Path:
    for line in _text(own).splitlines():
        if line.startswith("0::"):
            place = mount / line[3:].strip("/")
            if (place / "cgroup.controllers").exists():
                return place
    raise CgroupsRefused("there is no cgroup v2 here")


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""
