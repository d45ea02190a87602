"""A project in a test's folder on which workers can run."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engrambus.backends.sqlite.work import SqliteWork, create_work
from engrambus.core import SystemClock
from engrambus.evidence.receipts import BodyFolder, Receipt, ReceiptFolder
from engrambus.policy.guardrails import Ceiling
from engrambus.space.catalog import REGISTRY, Catalog, Registry
from engrambus.space.tuples import SpaceSettings, TupleSpace, read_pattern
from engrambus.space.work import LaneWorkerPool, ProcessRunner, Progress, SingleFlight, WorkerDependencies
from engrambus.space.work.guard import Containment
from engrambus.testing.harness import KEY
from engrambus.testing.work import PERSON, RUN

MODULE = "tests.space.yools"


def registry_of_module(module: str) -> Registry:
    """Return only the yools of a test module; the registry of this process stays as it was."""
    previous = {yool.entry.full_name for yool in REGISTRY}
    import_module(module)
    yools = Registry(yool for yool in REGISTRY if yool.entry.full_name not in previous)
    for yool in yools:
        REGISTRY._versions.pop(yool.entry.name, None)
    return yools


YOOLS = registry_of_module(MODULE)
CATALOG = Catalog(yool.entry for yool in YOOLS)
SAME_NAMESPACE = Containment(level="subreaper" if sys.platform == "linux" else "process group")
"""Containment under which a step's process ids are those that a test sees."""
SETTINGS = SpaceSettings(max_retries=0, backoff_us=1000)


class WorkerHarness(NamedTuple):
    """A project on which workers can run, and the progress they reported."""

    deps: WorkerDependencies
    progress: list[Progress]

    @property
    def space(self) -> TupleSpace:
        return self.deps.space

    def put(self, *steps: dict[str, Any], **fields: Any) -> str:
        """Put a tuple with these steps; return its id."""
        return self.space.out({"lane": "build", "payload": list(steps), **fields}, authority=PERSON, run=RUN)[0].id

    def pool(self, concurrency: int = 2) -> LaneWorkerPool:
        """Return a worker that records its progress."""
        pattern = read_pattern({"lane": "build"})
        return LaneWorkerPool(self.deps, pattern, concurrency=concurrency, on_progress=self.progress.append)

    def work(self) -> list[str]:
        """Work until nothing is left; return the kinds of progress that were reported."""
        self.progress.clear()
        self.pool().run(until_empty=True)
        return [progress.kind for progress in self.progress]

    def receipts(self, tuple_id: str) -> list[Receipt]:
        """Return every receipt of a tuple."""
        return [self.space.receipt(receipt_id) for receipt_id in self.space.public_tuple(tuple_id)["receipts"]]

    def printed(self, tuple_id: str, step: int = 0) -> str:
        """Return the output of a step."""
        return self.deps.bodies.get(self.receipts(tuple_id)[step].stdout_sha).decode()


def step(yool: str, **args: Any) -> dict[str, Any]:
    return {"yool": yool, "args": args}


@contextmanager
def open_worker_harness(
    folder: Path,
    settings: SpaceSettings = SETTINGS,
    *,
    containment: Containment | None = None,
    ceiling: Ceiling | None = None,
    **environment: str,
) -> Iterator[WorkerHarness]:
    """Create a project in a folder; steps are contained as well as this machine can, unless said otherwise."""
    catalog, clock = folder / ".catalog", SystemClock()
    catalog.mkdir(parents=True, exist_ok=True)
    create_work(catalog, KEY, project="01KDVP9R00STGMERGYTEST0000", now_us=clock.now())
    bodies = BodyFolder(catalog / "cas")
    deps = WorkerDependencies(
        space=TupleSpace(SqliteWork(catalog, KEY, clock), settings=settings),
        registry=YOOLS,
        catalog=lambda: CATALOG,
        runner=ProcessRunner(bodies, catalog / "scratch", clock, [MODULE], containment=containment, ceiling=ceiling),
        bodies=bodies,
        receipts=ReceiptFolder(catalog / "receipts", catalog / "receipts.written"),
        clock=clock,
        root=folder,
        environment={"PATH": os.environ["PATH"], **environment},
        single_flight=SingleFlight(catalog / "flights"),
    )
    try:
        yield WorkerHarness(deps, [])
    finally:
        deps.runner.close()
        deps.space.close()


@contextmanager
def running_pools(*pools: LaneWorkerPool) -> Iterator[None]:
    """Run workers in threads; they are stopped at the end, even if the test fails."""
    threads = [threading.Thread(target=pool.run, daemon=True) for pool in pools]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for pool in pools:
            pool.stop(at_once=True)
        for thread in threads:
            thread.join(30)


def with_environment(harness: WorkerHarness, **environment: str) -> WorkerHarness:
    """Return the same project with more environment variables."""
    variables = {**harness.deps.environment, **environment}
    return WorkerHarness(msgspec.structs.replace(harness.deps, environment=variables), harness.progress)


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until a condition is true; fail after some seconds."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "the condition never became true"
        time.sleep(0.01)
