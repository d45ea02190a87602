"""The bus as an MCP server on standard input and output."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import anyio
import msgspec
from anyio import to_thread
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

from stigmergy.edges.mcp.tools import SPEAK_AS, tool_operations, tools
from stigmergy.edges.mcp.wire import Lines, take_stdin, tell
from stigmergy.errors import BudgetExceeded, DerefDenied, FieldType, FieldValue, Internal, StigmergyError
from stigmergy.operations import Credential, Operation, to_request
from stigmergy.version import __version__

log = logging.getLogger(__name__)

INSTRUCTIONS = (
    "What the team knows. Query before you work; put what you learn, pointing at the lines that show it. "
    "`as` names the descendant you speak for."
)


_PREFIXED = (BudgetExceeded.code, DerefDenied.code)
"""Refusals the LESS tools have a name of their own for."""


class Bus(Protocol):
    """What tools are called on: a gateway, or something that speaks to one."""

    def call(self, operation: Operation[Any, Any], request: Any, credential: Credential) -> Any:
        """Carry out an operation for whoever the credential shows."""
        ...


class Tools:
    """Answers tool calls; the bus is opened with the first one, and again until it opens."""

    def __init__(self, open_bus: Callable[[], Bus], credential: Credential) -> None:
        self._open_bus = open_bus
        self._credential = credential
        self._bus: Bus | None = None
        self._opening = threading.Lock()

    def call(self, name: str, arguments: dict[str, Any], trace: str | None = None) -> dict[str, Any]:
        """The result of a tool call: the operation's answer, or the problem with it."""
        try:
            return tell(self._call(name, dict(arguments), trace), is_error=False)
        except StigmergyError as refusal:
            return tell(_as_less_says(name, refusal.problem()), is_error=True)
        except Exception:
            log.exception("%s failed", name)
            return tell(Internal().problem(), is_error=True)

    def _call(self, name: str, arguments: dict[str, Any], trace: str | None) -> dict[str, Any]:
        operation = tool_operations().get(name)
        if operation is None:
            raise FieldValue(f"There is no tool '{name[:80]}'.", field="name", limit=", ".join(tool_operations()))
        bus = self._opened()
        credential = msgspec.structs.replace(self._credential, trace=trace)
        if SPEAK_AS in arguments:
            speak_as = arguments.pop(SPEAK_AS)
            if not isinstance(speak_as, str):
                raise FieldType("Expected the name of an agent.", field=SPEAK_AS)
            credential = msgspec.structs.replace(credential, speak_as=speak_as)
        request = to_request(arguments, operation.request)
        answer: dict[str, Any] = msgspec.to_builtins(bus.call(operation, request, credential))
        return answer

    def _opened(self) -> Bus:
        with self._opening:
            if self._bus is None:
                self._bus = self._open_bus()
            return self._bus


def _as_less_says(tool: str, problem: dict[str, Any]) -> dict[str, Any]:
    """The problem, under the name that the specification of the LESS tools gives it."""
    if tool.startswith("less_") and problem["code"] in _PREFIXED:
        return {**problem, "code": f"LESS_{problem['code']}"}
    return problem


def make_server(open_bus: Callable[[], Bus], credential: Credential) -> Server[Any]:
    """The protocol's server, with every tool."""
    answering = Tools(open_bus, credential)

    async def list_tools(context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(tools()))

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        trace = (params.meta or {}).get("traceparent")
        result = await to_thread.run_sync(
            answering.call, params.name, params.arguments or {}, trace if isinstance(trace, str) else None
        )
        return CallToolResult.model_validate(result)

    return Server(
        "stigmergy",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve_stdio(open_gateway: Callable[[], Bus], credential: Credential) -> None:
    """Serve until standard input ends; works before there is a project, and then says how to make one."""
    with suppress(KeyboardInterrupt):
        anyio.run(_serve, make_server(open_gateway, credential))


async def _serve(server: Server[Any]) -> None:
    lines = Lines(take_stdin())
    # The SDK only iterates over what it is given for standard input.
    async with stdio_server(stdin=lines) as (read, write):  # type: ignore[arg-type]
        lines.answer_to(write)
        await server.run(read, write, server.create_initialization_options())
