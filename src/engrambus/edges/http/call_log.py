"""The log of refused calls: code, operation and agent of each. Nothing that was sent is logged."""

from __future__ import annotations

import logging

from starlette.types import Scope

from engrambus.errors import EngramBusError

log = logging.getLogger("engrambus.refusals")

_CALL = "engrambus.call"


def name_call(scope: Scope, operation: str, agent: str | None = None) -> None:
    """Store in the scope which operation a request is for, and the agent its token belongs to."""
    scope[_CALL] = (operation, agent)


def log_refusal(scope: Scope, refusal: EngramBusError, address: str | None = None) -> None:
    """Log that a request was refused, with the client's address on a server for others."""
    operation, agent = scope.get(_CALL, (None, None))
    fields = {"code": refusal.code, "status": refusal.status, "operation": operation, "agent": agent, "client": address}
    log.info("refused", extra={"fields": {name: value for name, value in fields.items() if value is not None}})
