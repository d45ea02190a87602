"""What comes in over HTTP: headers, query strings and bodies, bounded and read in only one way."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import anyio
from starlette.types import Receive, Scope

from engrambus.core import read_json
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

BODY_READ = "engrambus.body_read"
MAX_PARAMETERS = 100
MAX_TRACE = 256
BODY_SECONDS = 30.0
"""How long a body may take to arrive."""


class ClientGone(Exception):
    """The client hung up before its request was whole."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """The value of a header that may be given once."""
    found: bytes | None = None
    for given, value in scope["headers"]:
        if given == name:
            if found is not None:
                raise DuplicateKey("A header is given twice.", field=name.decode())
            found = value
    return found


def listed(scope: Scope, name: bytes) -> list[bytes]:
    """The members of a header that holds a list; it may be given in several lines (RFC 9110, 5.3)."""
    return [part.strip() for given, value in scope["headers"] if given == name for part in value.split(b",")]


def bearer(scope: Scope) -> str:
    """The bearer token of a request."""
    given = (header(scope, b"authorization") or b"").decode("latin-1")
    scheme, _, token = given.partition(" ")
    if scheme.lower() != "bearer":
        raise TokenMissing(hint="Send 'Authorization: Bearer <token>'; `engrambus agent token NAME` prints one.")
    if not token.strip():
        raise TokenInvalid
    return token.strip()


def trace(scope: Scope) -> str | None:
    """The span the caller is in, as W3C's `traceparent` says; only those who export spans read it."""
    given = header(scope, b"traceparent")
    return given.decode("latin-1") if given is not None and len(given) <= MAX_TRACE else None


def idempotency_key(scope: Scope) -> str | None:
    """The key under which a write is done only once."""
    given = header(scope, b"idempotency-key")
    if given is None:
        return None
    if not given.isascii():
        raise FieldValue("The key is not ASCII.", field="Idempotency-Key")
    return given.decode("ascii")


def read_query(scope: Scope, fields: frozenset[str], lists: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The parameters of a query string; one that is empty is one left out.

    A list is given by repeating its parameter, by commas, or both.
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
    for name, value in pairs:
        if name not in fields:
            raise FieldUnknown(f"The parameter '{name[:80]}' is not known here.", field=name[:120])
        if name in lists:
            values.setdefault(name, []).extend(item for item in value.split(",") if item)
        elif name in values:
            raise DuplicateKey("A parameter is given twice.", field=name)
        elif value:
            values[name] = value
    return values


def has_body(scope: Scope) -> bool:
    """Whether a request says that a body follows."""
    for name, value in scope["headers"]:
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            return True
    return False


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The body of a request, refused as soon as it is known to be larger than the limit, or to take too long."""
    if not has_body(scope):
        return b""
    declared = header(scope, b"content-length")
    if declared is not None and int(declared) > limit:
        raise BodyTooLarge(limit=limit, used=int(declared))
    with anyio.move_on_after(BODY_SECONDS):
        return await _whole_body(scope, receive, limit)
    raise BodyTooSlow(f"The body did not arrive within {BODY_SECONDS:g} seconds.", limit=BODY_SECONDS)


async def _whole_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > limit:
            raise BodyTooLarge(limit=limit, used=len(body))
        if not message.get("more_body"):
            scope[BODY_READ] = True
            return bytes(body)


def check_content_type(scope: Scope) -> None:
    """Refuse a body that does not say it is JSON in UTF-8."""
    given = (header(scope, b"content-type") or b"").decode("latin-1")
    kind, *parameters = (part.strip().lower() for part in given.split(";"))
    if kind != "application/json" or any(
        name.strip() == "charset" and value.strip(' "') != "utf-8"
        for name, _, value in (parameter.partition("=") for parameter in parameters)
    ):
        raise ContentType(field="Content-Type", limit="application/json", used=given[:80])


def is_yaml(scope: Scope) -> bool:
    """Whether a body says it is YAML."""
    given = (header(scope, b"content-type") or b"").decode("latin-1")
    return given.partition(";")[0].strip().lower() in ("application/yaml", "application/x-yaml", "text/yaml")


def read_text(body: bytes) -> str:
    """The text of a body."""
    try:
        return body.decode()
    except UnicodeDecodeError as problem:
        raise BadText(f"The body is not UTF-8 at byte {problem.start}.") from None


def read_fields(body: bytes, limit: int, given_elsewhere: frozenset[str]) -> dict[str, Any]:
    """The fields of a JSON body; no body at all is an empty object."""
    if not body:
        return {}
    value = read_json(body, max_bytes=limit)
    if not isinstance(value, dict):
        raise FieldType("The body is not a JSON object.", limit="object")
    for name in given_elsewhere & value.keys():
        raise FieldUnknown(f"The field '{name}' is read from the address, not from the body.", field=name)
    return value
