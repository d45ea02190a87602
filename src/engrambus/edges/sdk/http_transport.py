"""Calls over HTTP through a small pool of connections, with the same answers and errors as in process."""

from __future__ import annotations

import os
import select
import ssl
import threading
from collections.abc import Iterable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from ssl import SSLCertVerificationError
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from weakref import WeakKeyDictionary

import msgspec

from engrambus.edges.sdk.commit_push import CommitPusher, pointed_commits
from engrambus.edges.sdk.listener import check_address, prove_listener
from engrambus.errors import (
    AddressInsecure,
    BadText,
    CommitsNotPushed,
    EngramBusError,
    FieldValue,
    Internal,
    ListenerUnproven,
    RouteNotFound,
    TokenInvalid,
    Unauthorized,
    Unreachable,
)
from engrambus.gateway import (
    HEAD_HEADER,
    WARNING_HEADER,
    WORKTREE_HEADER,
    Credential,
    OnWarning,
    Operation,
    parse_warning_header,
)
from engrambus.policy import is_loopback, split_token
from engrambus.version import __version__

Request = TypeVar("Request", bound=msgspec.Struct)
Response = TypeVar("Response", bound=msgspec.Struct)

MAX_IDLE_CONNECTIONS = 8
PUSH_SECONDS = 600.0
"""Time in which the server must have checked a push."""
_HINT = "Start a gateway with `engrambus up`, or set ENGRAMBUS_URL to the address of a running one."


class HttpCall(NamedTuple):
    """One HTTP request to send."""

    method: str
    target: str
    body: bytes | IO[bytes] | None
    headers: dict[str, str]
    repeatable: bool
    """True if sending it twice has the effect of sending it once."""
    token: str | None = None
    """The token in its headers."""


class HttpAnswer(NamedTuple):
    """One HTTP response, read to its end."""

    status: int
    media_type: str
    body: bytes
    warnings: list[str]
    """The values of its warning headers."""


