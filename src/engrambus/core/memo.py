"""A bounded memory of things that never change."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Keeps what was used last, up to a total weight. Safe under threads and after a fork."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._weight = 0
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()
        _alive.add(self)

    def get(self, key: K) -> V | None:
        """What was kept under the key, if it still is."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Keep a value, letting go of what has not been used longest."""
        if weight > self._room:
            return
        with self._lock:
            old = self._kept.pop(key, None)
            self._kept[key] = (value, weight)
            self._weight += weight - (old[1] if old else 0)
            while self._weight > self._room:
                _, (_, lighter) = self._kept.popitem(last=False)
                self._weight -= lighter


_alive: weakref.WeakSet[Memo[Any, Any]] = weakref.WeakSet()


def _after_fork() -> None:
    # Another thread of the parent may have held a lock; here there is nobody to release it.
    for memo in list(_alive):
        memo._lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
