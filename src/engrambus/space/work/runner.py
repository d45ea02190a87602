"""Run steps: a command in a process group of its own, a callable in a warm process, both under a limit enforcer."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path

from engrambus.core import Clock
from engrambus.core.files import open_writer
from engrambus.errors import EngramBusError, error_line
from engrambus.evidence.receipts import BodyStore
from engrambus.policy.guardrails import Ceiling
from engrambus.space.catalog import fill_argv
from engrambus.space.work.guard import (
    ContainedProcess,
    Containment,
    LimitEnforcer,
    can_hold_effects,
    find_containment,
    find_violation,
    reap,
    write_limits,
)
from engrambus.space.work.main_script import check_not_loading
from engrambus.space.work.ports import ReportSpending, StepOutcome, StepRequest
from engrambus.space.work.step_context import ARTIFACTS, COST, TUPLE
from engrambus.space.work.step_folder import CountSpending, Execution, StepFolder, sweep
from engrambus.space.work.step_process import (
    POLL_SECONDS,
    STOPPED_EXIT,
    check_running,
    conclude,
    environment_mark,
)
from engrambus.space.work.warm_pool import WarmPool

CACHE_VARIABLES = ("XDG_CACHE_HOME", "RUFF_CACHE_DIR", "MYPY_CACHE_DIR")
"""Variables by which tools find their caches, which they would otherwise keep in the project or at home."""
NOT_STARTED_EXIT = 127
"""Exit status a shell gives for a command it cannot start."""


class ProcessRunner:
    """Runs each step in processes of its own and stores what it printed and left."""

    def __init__(
        self,
        bodies: BodyStore,
        scratch: Path,
        clock: Clock,
        modules: Iterable[str] = (),
        *,
        containment: Containment | None = None,
        ceiling: Ceiling | None = None,
    ) -> None:
        """`modules` register the callables; warm processes import them. Without `containment` the strongest is used.

        `ceiling` limits all steps that run at once, together.
        """
        check_not_loading()
        self._bodies = bodies
        self._scratch = scratch
        self._clock = clock
        self._enforcer = LimitEnforcer(ceiling, lambda: self._pool.end_idle())
        self._containment = containment
        self._pool = WarmPool(modules, clock, self._enforcer, self._find_containment, scratch)

    def run(self, request: StepRequest, report_spending: ReportSpending, stop: threading.Event) -> StepOutcome:
        """Run one step to its end; its output and artifacts are stored before this returns."""
        fence = request.fence
        execution = None if fence is None else Execution(id=request.tuple_id, fence=fence, step=request.step)
        with StepFolder(self._scratch, execution) as folder:
            if request.yool.kind == "command":
                exit, error = self._run_command(request, folder, report_spending, stop)
            else:
                exit, error = self._pool.run(request, folder, report_spending, stop)
            error = _violation(request, folder, exit) or error
            kinds = request.yool.entry.contract.artifacts
            return folder.store(self._bodies, exit=exit, error=error, kinds=kinds)

    def sweep(self, count_spending: CountSpending) -> None:
        """Count what steps of killed workers reported as spent, then delete their folders."""
        sweep(self._scratch, count_spending)

    def close(self) -> None:
        self._pool.close()
        self._enforcer.close()

    def describe_limits(self) -> str:
        """Say in a few words how limits are enforced on this machine."""
        return self._enforcer.describe()

    def holds_effects(self) -> bool:
        """True if the kernel refuses what the declared effect of a step rules out."""
        return can_hold_effects()

    def _find_containment(self, root: Path) -> Containment:
        return self._containment or find_containment(root, self._scratch)

    def _run_command(
        self, request: StepRequest, folder: StepFolder, report_spending: ReportSpending, stop: threading.Event
    ) -> tuple[int, str | None]:
        mark = environment_mark(COST, str(folder.cost))
        # Announced before it starts: if this worker dies in between, the enforcer still finds the process and ends it.
        self._enforcer.expect(mark)
        try:
            process = _start_command(request, folder, self._find_containment(request.root))
        except (EngramBusError, OSError) as problem:
            self._enforcer.cancel_expected(mark)
            if isinstance(problem, EngramBusError):
                folder.add_error_line(f"refused: {error_line(problem)}")
                return NOT_STARTED_EXIT, problem.code
            return _not_started(folder, problem)
        return self._wait_for_command(process, mark, request, folder, report_spending, stop)

    def _wait_for_command(
        self,
        process: ContainedProcess,
        mark: str,
        request: StepRequest,
        folder: StepFolder,
        report_spending: ReportSpending,
        stop: threading.Event,
    ) -> tuple[int, str | None]:
        """Wait until the command ends or must stop; return its exit status, and why it was stopped."""
        refusal: EngramBusError | None = None
        watch = self._enforcer.watch(process, request.limits, mark, request.ceiling)
        ended, peak_bytes = False, 0
        try:
            process.begin()
            while not ended and refusal is None and not stop.is_set():
                ended = process.has_ended(POLL_SECONDS)
                refusal = check_running(request, folder, report_spending, self._clock, watch)
        finally:
            # Also background processes it left: its supervisor ends them, or where there is none the enforcer.
            process.end()
            watch.end()
            # Reaped last: until then the kernel still reports what the process has written (decision 27).
            peak_bytes = reap(process.popen)
            reported = process.close()
        refusal = conclude(request, folder, report_spending, watch, refusal, peak_bytes, process.shared_memory_bytes)
        if refusal is not None or not ended:
            return STOPPED_EXIT, "stopped" if refusal is None else refusal.code
        if process.not_started is not None:
            return _not_started(folder, process.not_started)
        status: int = process.popen.returncode if reported is None else reported
        return (status if status >= 0 else 128 - status), (f"exit {status}" if status else None)


def _violation(request: StepRequest, folder: StepFolder, exit: int) -> str | None:
    """Return why a step failed if it was refused what the effect of its yool rules out; its errors then say so too."""
    limits = write_limits(request.yool.entry.contract.effect, request.root, folder.path) if exit else None
    refusal = None if limits is None else find_violation(limits, request.root, exit, folder.read_ends())
    if refusal is None:
        return None
    folder.add_error_line(f"refused: {error_line(refusal)}")
    return error_line(refusal)


def _not_started(folder: StepFolder, problem: OSError) -> tuple[int, str]:
    folder.add_error_line(f"{problem.strerror}: {problem.filename}")
    return NOT_STARTED_EXIT, "the command could not be started"


def _start_command(request: StepRequest, folder: StepFolder, containment: Containment) -> ContainedProcess:
    """Prepare a step's command: arguments as a list, output to files, no terminal, no input."""
    if not isinstance(request.yool.run, tuple):
        raise TypeError("a command is a list of arguments")
    argv = fill_argv(request.yool.run, request.args)
    variables = {ARTIFACTS: str(folder.artifacts), COST: str(folder.cost), TUPLE: request.tuple_id}
    with open_writer(folder.stdout, "ab") as stdout, open_writer(folder.stderr, "ab") as stderr:
        return ContainedProcess(
            argv,
            {**request.env, **variables, **_folders(request, folder)},
            cwd=str(request.root),
            streams=(subprocess.DEVNULL, stdout, stderr),
            containment=containment,
            disk_bytes=request.limits.disk_bytes,
            write_limits=write_limits(request.yool.entry.contract.effect, request.root, folder.path),
        )


def _folders(request: StepRequest, folder: StepFolder) -> dict[str, str]:
    """Return the variables that name a step's folder for temporary files, and for caches it may not have elsewhere."""
    if request.yool.entry.contract.effect == "writes":
        return {"TMPDIR": str(folder.temporary)}
    caches = {name: str(folder.temporary / "cache") for name in CACHE_VARIABLES if name not in request.env}
    return caches | {"TMPDIR": str(folder.temporary)}
