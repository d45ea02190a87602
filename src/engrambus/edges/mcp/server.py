"""The MCP server: its tools and resources, and how long clients may cache them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio import to_thread
from mcp.server import Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from engrambus.edges.mcp.agent_calls import AgentCalls, LeadTerms
from engrambus.edges.mcp.calls import CallTarget, ToolCalls
from engrambus.edges.mcp.marked_calls import MarkedCalls
from engrambus.edges.mcp.process_reservations import ProcessReservations
from engrambus.edges.mcp.tools import listed_tools, operation_of, resources, tools
from engrambus.edges.mcp.wire import StdinLines, take_stdin
from engrambus.errors import EngramBusError, Internal
from engrambus.evidence.pointers import worktree_head
from engrambus.gateway import Credential, Operation, hide_secrets_in
from engrambus.policy import is_persons_token
from engrambus.version import __version__

INSTRUCTIONS = (
    "The team's shared knowledge. Read the brief and query before you work; put what you learn, pointing at the lines "
    "that show it. `as` names the descendant you act for; `full: true` returns JSON."
)

LIST_TTL_MS = 3_600_000
"""Lists change only with the version of this program, and are the same for every caller."""
TOOL_LIST_TTL_MS = 60_000
"""The list of tools also changes with the project's catalog."""

RequestContext = ServerRequestContext[Any]
RunInThread = Callable[[RequestContext, Callable[[], Any], Operation[Any, Any] | None], Awaitable[Any]]
"""Runs a function that may block for a request, and is told which operation it calls, if any."""
ListParams = PaginatedRequestParams | None


class _Handlers:
    """The server's answers to the protocol's requests."""

    def __init__(
        self,
        open_target: Callable[[], CallTarget],
        act_as_caller: Callable[[CallTarget], CallTarget],
        credential_of: Callable[[RequestContext], Credential],
        on_refusal: Callable[[RequestContext, str, EngramBusError], None],
        run_in_thread: RunInThread,
    ) -> None:
        self._run_in_thread = run_in_thread
        self._calls = ToolCalls(open_target, act_as_caller)
        self._credential_of = credential_of
        self._on_refusal = on_refusal

    async def list_tools(self, context: RequestContext, params: ListParams) -> ListToolsResult:
        has_yools = await self._run_in_thread(
            context, partial(self._calls.has_yools, self._credential_of(context)), None
        )
        return ListToolsResult(tools=listed_tools(has_yools=has_yools))

    async def call_tool(self, context: RequestContext, params: CallToolRequestParams) -> CallToolResult:
        def call() -> dict[str, Any]:
            trace = (params.meta or {}).get("traceparent")
            credential = self._credential_of(context)
            if isinstance(trace, str):
                credential = msgspec.structs.replace(credential, trace=trace)
            return self._calls.call_tool(
                params.name,
                params.arguments or {},
                credential,
                lambda operation, refusal: self._on_refusal(context, operation, refusal),
            )

        # Operations block on the store, so they run in a thread.
        operation = operation_of(params.name, params.arguments or {})
        return CallToolResult.model_validate(await self._run_in_thread(context, call, operation))

    async def list_resources(self, context: RequestContext, params: ListParams) -> ListResourcesResult:
        return ListResourcesResult(
            resources=[
                Resource(uri=resource.uri, name=name, title=resource.title, mime_type=resource.media_type)
                for name, resource in resources().items()
                if "{" not in resource.uri
            ]
        )

    async def list_templates(self, context: RequestContext, params: ListParams) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    uri_template=resource.uri, name=name, title=resource.title, mime_type=resource.media_type
                )
                for name, resource in resources().items()
                if "{" in resource.uri
            ]
        )

    async def read_resource(self, context: RequestContext, params: ReadResourceRequestParams) -> ReadResourceResult:
        uri, credential = str(params.uri), self._credential_of(context)
        try:
            text, media_type, ttl_ms = await self._run_in_thread(
                context, partial(self._calls.read_resource, uri, credential), None
            )
        except EngramBusError as refusal:
            self._on_refusal(context, "resource", refusal)
            code = INVALID_PARAMS if refusal.status < Internal.status else INTERNAL_ERROR
            hide_secrets_in(refusal)
            raise MCPError(code, refusal.detail, refusal.problem()) from None
        contents = TextResourceContents(uri=uri, mime_type=media_type, text=text)
        # Private: the text depends on the caller, so no shared cache may hold it.
        return ReadResourceResult(contents=[contents], ttl_ms=ttl_ms, cache_scope="private")


