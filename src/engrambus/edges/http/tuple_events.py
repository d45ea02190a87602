"""`GET /tuple/{id}/events`: what becomes of a tuple, as server-sent events.

Each event is the whole of what `GET /tuple/{id}` answers, and its id is that answer's ETag: a reader that comes back
with `Last-Event-ID` is told nothing it knows. The stream ends with the tuple. It is no operation: it has no answer
that ends, so it stands beside them on HTTP alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import anyio
import msgspec
from starlette.types import Receive, Scope, Send

from engrambus.edges.http.answers import etag_of
from engrambus.edges.http.refusals import call_named
from engrambus.edges.http.requests import bearer, header, read_body, read_query
from engrambus.edges.http.streams import HEARTBEAT_SECONDS, STALL_SECONDS, Stream, Streams
from engrambus.errors import EngramBusError
from engrambus.gateway import Credential, Gateway, to_request
from engrambus.operations import OPERATIONS

MOST_STREAMS = 64
LOOK_SECONDS = 0.1
"""How often the journal's size is asked while somebody reads; the tuple is looked at only when it has grown."""
ENDED = frozenset({"done", "dead", "cancelled"})

_encode = msgspec.json.Encoder().encode

TUPLE_EVENTS: dict[str, Any] = {
    "operationId": "tuple_events",
    "summary": "Follow one tuple to its end: each event is what GET /tuple/{id} answers, under its ETag.",
    "parameters": [
        {
            "name": "id",
            "in": "path",
            "required": True,
            "description": "The tuple's id",
            "schema": {"type": "string", "maxLength": 80},
        },
        {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The last event known",
            "schema": {"type": "string"},
        },
        {
            "name": "as",
            "in": "query",
            "description": "The descendant in whose name to act",
            "schema": {"type": "string", "minLength": 1, "maxLength": 64},
        },
    ],
    "responses": {
        "200": {
            "description": "A stream that ends with the tuple.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": {"$ref": "#/components/responses/Refused"},
    },
}
"""The entry of the OpenAPI document."""


class _Seen(NamedTuple):
    """A tuple, as it was looked at."""

    etag: str
    body: bytes
    state: str
    line: int
    """How far the journal went when it was looked at."""


class TupleStreams:
    """Everyone who follows a tuple over HTTP."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        most: int = MOST_STREAMS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._gateway = gateway
        self._streams = Streams(most, stall_seconds)
        self._heartbeat_seconds = heartbeat_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one reader until the tuple has ended, the reader has left or takes nothing, or the server ends."""
        call_named(scope, "tuple_events")
        token = bearer(scope)
        values = read_query(scope, frozenset({"as"}))
        await read_body(scope, receive, 0)
        look = partial(self._look, scope["path_params"]["id"], Credential(token=token, speak_as=values.get("as")))
        known = (header(scope, b"last-event-id") or b"").decode("latin-1").strip()
        seen = await self._streams.in_thread(look)
        with self._streams.opened(scope, receive, send) as stream:
            await stream.run(partial(self._follow, look, seen, known))

    def close(self) -> None:
        """End every stream, and open no more."""
        self._streams.close()

    async def _follow(self, look: Callable[[], _Seen], seen: _Seen, known: str, stream: Stream) -> None:
        while True:
            if seen.etag != known:
                await stream.write(b"id: %s\nevent: tuple\ndata: %s\n\n" % (seen.etag.encode(), seen.body))
                known = seen.etag
            elif stream.quiet_seconds >= self._heartbeat_seconds:
                await stream.write(b":\n\n")
            if seen.state in ENDED:
                break
            while True:
                await anyio.sleep(LOOK_SECONDS)
                if stream.quiet_seconds >= self._heartbeat_seconds:
                    break  # looked at as well: does the token still hold?
                if await self._streams.in_thread(self._gateway.tuple_space.commits) != seen.line:
                    break
            try:
                seen = await self._streams.in_thread(look)
            except EngramBusError:
                break  # the token holds no more, or the tuple was taken: asked again, the gateway says which

    def _look(self, tuple_id: str, credential: Credential) -> _Seen:
        line = self._gateway.tuple_space.commits()
        operation = OPERATIONS["tuple_observe"]
        answer = self._gateway.call(operation, to_request({"id": tuple_id}, operation.request), credential)
        body = _encode(answer)
        return _Seen(etag_of(body), body, answer.state, line)
