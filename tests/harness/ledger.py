"""An independent check of a journal: no agent ever read more than its budgets and grants allowed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

IDLE, SESSION_IDLE = timedelta(minutes=10), timedelta(seconds=60)
FULL_TURN = {"repo": 3, "artifact": 2, "sam": 2, "tokens": 1200, "run_turns": 20, "team_turns": 200}
COUNTS = {"repo": "repo", "diff": "repo", "artifact": "artifact", "test": "artifact", "url": "artifact", "sam": "sam"}
BUDGET_FIELDS = {
    "repo": "max_repo_spans",
    "artifact": "max_artifact_sections",
    "sam": "max_sam_items",
    "tokens": "max_deref_tokens",
}

AgentKey = tuple[str, str]
"""A run and an agent of it."""


class BlockLimits(NamedTuple):
    """Totals that one block of a budget token allows."""

    tokens: int | None
    uses: int | None


class Ledger:
    """Checks every prefix of a journal against the budgets in force at its last line."""

    def __init__(self, narrowed: Mapping[str, BlockLimits] | None = None) -> None:
        """`narrowed` are the blocks that holders appended: only their tokens tell of those."""
        self.blocks = dict(narrowed or {})
        self.spent: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self.revoked: set[str] = set()
        self.policy = FULL_TURN
        self.parents: dict[AgentKey, str | None] = {}
        self.session_turns: dict[AgentKey, int] = {}
        self.lowered: dict[AgentKey, dict[str, int]] = {}
        self.turns: dict[AgentKey, int] = {}
        self.acted: dict[AgentKey, datetime] = {}
        self.used: defaultdict[tuple[str, str, int], dict[str, int]] = defaultdict(
            lambda: dict.fromkeys(BUDGET_FIELDS, 0)
        )
        self.in_run: defaultdict[AgentKey, int] = defaultdict(int)
        self.by_team: defaultdict[str, int] = defaultdict(int)
        self.put_tokens = 2400
        self.put: defaultdict[tuple[str, str, int], int] = defaultdict(int)

    def read(self, journal: bytes) -> None:
        """Read a journal to its end; fail at the first line that overspends anything."""
        for text in journal.splitlines()[1:]:
            line = json.loads(text)
            facts = line["facts"]
            spends = [fact for fact in facts if fact["fact"] == "grant.spent"]
            for fact in facts:
                self._apply(fact, datetime.fromisoformat(line["at"]), spends)

    def _apply(self, fact: dict[str, Any], time: datetime, spends: list[dict[str, Any]]) -> None:
        match fact["fact"]:
            case "policy.applied":
                self.policy = FULL_TURN | fact["policy"].get("deref", {})
                self.put_tokens = fact["policy"].get("put_tokens_per_turn", 2400)
            case "agent.added":
                self.parents[fact["run"], fact["name"]] = fact.get("parent")
                self.session_turns[fact["run"], fact["name"]] = fact.get("session_turns", 1)
            case "broadcast.sent":
                if fact.get("budgets"):
                    self.lowered.update({(fact["run"], child): fact["budgets"] for child in fact["to"]})
            case "grant.issued":
                self.blocks[fact["block_id"]] = BlockLimits(fact["cap_tokens"], fact["uses"])
            case "grant.revoked":
                self.revoked.add(fact["block_id"])
            case "grant.spent":
                self._spend(fact)
            case "turn.closed":
                agent = fact["run"], fact["agent"]
                self._enter(agent, fact["turn"], time)
                self.turns[agent] = fact["turn"] + 1
            case "deref.proved":
                self._prove(fact, time, spends)
            case "turn.charged":
                self._enter((fact["run"], fact["agent"]), fact["turn"], time)
                self._charge(fact)
                self._charge_put((fact["run"], fact["agent"]), fact)
            case "engram.put" if "turn" in fact:
                author = fact["run"], fact["engram"]["provenance"]["created_by"].rpartition("/")[2]
                self._enter(author, fact["turn"], time)
                self._charge_put(author, fact)

    def _spend(self, fact: dict[str, Any]) -> None:
        tokens, uses = self.spent[fact["block_id"]]
        tokens, uses = self.spent[fact["block_id"]] = tokens + fact["tokens"], uses + 1
        limits = self.blocks[fact["block_id"]]
        assert limits.tokens is None or tokens <= limits.tokens, fact
        assert limits.uses is None or uses <= limits.uses, fact
        assert fact["block_id"] not in self.revoked, fact

    def _enter(self, agent: AgentKey, turn: int, time: datetime) -> None:
        """Record that an agent acts in a turn: its current one, or the next after an idle pause."""
        present = self.turns.setdefault(agent, 1)
        if turn != present:
            assert turn == present + 1, (agent, turn, present)
            idle = SESSION_IDLE if self.session_turns.get(agent, 1) > 1 else IDLE
            assert time - self.acted[agent] > idle, (agent, turn, time)
        self.turns[agent], self.acted[agent] = turn, time

    def _prove(self, fact: dict[str, Any], time: datetime, spends: list[dict[str, Any]]) -> None:
        agent = fact["run"], fact["agent"]
        self._enter(agent, fact["turn"], time)
        granted = fact.get("granted", False)
        assert granted == bool(spends), fact
        assert all(spend["tokens"] == fact["tokens"] for spend in spends), fact
        if agent not in self.parents:
            return  # the admin has no budget
        self.by_team[fact["run"]] += fact["tokens"]
        assert self.by_team[fact["run"]] <= self.policy["tokens"] * self.policy["team_turns"], fact
        self._charge(fact)

    def _charge(self, fact: dict[str, Any]) -> None:
        """Charge a read to an agent's ceiling, and to its turn unless a grant pays."""
        agent = fact["run"], fact["agent"]
        if "tokens" not in fact:
            return  # nothing was read
        self.in_run[agent] += fact["tokens"]
        assert self.in_run[agent] <= self.policy["tokens"] * self.policy["run_turns"], fact
        if not fact.get("granted", False):
            used, limits = self.used[*agent, fact["turn"]], self.limits(agent)
            for name, amount in ((COUNTS[fact["type"]], 1), ("tokens", fact["tokens"])):
                used[name] += amount
                assert used[name] <= limits[name], (fact, used, limits)

    def _charge_put(self, agent: AgentKey, fact: dict[str, Any]) -> None:
        """Charge the tokens of engrams to an agent's turn."""
        self.put[*agent, fact["turn"]] += fact.get("put_tokens", 0)
        assert self.put[*agent, fact["turn"]] <= self.put_tokens * self.session_turns[agent], fact

    def limits(self, agent: AgentKey) -> dict[str, int]:
        """Return what an agent may read in a turn now: the policy's limits, lowered by each ancestor."""
        times = self.session_turns.get(agent, 1)
        limits = {name: limit * times for name, limit in self.policy.items()}
        for name in self._lineage(agent):
            for count, field in BUDGET_FIELDS.items():
                limits[count] = min(limits[count], self.lowered.get((agent[0], name), {}).get(field, limits[count]))
        return limits

    def _lineage(self, agent: AgentKey) -> Iterator[str]:
        name: str | None = agent[1]
        while name is not None:
            yield name
            name = self.parents.get((agent[0], name))
