"""What was reserved or claimed through one process ends with it: it releases that, and is found dead if it could not.

decisions 79 and 113: a client starts this process with its session and ends it with that, also where no hook reports
the end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.core.process_names import process_name
from engrambus.errors import EngramBusError
from engrambus.operations import OPERATIONS

if TYPE_CHECKING:
    from engrambus.edges.mcp.calls import CallTarget
    from engrambus.gateway import Credential, OnWarning, Operation

RESERVE = "reserve"
RELEASE = "release_reservations"
CLAIM = "claim_task"
RELEASE_TASK = "release_tasks"


class ProcessReservations:
    """A call target whose reservations and claims name this process as the one that their holder works in."""

    def __init__(self, target: CallTarget, opener_target: CallTarget, opener: Credential) -> None:
        """`opener_target` and `opener` release at the end: a mark of the calling agent would have expired by then."""
        self._target = target
        self._opener_target = opener_target
        self._opener = opener
        self._made: dict[str, None] = {}
        """Ids of the reservations made through this process, in order."""
        self._claimed: dict[str, str] = {}
        """The claims on tasks that were made through this process: the fence of each, by the task's id."""

    def call(
        self,
        operation: Operation[Any, Any],
        request: Any,
        credential: Credential,
        on_warning: OnWarning | None = None,
        /,
    ) -> Any:
        """Run an operation; a reservation and a claim get the name of this process."""
        if operation.name not in (RESERVE, CLAIM):
            return self._target.call(operation, request, credential, on_warning)
        request = msgspec.structs.replace(request, process=process_name())
        answer = self._target.call(operation, request, credential, on_warning)
        if operation.name == RESERVE:
            self._made[answer.reservation_id] = None
        else:
            self._claimed[answer.id] = answer.fence
        return answer

    def release_all(self) -> None:
        """Release what was reserved or claimed through this process and still is."""
        release = OPERATIONS[RELEASE]
        for reservation_id in self._made:
            with suppress(EngramBusError):  # released or expired since, or its run has ended
                self._opener_target.call(release, release.request(paths=[reservation_id]), self._opener)
        release_task = OPERATIONS[RELEASE_TASK]
        for task_id, fence in self._claimed.items():
            with suppress(EngramBusError):  # done since
                self._opener_target.call(release_task, release_task.request(id=task_id, fence=fence), self._opener)
