"""Stores that several projects share: org and global, each a store of its own, opened when an admin has enabled it.

An engram leaves its project through the outbox: the project's journal says that it goes, the shared store takes it in
unless it has it, the project's journal says that it arrived. Whoever dies in between leaves a row in the outbox, and
the next delivery takes every step again; each is idempotent by the engram's id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from engrambus.gateway.ports import Store, View
from engrambus.knowledge.engrams import EngramDelivered, EngramReceived, Sight, Stored
from engrambus.policy import PROJECT_SPACE


class SharedStores:
    """The shared stores of this account by scope, opened on first use."""

    def __init__(self, openers: Mapping[str, Callable[[], Store]]) -> None:
        self._openers = dict(openers)
        self._open: dict[str, Store] = {}
        self._lock = threading.Lock()

    def store(self, scope: str) -> Store:
        """The store of a scope."""
        with self._lock:
            if scope not in self._open:
                self._open[scope] = self._openers[scope]()
            return self._open[scope]

    @contextmanager
    def sights(self, scopes: Sequence[str]) -> Iterator[list[Sight]]:
        """What can be seen in the stores of these scopes."""
        with ExitStack() as stack:
            yield [Sight(stack.enter_context(self.store(scope).read()), (PROJECT_SPACE,)) for scope in scopes]

    def deliver(self, origin: Store) -> None:
        """Bring everything in a store's outbox to where it goes."""
        with origin.read() as view:
            leaving = view.outbox()
        for stored in leaving:
            self.store(stored.engram.scope).commit(_take_in(stored, origin.project))
            origin.commit(_let_go(stored))

    def close(self) -> None:
        """Let go of every file."""
        with self._lock:
            for store in self._open.values():
                store.close()
            self._open.clear()


def _take_in(stored: Stored, origin: str) -> Callable[[View], tuple[Sequence[Any], None]]:
    def decide(view: View) -> tuple[Sequence[Any], None]:
        if view.find((PROJECT_SPACE,), stored.engram.id) is not None:
            return (), None
        received = EngramReceived(
            engram=stored.engram,
            run=stored.run,
            expires_at=stored.expires_at,
            origin=origin,
            more_keys=stored.more_keys,
        )
        return (received,), None

    return decide


def _let_go(stored: Stored) -> Callable[[View], tuple[Sequence[Any], None]]:
    def decide(view: View) -> tuple[Sequence[Any], None]:
        still_there = any(other.engram.id == stored.engram.id for other in view.outbox())
        return ((EngramDelivered(id=stored.engram.id),) if still_there else ()), None

    return decide
