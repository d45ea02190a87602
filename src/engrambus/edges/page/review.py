"""Learnings that wait for a decision, for a person to take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engrambus.edges.page.desk import Desk


def load(desk: Desk, params: Mapping[str, str]) -> dict[str, Any]:
    """The contributions that wait, the newest first."""
    answer = desk.ask("list_contributions", k=50)
    return {"rows": answer.contributions, "now": answer.as_of, "more": answer.cursor is not None}
