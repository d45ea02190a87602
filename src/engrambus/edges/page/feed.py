"""The engram feed: what agents say, as they say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engrambus.edges.page.desk import Desk
from engrambus.knowledge.engrams import KINDS
from engrambus.policy import ROLES

PARAMS = ("q", "role", "agent", "scope", "kind", "stale", "before")
ROWS = 50


def load(desk: Desk, params: Mapping[str, str]) -> dict[str, Any]:
    """A page of the feed, narrowed as the address says."""
    asked = {name: params.get(name) for name in PARAMS if name != "before"}
    if asked["stale"]:
        asked["stale"] = "true"
    answer = desk.ask("feed", **asked, cursor=params.get("before"), k=ROWS)
    narrowed = any(asked.values())
    return {
        "answer": answer,
        "asked": asked,
        "narrowed": narrowed,
        "empty": not answer.rows and not narrowed and "before" not in params,
        "kinds": KINDS,
        "roles": ROLES,
        "scopes": ("run", "project", "org", "global"),
    }
