"""Runs steps as they come: commands in process groups of their own, callables in warm processes, all under guard."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

from engrambus.core import Clock
from engrambus.errors import EngramBusError
from engrambus.evidence.receipts import BodyStore
from engrambus.space.work.commands import look_after, mark_of_step, start_command
from engrambus.space.work.folder import Execution, Spend, StepFolder, sweep
from engrambus.space.work.guard import Warden
from engrambus.space.work.pool import WarmPool
from engrambus.space.work.ports import StepOutcome, StepRequest, Told
from engrambus.space.work.refused import told_of
from engrambus.space.work.script import check_not_loading

NOT_STARTED = 127


class ProcessRunner:
    """Processes under guard; their output goes to files, and from there, piece by piece, to the bodies."""

    def __init__(self, bodies: BodyStore, scratch: Path, clock: Clock, modules: Iterable[str] = ()) -> None:
        check_not_loading()
        self._bodies = bodies
        self._scratch = scratch
        self._clock = clock
        self._warden = Warden()
        self._pool = WarmPool(modules, clock, self._warden)

    def run(self, request: StepRequest, told: Told, stop: threading.Event) -> StepOutcome:
        """Run one step; everything it printed and left is kept before this returns."""
        fence = request.fence
        of = None if fence is None else Execution(id=request.tuple_id, fence=fence, step=request.step)
        with StepFolder(self._scratch, of) as folder:
            if request.yool.kind == "command":
                exit, error = self._command(request, folder, told, stop)
            else:
                exit, error = self._pool.run(request, folder, told, stop)
            return folder.keep(self._bodies, exit=exit, error=error)

    def sweep(self, spend: Spend) -> None:
        """Count what steps of killed workers said they spent; take away what they left."""
        sweep(self._scratch, spend)

    def close(self) -> None:
        """Let go of every process."""
        self._pool.close()
        self._warden.close()

    def note(self) -> str:
        """How quotas are held on this machine."""
        return self._warden.note()

    def _command(
        self, request: StepRequest, folder: StepFolder, told: Told, stop: threading.Event
    ) -> tuple[int, str | None]:
        mark = mark_of_step(folder)
        self._warden.expect(mark)
        try:
            process = start_command(request, folder)
        except (EngramBusError, OSError) as problem:
            self._warden.expect_no_more(mark)
            if isinstance(problem, EngramBusError):
                folder.say(f"refused: {told_of(problem)}")
                return NOT_STARTED, problem.code
            folder.say(f"{problem.strerror}: {problem.filename}")
            return NOT_STARTED, "the command could not be started"
        return look_after(process, request, folder, told, stop, self._clock, self._warden)
