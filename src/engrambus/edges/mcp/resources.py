"""The resources MCP clients can read: addresses of operations' answers, each kept as long as it may be true."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from engrambus.errors import FieldValue
from engrambus.gateway import Operation
from engrambus.gateway.declare import Resource
from engrambus.operations import OPERATIONS


@cache
def resources() -> dict[str, Resource]:
    """Return every resource by the name of its operation. All of them depend on the caller, so none may be shared."""
    return {name: operation.resource for name, operation in OPERATIONS.items() if operation.resource is not None}


def find_resource(uri: str) -> tuple[Operation[Any, Any], Resource, dict[str, Any]]:
    """Return the operation and the resource at an address, and the request fields that stand in the address."""
    for name, resource in resources().items():
        match = _pattern(resource.uri).fullmatch(uri)
        if match:
            return OPERATIONS[name], resource, match.groupdict()
    raise FieldValue(
        "There is no such resource.",
        field="uri",
        used=uri[:120],
        limit=", ".join(resource.uri for resource in resources().values()),
    )


def _pattern(uri: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[A-Za-z0-9:._-]{1,128})", re.escape(uri)))
