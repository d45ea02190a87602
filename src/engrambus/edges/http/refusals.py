"""What the log says of a refused call: its code, the operation and the agent. Never what was sent."""

from __future__ import annotations

import logging

from starlette.types import Scope

from engrambus.errors import EngramBusError

log = logging.getLogger("engrambus.refusals")

_CALL = "engrambus.call"


def call_named(scope: Scope, operation: str, agent: str | None = None) -> None:
    """Note which operation a request is for, and whose token came with it."""
    scope[_CALL] = (operation, agent)


def log_refusal(scope: Scope, refusal: EngramBusError) -> None:
    """Log that a request was refused."""
    operation, agent = scope.get(_CALL, (None, None))
    told = {"code": refusal.code, "status": refusal.status, "operation": operation, "agent": agent}
    log.info("refused", extra={"told": {name: value for name, value in told.items() if value is not None}})
