"""Stores that several projects share: org and global, each a store of its own, opened when an admin has enabled it.

An engram leaves its project through the outbox: the project's journal says that it goes, the shared store takes it in
unless it has it, the project's journal says that it arrived. Whoever dies in between leaves a row in the outbox, and
the next delivery takes every step again; each is idempotent by the engram's id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from engrambus.gateway.ports import Store
from engrambus.knowledge.engrams import VisibleStore, mark_delivered, receive
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
    def visible_stores(self, scopes: Sequence[str]) -> Iterator[list[VisibleStore]]:
        """What can be seen in the stores of these scopes."""
        with ExitStack() as stack:
            yield [VisibleStore(stack.enter_context(self.store(scope).read()), (PROJECT_SPACE,)) for scope in scopes]

    def deliver(self, origin: Store) -> None:
        """Bring everything in a store's outbox to where it goes."""
        with origin.read() as view:
            leaving = view.outbox()
        for stored in leaving:
            self.store(stored.engram.scope).commit(partial(receive, stored=stored, origin=origin.project))
            origin.commit(partial(mark_delivered, stored=stored))

    def close(self) -> None:
        """Let go of every file."""
        with self._lock:
            for store in self._open.values():
                store.close()
            self._open.clear()
