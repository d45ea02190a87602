"""A project's work, opened when somebody first asks for it: most calls never do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from engrambus.errors import NoTupleSpace
from engrambus.gateway.ports import Finding

if TYPE_CHECKING:
    from engrambus.evidence.receipts import BodyStore
    from engrambus.space.tuples import TupleSpace
    from engrambus.space.work import GarbageCollector


class LazyTupleSpace:
    """The tuple space and the bodies of one project."""

    def __init__(
        self,
        open_space: Callable[[], TupleSpace] | None = None,
        bodies: BodyStore | None = None,
        *,
        ci: bool = False,
        open_collector: Callable[[TupleSpace], GarbageCollector] | None = None,
        told: Callable[[int, int], None] | None = None,
    ) -> None:
        self._open_space = open_space
        self._open_collector = open_collector
        self.told = told or (lambda done, total: None)
        """Told how much of long work is done."""
        self._bodies = bodies
        self._space: TupleSpace | None = None
        self._lock = threading.Lock()
        self.ci = ci
        """Whether the admin at this machine is a build and no person."""

    @property
    def space(self) -> TupleSpace:
        """The tuple space."""
        with self._lock:
            if self._space is None:
                if self._open_space is None:
                    raise NoTupleSpace
                self._space = self._open_space()
            return self._space

    @property
    def bodies(self) -> BodyStore:
        """What was printed and left."""
        if self._bodies is None:
            raise NoTupleSpace
        return self._bodies

    def verify(self) -> list[Finding]:
        """What is wrong with the journal of work and its index; nothing where no work is kept."""
        return list(self.space.store.verify()) if self._open_space is not None else []

    def commits(self) -> int:
        """How many commits the journal of work holds."""
        return self.space.store.last_line() if self._open_space is not None else 0

    @property
    def collector(self) -> GarbageCollector:
        """Who makes room."""
        if self._open_collector is None:
            raise NoTupleSpace
        return self._open_collector(self.space)

    def close(self) -> None:
        """Let go of every file."""
        with self._lock:
            if self._space is not None:
                self._space.close()
                self._space = None