class HttpTransport:
    """A gateway at a URL. Threads share the connections."""

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 60.0,
        ca_file: Path | None = None,
        pusher: CommitPusher | None = None,
    ) -> None:
        """`ca_file` has the certificates that the server's is checked against.

        `pusher` pushes the commits that calls point at.
        """
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise FieldValue("A gateway's address is an http or https URL.", field="url", hint="http://127.0.0.1:7171")
        self._secure = parts.scheme == "https"
        check_address(host, secure=self._secure)
        self._host, self._port = host, port
        self._prefix = parts.path.rstrip("/")
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._tls = _tls(ca_file) if self._secure else None
        self._pusher = pusher
        self._idle: list[HTTPConnection] = []
        self._proved: WeakKeyDictionary[HTTPConnection, str] = WeakKeyDictionary()
        """The token of the project whose gateway is at the other end of each connection."""
        self._lock = threading.Lock()
        self._closed = False

    def call(
        self,
        operation: Operation[Request, Response],
        request: Request,
        credential: Credential,
        on_warning: OnWarning | None = None,
    ) -> Response:
        """Return the gateway's answer, or raise its error."""
        if self._pusher is not None and credential.token is not None:
            self._push(self._pusher, operation, request, credential, on_warning)
        try:
            call = self._call(operation, request, credential)
        except UnicodeEncodeError:
            raise BadText("A text contains half of a surrogate pair, which is not valid Unicode.") from None
        status, kind, body, warnings = self._send(call)
        if not (200 <= status < 300 and kind == "application/json"):
            raise self._refusal(status, kind, body)
        try:
            answer = msgspec.json.decode(body, type=operation.response)
        except ValueError as problem:  # msgspec's errors, and UnicodeDecodeError for bytes that are no text
            raise Internal(f"The gateway's answer cannot be read: {problem}.") from None
        if on_warning is not None:
            for warning in filter(None, map(parse_warning_header, warnings)):
                on_warning(warning)
        return answer

    def push(self, commits: Iterable[str], token: str) -> list[str]:
        """Push commits to the server's mirror; return those that it did not have."""
        return self._pusher.push(self, token, commits, again=True) if self._pusher is not None else []

    def _push(
        self,
        pusher: CommitPusher,
        operation: Operation[Any, Any],
        request: msgspec.Struct,
        credential: Credential,
        on_warning: OnWarning | None,
    ) -> None:
        """Push what a call points at; if that fails the call goes on, and the server marks what it cannot resolve."""
        commits = pointed_commits(operation, request, credential.head)
        if not commits or credential.token is None:
            return
        try:
            pusher.push(self, credential.token, commits)
        except RouteNotFound:  # a server that takes no commits has the repository itself
            self._pusher = None
        except (AddressInsecure, ListenerUnproven, Unauthorized, Unreachable):
            return  # the call itself says so
        except EngramBusError as problem:
            pusher.note_failure(commits)
            if on_warning is not None:
                on_warning(
                    CommitsNotPushed(
                        f"The commits could not be pushed to the server: {problem.code}: {problem.detail}",
                        limit=problem.limit,
                        used=problem.used,
                        hint="What points at them stays unresolved until they are there: engrambus push.",
                    )
                )

    def mirror_refs(self, token: str) -> bytes:
        """Return the refs that the server's mirror announces."""
        target = f"{self._prefix}/git/info/refs?service=git-receive-pack"
        return self._ask_mirror(HttpCall("GET", target, None, {}, repeatable=True, token=token))

    def mirror_push(self, token: str, body: IO[bytes], size_bytes: int) -> bytes:
        """Send a push to the server's mirror and return its report."""
        headers = {"Content-Type": "application/x-git-receive-pack-request", "Content-Length": str(size_bytes)}
        target = f"{self._prefix}/git/git-receive-pack"
        return self._ask_mirror(HttpCall("POST", target, body, headers, repeatable=False, token=token))

    def _ask_mirror(self, call: HttpCall) -> bytes:
        call.headers["Authorization"] = f"Bearer {call.token}"
        connection = self._connect()
        try:
            if connection.sock is not None:
                connection.sock.settimeout(PUSH_SECONDS)
            self._prove(connection, call)
            status, kind, body, _ = self._exchange(connection, call)
        except (OSError, HTTPException) as problem:
            connection.close()
            raise self._unreachable(problem, in_doubt=False) from None
        if status != 200:
            raise self._refusal(status, kind, body)
        return body

    def close(self) -> None:
        """Close the idle connections; those in use are closed when their call ends."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _call(self, operation: Operation[Any, Any], request: msgspec.Struct, credential: Credential) -> HttpCall:
        route = operation.route
        if route is None:
            reason = operation.absent_from.get("http", "it has no route")
            raise RouteNotFound(f"{operation.title} is not offered over HTTP: {reason}.")
        fields = _set_fields(request)
        path = route.path
        for name in operation.request.__struct_fields__:
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", quote(str(fields.pop(name, "")), safe=""))
        headers = {"Accept": "application/json", "User-Agent": f"engrambus/{__version__}"}
        if credential.token is not None:
            # http.client would send a line break as a second header.
            if not _fits_header(credential.token):
                raise TokenInvalid
            split_token(credential.token)  # refused here: there is no connection to close yet
            headers["Authorization"] = f"Bearer {credential.token}"
        if credential.idempotency_key is not None:
            if not _fits_header(credential.idempotency_key):
                raise FieldValue("The idempotency key must be one line of ASCII.", field="Idempotency-Key")
            headers["Idempotency-Key"] = credential.idempotency_key
        if credential.head is not None:
            headers[HEAD_HEADER] = credential.head
        # The path of a folder here means nothing on another machine, and is nobody's business there.
        if credential.worktree is not None and is_loopback(self._host):
            headers[WORKTREE_HEADER] = quote(os.fsencode(credential.worktree))
        # A bad trace id is left out rather than refused: nothing is decided by it.
        if credential.trace is not None and _fits_header(credential.trace):
            headers["traceparent"] = credential.trace
        body: bytes | None = None
        query = fields
        if route.method == "POST":
            body, query = msgspec.json.encode(fields), {}
            headers["Content-Type"] = "application/json"
        if credential.speak_as is not None:
            query["as"] = credential.speak_as
        if query:
            path = f"{path}?{urlencode(_query_values(query), doseq=True)}"
        # A repeated write without a key might be carried out twice.
        repeatable = not operation.writes or credential.idempotency_key is not None
        return HttpCall(route.method, self._prefix + path, body, headers, repeatable, credential.token)

    def _send(self, call: HttpCall) -> HttpAnswer:
        connection = self._take_idle()
        if connection is not None:
            try:
                self._prove(connection, call)
                return self._exchange(connection, call)
            except (OSError, HTTPException) as problem:
                connection.close()
                # The server may have closed it just now; a repeatable call is tried once on a new connection.
                if isinstance(problem, TimeoutError) or not call.repeatable:
                    raise self._unreachable(problem, in_doubt=not call.repeatable) from None
        connection = self._connect()
        try:
            self._prove(connection, call)
        except (OSError, HTTPException) as problem:
            connection.close()
            raise self._unreachable(problem, in_doubt=False) from None
        try:
            return self._exchange(connection, call)
        except (OSError, HTTPException) as problem:
            connection.close()
            raise self._unreachable(problem, in_doubt=not call.repeatable) from None

    def _prove(self, connection: HTTPConnection, call: HttpCall) -> None:
        """Let the other end prove itself for the call's token, unless it has done so on this connection."""
        # decision 70: once for each connection, since the other end of an open one does not change
        if call.token is not None and not self._secure and self._proved.get(connection) != call.token:
            prove_listener(connection, call.token, self._prefix, self._url)
            self._proved[connection] = call.token

    def _exchange(self, connection: HTTPConnection, call: HttpCall) -> HttpAnswer:
        connection.request(call.method, call.target, call.body, call.headers)
        response = connection.getresponse()
        body = response.read()
        kind = response.headers.get_content_type()
        warnings = response.headers.get_all(WARNING_HEADER, [])
        self._release(connection)
        return HttpAnswer(response.status, kind, body, warnings)

    def _take_idle(self) -> HTTPConnection | None:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or not _readable(connection):
                return connection
            connection.close()  # an idle connection that is readable was closed by the server

    def _connect(self) -> HTTPConnection:
        connection: HTTPConnection
        if self._tls is not None:
            connection = HTTPSConnection(self._host, self._port, timeout=self._timeout_seconds, context=self._tls)
        else:
            connection = HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)
        connection.auto_open = 0  # a connection that http.client opens again would not be proved
        try:
            connection.connect()
        except SSLCertVerificationError as problem:
            raise ListenerUnproven(
                f"The certificate of {self._url} is not valid: {problem.verify_message}; no token was sent.",
                field="url",
                hint="Use a certificate for this name from an authority that this machine trusts, or name that "
                "authority: `engrambus login --ca-file FILE`, or ENGRAMBUS_CA_FILE.",
            ) from None
        except OSError as problem:
            raise self._unreachable(problem, in_doubt=False) from None
        return connection

    def _release(self, connection: HTTPConnection) -> None:
        with self._lock:
            keep = not self._closed and connection.sock is not None and len(self._idle) < MAX_IDLE_CONNECTIONS
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()

    def _unreachable(self, problem: Exception, *, in_doubt: bool) -> Unreachable:
        reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        if isinstance(problem, TimeoutError):
            reason = f"no answer within {self._timeout_seconds:g} s"
        doubt = " The request may or may not have been carried out." if in_doubt else ""
        return Unreachable(f"No gateway answers at {self._url}: {reason}.{doubt}", field="url", hint=_HINT)

    def _refusal(self, status: int, kind: str, body: bytes) -> EngramBusError:
        if kind in ("application/problem+json", "application/json"):
            try:
                problem = msgspec.json.decode(body)
            except ValueError:
                problem = None
            if isinstance(problem, dict) and "code" in problem:
                return EngramBusError.from_problem(problem)
        return Unreachable(
            f"The server at {self._url} is not an Engram Bus gateway (HTTP {status}, {kind}).", hint=_HINT
        )


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    """Return how servers' certificates are checked."""
    try:
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file is not None else None)
    except (OSError, ssl.SSLError) as problem:
        raise FieldValue(f"The certificates in {ca_file} cannot be read: {problem}.", field="ca_file") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _fits_header(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _set_fields(request: msgspec.Struct) -> dict[str, Any]:
    """Return the request's fields that differ from their default."""
    fields: dict[str, Any] = msgspec.to_builtins(request)
    for field in msgspec.structs.fields(request):
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if field.name in fields and fields[field.name] == default:
            del fields[field.name]
    return fields


def _query_values(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in fields.items()}


def _readable(connection: HTTPConnection) -> bool:
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
