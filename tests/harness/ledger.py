"""An auditor of journals: counts what was read and granted, line by line, by nothing but what the lines say."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

IDLE = timedelta(minutes=10)
FULL_TURN = {"repo": 3, "artifact": 2, "sam": 2, "tokens": 1200, "run_turns": 20}
COUNTS = {"repo": "repo", "diff": "repo", "artifact": "artifact", "test": "artifact", "url": "artifact", "sam": "sam"}
SAID = {
    "repo": "max_repo_spans",
    "artifact": "max_artifact_sections",
    "sam": "max_sam_items",
    "tokens": "max_deref_tokens",
}

Who = tuple[str, str]
"""A run and an agent of it."""


class BlockLimits(NamedTuple):
    """What one block of a budget token allows in all."""

    tokens: int | None
    uses: int | None


class Ledger:
    """Holds every prefix of a journal to the budgets that were in force when its last line was written."""

    def __init__(self, narrowed: Mapping[str, BlockLimits] | None = None) -> None:
        """`narrowed` are the blocks that holders appended: only their tokens tell of those."""
        self.blocks = dict(narrowed or {})
        self.spent: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self.revoked: set[str] = set()
        self.policy = FULL_TURN
        self.parents: dict[Who, str | None] = {}
        self.given: dict[Who, dict[str, int]] = {}
        self.turns: dict[Who, int] = {}
        self.acted: dict[Who, datetime] = {}
        self.used: defaultdict[tuple[str, str, int], dict[str, int]] = defaultdict(lambda: dict.fromkeys(SAID, 0))
        self.in_run: defaultdict[Who, int] = defaultdict(int)

    def read(self, journal: bytes) -> None:
        """Read a journal to its end; the first line that overspends anything fails."""
        for text in journal.splitlines()[1:]:
            line = json.loads(text)
            facts = line["facts"]
            spends = [fact for fact in facts if fact["fact"] == "grant.spent"]
            for fact in facts:
                self._take(fact, datetime.fromisoformat(line["at"]), spends)

    def _take(self, fact: dict[str, Any], at: datetime, spends: list[dict[str, Any]]) -> None:
        match fact["fact"]:
            case "policy.applied":
                self.policy = FULL_TURN | fact["policy"].get("deref", {})
            case "agent.added":
                self.parents[fact["run"], fact["name"]] = fact.get("parent")
            case "broadcast.sent":
                if fact.get("budgets"):
                    self.given.update({(fact["run"], child): fact["budgets"] for child in fact["to"]})
            case "grant.issued":
                self.blocks[fact["block_id"]] = BlockLimits(fact["cap_tokens"], fact["uses"])
            case "grant.revoked":
                self.revoked.add(fact["block_id"])
            case "grant.spent":
                self._spend(fact)
            case "turn.closed":
                who = fact["run"], fact["agent"]
                self._enter(who, fact["turn"], at)
                self.turns[who] = fact["turn"] + 1
            case "deref.proved":
                self._prove(fact, at, spends)

    def _spend(self, fact: dict[str, Any]) -> None:
        tokens, uses = self.spent[fact["block_id"]]
        tokens, uses = self.spent[fact["block_id"]] = tokens + fact["tokens"], uses + 1
        limits = self.blocks[fact["block_id"]]
        assert limits.tokens is None or tokens <= limits.tokens, fact
        assert limits.uses is None or uses <= limits.uses, fact
        assert fact["block_id"] not in self.revoked, fact

    def _enter(self, who: Who, turn: int, at: datetime) -> None:
        """Somebody acts in a turn: the one it is in, or the next after idling."""
        present = self.turns.setdefault(who, 1)
        if turn != present:
            assert turn == present + 1, (who, turn, present)
            assert at - self.acted[who] > IDLE, (who, turn, at)
        self.turns[who], self.acted[who] = turn, at

    def _prove(self, fact: dict[str, Any], at: datetime, spends: list[dict[str, Any]]) -> None:
        who = fact["run"], fact["agent"]
        self._enter(who, fact["turn"], at)
        granted = fact.get("granted", False)
        assert granted == bool(spends), fact
        assert all(spend["tokens"] == fact["tokens"] for spend in spends), fact
        if who not in self.parents:
            return  # the admin has no budget
        limits = self.limits(who)
        self.in_run[who] += fact["tokens"]
        assert self.in_run[who] <= limits["tokens"] * limits["run_turns"], fact
        if not granted:
            used = self.used[*who, fact["turn"]]
            for name, more in ((COUNTS[fact["type"]], 1), ("tokens", fact["tokens"])):
                used[name] += more
                assert used[name] <= limits[name], (fact, used, limits)

    def limits(self, who: Who) -> dict[str, int]:
        """What somebody may read in a turn now: the policy's share, lowered by each parent in turn."""
        limits = dict(self.policy)
        for name in self._lineage(who):
            for count, said in SAID.items():
                limits[count] = min(limits[count], self.given.get((who[0], name), {}).get(said, limits[count]))
        return limits

    def _lineage(self, who: Who) -> Iterator[str]:
        name: str | None = who[1]
        while name is not None:
            yield name
            name = self.parents.get((who[0], name))