async def run_in_any_thread(context: RequestContext, work: Callable[[], Any], operation: object) -> Any:
    """Run a function in the next free thread: the caller has the process for itself."""
    return await to_thread.run_sync(work)


def make_server(
    open_target: Callable[[], CallTarget],
    act_as_caller: Callable[[CallTarget], CallTarget],
    credential_of: Callable[[RequestContext], Credential],
    on_refusal: Callable[[RequestContext, str, EngramBusError], None] = lambda context, operation, refusal: None,
    run_in_thread: RunInThread = run_in_any_thread,
) -> Server[Any]:
    """Return the server.

    `act_as_caller` makes the opened target act as the agent that calls, `credential_of` returns the caller's
    credential, `on_refusal` gets every refused call, `run_in_thread` runs what may block.
    """
    handlers = _Handlers(open_target, act_as_caller, credential_of, on_refusal, run_in_thread)
    list_cache = CacheHint(ttl_ms=LIST_TTL_MS, scope="public")
    return Server(
        "engrambus",
        version=__version__,
        instructions=INSTRUCTIONS,
        cache_hints={
            "server/discover": list_cache,
            "tools/list": CacheHint(ttl_ms=TOOL_LIST_TTL_MS, scope="private"),
            "resources/list": list_cache,
            "resources/templates/list": list_cache,
        },
        get_tool_input_schema=lambda name: tools()[name].input_schema if name in tools() else None,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )


def serve_stdio(
    open_target: Callable[[], CallTarget],
    credential: Credential,
    lead: LeadTerms | None = None,
    worktree: Path | None = None,
) -> None:
    """Serve one client until standard input ends. Without a project, every call is refused with how to create one.

    The client acts as the agent that the credential names; else as its token's agent; else as a lead of its own if the
    terms of one are passed, and as the admin if not. `worktree` is the checkout that the client works in.
    """
    opener = Credential(token=credential.token, local_admin=credential.local_admin, run=credential.run)
    # decision 120: a person's calls through a coding agent are those of a lead, as on the person's own machine
    is_agents = credential.token is not None and not is_persons_token(credential.token)
    agent = credential.speak_as or (None if is_agents else lead)

    reserved: list[ProcessReservations] = []

    def act_as_caller(target: CallTarget) -> CallTarget:
        unmarked = target if agent is None else AgentCalls(target, opener, agent)
        # An agent that was named may speak for its descendants only; every other process serves all client sessions.
        marked = MarkedCalls(unmarked, unmarked) if credential.speak_as else MarkedCalls(target, unmarked, opener)
        reserved.append(ProcessReservations(marked, target, opener))
        return reserved[-1]

    def credential_now(context: RequestContext) -> Credential:
        if worktree is None:
            return opener
        return msgspec.structs.replace(opener, head=worktree_head(worktree), worktree=str(worktree))

    try:
        with suppress(KeyboardInterrupt):
            anyio.run(_serve, make_server(open_target, act_as_caller, credential_now))
    except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the client has gone
    finally:
        for reservations in reserved:
            reservations.release_all()


async def _serve(server: Server[Any]) -> None:
    # The library only iterates over the object it gets as standard input.
    async with StdinLines(take_stdin()) as lines, stdio_server(stdin=lines) as (read, write):  # type: ignore[arg-type]
        lines.answer_to(write)
        await server.run(read, write, server.create_initialization_options())
