"""The worker as a program sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any

from engrambus.gateway import LOCAL_ADMIN
from engrambus.operations.work import stamped
from engrambus.settings import Settings

if TYPE_CHECKING:
    from engrambus.gateway import Gateway
    from engrambus.space.work import LaneWorkerPool, Progress, Workshop


class Worker:
    """Works on a lane's tuples in this process, as `engrambus worker` does.

    `pool` is the `LaneWorkerPool` itself.
    """

    def __init__(
        self, gateway: Gateway, shop: Workshop, pool: LaneWorkerPool, told: Callable[[Progress], None]
    ) -> None:
        self._gateway = gateway
        self._shop = shop
        self._told = told
        self.pool = pool

    @classmethod
    def open(
        cls,
        path: Path | str = ".",
        *,
        lane: str,
        modules: Iterable[str] = (),
        concurrency: int | None = None,
        settings: Settings | None = None,
        told: Callable[[Progress], None] = lambda progress: None,
    ) -> Worker:
        """A worker on a lane of the project a folder belongs to; `modules` register the code that carries yools out.

        `told` hears of every step. Close it when its work is done.
        """
        from engrambus.app import open_project, open_workshop
        from engrambus.space.tuples import check_lane, read_pattern
        from engrambus.space.work import LaneWorkerPool

        check_lane(lane)
        given = settings or Settings.from_environment()
        gateway = open_project(Path(path), given)
        try:
            shop = open_workshop(gateway, given, modules=tuple(modules))
            pool = LaneWorkerPool(shop, read_pattern({"lane": lane}), concurrency=concurrency, told=told)
        except BaseException:
            gateway.close()
            raise
        return cls(gateway, shop, pool, told)

    def run(self, *, until_empty: bool = False) -> None:
        """Work until told to stop, or, if asked, until nothing is left that could be done now.

        Until told to stop, room is made beside it: when the disk is short of it, and every night.
        """
        from engrambus.app import open_caretaker

        with nullcontext() if until_empty else open_caretaker(self._gateway, self._shop):
            self.pool.run(until_empty=until_empty)

    def stop(self, *, at_once: bool = False) -> None:
        """Begin nothing more; what is begun is finished, or, at once, given back. From any thread."""
        self.pool.stop(at_once=at_once)

    def eval(self, draft: Mapping[str, Any]) -> Thread:
        """Linda's `eval`: put a tuple that computes itself, here and now; the thread's name is its id."""
        from engrambus.space.work import eval_

        caller = self._gateway.identify(LOCAL_ADMIN)
        authority = stamped(caller, ci=self._gateway.tuple_space.ci)
        return eval_(self._shop, draft, authority=authority, run=caller.run.run_id, told=self._told)

    def close(self) -> None:
        """Let go of processes and files."""
        self._shop.runner.close()
        self._gateway.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
