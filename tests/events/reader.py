"""A reader of event streams over a real socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, NamedTuple

from tests.http.served import Served


class Block(NamedTuple):
    """What stands between two empty lines of a stream."""

    id: str | None
    type: str | None
    data: Any
    comment: bool
    retry: str | None


class Reader:
    """One stream, being read."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._answer = connection.getresponse()
        self.headers = {name.lower(): value for name, value in self._answer.getheaders()}
        self.status = self._answer.status
        self.last_id: str | None = None

    def problem(self) -> str:
        """The code of a refusal."""
        return str(json.loads(self._answer.read())["code"])

    def block(self) -> Block | None:
        """The next block; none at the end of the stream."""
        fields: dict[str, str] = {}
        while line := self._answer.readline():
            if line == b"\n":
                mark = fields.get("id")
                self.last_id = mark or self.last_id
                data = json.loads(fields["data"]) if "data" in fields else None
                return Block(mark, fields.get("event"), data, "" in fields, fields.get("retry"))
            name, _, value = line.decode().rstrip("\n").partition(":")
            assert name not in fields
            fields[name] = value.removeprefix(" ")
        assert not fields, "the stream ended inside a block"
        return None

    def event(self) -> Block:
        """The next event; heartbeats are read over."""
        while block := self.block():
            if block.type is not None:
                assert block.data["type"] == block.type
                assert block.data.get("id") == block.id
                return block
        raise EOFError

    def until(self, kind: str, count: int = 1) -> list[Block]:
        """Every event up to the so-manieth of a type."""
        found: list[Block] = []
        while sum(block.type == kind for block in found) < count:
            found.append(self.event())
        return found

    def close(self) -> None:
        """Hang up."""
        self._answer.close()
        self._connection.close()


@contextmanager
def reading(
    bus: Served,
    query: str = "",
    *,
    path: str = "/events",
    token: str | None = "",
    last_id: str | None = None,
    receive_buffer: int | None = None,
) -> Iterator[Reader]:
    """Follow a project's events, or another stream, as the admin, unless another token is given or None."""
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
