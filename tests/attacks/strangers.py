"""Strangers: servers that are not the gateway, on a port where a client looks for it."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

ANSWER = b'{"code":"stolen-code","expires_in":600,"proof":"AAAA","agents":[],"engrams":[],"run_id":"x","goal":"x"}'

Reply = Callable[[bytes], bytes]


class Stranger:
    """A listener that keeps everything it is sent."""

    def __init__(self, listening: socket.socket, reply: Reply) -> None:
        self._listening = listening
        self._reply = reply
        self.address, self.port = listening.getsockname()[:2]
        self.received = b""
        """All bytes of all connections."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The address that clients are lured to."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}"

    def _accept(self) -> None:
        with suppress(OSError):  # the test has ended
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while request := self._read_request(connection):
                connection.sendall(self._reply(request))

    def _read_request(self, connection: socket.socket) -> bytes:
        """Return the next whole request of a connection; nothing at its end."""
        request = b""
        while not _is_whole(request):
            data = connection.recv(65536)
            if not data:
                return b""
            self.received += data
            request += data
        return request


def _is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


def answer_anything(request: bytes) -> bytes:
    """Answer every request with what a client might take for an answer of the gateway."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)


def relay_to(address: str, port: int) -> Reply:
    """Return what passes each request on to the real gateway, as if it had been sent there."""

    def relay(request: bytes) -> bytes:
        lines = [
            b"Host: %s:%d" % (address.encode(), port) if line.lower().startswith(b"host:") else line
            for line in request.split(b"\r\n")
        ]
        with socket.create_connection((address, port), timeout=10) as gateway:
            gateway.sendall(b"\r\n".join(lines))
            return gateway.recv(1 << 20)

    return relay


@contextmanager
def stranger(address: str = "127.0.0.1", port: int = 0, reply: Reply = answer_anything) -> Iterator[Stranger]:
    """Run a stranger on a port of this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family) as listening:
        yield Stranger(listening, reply)
