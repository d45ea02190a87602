"""The resources clients can read: addresses of what operations answer, each kept as long as it may be true."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from engrambus.errors import FieldValue

SECOND = 1000


class Kept(NamedTuple):
    """One resource, or with a field in its address a family of them."""

    uri: str
    """`{name}` in it is a field of the operation's request."""
    operation: str
    title: str
    media_type: str
    ttl_ms: int
    """For how long a client need not ask again."""

    @property
    def is_template(self) -> bool:
        """Whether it stands for many."""
        return "{" in self.uri


RESOURCES = (
    Kept("engrambus://brief", "brief", "What matters now", "text/plain", 5 * SECOND),
    Kept("engrambus://engram/{id}", "get_engram", "One engram", "application/json", 60 * SECOND),
    Kept("engrambus://receipt/{id}", "receipt_get", "What one execution did", "application/json", 3600 * SECOND),
)
"""Every resource. All of them depend on who asks, so none may be shared between callers."""


def find_resource(uri: str) -> tuple[Kept, dict[str, Any]]:
    """The resource at an address, and the fields that stand in it."""
    for resource in RESOURCES:
        found = _pattern(resource.uri).fullmatch(uri)
        if found:
            return resource, found.groupdict()
    raise FieldValue(
        "There is no such resource.", field="uri", used=uri[:120], limit=", ".join(each.uri for each in RESOURCES)
    )


def _pattern(uri: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[A-Za-z0-9:._-]{1,128})", re.escape(uri)))
