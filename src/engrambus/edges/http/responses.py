"""Responses over HTTP: answers, problems, and static files."""

from __future__ import annotations

import anyio
import msgspec
from starlette.types import Receive, Scope, Send

from engrambus.core import digest
from engrambus.edges.http.requests import BODY_READ, has_body, list_header
from engrambus.errors import EngramBusError, MethodNotAllowed, StoreBusy, Unauthorized

Headers = list[tuple[bytes, bytes]]

LINGER_SECONDS = 2.0
"""Time to wait before closing the connection of a client that is still sending."""

_NO_STORE = (b"cache-control", b"no-store")
# Answers quote text by agents: no browser may guess that they are HTML.
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_JSON: Headers = [(b"content-type", b"application/json"), _NO_STORE, _NO_SNIFFING]
_PROBLEM: Headers = [(b"content-type", b"application/problem+json"), _NO_STORE, _NO_SNIFFING]


async def send_json(send: Send, body: bytes, status: int = 200, headers: Headers | None = None) -> None:
    """Send JSON that must not be cached."""
    await _send(send, status, [*_JSON, *headers] if headers else _JSON, body)


async def send_text(send: Send, body: bytes, content_type: str) -> None:
    """Send a text of any media type that must not be cached."""
    await _send(send, 200, [(b"content-type", content_type.encode()), _NO_STORE, _NO_SNIFFING], body)


async def send_json_with_etag(scope: Scope, send: Send, body: bytes, more_headers: Headers) -> None:
    """Send JSON with its ETag, or 304 if the client already has it."""
    etag = etag_of(body)
    headers = [(b"etag", etag.encode()), (b"cache-control", b"private, no-cache"), _NO_SNIFFING, *more_headers]
    if has_etag(scope, etag.encode()):
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    await _send(send, 200, [_JSON[0], *headers], body)


def has_etag(scope: Scope, etag: bytes) -> bool:
    """True if `If-None-Match` names this ETag, or any."""
    etags = [tag.removeprefix(b"W/") for tag in list_header(scope, b"if-none-match")]
    return etag in etags or etags == [b"*"]


def etag_of(body: bytes) -> str:
    """Return the ETag of a body."""
    return f'"{digest(body)[7:39]}"'


async def send_problem(scope: Scope, receive: Receive, send: Send, error: EngramBusError) -> None:
    """Send an error in the form of RFC 9457."""
    body = msgspec.json.encode(error.problem())
    headers = list(_PROBLEM)
    if isinstance(error, Unauthorized):
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", str(error.limit).encode()))
    retry_after_seconds = 5 if isinstance(error, StoreBusy) else error.retry_after_seconds
    if retry_after_seconds is not None:
        headers.append((b"retry-after", str(retry_after_seconds).encode()))
    await _send_and_drain(scope, receive, send, error.status, headers, body)


async def send_json_early(scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
    """Send JSON in response to a request whose body was not read to its end."""
    await _send_and_drain(scope, receive, send, 200, list(_JSON), body)


async def _send_and_drain(
    scope: Scope, receive: Receive, send: Send, status: int, headers: Headers, body: bytes
) -> None:
    """Send a response; close the connection if the request's body was not read."""
    if not has_body(scope) or scope.get(BODY_READ):
        await _send(send, status, headers, body)
        return
    headers.append((b"connection", b"close"))
    await _send(send, status, headers, body, more_body=True)
    # Closing at once would reset the connection before a client that is still sending has read the response.
    with anyio.move_on_after(LINGER_SECONDS):
        while (await receive()).get("more_body"):
            pass
    await send({"type": "http.response.body", "body": b""})


async def _send(send: Send, status: int, headers: Headers, body: bytes, *, more_body: bool = False) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body, "more_body": more_body})


class StaticResponse:
    """Bytes that a client may cache; by default it checks their ETag before each use."""

    def __init__(
        self, body: bytes, content_type: str, headers: Headers | None = None, *, cache_control: bytes = b"no-cache"
    ) -> None:
        self._body = body
        self._etag = etag_of(body).encode()
        self._headers: Headers = [
            (b"content-type", content_type.encode()),
            (b"cache-control", cache_control),
            (b"etag", self._etag),
            _NO_SNIFFING,
            *(headers or []),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the bytes, or 304 if the client already has them."""
        if has_etag(scope, self._etag):
            await send({"type": "http.response.start", "status": 304, "headers": self._headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await _send(send, 200, self._headers, self._body)
