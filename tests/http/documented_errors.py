"""Checks every error that a test meets over HTTP against the OpenAPI document."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from engrambus.edges.http.openapi_errors import error_responses
from engrambus.edges.http.sessions import BrowserSessions, SignInCodes, session_operations
from engrambus.operations import OPERATIONS

OF_NO_OPERATION = {"ROUTE_NOT_FOUND", "METHOD_NOT_ALLOWED"}
"""Errors of addresses that are no operation."""


@cache
def documented() -> list[tuple[str, re.Pattern[str], dict[str, set[str]]]]:
    """Return the method, the path and the listed codes by status of every operation, paths without a field first."""
    of_the_server = msgspec.structs.astuple(session_operations(SignInCodes(), BrowserSessions()))
    rows = []
    for operation in (*OPERATIONS.values(), *of_the_server):
        if operation.route is None:
            continue
        responses = error_responses(operation)
        listed = {status: _codes(response) for status, response in responses.items()}
        path = re.sub(r"\\\{(\w+)\\\}", lambda field: "(.+)", re.escape(operation.route.path))
        rows.append((operation.route.path.count("{"), operation.route.method, re.compile(path), listed))
    return [(method, path, listed) for _, method, path, listed in sorted(rows, key=lambda row: row[0])]


def _codes(response: dict[str, Any]) -> set[str]:
    return set(response["content"]["application/problem+json"]["schema"]["properties"]["code"]["anyOf"][0]["enum"])


def check_documented(method: str, target: str, status: int, code: str) -> None:
    """Fail if the OpenAPI document does not list an error of an operation."""
    if code in OF_NO_OPERATION:
        return
    address = target.partition("?")[0]
    for known_method, path, listed in documented():
        if known_method == method and path.fullmatch(address):
            assert code in listed.get(str(status), set()), (
                f"{method} {address} answered {status} {code}, which edges/http/openapi_errors.py does not list"
            )
            return
