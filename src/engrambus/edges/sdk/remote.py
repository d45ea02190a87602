"""Calls over HTTP: a few connections kept open, the same answers and the same refusals as in process."""

from __future__ import annotations

import select
import threading
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from engrambus.errors import (
    BadText,
    EngramBusError,
    FieldValue,
    Internal,
    RouteNotFound,
    TokenInvalid,
    Unreachable,
)
from engrambus.gateway import Credential, Operation
from engrambus.version import __version__

Request = TypeVar("Request", bound=msgspec.Struct)
Response = TypeVar("Response", bound=msgspec.Struct)

KEPT = 8
_HINT = "Is it running? `engrambus up` starts one; ENGRAMBUS_URL says where it is."


class Call(NamedTuple):
    """One request as it goes out."""

    method: str
    target: str
    body: bytes | None
    headers: dict[str, str]
    repeatable: bool
    """Whether doing it twice does no more than doing it once."""


class Remote:
    """A gateway at a URL. Threads share a small pool of connections."""

    def __init__(self, url: str, *, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise FieldValue("A gateway's address is an http or https URL.", field="url", hint="http://127.0.0.1:7171")
        self._secure = parts.scheme == "https"
        self._host, self._port = host, port
        self._prefix = parts.path.rstrip("/")
        self._url = url
        self._timeout = timeout
        self._idle: list[HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    def call(self, operation: Operation[Request, Response], request: Request, credential: Credential) -> Response:
        """The gateway's answer, or its refusal."""
        try:
            call = self._call(operation, request, credential)
        except UnicodeEncodeError:
            raise BadText("A text holds half of a surrogate pair.") from None
        status, kind, body = self._send(call)
        if 200 <= status < 300 and kind == "application/json":
            try:
                return msgspec.json.decode(body, type=operation.response)
            except msgspec.MsgspecError as problem:
                raise Internal(f"The gateway's answer cannot be read: {problem}.") from None
        raise self._refusal(status, kind, body)

    def close(self) -> None:
        """Close the connections nobody is using; the others when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _call(self, operation: Operation[Any, Any], request: msgspec.Struct, credential: Credential) -> Call:
        route = operation.route
        if route is None:
            reason = operation.absent_from.get("http", "it has no address")
            raise RouteNotFound(f"{operation.title} is not offered over HTTP: {reason}.")
        fields = _said(request)
        path = route.path
        for name in operation.request.__struct_fields__:
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", quote(str(fields.pop(name, "")), safe=""))
        headers = {"Accept": "application/json", "User-Agent": f"engrambus/{__version__}"}
        if credential.token is not None:
            if not _fits_header(credential.token):
                raise TokenInvalid
            headers["Authorization"] = f"Bearer {credential.token}"
        if credential.idempotency_key is not None:
            if not _fits_header(credential.idempotency_key):
                raise FieldValue("The key is not one line of ASCII.", field="Idempotency-Key")
            headers["Idempotency-Key"] = credential.idempotency_key
        if credential.trace is not None and _fits_header(credential.trace):
            headers["traceparent"] = credential.trace
        body, asked = None, fields
        if route.method == "POST":
            body, asked = msgspec.json.encode(fields), {}
            headers["Content-Type"] = "application/json"
        if credential.speak_as is not None:
            asked["as"] = credential.speak_as
        if asked:
            path = f"{path}?{urlencode(_text(asked), doseq=True)}"
        repeatable = not operation.writes or credential.idempotency_key is not None
        return Call(route.method, self._prefix + path, body, headers, repeatable)

    def _send(self, call: Call) -> tuple[int, str, bytes]:
        connection = self._idle_one()
        if connection is not None:
            try:
                return self._exchange(connection, call)
            except (OSError, HTTPException) as problem:
                connection.close()
                # It may have been closed at the other end just now; if so a fresh one will do.
                if isinstance(problem, TimeoutError) or not call.repeatable:
                    raise self._unreachable(problem, in_doubt=not call.repeatable) from None
        connection = self._connected()
        try:
            return self._exchange(connection, call)
        except (OSError, HTTPException) as problem:
            connection.close()
            raise self._unreachable(problem, in_doubt=not call.repeatable) from None

    def _exchange(self, connection: HTTPConnection, call: Call) -> tuple[int, str, bytes]:
        connection.request(call.method, call.target, call.body, call.headers)
        response = connection.getresponse()
        body = response.read()
        kind = response.headers.get_content_type()
        self._give_back(connection)
        return response.status, kind, body

    def _idle_one(self) -> HTTPConnection | None:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or not _readable(connection):
                return connection
            connection.close()  # idle and readable: the other end has hung up

    def _connected(self) -> HTTPConnection:
        kind = HTTPSConnection if self._secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout)
        try:
            connection.connect()
        except OSError as problem:
            raise self._unreachable(problem, in_doubt=False) from None
        return connection

    def _give_back(self, connection: HTTPConnection) -> None:
        with self._lock:
            keep = not self._closed and connection.sock is not None and len(self._idle) < KEPT
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()

    def _unreachable(self, problem: Exception, *, in_doubt: bool) -> Unreachable:
        said = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        if isinstance(problem, TimeoutError):
            said = f"no answer within {self._timeout:g} s"
        doubt = " Whether the request was carried out is not known." if in_doubt else ""
        return Unreachable(f"No gateway answers at {self._url}: {said}.{doubt}", field="url", hint=_HINT)

    def _refusal(self, status: int, kind: str, body: bytes) -> EngramBusError:
        if kind in ("application/problem+json", "application/json"):
            try:
                shown = msgspec.json.decode(body)
            except msgspec.MsgspecError:
                shown = None
            if isinstance(shown, dict) and "code" in shown:
                return EngramBusError.from_problem(shown)
        return Unreachable(f"What answers at {self._url} is not a gateway (HTTP {status}, {kind}).", hint=_HINT)


def _fits_header(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _said(request: msgspec.Struct) -> dict[str, Any]:
    """The request's fields, without those that only repeat a default."""
    fields: dict[str, Any] = msgspec.to_builtins(request)
    for field in msgspec.structs.fields(request):
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if field.name in fields and fields[field.name] == default:
            del fields[field.name]
    return fields


def _text(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in fields.items()}


def _readable(connection: HTTPConnection) -> bool:
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
