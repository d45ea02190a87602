"""Tool calls and resource reads: each is carried out by an operation, and its answer put into the protocol's form."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from engrambus.edges.mcp.tools import SPEAK_AS, find_resource, tool_operations
from engrambus.edges.mcp.wire import tool_result
from engrambus.errors import (
    BudgetExceeded,
    DerefDenied,
    EngramBusError,
    FieldType,
    FieldValue,
    Internal,
)
from engrambus.gateway import Credential, OnWarning, Operation, to_request, warning_line
from engrambus.knowledge.engrams import Engram
from engrambus.operations.brief import BriefAnswer

log = logging.getLogger(__name__)

_LESS_CODES = (BudgetExceeded.code, DerefDenied.code)
"""Error codes that the specification of the LESS tools prefixes with `LESS_`."""


class CallTarget(Protocol):
    """The target of calls: a gateway, or a client of one."""

    def call(
        self,
        operation: Operation[Any, Any],
        request: Any,
        credential: Credential,
        on_warning: OnWarning | None = None,
        /,
    ) -> Any:
        """Run an operation for the caller that the credential stands for."""
        ...


class ToolCalls:
    """Carries out the calls of MCP clients. The target is opened with the first call."""

    def __init__(self, open_target: Callable[[], CallTarget]) -> None:
        self._open_target = open_target
        self._target: CallTarget | None = None
        self._opening = threading.Lock()

    def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        credential: Credential,
        on_refusal: Callable[[str, EngramBusError], None] = lambda operation, refusal: None,
    ) -> dict[str, Any]:
        """Return the result of a tool call: the operation's answer, or the problem with it."""
        operation = tool_operations().get(name)
        try:
            if operation is None:
                raise FieldValue(f"There is no tool '{name[:80]}'.", field="name", limit=", ".join(tool_operations()))
            defaults = operation.tool.defaults if operation.tool else {}
            warnings: list[EngramBusError] = []
            answer = self._call(operation, {**defaults, **arguments}, credential, warnings.append)
            return tool_result(_for_model(answer), notes=[f"warning: {warning_line(item)}" for item in warnings])
        except EngramBusError as error:
            refusal = error
        except Exception:
            log.exception("%s failed", name)
            refusal = Internal()
        on_refusal(operation.name if operation else "mcp", refusal)
        return tool_result(_with_less_code(name, refusal.problem()), is_error=True)

    def read_resource(self, uri: str, credential: Credential) -> tuple[str, str, int]:
        """Return a resource's text, its media type, and for how many milliseconds a client may cache it."""
        operation, resource, arguments = find_resource(uri)
        answer = _for_model(self._call(operation, arguments, credential))
        text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
        return text, resource.media_type, resource.ttl_ms

    def _call(
        self,
        operation: Operation[Any, Any],
        arguments: dict[str, Any],
        credential: Credential,
        on_warning: OnWarning | None = None,
    ) -> Any:
        target = self._opened_target()
        if SPEAK_AS in arguments:
            speak_as = arguments.pop(SPEAK_AS)
            if not isinstance(speak_as, str):
                raise FieldType("Expected the name of an agent.", field=SPEAK_AS)
            credential = msgspec.structs.replace(credential, speak_as=speak_as)
        credential = msgspec.structs.replace(credential, from_model=True)
        return target.call(operation, to_request(arguments, operation.request), credential, on_warning)

    def _opened_target(self) -> CallTarget:
        # A failed attempt is not remembered: the project may be created while the client runs.
        with self._opening:
            if self._target is None:
                self._target = self._open_target()
            return self._target


def _for_model(answer: Any) -> dict[str, Any] | str:
    """Return an answer as a model should read it: a brief as prose, an engram without its search keys."""
    if isinstance(answer, BriefAnswer):
        head = f"Brief {answer.version} ({answer.role}); call with since={answer.version} to get only what is new."
        return "\n".join([head, *answer.lines])
    if isinstance(answer, Engram):
        answer = msgspec.structs.replace(answer, hash_keys=())
    fields: dict[str, Any] = msgspec.to_builtins(answer)
    return fields


def _with_less_code(tool: str, problem: dict[str, Any]) -> dict[str, Any]:
    """Return the problem with the code that the specification of the LESS tools gives it."""
    if tool.startswith("less_") and problem["code"] in _LESS_CODES:
        return {**problem, "code": f"LESS_{problem['code']}"}
    return problem
