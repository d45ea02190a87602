"""`GET /work/events`: that work went on, as server-sent events; what there is to see, `GET /work` tells.

An event holds the number of the journal's last line and nothing else, so there is nothing in it that a reader may not
see, and one that comes back has missed nothing. It is no operation: it has no answer that ends.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
from starlette.types import Receive, Scope, Send

from stigmergy.edges.http.refusals import call_named
from stigmergy.edges.http.requests import bearer, header, read_body, read_query
from stigmergy.edges.http.sessions import session_token
from stigmergy.edges.http.streams import HEARTBEAT_SECONDS, Stream, Streams
from stigmergy.errors import RoleForbidden, StigmergyError
from stigmergy.operations import Credential, Gateway
from stigmergy.policy import ADMIN

MOST_STREAMS = 64
PACE_SECONDS = 0.25
"""How often the journal's size is asked: what happens meanwhile is told as one."""

WORK_EVENTS: dict[str, Any] = {
    "operationId": "work_events",
    "summary": "Be told whenever work went on: an event `work.changed` with the number of the journal's last line.",
    "responses": {
        "200": {
            "description": "Server-sent events, until the reader leaves",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": {"$ref": "#/components/responses/Refused"},
    },
}


class WorkStreams:
    """Everyone who watches the board."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._streams = Streams(MOST_STREAMS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one reader until it leaves, or its token holds no more."""
        call_named(scope, "work_events")
        token = bearer(scope) if header(scope, b"authorization") else session_token(scope) or bearer(scope)
        read_query(scope, frozenset())
        await read_body(scope, receive, 0)
        credential = Credential(token=token)
        line = await self._streams.in_thread(partial(self._line, credential))
        with self._streams.opened(scope, receive, send) as stream:
            await stream.run(partial(self._follow, credential, line))

    def close(self) -> None:
        """End every stream, and open no more."""
        self._streams.close()

    async def _follow(self, credential: Credential, line: int, stream: Stream) -> None:
        known = -1
        while True:
            if line != known:
                await stream.write(b'event: work.changed\nid: %d\ndata: {"line":%d}\n\n' % (line, line))
                known = line
            elif stream.quiet_seconds >= HEARTBEAT_SECONDS:
                await stream.write(b":\n\n")
            await anyio.sleep(PACE_SECONDS)
            try:
                line = await self._streams.in_thread(partial(self._line, credential))
            except StigmergyError:
                break  # the token holds no more: asked again, the gateway says so

    def _line(self, credential: Credential) -> int:
        """The number of the last line, for whoever may see the board."""
        caller = self._gateway.who(credential)
        if caller.role != ADMIN:
            raise RoleForbidden("The board is for people.", limit=ADMIN)
        return self._gateway.workbench.space.store.last_line()
