"""One operation on HTTP: from a request to a call and from its answer to bytes."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import msgspec
from anyio import to_thread
from msgspec import inspect
from starlette.types import Receive, Scope, Send

from engrambus.core.canonical import MAX_INTEGER
from engrambus.edges.http.answers import send_conditionally, send_json
from engrambus.edges.http.refusals import call_named
from engrambus.edges.http.requests import (
    bearer,
    check_content_type,
    idempotency_key,
    is_yaml,
    read_body,
    read_fields,
    read_query,
    read_text,
    trace,
)
from engrambus.errors import NumberRange
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, Operation, Route, to_request

SPEAK_AS = "as"

_IN_PATH = re.compile(r"\{(\w+)\}")
_encode = msgspec.json.Encoder().encode


class Endpoint:
    """Offers one operation at its address."""

    def __init__(self, gateway: Gateway, operation: Operation[Any, Any], *, public: bool = False) -> None:
        """`public` needs no token and acts as the local admin: only for what checks its caller by other means."""
        route = route_of(operation)
        self._gateway = gateway
        self._operation = operation
        self._public = public
        self._in_path = path_fields(route)
        self._takes_body = route.method == "POST"
        self._limit = route.body_limit if self._takes_body else 0
        asked = frozenset() if self._takes_body else field_names(operation) - self._in_path
        self._parameters = asked if public else asked | {SPEAK_AS}
        self._conditional = route.conditional
        self._lists = frozenset() if self._takes_body else list_fields(operation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the request, call the operation in a thread, send its answer."""
        call_named(scope, self._operation.name)
        token = None if self._public else self._checked_token(scope)
        values = read_query(scope, self._parameters, self._lists)
        speak_as = values.pop(SPEAK_AS, None)
        credential = LOCAL_ADMIN
        if token is not None:
            key = idempotency_key(scope)
            credential = Credential(token=token, speak_as=speak_as, idempotency_key=key, trace=trace(scope))
        body = await read_body(scope, receive, self._limit)
        as_text = bool(body) and self._operation.text_field is not None and is_yaml(scope)
        if body and not as_text:
            check_content_type(scope)
        values.update(scope["path_params"])
        answer = await to_thread.run_sync(partial(self._call, values, body, credential, as_text))
        if self._conditional:
            await send_conditionally(scope, send, answer)
        else:
            await send_json(send, answer)

    def _checked_token(self, scope: Scope) -> str:
        """The token, if this project signed it: nobody else's body is read. When it expires is the gateway's matter."""
        token = bearer(scope)
        claims = self._gateway.key.check(token, project=self._gateway.store.project, now=0)
        call_named(scope, self._operation.name, f"{claims.run}/{claims.agent}")
        return token

    def _call(self, values: dict[str, Any], body: bytes, credential: Credential, as_text: bool) -> bytes:
        field = self._operation.text_field
        fields = read_fields(body, self._limit, self._in_path) if self._takes_body and not as_text else {}
        if field is not None and body and field not in fields:  # the body is the text, be it YAML or JSON
            fields = {field: read_text(body)}
        values |= fields
        request = to_request(values, self._operation.request, lax=not self._takes_body)
        if not self._takes_body:
            _check_numbers(request)
        return _encode(self._gateway.call(self._operation, request, credential))


def _check_numbers(request: msgspec.Struct) -> None:
    """Hold the numbers of a query string to the range that those of a body are held to."""
    for name, value in msgspec.structs.asdict(request).items():
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise NumberRange(field=name, limit=MAX_INTEGER)


def route_of(operation: Operation[Any, Any]) -> Route:
    """The route of an operation that has one."""
    if operation.route is None:
        raise ValueError(f"{operation.name} is not offered over HTTP")
    return operation.route


def path_fields(route: Route) -> frozenset[str]:
    """The request fields that stand in the path."""
    return frozenset(_IN_PATH.findall(route.path))


def field_names(operation: Operation[Any, Any]) -> frozenset[str]:
    """Every field of an operation's request, as it is written on the wire."""
    return frozenset(field.encode_name for field in msgspec.structs.fields(operation.request))


def list_fields(operation: Operation[Any, Any]) -> frozenset[str]:
    """The request fields that hold more than one value."""
    described = inspect.type_info(operation.request)
    if not isinstance(described, inspect.StructType):
        raise TypeError(f"the request of {operation.name} is not a struct")
    return frozenset(field.encode_name for field in described.fields if _is_list(field.type))


def _is_list(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _is_list(kind.type)
    if isinstance(kind, inspect.UnionType):
        return any(map(_is_list, kind.types))
    return isinstance(kind, inspect.ListType | inspect.VarTupleType)
