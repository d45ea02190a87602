"""A project with a worker's shop in a test's folder."""

from __future__ import annotations

import os
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
from engrambus.evidence.receipts import BodyStore, Receipt, ReceiptFolder
from engrambus.space.catalog import REGISTRY, Catalog, Registry
from engrambus.space.tuples import SpaceSettings, TupleSpace, read_pattern
from engrambus.space.work import LaneWorkerPool, ProcessRunner, Progress, SingleFlight, WorkerDependencies
from engrambus.testing.work import PERSON, RUN

MODULE = "tests.space.yools"


def own_registry(module: str) -> Registry:
    """The yools of a module of tests, and them only; what other tests find in this process stays as it was."""
    before = {each.entry.full_name for each in REGISTRY}
    import_module(module)
    own = Registry(each for each in REGISTRY if each.entry.full_name not in before)
    for each in own:
        REGISTRY._versions.pop(each.entry.name, None)
    return own


OWN = own_registry(MODULE)
DECLARED = Catalog(each.entry for each in OWN)
SETTINGS = SpaceSettings(max_retries=0, backoff_us=1000)


class Shop(NamedTuple):
    """A shop, and what was told of its work."""

    shop: WorkerDependencies
    told: list[Progress]

    @property
    def space(self) -> TupleSpace:
        """The space."""
        return self.shop.space

    def put(self, *steps: dict[str, Any], **more: Any) -> str:
        """Put a tuple with these steps; its id."""
        return self.space.out({"lane": "build", "payload": list(steps), **more}, authority=PERSON, run=RUN)[0].id

    def pool(self, concurrency: int = 2) -> LaneWorkerPool:
        """A worker that tells what it does."""
        return LaneWorkerPool(
            self.shop, read_pattern({"lane": "build"}), concurrency=concurrency, on_progress=self.told.append
        )

    def work(self) -> list[str]:
        """Do everything there is to do; what was told, in short."""
        self.told.clear()
        self.pool().run(until_empty=True)
        return [each.kind for each in self.told]

    def receipts(self, tuple_id: str) -> list[Receipt]:
        """Every receipt of a tuple."""
        return [self.space.receipt(each) for each in self.space.public_tuple(tuple_id)["receipts"]]

    def printed(self, tuple_id: str, step: int = 0) -> str:
        """What a step printed."""
        return self.shop.bodies.get(self.receipts(tuple_id)[step].stdout_sha).decode()


def step(yool: str, **args: Any) -> dict[str, Any]:
    """A step."""
    return {"yool": yool, "args": args}


@contextmanager
def open_shop(folder: Path, settings: SpaceSettings = SETTINGS, **environment: str) -> Iterator[Shop]:
    """A shop in a folder."""
    catalog, clock = folder / ".catalog", SystemClock()
    catalog.mkdir(parents=True, exist_ok=True)
    create_work(catalog, project="01KDVP9R00STGMERGYTEST0000", now_us=clock.now())
    bodies = BodyStore(catalog / "cas")
    shop = WorkerDependencies(
        space=TupleSpace(SqliteWork(catalog, clock), settings=settings),
        registry=OWN,
        catalog=lambda: DECLARED,
        runner=ProcessRunner(bodies, catalog / "scratch", clock, [MODULE]),
        bodies=bodies,
        receipts=ReceiptFolder(catalog / "receipts"),
        clock=clock,
        root=folder,
        environment={"PATH": os.environ["PATH"], **environment},
        single_flight=SingleFlight(catalog / "flights"),
    )
    try:
        yield Shop(shop, [])
    finally:
        shop.runner.close()
        shop.space.close()


@contextmanager
def at_work(*pools: LaneWorkerPool) -> Iterator[None]:
    """Workers at work meanwhile; whatever becomes of the test, none outlives it."""
    working = [threading.Thread(target=pool.run, daemon=True) for pool in pools]
    for each in working:
        each.start()
    try:
        yield
    finally:
        for pool in pools:
            pool.stop(at_once=True)
        for each in working:
            each.join(30)


def with_environment(shop: Shop, **environment: str) -> Shop:
    """The same shop in another environment."""
    given = {**shop.shop.environment, **environment}
    return Shop(msgspec.structs.replace(shop.shop, environment=given), shop.told)


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until something holds."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it never happened"
        time.sleep(0.01)
