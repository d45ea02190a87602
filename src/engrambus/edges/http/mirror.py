"""Commits over HTTP, as git sends them: pushes to the server's mirror, and fetches from it (decision 121)."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO

import anyio
from anyio import to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from engrambus.core.files import make_folder
from engrambus.edges.http.call_log import name_call
from engrambus.edges.http.callers import CallerCounts, CallRates, HttpCaller, token_caller
from engrambus.edges.http.connections import EXTEND_BODY
from engrambus.edges.http.requests import BODY_READ, ClientGone, bearer_token, header, read_query
from engrambus.edges.http.server_limits import ServerLimits
from engrambus.errors import (
    BodyTooLarge,
    ContentType,
    FieldValue,
    RoleForbidden,
    TooManyCalls,
    Unauthorized,
)
from engrambus.evidence.pointers.mirror import MAX_COMMAND_BYTES, Mirror, MirrorLimits, check_commands
from engrambus.gateway import Credential, Gateway
from engrambus.policy import Caller

UPLOADS = "uploads"
"""The folder in which a push is collected before git reads it."""
RECEIVE, UPLOAD = "receive-pack", "upload-pack"
MAX_FETCH_REQUEST_BYTES = 4 * 1024 * 1024
PUSH_SECONDS = 900
"""Time in which the body of a push must have arrived."""
MAX_AT_ONCE = 4
"""Pushes and fetches that git works on at once."""
MAX_OF_CALLER = 4
"""Pushes and fetches of one caller that are worked on or wait."""
_CHUNK_BYTES = 64 * 1024
_NO_CACHE = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


def mirror_routes(gateway: Gateway, sizes: MirrorLimits, limits: ServerLimits) -> dict[str, dict[str, ASGIApp]]:
    """Return the endpoints of the mirror; none where the project has no repository."""
    repositories = gateway.project_files.repositories
    if not repositories.has_own:
        return {}
    repositories.take_commits()
    endpoints = MirrorEndpoints(gateway, Mirror(repositories.select().directory, sizes), limits)
    return {
        "/git/info/refs": {"GET": endpoints.announce},
        f"/git/git-{RECEIVE}": {"POST": endpoints.push},
        f"/git/git-{UPLOAD}": {"POST": endpoints.fetch},
    }


class MirrorEndpoints:
    """`/git/…`: the smart protocol of git, for callers with a token."""

    def __init__(self, gateway: Gateway, mirror: Mirror, limits: ServerLimits) -> None:
        self._gateway = gateway
        self._mirror = mirror
        self._folder = gateway.project_files.state_path(UPLOADS)
        self._threads = anyio.CapacityLimiter(MAX_AT_ONCE)
        self._running = CallerCounts()
        self._rates = CallRates(limits.calls_per_minute) if limits.calls_per_minute else None

    async def announce(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET /git/info/refs`: list the refs of the mirror."""
        name_call(scope, "mirror.refs")
        service = read_query(scope, frozenset({"service"})).get("service", "")
        if service not in (f"git-{RECEIVE}", f"git-{UPLOAD}"):
            raise FieldValue("Git's newer protocol names its service.", field="service", limit="git-receive-pack")
        caller = await self._identify(scope)
        if service == f"git-{UPLOAD}":
            await to_thread.run_sync(self._check_fetch, caller[1])
        with self._one_of(caller[0]):
            body = await to_thread.run_sync(self._mirror.advertise, service.removeprefix("git-"), limiter=self._threads)
        await _send(send, f"application/x-{service}-advertisement", body)

    async def push(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /git/git-receive-pack`: keep the commits of a push."""
        name_call(scope, "mirror.push")
        read_query(scope, frozenset())
        caller, _ = await self._identify(scope)
        _check_type(scope, RECEIVE)
        with self._one_of(caller):
            extend: Callable[[float], None] | None = scope.get(EXTEND_BODY)
            if extend is not None:
                extend(PUSH_SECONDS)
            make_folder(self._folder)
            with tempfile.TemporaryFile(dir=self._folder) as file:
                await _collect(scope, receive, file, self._mirror.limits.push_bytes)
                report = await to_thread.run_sync(partial(self._keep, file), limiter=self._threads)
        await _send(send, f"application/x-git-{RECEIVE}-result", report)

    async def fetch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /git/git-upload-pack`: send commits of the mirror."""
        name_call(scope, "mirror.fetch")
        read_query(scope, frozenset())
        caller, identified = await self._identify(scope)
        await to_thread.run_sync(self._check_fetch, identified)
        _check_type(scope, UPLOAD)
        protocol = (header(scope, b"git-protocol") or b"").decode("latin-1")
        version = protocol if protocol in ("version=1", "version=2") else None
        with self._one_of(caller):
            make_folder(self._folder)
            with tempfile.TemporaryFile(dir=self._folder) as file:
                await _collect(scope, receive, file, MAX_FETCH_REQUEST_BYTES)
                file.seek(0)
                await self._stream(send, self._mirror.upload(file, version))

    async def _stream(self, send: Send, chunks: Iterator[bytes]) -> None:
        kind = f"application/x-git-{UPLOAD}-result".encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind), *_NO_CACHE]})
        try:
            while chunk := await to_thread.run_sync(next, chunks, b"", limiter=self._threads):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(chunks.close)  # type: ignore[attr-defined]  # it is a generator
        await send({"type": "http.response.body", "body": b""})

    def _keep(self, file: IO[bytes]) -> bytes:
        file.seek(0)
        check_commands(file.read(MAX_COMMAND_BYTES))
        return self._mirror.receive(file)

    async def _identify(self, scope: Scope) -> tuple[HttpCaller, Caller]:
        try:
            token = bearer_token(scope)
            claims = self._gateway.key.check(token, project=self._gateway.store.project, now_us=0)
        except Unauthorized as refusal:
            self._gateway.count_unidentified(refusal)
            raise
        identified = await to_thread.run_sync(self._gateway.identify, Credential(token=token))
        caller = token_caller(scope, claims)
        if self._rates is not None:
            self._rates.check(caller)
        return caller, identified

    def _check_fetch(self, caller: Caller) -> None:
        """Refuse a fetch to a role that may not see all files: a commit comes with all of them."""
        with self._gateway.store.read() as view:
            rule = view.policy().visible_to(caller.role)
        if rule is not None:
            raise RoleForbidden(
                "The policy hides files from this role, and a fetch would send them all.", limit=caller.role
            )

    def _one_of(self, caller: HttpCaller) -> _Holding:
        return _Holding(self._running, caller)


class _Holding:
    """One push or fetch of a caller, one of a few."""

    def __init__(self, running: CallerCounts, caller: HttpCaller) -> None:
        self._running = running
        self._caller = caller

    def __enter__(self) -> None:
        if self._running.of(self._caller) >= MAX_OF_CALLER:
            refusal = TooManyCalls("Few pushes and fetches of a caller are worked on at a time.", limit=MAX_OF_CALLER)
            refusal.retry_after_seconds = 1
            raise refusal
        self._running.add(self._caller)

    def __exit__(self, *problem: object) -> None:
        self._running.remove(self._caller)


def _check_type(scope: Scope, service: str) -> None:
    given = (header(scope, b"content-type") or b"").decode("latin-1")
    if given != f"application/x-git-{service}-request":
        raise ContentType(field="Content-Type", limit=f"application/x-git-{service}-request", used=given[:80])


async def _collect(scope: Scope, receive: Receive, file: IO[bytes], limit_bytes: int) -> None:
    """Write a body to a file, unpacked if it came packed; refuse it as soon as either size is too large."""
    encoding = (header(scope, b"content-encoding") or b"identity").decode("latin-1").lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise ContentType("Only gzip is unpacked.", field="Content-Encoding", limit="gzip", used=encoding[:40])
    declared = header(scope, b"content-length")
    if declared is not None and int(declared) > limit_bytes:
        raise BodyTooLarge(limit=limit_bytes, used=int(declared))
    unpack = zlib.decompressobj(wbits=31) if encoding != "identity" else None
    received = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        received += len(chunk)
        if received > limit_bytes:
            raise BodyTooLarge(limit=limit_bytes, used=received)
        for part in (chunk,) if unpack is None else _unpacked(unpack, chunk, limit_bytes - file.tell()):
            await to_thread.run_sync(file.write, part)
        if file.tell() > limit_bytes:
            raise BodyTooLarge(limit=limit_bytes, used=file.tell())
        if not message.get("more_body"):
            break
    scope[BODY_READ] = True
    file.flush()


def _unpacked(unpack: zlib._Decompress, data: bytes, room_bytes: int) -> Iterator[bytes]:
    """Yield what packed bytes stand for, piece by piece, and one byte too many at most."""
    left = room_bytes + 1
    try:
        while data and left > 0:
            part = unpack.decompress(data, min(left, _CHUNK_BYTES))
            data, left = unpack.unconsumed_tail, left - len(part)
            yield part
    except zlib.error:
        raise FieldValue("The body is not what its encoding says.", field="Content-Encoding") from None


async def _send(send: Send, kind: str, body: bytes) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *_NO_CACHE]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
