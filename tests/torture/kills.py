"""Part 1: the writer is killed at every system call of its write path, one call after another."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.torture.notes import (
    CHECK_SECONDS,
    CHECKED_PER_SECOND,
    Notes,
    Problem,
    check_project,
    in_process,
    read_notes,
)
from tests.torture.outcome import Outcome
from tests.torture.tracer import KILL, Call, Tracer
from tests.torture.workload import WRITES, TortureProject, create_torture_project, run_actions


def kill_everywhere(folder: Path, outcome: Outcome, *, rounds: int | None, seed: int) -> None:
    """Kill the writer at each of its calls that change a file, or at `rounds` of them drawn by chance."""
    template = create_torture_project(folder / "template")
    count, notes = _run(template.copy(folder / "case"), None)
    notes.check_undisturbed()
    outcome.add("no kill", notes.acknowledged, check(TortureProject(folder / "case"), notes))
    for number in outcome.choose(range(count), rounds, seed):
        project = template.copy(folder / "case")
        _, notes = _run(project, number)
        outcome.add(f"call {number} of {count}", notes.acknowledged, check(project, notes))


def check(project: TortureProject, notes: Notes) -> list[Problem]:
    """Check a project in a process of its own."""
    seconds = CHECK_SECONDS + notes.acknowledged / CHECKED_PER_SECOND
    return [*notes.problems, *in_process(lambda: check_project(project, notes), seconds)]


def _run(project: TortureProject, killed_at: int | None) -> tuple[int, Notes]:
    """Run the writer; kill it at a call. Return the number of calls it came to, and its notes."""
    calls = 0

    def decide(call: Call) -> int:
        nonlocal calls
        if not call.changes:
            return 0
        calls += 1
        return KILL if calls - 1 == killed_at else 0

    log = project.folder / "notes"
    notes = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        status = Tracer(project.catalog, decide).run(lambda: run_actions(project, WRITES, notes))
    finally:
        os.close(notes)
    found = read_notes(log)
    if status not in (0, -signal.SIGKILL):
        found.problems.append(Problem("traceback", f"the writer ended with status {status}"))
    return calls, found
