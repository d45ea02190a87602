"""`GET /tuple/{id}/events`: what becomes of a tuple, as server-sent events.

Each event is the whole of what `GET /tuple/{id}` answers, and its id is that answer's ETag: a reader that comes back
with `Last-Event-ID` is told nothing it knows. The stream ends with the tuple. It is no operation: it has no answer
that ends, so it stands beside them on HTTP alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import msgspec
from anyio import to_thread
from starlette.types import Receive, Scope, Send

from stigmergy.edges.http.answers import etag_of
from stigmergy.edges.http.refusals import call_named
from stigmergy.edges.http.requests import bearer, header, read_body, read_query
from stigmergy.edges.http.streams import HEARTBEAT_SECONDS, MOST_STREAMS, Streams, write
from stigmergy.errors import StigmergyError
from stigmergy.operations import OPERATIONS, Credential, Gateway, to_request

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


class TupleStreams:
    """Everyone who follows a tuple over HTTP."""

    def __init__(self, gateway: Gateway, *, most: int = MOST_STREAMS, heartbeat: float = HEARTBEAT_SECONDS) -> None:
        self._gateway = gateway
        self._streams = Streams(most)
        self._heartbeat = heartbeat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one reader until the tuple has ended or the reader has left."""
        call_named(scope, "tuple_events")
        token = bearer(scope)
        values = read_query(scope, frozenset({"as"}))
        await read_body(scope, receive, 0)
        look = partial(self._look, scope["path_params"]["id"], Credential(token=token, speak_as=values.get("as")))
        known = (header(scope, b"last-event-id") or b"").decode("latin-1").strip()
        seen = await to_thread.run_sync(look)
        await self._streams.serve(scope, receive, send, partial(self._follow, send, look, seen, known))

    async def _follow(self, send: Send, look: Any, seen: tuple[str, bytes, str, int], known: str) -> None:
        quiet = 0.0
        while True:
            etag, body, state, line = seen
            if etag != known:
                await write(send, b"id: %s\nevent: tuple\ndata: %s\n\n" % (etag.encode(), body))
                known, quiet = etag, 0.0
            if state in ENDED:
                break
            while line == await to_thread.run_sync(self._gateway.workbench.space.store.last_line):
                await anyio.sleep(LOOK_SECONDS)
                quiet += LOOK_SECONDS
                if quiet >= self._heartbeat:
                    await write(send, b":\n\n")
                    quiet = 0.0
            try:
                seen = await to_thread.run_sync(look)
            except StigmergyError:
                break  # the token holds no more, or the tuple was taken: asked again, the gateway says which

    def _look(self, tuple_id: str, credential: Credential) -> tuple[str, bytes, str, int]:
        line = self._gateway.workbench.space.store.last_line()
        operation = OPERATIONS["tuple_observe"]
        answer = self._gateway.call(operation, to_request({"id": tuple_id}, operation.request), credential)
        body = _encode(answer)
        return etag_of(body), body, answer.state, line
