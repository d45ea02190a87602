"""The protocol's server: the tools, the resources, and how long clients may keep what they were told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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

from engrambus.edges.mcp.calls import Bus, Calls, StartedAs
from engrambus.edges.mcp.resources import resources
from engrambus.edges.mcp.tools import tools
from engrambus.edges.mcp.wire import Lines, take_stdin
from engrambus.errors import EngramBusError, Internal
from engrambus.gateway import Credential
from engrambus.version import __version__

INSTRUCTIONS = (
    "What the team knows. Read the brief and query before you work; put what you learn, pointing at the lines that "
    "show it. `as` names the descendant you speak for."
)

LISTS_KEPT_MS = 3_600_000
"""What is offered changes with the version of this program only, and is the same for everybody."""

Context = ServerRequestContext[Any]
Page = PaginatedRequestParams | None


def make_server(
    open_bus: Callable[[], Bus],
    who: Callable[[Context], Credential],
    refused: Callable[[Context, str, EngramBusError], None] = lambda context, operation, refusal: None,
) -> Server[Any]:
    """The server; `who` says whose call it is, `refused` is told of every refusal."""
    calls = Calls(open_bus)

    async def list_tools(context: Context, params: Page) -> ListToolsResult:
        return ListToolsResult(tools=list(tools().values()))

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        def call() -> dict[str, Any]:
            def note(operation: str, refusal: EngramBusError) -> None:
                refused(context, operation, refusal)

            trace = (params.meta or {}).get("traceparent")
            credential = who(context)
            if isinstance(trace, str):
                credential = msgspec.structs.replace(credential, trace=trace)
            return calls.tool(params.name, params.arguments or {}, credential, note)

        return CallToolResult.model_validate(await to_thread.run_sync(call))

    async def list_resources(context: Context, params: Page) -> ListResourcesResult:
        return ListResourcesResult(
            resources=[
                Resource(uri=resource.uri, name=name, title=resource.title, mime_type=resource.media_type)
                for name, resource in resources().items()
                if "{" not in resource.uri
            ]
        )

    async def list_templates(context: Context, params: Page) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    uri_template=resource.uri, name=name, title=resource.title, mime_type=resource.media_type
                )
                for name, resource in resources().items()
                if "{" in resource.uri
            ]
        )

    async def read_resource(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        uri = str(params.uri)
        try:
            text, media_type, ttl_ms = await to_thread.run_sync(calls.resource, uri, who(context))
        except EngramBusError as refusal:
            refused(context, "resource", refusal)
            code = INVALID_PARAMS if refusal.status < Internal.status else INTERNAL_ERROR
            raise MCPError(code, refusal.detail, refusal.problem()) from None
        contents = TextResourceContents(uri=uri, mime_type=media_type, text=text)
        return ReadResourceResult(contents=[contents], ttl_ms=ttl_ms, cache_scope="private")

    listed = CacheHint(ttl_ms=LISTS_KEPT_MS, scope="public")
    return Server(
        "engrambus",
        version=__version__,
        instructions=INSTRUCTIONS,
        cache_hints={
            "server/discover": listed,
            "tools/list": listed,
            "resources/list": listed,
            "resources/templates/list": listed,
        },
        get_tool_input_schema=lambda name: tools()[name].input_schema if name in tools() else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def serve_stdio(open_bus: Callable[[], Bus], credential: Credential) -> None:
    """Serve until standard input ends; works before there is a project, and then says how to make one.

    A credential that names whom to speak as makes that agent the one who is served.
    """
    name = credential.speak_as
    opener = Credential(token=credential.token, local_admin=credential.local_admin, run=credential.run)

    def open_as() -> Bus:
        bus = open_bus()
        return bus if name is None else StartedAs(bus, opener, name)

    try:
        with suppress(KeyboardInterrupt):
            anyio.run(_serve, make_server(open_as, lambda context: opener))
    except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the client is gone, and what it was not told it can ask again


async def _serve(server: Server[Any]) -> None:
    # The SDK only iterates over what it is given for standard input.
    async with Lines(take_stdin()) as lines, stdio_server(stdin=lines) as (read, write):  # type: ignore[arg-type]
        lines.answer_to(write)
        await server.run(read, write, server.create_initialization_options())
