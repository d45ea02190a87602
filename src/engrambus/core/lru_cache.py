"""A cache with a bounded total weight, for values that never change."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Holds the values used most recently. Safe to use from several threads and after a fork."""

    def __init__(self, max_weight: int) -> None:
        self._max_weight = max_weight
        self._weight = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()
        _all_caches.add(self)

    def get(self, key: K) -> V | None:
        """Return the value of a key, if it is still there."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Add a value and remove those used least recently until the weight fits; skip a value that never fits."""
        if weight > self._max_weight:
            return
        with self._lock:
            replaced = self._entries.pop(key, None)
            self._entries[key] = (value, weight)
            self._weight += weight - (replaced[1] if replaced else 0)
            while self._weight > self._max_weight:
                _, (_, removed_weight) = self._entries.popitem(last=False)
                self._weight -= removed_weight


_all_caches: weakref.WeakSet[LruCache[Any, Any]] = weakref.WeakSet()


def _after_fork() -> None:
    # Another thread of the parent may have held a lock when it forked; in the child nothing would release it.
    for cache in list(_all_caches):
        cache._lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
