"""The worker class: processes a lane's tuples in the calling program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any

from engrambus.gateway import LOCAL_ADMIN
from engrambus.settings import Settings
from engrambus.space.tuples import stamp_authority

if TYPE_CHECKING:
    from engrambus.gateway import Gateway
    from engrambus.space.tuples.primitive_hooks import PrimitiveHook
    from engrambus.space.work import LaneWorkerPool, Progress, WorkerDependencies


class Worker:
    """Processes the tuples of a lane in this process, as `engrambus worker` does.

    `pool` is the underlying `LaneWorkerPool`.
    """

    def __init__(
        self,
        gateway: Gateway,
        dependencies: WorkerDependencies,
        pool: LaneWorkerPool,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._gateway = gateway
        self._dependencies = dependencies
        self._on_progress = on_progress
        self.pool = pool

    @classmethod
    def open(
        cls,
        path: Path | str = ".",
        *,
        lane: str,
        modules: Iterable[str] = (),
        concurrency: int | None = None,
        cpu_quota_pct: int | None = None,
        memory_mb: int | None = None,
        max_processes: int | None = None,
        settings: Settings | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        hooks: Sequence[PrimitiveHook] = (),
    ) -> Worker:
        """Open a worker on a lane of the project a folder belongs to.

        Importing `modules` registers the code of the yools. The quotas limit what all its steps use together; 100 % of
        CPU is one core. `on_progress` is called for every step. `hooks` are asked before the primitives of work.
        """
        from engrambus.app import open_project, open_worker_dependencies
        from engrambus.policy.guardrails import Quotas
        from engrambus.space.tuples import check_lane, read_pattern
        from engrambus.space.work import LaneWorkerPool

        check_lane(lane)
        settings = settings or Settings.from_environment()
        gateway = open_project(Path(path), settings, hooks=hooks)
        try:
            quotas = Quotas(cpu_quota_pct=cpu_quota_pct, memory_mb=memory_mb, max_processes=max_processes)
            dependencies = open_worker_dependencies(gateway, settings, modules=tuple(modules), worker_quotas=quotas)
            pool = LaneWorkerPool(
                dependencies, read_pattern({"lane": lane}), concurrency=concurrency, on_progress=on_progress
            )
        except BaseException:
            gateway.close()
            raise
        return cls(gateway, dependencies, pool, on_progress)

    def run(self, *, until_empty: bool = False) -> None:
        """Process tuples until `stop` is called; with `until_empty`, until no tuple can be processed now.

        A worker that runs until stopped also puts the tuples of schedules, and collects garbage: every night, and when
        disk space is low. Before a shorter run, only what is due then is put.
        """
        from engrambus.app import background_work

        with background_work(self._gateway, self._dependencies, until_empty=until_empty):
            self.pool.run(until_empty=until_empty)

    def stop(self, *, at_once: bool = False) -> None:
        """Start no further tuples; finish the running ones or, with `at_once`, release them. Thread-safe."""
        self.pool.stop(at_once=at_once)

    def eval(self, draft: Mapping[str, Any]) -> Thread:
        """Put a tuple and process it in a new thread at once (Linda's `eval`); the thread's name is the tuple's id."""
        from engrambus.space.work import eval_

        caller = self._gateway.identify(LOCAL_ADMIN)
        authority = stamp_authority(caller, ci=self._gateway.tuple_space.ci)
        return eval_(
            self._dependencies, draft, authority=authority, run=caller.run.run_id, on_progress=self._on_progress
        )

    def close(self) -> None:
        self._dependencies.runner.close()
        self._gateway.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
