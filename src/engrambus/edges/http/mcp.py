"""`/mcp`: the tools and resources over the protocol's streamable HTTP, behind the same doors as every other address.

Clients of the revision 2026-07-28 send requests that each stand alone; older ones open a session, which belongs to the
agent that opened it. The protocol's library is large, so it is loaded when the first client comes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus
from starlette.types import Message, Receive, Scope, Send

from engrambus.core import read_json
from engrambus.edges.http.answers import send_json, send_json_early
from engrambus.edges.http.refusals import call_named, log_refusal
from engrambus.edges.http.requests import bearer, check_content_type, read_body
from engrambus.errors import BodyTooLarge, EngramBusError
from engrambus.gateway import Credential, Gateway
from engrambus.policy import Caller

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

METHODS = ("DELETE", "GET", "POST")
BODY_LIMIT = 1024 * 1024
OPENING = 1024
OPENING_SECONDS = 5.0
"""How long a sender may take to show what it is that is too large."""
MOST_SESSIONS = 256
IDLE_SECONDS = 1800.0
"""How long an older client's session is kept after its last request."""

_TOKEN = "engrambus.token"  # noqa: S105  # where the scope keeps it


class McpEndpoint:
    """Speaks the protocol with every client, once `running` is entered."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._sessions: StreamableHTTPSessionManager | None = None
        self._group: TaskGroup | None = None
        self._loading = anyio.Lock()
        self._ended = anyio.Event()

    @asynccontextmanager
    async def running(self, app: object) -> AsyncIterator[None]:
        """Let clients come and go; whatever is left at the end is ended."""
        async with anyio.create_task_group() as group:
            self._group = group
            yield
            group.cancel_scope.cancel()

    def close(self) -> None:
        """End every session, since older clients keep a stream open for as long as they live."""
        self._ended.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let in whoever has a token, read what was sent as strictly as any body, and hand it to the protocol."""
        call_named(scope, "mcp")
        token = bearer(scope)
        caller = await to_thread.run_sync(self._gateway.identify, Credential(token=token))
        call_named(scope, "mcp", caller.full_name)
        sessions = await self._loaded()
        if scope["method"] == "POST":
            from engrambus.edges.mcp.wire import refused

            opening = _Opening(receive)
            try:
                body = await read_body(scope, opening.receive, BODY_LIMIT)
            except BodyTooLarge as refusal:
                answer, is_call = refused(await opening.seen(), refusal)
                if not is_call:
                    raise
                log_refusal(scope, refusal)
                await send_json_early(scope, receive, send, msgspec.json.encode(answer))
                return
            check_content_type(scope)
            try:
                read_json(body, max_bytes=BODY_LIMIT)
            except EngramBusError as refusal:
                log_refusal(scope, refusal)
                # As the call's result if it is one, else as an error of the protocol, which is not shown the body.
                answer, is_call = refused(body, refusal)
                await send_json(send, msgspec.json.encode(answer), 200 if is_call else 400)
                return
            receive = _again(body, receive)
        scope[_TOKEN] = token
        scope["user"] = _user(token, caller)
        await sessions.handle_request(scope, receive, send)

    async def _loaded(self) -> StreamableHTTPSessionManager:
        async with self._loading:
            if self._sessions is None:
                if self._group is None:
                    raise RuntimeError("the application's lifespan has not begun")
                sessions = await to_thread.run_sync(self._load)
                await self._group.start(self._run, sessions)
                self._sessions = sessions
            return self._sessions

    def _load(self) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from engrambus.edges.mcp.server import make_server

        server = make_server(lambda: self._gateway, _who, _log)
        return StreamableHTTPSessionManager(
            server,
            json_response=True,
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=BODY_LIMIT,
            max_sessions=MOST_SESSIONS,
        )

    async def _run(
        self, sessions: StreamableHTTPSessionManager, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with sessions.run():
            task_status.started()
            await self._ended.wait()


class _Opening:
    """How a body begins, kept while it is received: enough to tell a call that is too large from other messages."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept = b""

    async def receive(self) -> Message:
        """The next piece."""
        message = await self._receive()
        self._kept += message.get("body", b"")[: OPENING - len(self._kept)]
        return message

    async def seen(self) -> bytes:
        """What was kept; waited for when nothing has come yet."""
        with anyio.move_on_after(OPENING_SECONDS):
            while not self._kept and (await self.receive()).get("more_body"):
                pass
        return self._kept


def _who(context: Any) -> Credential:
    return Credential(token=context.request.scope[_TOKEN])


def _log(context: Any, operation: str, refusal: EngramBusError) -> None:
    scope = context.request.scope
    agent = scope["user"].access_token.client_id
    call_named(scope, operation, agent)
    log_refusal(scope, refusal)


def _user(token: str, caller: Caller) -> Any:
    """The agent as the protocol's library knows it: a session can be used only by the one that opened it."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    return AuthenticatedUser(AccessToken(token=token, client_id=caller.full_name, scopes=[]))


def _again(body: bytes, receive: Receive) -> Receive:
    """What was received, to be received once more."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def from_start() -> Message:
        return waiting.pop() if waiting else await receive()

    return from_start
