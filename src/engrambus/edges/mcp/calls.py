"""From a tool call or a resource to the operation behind it, and from its answer to what the protocol sends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from engrambus.edges.mcp.resources import find_resource
from engrambus.edges.mcp.tools import SPEAK_AS, tool_operations
from engrambus.edges.mcp.wire import tell
from engrambus.errors import (
    BudgetExceeded,
    DerefDenied,
    EngramBusError,
    FieldType,
    FieldValue,
    Internal,
    TokenExpired,
)
from engrambus.gateway import Credential, Operation, to_request
from engrambus.knowledge.engrams import Engram
from engrambus.operations import OPERATIONS
from engrambus.operations.brief import BriefAnswer

log = logging.getLogger(__name__)

_PREFIXED = (BudgetExceeded.code, DerefDenied.code)
"""Refusals the LESS tools have a name of their own for."""


class Bus(Protocol):
    """What tools are called on: a gateway, or something that speaks to one."""

    def call(self, operation: Operation[Any, Any], request: Any, credential: Credential) -> Any:
        """Carry out an operation for whoever the credential shows."""
        ...


class Calls:
    """Carries out what clients ask for; the bus is opened with the first call, and again until it opens."""

    def __init__(self, open_bus: Callable[[], Bus]) -> None:
        self._open_bus = open_bus
        self._bus: Bus | None = None
        self._opening = threading.Lock()

    def tool(
        self,
        name: str,
        arguments: dict[str, Any],
        credential: Credential,
        refused: Callable[[str, EngramBusError], None] = lambda operation, refusal: None,
    ) -> dict[str, Any]:
        """The result of a tool call: the operation's answer, or the problem with it."""
        operation = tool_operations().get(name)
        try:
            if operation is None:
                raise FieldValue(f"There is no tool '{name[:80]}'.", field="name", limit=", ".join(tool_operations()))
            defaults = operation.tool.defaults if operation.tool else {}
            return tell(_shown(self._answer(operation, {**defaults, **arguments}, credential)))
        except EngramBusError as refusal:
            problem = refusal
        except Exception:
            log.exception("%s failed", name)
            problem = Internal()
        refused(operation.name if operation else "mcp", problem)
        return tell(_as_less_says(name, problem.problem()), is_error=True)

    def resource(self, uri: str, credential: Credential) -> tuple[str, str, int]:
        """What a resource holds now, as text, of which media type, and for how many milliseconds it may be kept."""
        operation, resource, arguments = find_resource(uri)
        shown = _shown(self._answer(operation, arguments, credential))
        text = shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()
        return text, resource.media_type, resource.ttl_ms

    def _answer(self, operation: Operation[Any, Any], arguments: dict[str, Any], credential: Credential) -> Any:
        bus = self._opened()
        if SPEAK_AS in arguments:
            speak_as = arguments.pop(SPEAK_AS)
            if not isinstance(speak_as, str):
                raise FieldType("Expected the name of an agent.", field=SPEAK_AS)
            credential = msgspec.structs.replace(credential, speak_as=speak_as)
        return bus.call(operation, to_request(arguments, operation.request), credential)

    def _opened(self) -> Bus:
        with self._opening:
            if self._bus is None:
                self._bus = self._open_bus()
            return self._bus


class StartedAs:
    """A bus spoken on as one agent, though it was opened by somebody above it.

    Were the opener's credential kept, `as` could name any of the opener's descendants. So the agent gets a token of
    its own, and from then on there is nobody else.
    """

    def __init__(self, bus: Bus, opener: Credential, name: str) -> None:
        self._bus = bus
        self._opener = opener
        self._name = name
        self._token: str | None = None

    def call(self, operation: Operation[Any, Any], request: Any, credential: Credential) -> Any:
        """Carry out an operation for the agent, or for the descendant of it that the credential names."""
        own = msgspec.structs.replace(credential, token=self._token or self._new_token())
        try:
            return self._bus.call(operation, request, own)
        except TokenExpired:
            return self._bus.call(operation, request, msgspec.structs.replace(own, token=self._new_token()))

    def _new_token(self) -> str:
        operation = OPERATIONS["agent_token"]
        token: str = self._bus.call(operation, operation.request(name=self._name), self._opener).token
        self._token = token
        return token


def _shown(answer: Any) -> dict[str, Any] | str:
    """An answer as a model should read it: prose as text, and an engram without the keys it was found by."""
    if isinstance(answer, BriefAnswer):
        head = f"Brief {answer.version} ({answer.role}); since={answer.version} tells only what is new."
        return "\n".join([head, *answer.lines])
    if isinstance(answer, Engram):
        answer = msgspec.structs.replace(answer, hash_keys=())
    shown: dict[str, Any] = msgspec.to_builtins(answer)
    return shown


def _as_less_says(tool: str, problem: dict[str, Any]) -> dict[str, Any]:
    """The problem, under the name that the specification of the LESS tools gives it."""
    if tool.startswith("less_") and problem["code"] in _PREFIXED:
        return {**problem, "code": f"LESS_{problem['code']}"}
    return problem
