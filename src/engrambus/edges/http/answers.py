"""What goes back over HTTP: answers, problems, and files that are the same for everybody."""

from __future__ import annotations

import anyio
import msgspec
from starlette.types import Receive, Scope, Send

from engrambus.core import digest
from engrambus.edges.http.requests import BODY_READ, has_body, listed
from engrambus.errors import EngramBusError, MethodNotAllowed, Unauthorized

Headers = list[tuple[bytes, bytes]]

LINGER_SECONDS = 2.0

_NO_STORE = (b"cache-control", b"no-store")
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_JSON: Headers = [(b"content-type", b"application/json"), _NO_STORE, _NO_SNIFFING]
_PROBLEM: Headers = [(b"content-type", b"application/problem+json"), _NO_STORE, _NO_SNIFFING]


async def send_json(send: Send, body: bytes, status: int = 200) -> None:
    """Answer with JSON that nobody keeps."""
    await _send(send, status, _JSON, body)


async def send_plain(send: Send, body: bytes, content_type: str) -> None:
    """Answer with a text of some type that nobody keeps."""
    await _send(send, 200, [(b"content-type", content_type.encode()), _NO_STORE, _NO_SNIFFING], body)


async def send_conditionally(scope: Scope, send: Send, body: bytes) -> None:
    """Answer with JSON under its ETag; whoever has that already is told so."""
    etag = etag_of(body)
    headers = [(b"etag", etag.encode()), (b"cache-control", b"private, no-cache"), _NO_SNIFFING]
    if is_known(scope, etag.encode()):
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    await _send(send, 200, [_JSON[0], *headers], body)


def is_known(scope: Scope, etag: bytes) -> bool:
    """Whether whoever asks has what bears this ETag already, or says that any will do."""
    known = [tag.removeprefix(b"W/") for tag in listed(scope, b"if-none-match")]
    return etag in known or known == [b"*"]


def etag_of(body: bytes) -> str:
    """What an answer is known by."""
    return f'"{digest(body)[7:39]}"'


async def send_problem(scope: Scope, receive: Receive, send: Send, error: EngramBusError) -> None:
    """Refuse, in the form of RFC 9457."""
    body = msgspec.json.encode(error.problem())
    headers = list(_PROBLEM)
    if isinstance(error, Unauthorized):
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", str(error.limit).encode()))
    await _send_to_sender(scope, receive, send, error.status, headers, body)


async def send_json_early(scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
    """Answer with JSON a request whose body was not read to its end."""
    await _send_to_sender(scope, receive, send, 200, list(_JSON), body)


async def _send_to_sender(
    scope: Scope, receive: Receive, send: Send, status: int, headers: Headers, body: bytes
) -> None:
    """Answer someone who may still be sending.

    When the request's body has not been read, the connection is closed, but not before its sender had a moment to
    read the answer: closing at once would reset the connection under it.
    """
    if not has_body(scope) or scope.get(BODY_READ):
        await _send(send, status, headers, body)
        return
    headers.append((b"connection", b"close"))
    await _send(send, status, headers, body, more=True)
    with anyio.move_on_after(LINGER_SECONDS):
        while (await receive()).get("more_body"):
            pass
    await send({"type": "http.response.body", "body": b""})


async def _send(send: Send, status: int, headers: Headers, body: bytes, *, more: bool = False) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body, "more_body": more})


class File:
    """Bytes that anybody may read and keep, as long as they ask whether they are still the same."""

    def __init__(self, body: bytes, content_type: str, headers: Headers | None = None) -> None:
        self.body = body
        self.tag = f'"{digest(body)[7:39]}"'.encode()
        self.headers: Headers = [
            (b"content-type", content_type.encode()),
            (b"cache-control", b"no-cache"),
            (b"etag", self.tag),
            _NO_SNIFFING,
            *(headers or []),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the bytes, or say that they have not changed."""
        if is_known(scope, self.tag):
            await send({"type": "http.response.start", "status": 304, "headers": self.headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await _send(send, 200, self.headers, self.body)
