"""Endpoints that answer once: one for each operation, the metrics and the health check."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import msgspec
from msgspec import inspect
from starlette.types import Receive, Scope, Send

from engrambus.core.canonical_json import MAX_INTEGER
from engrambus.edges.http.call_log import name_call
from engrambus.edges.http.callers import CallThreads, HttpCaller, call_kind, token_caller
from engrambus.edges.http.requests import (
    bearer_token,
    check_content_type,
    checked_out_head,
    idempotency_key,
    is_yaml,
    list_header,
    named_worktree,
    read_body,
    read_fields,
    read_query,
    read_text,
    trace_parent,
)
from engrambus.edges.http.responses import Headers, send_json, send_json_with_etag, send_text
from engrambus.edges.telemetry import Metrics
from engrambus.errors import EngramBusError, FieldUnknown, NumberRange, Unauthorized
from engrambus.gateway import (
    WARNING_HEADER,
    Credential,
    Gateway,
    Operation,
    Route,
    to_request,
    warning_header,
)
from engrambus.version import __version__
from engrambus.visible_text import escape_json

SPEAK_AS = "as"

_PATH_FIELD = re.compile(r"\{(\w+)\}")
_HEALTH = msgspec.json.encode({"status": "ok", "version": __version__})
_encode = msgspec.json.Encoder().encode


class OperationEndpoint:
    """Calls one operation with each request to its route."""

    # decision 3: all operations share this class, so that no limit or field is handled differently on one of them.

    def __init__(self, gateway: Gateway, operation: Operation[Any, Any], threads: CallThreads) -> None:
        route = route_of(operation)
        self._gateway = gateway
        self._operation = operation
        self._threads = threads
        self._path_fields = path_fields(route)
        self._call_kind = call_kind(operation)
        self._takes_body = route.method == "POST"
        self._body_limit = route.body_limit if self._takes_body else 0
        parameters = query_fields(operation)
        self._parameters = parameters | {SPEAK_AS}
        self._has_etag = route.conditional
        self._lists = parameters & list_fields(operation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the request, call the operation in a thread, send its answer."""
        name_call(scope, self._operation.name)
        token, caller = self._signed_token(scope)
        values = read_query(scope, self._parameters, self._lists)
        credential = Credential(
            token=token,
            speak_as=values.pop(SPEAK_AS, None),
            head=checked_out_head(scope),
            worktree=named_worktree(scope),
            idempotency_key=idempotency_key(scope),
            trace=trace_parent(scope),
        )
        body = await read_body(scope, receive, self._body_limit)
        is_text = bool(body) and self._operation.text_field is not None and is_yaml(scope)
        if body and not is_text:
            check_content_type(scope)
        values.update(scope["path_params"])
        warnings: list[EngramBusError] = []
        call = partial(self._call, values, body, credential, is_text, warnings)
        answer = await self._threads.run(caller, call, self._call_kind)
        headers: Headers = [(WARNING_HEADER.lower().encode(), warning_header(warning).encode()) for warning in warnings]
        if self._has_etag:
            await send_json_with_etag(scope, send, answer, headers)
        else:
            await send_json(send, answer, headers=headers)

    def _signed_token(self, scope: Scope) -> tuple[str, HttpCaller]:
        """Return the token if this project signed it, and whose it is."""
        # The body of an unknown sender must not be read. Expiry is left to the gateway, which has the project's clock.
        try:
            token = bearer_token(scope)
            claims = self._gateway.key.check(token, project=self._gateway.store.project, now_us=0)
        except Unauthorized as refusal:
            self._gateway.count_unidentified(refusal)
            raise
        caller = token_caller(scope, claims)
        name_call(scope, self._operation.name, caller.name)
        return token, caller

    def _call(
        self,
        values: dict[str, Any],
        body: bytes,
        credential: Credential,
        is_text: bool,
        warnings: list[EngramBusError],
    ) -> bytes:
        text_field = self._operation.text_field
        fields = read_fields(body, self._body_limit, self._path_fields) if self._takes_body and not is_text else {}
        if text_field is not None and body and text_field not in fields:  # the body itself is the text, YAML or JSON
            fields = {text_field: read_text(body)}
        elif text_field is not None:
            for name in values.keys() - self._path_fields:
                raise FieldUnknown(f"'{name}' belongs into the body, beside '{text_field}'.", field=name)
        values |= fields
        request = to_request(values, self._operation.request, lax=not self._takes_body)
        if not self._takes_body:
            _check_numbers(request)
        return escape_json(_encode(self._gateway.call(self._operation, request, credential, warnings.append)))


def _check_numbers(request: msgspec.Struct) -> None:
    """Apply the range of numbers in JSON bodies to the numbers of a query string."""
    for name, value in msgspec.structs.asdict(request).items():
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise NumberRange(field=name, limit=MAX_INTEGER)


def route_of(operation: Operation[Any, Any]) -> Route:
    """Return the route of an operation that is declared with one."""
    if operation.route is None:
        raise ValueError(f"{operation.name} is not offered over HTTP")
    return operation.route


def query_fields(operation: Operation[Any, Any]) -> frozenset[str]:
    """Return the request fields that are parameters of the query string.

    A body that is itself the text of an operation leaves no other place for further fields.
    """
    route = route_of(operation)
    fields = field_names(operation) - path_fields(route)
    if route.method != "POST":
        return fields
    # A budget token is a secret, and addresses are logged; a message has a section for it.
    return fields - {operation.text_field, "budget_token"} if operation.text_field is not None else frozenset()


def path_fields(route: Route) -> frozenset[str]:
    """Return the request fields that are part of the path."""
    return frozenset(_PATH_FIELD.findall(route.path))


def field_names(operation: Operation[Any, Any]) -> frozenset[str]:
    """Return the wire names of an operation's request fields."""
    return frozenset(field.encode_name for field in msgspec.structs.fields(operation.request))


def list_fields(operation: Operation[Any, Any]) -> frozenset[str]:
    """Return the wire names of the request fields that hold a list."""
    struct = inspect.type_info(operation.request)
    if not isinstance(struct, inspect.StructType):
        raise TypeError(f"the request of {operation.name} is not a struct")
    return frozenset(field.encode_name for field in struct.fields if _is_list(field.type))


def _is_list(field_type: inspect.Type) -> bool:
    if isinstance(field_type, inspect.Metadata):
        return _is_list(field_type.type)
    if isinstance(field_type, inspect.UnionType):
        return any(map(_is_list, field_type.types))
    return isinstance(field_type, inspect.ListType | inspect.VarTupleType)


class MetricsEndpoint:
    """`GET /metrics`: the gateway's metrics for Prometheus."""

    # decision 20: it needs a token like every call, because the figures say how a team works.

    def __init__(self, gateway: Gateway, metrics: Metrics, threads: CallThreads) -> None:
        self._gateway = gateway
        self._metrics = metrics
        self._threads = threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all metrics in the format that the client accepts."""
        name_call(scope, "metrics")
        token = bearer_token(scope)
        caller = token_caller(scope, self._gateway.key.check(token, project=self._gateway.store.project, now_us=0))
        read_query(scope, frozenset(), frozenset())
        accept = b",".join(list_header(scope, b"accept")).decode("latin-1")
        body, content_type = await self._threads.run(
            caller, partial(self._metrics.scrape, Credential(token=token), accept)
        )
        await send_text(send, body, content_type)


async def send_health(scope: Scope, receive: Receive, send: Send) -> None:
    """`GET /healthz`: say that the server runs, and its version."""
    await send_json(send, _HEALTH)
