"""`GET /tuple/{id}/events`: the states of one tuple as a stream that ends with the tuple.

Each event is the complete answer of `GET /tuple/{id}`, and its id is that answer's ETag, so a reader that resumes with
`Last-Event-ID` gets nothing it already has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import anyio
import msgspec
from starlette.types import Receive, Scope, Send

from engrambus.edges.http.call_log import name_call
from engrambus.edges.http.callers import token_caller
from engrambus.edges.http.requests import bearer_token, header, read_body, read_query
from engrambus.edges.http.responses import etag_of
from engrambus.edges.http.streams import Stream, StreamEndpoint, StreamLimits
from engrambus.errors import EngramBusError
from engrambus.gateway import Credential, Gateway, to_request
from engrambus.operations import OPERATIONS

TUPLE_LIMITS = StreamLimits(max_open=64)
POLL_SECONDS = 0.1
"""Time between two looks at the length of the journal; the tuple is read only when the journal has grown."""
FINAL_STATES = frozenset({"done", "dead", "cancelled"})

_encode = msgspec.json.Encoder().encode


class _Observation(NamedTuple):
    """A tuple's state at one moment."""

    etag: str
    body: bytes
    state: str
    commits: tuple[int, int]
    """Number of commits in the journal of work, and in that of runs, agents and tokens, before the tuple was read."""


class TupleEventsEndpoint(StreamEndpoint):
    """Serves every reader that follows a tuple."""

    def __init__(self, gateway: Gateway, limits: StreamLimits = TUPLE_LIMITS) -> None:
        super().__init__(gateway, limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one reader until the tuple ends, the reader disconnects or stalls, or the server stops."""
        name_call(scope, "tuple_events")
        token = bearer_token(scope)
        caller = token_caller(scope, self._gateway.key.check(token, project=self._gateway.store.project, now_us=0))
        values = read_query(scope, frozenset({"as"}))
        await read_body(scope, receive, 0)
        credential = Credential(token=token, speak_as=values.get("as"))
        observe = partial(self._observe, scope["path_params"]["id"], credential)
        last_id = (header(scope, b"last-event-id") or b"").decode("latin-1").strip()
        observation = await self._streams.run_in_thread(observe)
        with self._streams.open(scope, receive, send, caller) as stream:
            await stream.run(partial(self._write_states, observe, observation, last_id))

    async def _write_states(
        self, observe: Callable[[], _Observation], observation: _Observation, last_id: str, stream: Stream
    ) -> None:
        while True:
            if observation.etag != last_id:
                event = b"id: %s\nevent: tuple\ndata: %s\n\n" % (observation.etag.encode(), observation.body)
                await stream.write(event)
                last_id = observation.etag
            elif stream.quiet_seconds >= self._heartbeat_seconds:
                await stream.write(b":\n\n")
            if observation.state in FINAL_STATES:
                break
            await self._wait_for_commit(observation.commits, stream)
            try:
                observation = await self._streams.run_in_thread(observe)
            except EngramBusError:
                break  # the token has expired or the tuple is gone: the next request is told which

    async def _wait_for_commit(self, commits: tuple[int, int], stream: Stream) -> None:
        """Wait until a journal has grown, or a heartbeat is due: then the token is checked again too."""
        while True:
            # Polled, because a worker in another process may change the tuple.
            await anyio.sleep(POLL_SECONDS)
            if stream.quiet_seconds >= self._heartbeat_seconds:
                return
            if await self._streams.run_in_thread(self._commits) != commits:
                return

    def _commits(self) -> tuple[int, int]:
        return self._gateway.tuple_space.commits(), self._gateway.store.last_line()

    def _observe(self, tuple_id: str, credential: Credential) -> _Observation:
        commits = self._commits()
        operation = OPERATIONS["tuple_observe"]
        answer = self._gateway.call(operation, to_request({"id": tuple_id}, operation.request), credential)
        body = _encode(answer)
        return _Observation(etag_of(body), body, answer.state, commits)
