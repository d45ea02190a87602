"""Control groups, version 2: the kernel itself enforces limits where this process may create groups."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from engrambus.policy.guardrails import Ceiling, StepLimits

PERIOD_US = 100_000
TASKS_PER_PROCESS = 64
"""Threads per process that are allowed for when the kernel limits both together."""
CONTROLLERS = frozenset({"cpu", "memory"})
"""Controllers without which control groups are not used; `pids` is used where it is offered."""
CGROUP_MOUNT, SELF_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_WORKER_GROUP = "engrambus-worker"


class CgroupsRefused(Exception):
    """No control group that may be divided among steps; the message says why."""


class Cgroups:
    """The control group of this process, divided among steps."""

    def __init__(self, folder: Path, controllers: Iterable[str] = CONTROLLERS) -> None:
        self._folder = folder
        self._controllers = tuple(controllers)
        self._count = 0
        self._groups: dict[str, Path] = {}
        """Groups of ceilings, by key."""

    @classmethod
    def find(cls, mount: Path = CGROUP_MOUNT, membership: Path = SELF_CGROUP) -> Cgroups:
        """Prepare the group this process is in; raise, and leave it as it was, if it cannot be divided."""
        folder = _current_group(mount, membership)
        offered = set(_read(folder / "cgroup.controllers").split())
        if not offered >= CONTROLLERS:
            missing = " and ".join(sorted(CONTROLLERS - offered))
            raise CgroupsRefused(f"cgroup v2 does not offer {missing} here")
        if not os.access(folder / "cgroup.procs", os.W_OK) or not os.access(folder, os.W_OK):
            raise CgroupsRefused("the cgroup is not writable")
        controllers = offered & (CONTROLLERS | {"pids"})
        _divide(folder, controllers)
        return cls(folder, controllers)

    def create(self, limits: StepLimits, ceilings: Sequence[Ceiling] = ()) -> Cgroup:
        """Create a group for one step, inside groups for its ceilings, of which the first is the outermost."""
        parent = self._folder
        for ceiling in ceilings:
            parent = self._groups.setdefault(ceiling.key, parent / self._new_name())
            if not parent.exists():
                _make(parent, ceiling)
                _offer(parent, self._controllers)
        folder = parent / self._new_name()
        _make(folder, limits)
        return Cgroup(folder, self._folder / _WORKER_GROUP)

    def remove_group(self, key: str) -> None:
        """Delete the group of a ceiling that no step is in any more."""
        with suppress(OSError, KeyError):
            self._groups.pop(key).rmdir()

    def end(self) -> None:
        """Delete the groups of all ceilings, the innermost first."""
        for key in reversed(list(self._groups)):
            self.remove_group(key)

    def _new_name(self) -> str:
        self._count += 1
        return f"engrambus-{os.getpid()}-{self._count}"


def _make(folder: Path, limits: StepLimits | Ceiling) -> None:
    folder.mkdir()
    if limits.cores is not None:
        (folder / "cpu.max").write_text(f"{max(1000, round(limits.cores * PERIOD_US))} {PERIOD_US}")
    if limits.ram_bytes is not None:
        (folder / "memory.max").write_text(str(limits.ram_bytes))
        with suppress(OSError):
            (folder / "memory.swap.max").write_text("0")
    if isinstance(limits, StepLimits):
        with suppress(OSError):
            (folder / "memory.oom.group").write_text("1")  # a step is killed as a whole
    if limits.processes is not None:
        # Only against a fork bomb, since the kernel counts threads: the enforcer counts processes.
        with suppress(OSError):
            (folder / "pids.max").write_text(str(limits.processes * TASKS_PER_PROCESS))


def _offer(folder: Path, controllers: Iterable[str]) -> None:
    """Let the groups inside a group have limits."""
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(controllers)))


class Cgroup:
    """The control group of one step."""

    def __init__(self, folder: Path, worker_group: Path) -> None:
        self._folder = folder
        self._worker_group = worker_group
        self._added: set[int] = set()

    def add(self, pids: list[int]) -> None:
        """Move processes into the group, with everything they start from now on."""
        for pid in pids:
            if pid not in self._added:
                with suppress(OSError):  # it has ended
                    (self._folder / "cgroup.procs").write_text(str(pid))
                self._added.add(pid)

    def release(self, pid: int) -> None:
        """Move a process back to the worker's group."""
        with suppress(OSError):
            (self._worker_group / "cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """True if the kernel killed processes of the group for exceeding its RAM."""
        events = dict(line.split() for line in _read(self._folder / "memory.events").splitlines())
        return int(events.get("oom_kill", 0)) > 0

    def end(self) -> None:
        """Kill every process in the group and delete it."""
        with suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")
        with suppress(OSError):
            self._folder.rmdir()


def _divide(folder: Path, controllers: Iterable[str]) -> None:
    # A group with subgroups may hold no processes itself (the kernel's rule), so ours move into one of the subgroups.
    pids = [int(pid) for pid in _read(folder / "cgroup.procs").split()]
    ours = {os.getpid(), os.getppid()}
    if set(pids) - ours:
        raise CgroupsRefused("other processes are in the same cgroup")
    worker_group = folder / _WORKER_GROUP
    try:
        worker_group.mkdir(exist_ok=True)
        for pid in pids:
            (worker_group / "cgroup.procs").write_text(str(pid))
        _offer(folder, controllers)
    except OSError as problem:
        for pid in pids:
            with suppress(OSError):
                (folder / "cgroup.procs").write_text(str(pid))
        with suppress(OSError):
            worker_group.rmdir()
        raise CgroupsRefused(f"the cgroup cannot be divided: {problem.strerror}") from None


def _current_group(mount: Path, membership: Path) -> Path:
    for line in _read(membership).splitlines():
        if line.startswith("0::"):
            folder = mount / line[3:].strip("/")
            if (folder / "cgroup.controllers").exists():
                return folder
    raise CgroupsRefused("there is no cgroup v2 here")


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""
