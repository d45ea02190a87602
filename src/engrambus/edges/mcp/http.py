"""`/mcp`: the tools and resources over the protocol's streamable HTTP.

Clients of the protocol's revision 2026-07-28 send independent requests. Older ones open a session, which belongs to the
agent that opened it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus
from starlette.types import Message, Receive, Scope, Send

from engrambus.core import read_json
from engrambus.edges.http.call_log import log_refusal, name_call
from engrambus.edges.http.callers import CallThreads, call_kind, token_caller
from engrambus.edges.http.connections import ABORT_CONNECTION
from engrambus.edges.http.requests import bearer_token, check_content_type, read_body
from engrambus.edges.http.responses import send_json, send_json_early
from engrambus.edges.http.server_limits import ServerLimits
from engrambus.edges.mcp.owned_sessions import OwnedSessions
from engrambus.errors import BodyTooLarge, EngramBusError
from engrambus.gateway import Credential, Gateway, Operation
from engrambus.policy import Caller

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MCP_METHODS = ("DELETE", "GET", "POST")
MAX_BODY_BYTES = 1024 * 1024
START_BYTES = 1024
"""Size of the beginning of a body that is stored until the body is read."""
START_SECONDS = 5.0
"""Time in which the beginning of a body that is too large must arrive."""
IDLE_SECONDS = 1800.0
"""Time after its last request at which an older client's session ends."""

POLL_SECONDS = 1.0
"""Time between two looks at whether the journal has grown, while an older client's stream is open."""

_TOKEN = "engrambus.token"  # noqa: S105  # key of the token in the scope
_CALLER = "engrambus.caller"


class McpEndpoint:
    """Serves all MCP clients. `running` must be entered before the first request."""

    def __init__(self, gateway: Gateway, threads: CallThreads, limits: ServerLimits) -> None:
        self._gateway = gateway
        self._threads = threads
        self._limits = limits
        self._owned = OwnedSessions(limits.agent_mcp_sessions)
        self._sessions: StreamableHTTPSessionManager | None = None
        self._group: TaskGroup | None = None
        self._loading = anyio.Lock()
        self._closed = anyio.Event()

    @asynccontextmanager
    async def running(self, app: object) -> AsyncIterator[None]:
        """Run the sessions' tasks until the context ends."""
        async with anyio.create_task_group() as group:
            self._group = group
            yield
            group.cancel_scope.cancel()

    def close(self) -> None:
        """End every session: older clients hold a stream open for as long as they run."""
        self._closed.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the token, read the body as strictly as any other, and pass the request to the protocol's library."""
        name_call(scope, "mcp")
        token = bearer_token(scope)
        # The gateway checks the token again with each tool call. Here it is needed for a 401 before the body is read,
        # for the session's owner, and for requests that call no operation, such as listing the tools.
        http_caller = token_caller(scope, self._gateway.key.check(token, project=self._gateway.store.project, now_us=0))
        caller = await self._threads.run(http_caller, partial(self._gateway.identify, Credential(token=token)))
        name_call(scope, "mcp", caller.full_name)
        sessions = await self._load_sessions()
        if scope["method"] == "POST":
            body = await _read_message(scope, receive, send)
            if body is None:
                return
            receive = _replay(body, receive)
        scope[_TOKEN] = token
        scope[_CALLER] = http_caller
        scope["user"] = _user(token, caller)
        async with anyio.create_task_group() as group:
            if scope["method"] == "GET":
                group.start_soon(self._end_with_token, scope)
            await self._owned.handle(http_caller.name, sessions.handle_request, scope, receive, send)
            group.cancel_scope.cancel()

    async def _end_with_token(self, scope: Scope) -> None:
        """End the stream of an older client as soon as its token is no longer good (decision 69)."""
        line = -1
        while True:
            newest = await to_thread.run_sync(self._gateway.store.last_line)
            if newest != line:
                line = newest
                try:
                    await to_thread.run_sync(self._gateway.identify, Credential(token=scope[_TOKEN]))
                except EngramBusError:
                    scope[ABORT_CONNECTION]()
                    return
            await anyio.sleep(POLL_SECONDS)

    async def _load_sessions(self) -> StreamableHTTPSessionManager:
        async with self._loading:
            if self._sessions is None:
                if self._group is None:
                    raise RuntimeError("the application's lifespan has not begun")
                sessions = await to_thread.run_sync(self._make_sessions)
                await self._group.start(self._run, sessions)
                self._sessions = sessions
            return self._sessions

    def _make_sessions(self) -> StreamableHTTPSessionManager:
        # decision 15: the protocol's library is slow to load, so it is loaded with the first client.
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from engrambus.edges.mcp.marked_calls import MarkedCalls
        from engrambus.edges.mcp.server import make_server

        server = make_server(
            lambda: self._gateway,
            lambda target: MarkedCalls(target, target),
            _credential_of,
            _on_refusal,
            self._run_in_thread,
        )
        return StreamableHTTPSessionManager(
            server,
            json_response=True,
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=MAX_BODY_BYTES,
            max_sessions=self._limits.mcp_sessions,
        )

    async def _run_in_thread(self, context: Any, work: Callable[[], Any], operation: Operation[Any, Any] | None) -> Any:
        kind = "read" if operation is None else call_kind(operation)
        return await self._threads.run(context.request.scope[_CALLER], work, kind)

    async def _run(
        self, sessions: StreamableHTTPSessionManager, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with sessions.run():
            task_status.started()
            await self._closed.wait()


async def _read_message(scope: Scope, receive: Receive, send: Send) -> bytes | None:
    """Return the body of a request; answer an invalid one and return None."""
    from engrambus.edges.mcp.wire import refusal_message

    start = _BodyStart(receive)
    try:
        body = await read_body(scope, start.receive, MAX_BODY_BYTES)
    except BodyTooLarge as refusal:
        answer, is_tool_call = refusal_message(await start.read(), refusal)
        if not is_tool_call:
            raise
        log_refusal(scope, refusal)
        await send_json_early(scope, receive, send, msgspec.json.encode(answer))
        return None
    check_content_type(scope)
    try:
        read_json(body, max_bytes=MAX_BODY_BYTES)
    except EngramBusError as refusal:
        log_refusal(scope, refusal)
        answer, is_tool_call = refusal_message(body, refusal)
        await send_json(send, msgspec.json.encode(answer), 200 if is_tool_call else 400)
        return None
    return body


class _BodyStart:
    """The beginning of a body, stored while it is received: a tool call is recognised even if it is too large."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._stored = b""

    async def receive(self) -> Message:
        """Receive and store the next part."""
        message = await self._receive()
        self._stored += message.get("body", b"")[: START_BYTES - len(self._stored)]
        return message

    async def read(self) -> bytes:
        """Return the stored beginning; wait for it if nothing has arrived yet."""
        with anyio.move_on_after(START_SECONDS):
            while not self._stored and (await self.receive()).get("more_body"):
                pass
        return self._stored


def _credential_of(context: Any) -> Credential:
    return Credential(token=context.request.scope[_TOKEN])


def _on_refusal(context: Any, operation: str, refusal: EngramBusError) -> None:
    scope = context.request.scope
    name_call(scope, operation, scope["user"].access_token.client_id)
    log_refusal(scope, refusal)


def _user(token: str, caller: Caller) -> Any:
    """Return the agent as the library's user object: only the agent that opened a session may use it."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    return AuthenticatedUser(AccessToken(token=token, client_id=caller.full_name, scopes=[]))


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns a body that was already read, and then what follows."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again
