"""Requests over HTTP: headers, query strings and bodies, each with a size limit and only one way to be read."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import anyio
from starlette.types import Receive, Scope

from engrambus.core import is_hex, read_json
from engrambus.edges.http.server_limits import DEFAULT_LIMITS, ServerLimits
from engrambus.errors import (
    BadText,
    BodyTooLarge,
    BodyTooSlow,
    ContentType,
    DuplicateKey,
    FieldType,
    FieldUnknown,
    FieldValue,
    TokenInvalid,
    TokenMissing,
)
from engrambus.gateway import HEAD_HEADER, WORKTREE_HEADER

BODY_READ = "engrambus.body_read"
MAX_PARAMETERS = 100
MAX_TRACE_CHARS = 256
MAX_WORKTREE_CHARS = 4096
CONNECTION_LIMITS = "engrambus.connection_limits"
"""Key in the scope of the server's limits."""


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the value of a header that may occur once."""
    result: bytes | None = None
    for header_name, value in scope["headers"]:
        if header_name == name:
            # Two values could be read differently by a proxy and by us.
            if result is not None:
                raise DuplicateKey("A header is sent twice.", field=name.decode())
            result = value
    return result


def list_header(scope: Scope, name: bytes) -> list[bytes]:
    """Return the members of a header that holds a list; it may occur several times (RFC 9110, 5.3)."""
    values = (value for header_name, value in scope["headers"] if header_name == name)
    return [member.strip() for value in values for member in value.split(b",")]


def bearer_token(scope: Scope) -> str:
    """Return the bearer token of a request."""
    value = (header(scope, b"authorization") or b"").decode("latin-1")
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer":
        raise TokenMissing(hint="Send 'Authorization: Bearer <token>'; `engrambus agent token NAME` prints one.")
    if not token.strip():
        raise TokenInvalid
    return token.strip()


def trace_parent(scope: Scope) -> str | None:
    """Return the caller's span from W3C's `traceparent`; only the export of spans uses it."""
    value = header(scope, b"traceparent")
    return value.decode("latin-1") if value is not None and len(value) <= MAX_TRACE_CHARS else None


def checked_out_head(scope: Scope) -> str | None:
    """Return the commit checked out where the caller works, at which a path without a revision points."""
    value = header(scope, HEAD_HEADER.lower().encode())
    commit = value.decode("latin-1") if value is not None else None
    if commit is not None and not is_hex(commit, 40, 64):
        raise FieldValue("This is not a full commit id.", field=HEAD_HEADER)
    return commit


def named_worktree(scope: Scope) -> str | None:
    """Return the top folder of the caller's checkout; the gateway looks at none that is not of its repository."""
    value = header(scope, WORKTREE_HEADER.lower().encode())
    if value is None or len(value) > MAX_WORKTREE_CHARS:
        return None
    return os.fsdecode(unquote_to_bytes(value))


def idempotency_key(scope: Scope) -> str | None:
    """Return the key under which a write is done only once."""
    value = header(scope, b"idempotency-key")
    if value is None:
        return None
    if not value.isascii():
        raise FieldValue("The idempotency key must be ASCII.", field="Idempotency-Key")
    return value.decode("ascii")


def read_query(scope: Scope, fields: frozenset[str], lists: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the parameters of a query string, without empty ones.

    A list is sent by repeating its parameter, by commas, or both.
    """
    try:
        pairs = parse_qsl(
            scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except UnicodeDecodeError:
        raise BadText("The query string is not UTF-8.") from None
    except ValueError:
        raise FieldValue("There are too many parameters.", limit=MAX_PARAMETERS) from None
    values: dict[str, Any] = {}
    # Unknown and repeated parameters are refused, so that a misspelt filter does not silently match everything.
    for name, value in pairs:
        if name not in fields:
            raise FieldUnknown(f"This address has no parameter '{name[:80]}'.", field=name[:120])
        if name in lists:
            values.setdefault(name, []).extend(item for item in value.split(",") if item)
        elif name in values:
            raise DuplicateKey("A parameter is sent twice.", field=name)
        elif value:
            values[name] = value
    return values


def has_body(scope: Scope) -> bool:
    """True if the headers announce a body."""
    for name, value in scope["headers"]:
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            return True
    return False


async def read_body(scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    """Return the body; refuse it as soon as it is known to be too large or too slow."""
    if not has_body(scope):
        return b""
    declared = header(scope, b"content-length")
    # The server's HTTP parser has already refused a length that is not a number.
    if declared is not None and int(declared) > limit_bytes:
        raise BodyTooLarge(limit=limit_bytes, used=int(declared))
    return await _receive_body(scope, receive, limit_bytes)


async def _receive_body(scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    body = bytearray()
    limits: ServerLimits = scope.get(CONNECTION_LIMITS, DEFAULT_LIMITS)
    began = anyio.current_time()
    while True:
        due_seconds = min(limits.body_seconds, limits.body_grace_seconds + len(body) / limits.body_bytes_per_second)
        with anyio.move_on_at(began + due_seconds) as waiting:
            message = await receive()
        if waiting.cancelled_caught:
            raise BodyTooSlow(
                f"{len(body)} bytes of the body arrived in {due_seconds:.3g} seconds.",
                limit=limits.body_bytes_per_second,
                used=len(body),
                hint=f"Send it at {limits.body_bytes_per_second} bytes a second or more, "
                f"and within {limits.body_seconds:g} seconds.",
            )
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > limit_bytes:
            raise BodyTooLarge(limit=limit_bytes, used=len(body))
        if not message.get("more_body"):
            scope[BODY_READ] = True
            return bytes(body)


def check_content_type(scope: Scope) -> None:
    """Refuse a body that is not declared as JSON in UTF-8."""
    content_type = (header(scope, b"content-type") or b"").decode("latin-1")
    media_type, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if media_type != "application/json" or any(
        name.strip() == "charset" and value.strip(' "') != "utf-8"
        for name, _, value in (parameter.partition("=") for parameter in parameters)
    ):
        raise ContentType(field="Content-Type", limit="application/json", used=content_type[:80])


def is_yaml(scope: Scope) -> bool:
    """True if the body is declared as YAML."""
    content_type = (header(scope, b"content-type") or b"").decode("latin-1")
    return content_type.partition(";")[0].strip().lower() in ("application/yaml", "application/x-yaml", "text/yaml")


def read_text(body: bytes) -> str:
    """Decode a body as UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError as problem:
        raise BadText(f"The body is not UTF-8 at byte {problem.start}.") from None


def read_fields(body: bytes, limit_bytes: int, path_fields: frozenset[str]) -> dict[str, Any]:
    """Return the fields of a JSON body; no body counts as an empty object."""
    if not body:
        return {}
    value = read_json(body, max_bytes=limit_bytes)
    if not isinstance(value, dict):
        raise FieldType("The body is not a JSON object.", limit="object")
    for name in path_fields & value.keys():
        raise FieldUnknown(f"The field `{name}` is part of the address and must not be in the body.", field=name)
    return value
