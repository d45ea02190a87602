"""Requests to read more than a turn allows, for a person to answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engrambus.edges.page.desk import Desk


def load(desk: Desk, params: Mapping[str, str]) -> dict[str, Any]:
    """The requests that wait."""
    answer = desk.ask("list_requests")
    return {"rows": answer.requests, "now": answer.as_of}
