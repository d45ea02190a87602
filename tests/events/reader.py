"""A reader of event streams over a real socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, NamedTuple

from tests.http.running_server import RunningServer


class StreamBlock(NamedTuple):
    """The fields between two empty lines of a stream."""

    id: str | None
    type: str | None
    data: Any
    comment: bool
    retry: str | None


class Reader:
    """A reader of one stream."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._response = connection.getresponse()
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}
        self.status = self._response.status
        self.last_id: str | None = None

    def problem(self) -> str:
        """Return the code of the error in the body."""
        return str(json.loads(self._response.read())["code"])

    def block(self) -> StreamBlock | None:
        """Return the next block; None at the end of the stream."""
        fields: dict[str, str] = {}
        while line := self._response.readline():
            if line == b"\n":
                event_id = fields.get("id")
                self.last_id = event_id or self.last_id
                data = json.loads(fields["data"]) if "data" in fields else None
                return StreamBlock(event_id, fields.get("event"), data, "" in fields, fields.get("retry"))
            name, _, value = line.decode().rstrip("\n").partition(":")
            assert name not in fields
            fields[name] = value.removeprefix(" ")
        assert not fields, "the stream ended inside a block"
        return None

    def event(self) -> StreamBlock:
        """Return the next event, skipping heartbeats."""
        while block := self.block():
            if block.type is not None:
                assert block.data["type"] == block.type
                assert block.data.get("id") == block.id
                return block
        raise EOFError

    def until(self, event_type: str, count: int = 1) -> list[StreamBlock]:
        """Return every event up to the `count`-th of a type."""
        events: list[StreamBlock] = []
        while sum(block.type == event_type for block in events) < count:
            events.append(self.event())
        return events

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
        self._connection.close()


@contextmanager
def open_stream(
    bus: RunningServer,
    query: str = "",
    *,
    path: str = "/events",
    token: str | None = "",
    last_id: str | None = None,
    receive_buffer: int | None = None,
) -> Iterator[Reader]:
    """Open the stream of events, or another one, as the admin by default and without a token for None."""
    connection = HTTPConnection("127.0.0.1", bus.port, timeout=60)
    connection.sock = socket.socket()
    if receive_buffer is not None:
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.sock.settimeout(60)
    connection.sock.connect(("127.0.0.1", bus.port))
    headers = {} if token is None else {"Authorization": f"Bearer {token or bus.token}"}
    if last_id is not None:
        headers["Last-Event-ID"] = last_id
    connection.request("GET", path + query, headers=headers)
    reader = Reader(connection)
    try:
        yield reader
    finally:
        reader.close()
