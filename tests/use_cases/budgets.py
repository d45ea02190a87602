"""What the journal of a project says about the budgets of its agents' turns."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any


def facts(checkout: Path) -> list[dict[str, Any]]:
    """Every fact of the project, in order."""
    lines = (checkout / ".catalog" / "memory.jsonl").read_bytes().splitlines()[1:]
    return [fact for line in lines for fact in json.loads(line)["facts"]]


def assert_within_budgets(checkout: Path, *, spans: int, inline_tokens: int) -> None:
    """No turn of a programmer read more spans than its parent allowed, and no accepted message was larger."""
    spent = Counter[tuple[str, int]]()
    roles: dict[str, str] = {}
    for fact in facts(checkout):
        match fact["fact"]:
            case "agent.added":
                roles[fact["name"]] = fact["role"]
            case "deref.proved" if not fact.get("granted") and roles.get(fact["agent"]) == "programmer":
                spent[fact["agent"], fact["turn"]] += 1
            case "message.accepted":
                assert fact["tokens"] <= inline_tokens, fact
            case "broadcast.sent":
                assert fact.get("tokens", 0) <= 800, fact
    assert spent
    assert max(spent.values()) <= spans
