"""Stores that several projects share: org and global, each opened once an admin has enabled its scope.

decision 10: an engram leaves its project through the outbox. The project's journal records that it was promoted, the
shared store receives it unless it has it, the project's journal records that it was delivered. A process that dies in
between leaves a row in the outbox, and the next delivery repeats every step; each is idempotent by the engram's id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from engrambus.errors import IndexDamaged
from engrambus.gateway.ports import Store
from engrambus.gateway.role_view import restrict_view, visible_store

# decision 39: the rules of engrams are loaded with the first delivery, which a hook never makes
from engrambus.knowledge import engrams
from engrambus.policy import PROJECT_SPACE

if TYPE_CHECKING:
    from engrambus.knowledge.engrams import RoleFilter, VisibleStore


class SharedStores:
    """The shared stores of this account by scope, opened on first use."""

    def __init__(self, openers: Mapping[str, Callable[[], Store]]) -> None:
        self._openers = dict(openers)
        self._open: dict[str, Store] = {}
        self._lock = threading.Lock()

    def store(self, scope: str) -> Store:
        """Return the store of a scope."""
        with self._lock:
            if scope not in self._open:
                self._open[scope] = self._openers[scope]()
            return self._open[scope]

    @contextmanager
    def visible_stores(
        self, scopes: Sequence[str], role_filter: RoleFilter | None = None
    ) -> Iterator[list[VisibleStore]]:
        """Open a read of the store of each scope, without what a role may not see."""
        with ExitStack() as stack:
            views = [stack.enter_context(self.store(scope).read()) for scope in scopes]
            yield [visible_store(restrict_view(view, role_filter), (PROJECT_SPACE,)) for view in views]

    def deliver(self, origin: Store) -> None:
        """Deliver every engram in a store's outbox to the store of its scope."""
        try:
            waiting = _outbox(origin)
        except IndexDamaged:  # it has been rebuilt; no caller of an operation is there to repeat this
            waiting = _outbox(origin)
        for stored in waiting:
            self.store(stored.engram.scope).commit(partial(engrams.receive, stored=stored, origin=origin.project))
            origin.commit(partial(engrams.mark_delivered, stored=stored))

    def close(self) -> None:
        with self._lock:
            for store in self._open.values():
                store.close()
            self._open.clear()


def _outbox(origin: Store) -> Sequence[engrams.StoredEngram]:
    with origin.read() as view:
        return view.outbox()
