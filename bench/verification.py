"""`verify` and a rebuild of the index, by processor time and memory, each in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.measure import Row
from engrambus.app import open_project
from engrambus.gateway import LOCAL_ADMIN, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings

MAX_CPU_US = 150
"""Microseconds of processor time for each engram: 150 s for a million."""
MAX_MEMORY_MB = 300
VERIFY = OPERATIONS["verify"]


def verification_rows(project: Path, environment: Mapping[str, str], size: int) -> list[Row]:
    """Verify a project of so many engrams and rebuild its index."""
    return [_row(work, project, environment, size) for work in ("verify", "rebuild")]


def _row(work: str, project: Path, environment: Mapping[str, str], size: int) -> Row:
    command = [sys.executable, "-m", "bench.verification", work, str(project), json.dumps(dict(environment))]
    measured = subprocess.run(command, capture_output=True, text=True, check=True)
    cpu_s, memory_mb = json.loads(measured.stdout)
    bar_s = MAX_CPU_US * size / 1e6
    return Row(
        path=work,
        measured=f"{size:,} engrams, processor time and peak memory",
        figure=f"{cpu_s:,.1f} s, {memory_mb:,.0f} MB",
        comparison="–",
        ratio=f"{cpu_s / size * 1e6:,.0f} µs an engram",
        bar=f"≤ {bar_s:g} s, ≤ {MAX_MEMORY_MB} MB",
        met=cpu_s <= bar_s and memory_mb <= MAX_MEMORY_MB,
    )


def main(work: str, project: str, environment: str) -> None:
    """Do the work, and print seconds of processor time and megabytes of memory."""
    settings = Settings.from_environment({"HOME": str(Path(project).parent), **json.loads(environment)})
    gateway = open_project(Path(project), settings)
    start_s = _cpu_s()
    if work == "rebuild":
        gateway.store.rebuild()
    elif not gateway.call(VERIFY, to_request({}, VERIFY.request), LOCAL_ADMIN).sound:
        raise SystemExit("the project is not sound")
    cpu_s = _cpu_s() - start_s
    gateway.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([cpu_s, peak / 1024 if sys.platform != "darwin" else peak / 1024**2]))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(*sys.argv[1:])
