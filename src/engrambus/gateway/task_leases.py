"""Renewing the tasks that an agent has claimed, with any call it makes through an edge (decision 113)."""

from __future__ import annotations

from contextlib import suppress

from engrambus.core import SECOND_US
from engrambus.errors import EngramBusError
from engrambus.gateway.lazy_tuple_space import LazyTupleSpace
from engrambus.policy import ADMIN, Caller

LOOKED_AFTER_US = 240 * SECOND_US
"""Time between two looks at what an agent has claimed; a lease is much longer."""
MAX_AGENTS = 4096
"""Agents of whom is remembered when that was; all are forgotten when there are more."""


class TaskLeases:
    """What one process knows about the leases of the agents that call through it."""

    def __init__(self, tuple_space: LazyTupleSpace) -> None:
        self._tuple_space = tuple_space
        self._looked_us: dict[str, int] = {}

    def renew(self, caller: Caller, now_us: int) -> None:
        """Renew what the caller has claimed, at most once in a while; a person's claims last without that."""
        if caller.role == ADMIN:
            return
        last_us = self._looked_us.get(caller.full_name)
        if last_us is not None and 0 <= now_us - last_us < LOOKED_AFTER_US:
            return
        if len(self._looked_us) >= MAX_AGENTS:
            self._looked_us.clear()
        self._looked_us[caller.full_name] = now_us
        with suppress(EngramBusError):  # the call has succeeded: its answer matters more
            if self._tuple_space.has_journal():
                self._renew(caller.full_name)

    def _renew(self, name: str) -> None:
        from engrambus.core.process_names import is_dead
        from engrambus.space.tasks import renew_tasks

        space = self._tuple_space.space
        with space.store.read() as view:  # without the lock: most agents have claimed nothing
            if not renew_tasks(view, actor=name, settings=space.settings, is_dead=is_dead):
                return
        space.store.commit(
            lambda view: (renew_tasks(view, actor=name, settings=space.settings, is_dead=is_dead), None), synced=False
        )
