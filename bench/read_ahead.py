"""A child's first dereference of what a broadcast pointed it at, read ahead and not."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.measure import Row, at_most, microseconds, percentile
from engrambus import Bus, Settings, init_project
from engrambus.app import open_project
from engrambus.gateway import LOCAL_ADMIN

FILES = 40
WAIT_S = 60.0


def read_ahead_rows(scratch: Path) -> list[Row]:
    """Measure processor time, git's included, on files that have changed since; every second one is read ahead."""
    project = scratch / "ahead"
    sha = _make_repository(project)
    settings = Settings.from_environment({"HOME": str(scratch), "XDG_STATE_HOME": str(scratch / "state")})
    init_project(project, settings)
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(FILES):
        ahead = number % 2 == 1
        gateway = open_project(project, settings)
        if ahead:
            gateway.start_read_ahead()
        bus = Bus(gateway, LOCAL_ADMIN, owns_transport=False)
        if number == 0:
            bus.add_agent("lead", role="architect")
        bus.add_agent(f"child{number}", role="programmer", parent="lead")
        child = bus.speak_as(f"child{number}")
        child.deref_pointer(f"repo:other.py#L1-L9@{sha}")  # git runs, and the commits are known
        ref = f"repo:file{number}.py#L20-L60@{sha}"
        pack = f'ROLE: architect\nINSTRUCTIONS: [ Go on. ]\nTARGET_POINTER_PACK: [ "{ref}" ]\n'
        bus.speak_as("lead").broadcast(pack, to=[f"child{number}"])
        if gateway.read_ahead is not None and not gateway.read_ahead.wait(WAIT_S):
            raise TimeoutError("nothing was read ahead")
        times[ahead].append(_processor_us(partial(child.deref_pointer, ref)))
        gateway.close()
    plain, fast = (percentile(sorted(times[ahead]), 0.5) for ahead in (False, True))
    comparison = f"not read ahead {microseconds(plain)}"
    ratio = at_most(fast / plain, 0.5)
    return [Row("deref", "first of a pack, read ahead, processor time, p50", microseconds(fast), comparison, *ratio)]


def _processor_us(work: Callable[[], object]) -> float:
    before = _used_s()
    work()
    return (_used_s() - before) * 1e6


def _used_s() -> float:
    """Return the processor time of this process and of the git commands that it has waited for."""
    usages = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _make_repository(path: Path) -> str:
    """Make files and change each of them; return the commit before the change."""
    path.mkdir()
    names = ["other.py", *(f"file{number}.py" for number in range(FILES))]
    for step in (1, 2):
        for name in names:
            lines = [f"value_{n} = {n * (step if n % 7 == 0 else 1)}  # {name}\n" for n in range(300)]
            (path / name).write_text("".join(lines), "utf-8")
        who = ["-c", "user.name=bench", "-c", "user.email=bench@example.invalid", "-c", "commit.gpgsign=false"]
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", f"Step {step}"]):
            subprocess.run(["git", *who, *command], cwd=path, check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD~1"], cwd=path, text=True).strip()
