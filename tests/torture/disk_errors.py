"""Part 3: each call of the write and read paths fails, once or from then on, with EIO or ENOSPC."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engrambus.app import renew_journals
from tests.torture.notes import UNREAD, Notes, Problem, check_project, in_process, read_notes
from tests.torture.outcome import Outcome
from tests.torture.tracer import Call, Tracer
from tests.torture.workload import READS, WRITES, Actions, TortureProject, create_torture_project, run_actions

NEEDS_ROOM = frozenset({"write", "pwrite64", "mkdir", "mkdirat", "link", "linkat", "rename", "renameat", "renameat2"})
"""Calls that fail on a full disk; so does opening a file that is not there yet."""
DISK_CODES = frozenset({"DISK_PRESSURE", "DISK_ERROR", "STORE_READ_ONLY"})
"""Codes that tell a caller that the disk is at fault."""
WORKERS_CALLS = frozenset({"out", "end", "files", "rotate", "take", "spend", "reuse", "list"})
"""Calls of the store itself: who meets a damaged index there tries again, as the gateway does for its callers."""
REBUILT = "was damaged, and has been rebuilt from the journal"
NOT_THERE = frozenset({"ENGRAM_NOT_FOUND"})


class DiskError(NamedTuple):
    """A failure that is injected: at which call, with which error, once or from then on."""

    actions: str
    number: int
    error: int
    lasts: bool

    def __str__(self) -> str:
        duration = "from then on" if self.lasts else "once"
        return f"{self.actions} call {self.number}, {errno.errorcode[self.error]} {duration}"


ACTIONS: dict[str, Actions] = {"write path": WRITES, "read path": READS}
KINDS = {
    "write path": ("put", "promote", "forget", "out", "body", "end"),
    "read path": ("put", "get", "read", "verify"),
}


def fail_everywhere(folder: Path, outcome: Outcome, *, rounds: int | None, seed: int) -> None:
    """Let every call fail in every way, or `rounds` of these cases drawn by chance."""
    template = create_torture_project(folder / "template")
    cases: list[DiskError] = []
    for name in ACTIONS:
        calls: list[Call] = []
        notes = _run(template.copy(folder / "case"), name, None, calls)
        notes.check_undisturbed(KINDS[name])
        cases += _cases(name, calls)
    for case in outcome.choose(cases, rounds, seed):
        project = template.copy(folder / "case")
        failed: list[Call] = []
        notes = _run(project, case.actions, case, failed)
        if failed:  # a run may take fewer calls than the one that was counted
            if case.error == errno.EIO:
                # An index that the disk fails to read is made again, and `verify` says so, and what it cannot read.
                right = [item for item in notes.problems if REBUILT in item.text or item.text.startswith(UNREAD)]
                notes.problems = [problem for problem in notes.problems if problem not in right]
            problems = [*_refusals(notes, full=case.error == errno.ENOSPC), *_check(project, notes)]
            where = Path(failed[0].paths[0]).name
            outcome.add(f"{case}: {failed[0].name} {where}", notes.acknowledged, problems)


def _check(project: TortureProject, notes: Notes) -> list[Problem]:
    """Check a project in a process of its own; a failed sync is ended by `recover` (decision 98)."""

    def recover_and_check() -> list[Problem]:
        renew_journals(project.root, project.settings)
        return check_project(project, notes)

    return [*notes.problems, *in_process(recover_and_check)]


def _cases(actions: str, calls: list[Call]) -> Iterator[DiskError]:
    for number, call in enumerate(calls):
        yield DiskError(actions, number, errno.EIO, lasts=False)
        yield DiskError(actions, number, errno.EIO, lasts=True)
        if _needs_room(call):
            yield DiskError(actions, number, errno.ENOSPC, lasts=False)
            yield DiskError(actions, number, errno.ENOSPC, lasts=True)


def _needs_room(call: Call) -> bool:
    return call.name in NEEDS_ROOM or (call.name in ("open", "openat") and call.changes)


def _run(project: TortureProject, actions: str, case: DiskError | None, seen: list[Call]) -> Notes:
    """Run the writer with a failing disk; `seen` gets the calls that failed, or all if none is to fail."""
    number = 0

    def decide(call: Call) -> int:
        nonlocal number
        number += 1
        if case is None or (number - 1 == case.number and not seen):
            seen.append(call)
            return case.error if case else 0
        return case.error if seen and case.lasts and _fails_as_well(call, seen[0], case.error) else 0

    log = project.folder / "notes"
    notes = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        status = Tracer(project.catalog, decide).run(lambda: run_actions(project, ACTIONS[actions], notes))
    finally:
        os.close(notes)
    found = read_notes(log)
    if status != 0:
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        found.problems.append(Problem("traceback", f"the writer ended with {name}"))
    return found


def _fails_as_well(call: Call, first: Call, error: int) -> bool:
    """Return whether a later call fails too: on a full disk all that need room, else the same call on the same file."""
    if error == errno.ENOSPC:
        return _needs_room(call)
    return (call.name, call.paths) == (first.name, first.paths)


def _refusals(notes: Notes, *, full: bool) -> Iterator[Problem]:
    """Yield refusals that do not name the disk, and engrams that a failing disk has hidden."""
    for kind, code, names in notes.refused:
        if kind in WORKERS_CALLS and code == "INDEX_DAMAGED":
            continue
        if kind == "get" and (code in NOT_THERE or full):
            yield Problem("lost", f"acknowledged, and answered with {code} while the disk fails: {sorted(names)}")
        elif code not in DISK_CODES:
            yield Problem("wrong", f"{kind} was refused with {code}, which does not name the disk")
