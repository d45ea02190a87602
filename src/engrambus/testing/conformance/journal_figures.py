"""A second counter: adds up a journal line by line, by nothing but what the lines say, to hold the figures against."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

IDLE = timedelta(minutes=10)
BUCKETS = {"PT1M": "%Y-%m-%dT%H:%M:00Z", "PT1H": "%Y-%m-%dT%H:00:00Z", "P1D": "%Y-%m-%dT00:00:00Z"}


def _sums() -> defaultdict[Any, defaultdict[str, int]]:
    return defaultdict(lambda: defaultdict(int))


class JournalFigures:
    """What every agent, role and stretch of time comes to in a journal."""

    def __init__(self, journal: bytes) -> None:
        self.agents, self.roles, self.history = _sums(), _sums(), _sums()
        self.kinds = _sums()
        self._role: dict[tuple[str, str], str] = {}
        self._turn: dict[tuple[str, str], tuple[int, datetime]] = {}
        self._acted: set[tuple[str, str, int]] = set()
        for text in journal.splitlines()[1:]:
            line = json.loads(text)
            for fact in line["facts"]:
                self._take(fact, datetime.fromisoformat(line["at"]))

    def _take(self, fact: dict[str, Any], at: datetime) -> None:
        run, agent = str(fact.get("run")), str(fact.get("agent"))
        match fact["fact"]:
            case "agent.added":
                self._role[run, fact["name"]] = fact["role"]
            case "engram.put":
                engram = fact["engram"]
                author = engram["provenance"]["created_by"].rpartition("/")[2]
                two = engram["kind"] == "risk" and len({each["ref"] for each in engram["pointers"]}) > 1
                pointed = fact.get("pointed_tokens", 0)
                self._add(run, author, at, engrams=1, contradictions=int(two), pointed_tokens=pointed)
                self.kinds[run, author][engram["kind"]] += 1
            case "message.accepted" | "broadcast.sent" as what:
                self._add(run, agent, at, **{"messages" if what == "message.accepted" else "broadcasts": 1})
                self._add(run, agent, at, inline_tokens=fact["tokens"], resends=int("resends" in fact))
                self._add(run, agent, at, pointed_tokens=fact.get("pointed_tokens", 0))
                if what == "broadcast.sent":
                    number, last = self._turn.get((run, agent), (1, at))
                    self._act(run, agent, at, number + (at - last > IDLE))
            case "message.rejected":
                self._add(run, agent, at, rejections=1)
            case "deref.proved":
                self._act(run, agent, at, fact["turn"])
                self._turn[run, agent] = fact["turn"], at
                self._add(run, agent, at, derefs=1, deref_tokens=fact["tokens"])
            case "turn.closed":
                self._act(run, agent, at, fact["turn"])
                self._turn[run, agent] = fact["turn"] + 1, at
            case "deref.requested":
                self._add(run, agent, at, requests=1)
            case "grant.issued":
                self._add(run, fact["parent"], at, grants=1)

    def _act(self, run: str, agent: str, at: datetime, turn: int) -> None:
        if (run, agent, turn) not in self._acted:
            self._acted.add((run, agent, turn))
            self._add(run, agent, at, turns=1)

    def _add(self, run: str, agent: str, at: datetime, **more: int) -> None:
        role = self._role.get((run, agent), "admin")
        keys = [(run, bucket, at.strftime(form), role) for bucket, form in BUCKETS.items()]
        for name, count in more.items():
            self.agents[run, agent][name] += count
            self.roles[role][name] += count
            for key in keys:
                self.history[key][name] += count


def check_figures(stats: Any, auditor: JournalFigures) -> None:
    """Hold the figures of a run, as `stats` gives them, against a journal."""
    run = stats.run_id
    for row in stats.agents:
        said = {name: getattr(row.figures, name) for name in _COUNTED}
        counted = {name: auditor.agents[run, row.agent_id][name] for name in _COUNTED}
        assert said == counted, (row.agent_id, said, counted)
        assert dict(row.figures.kinds) == dict(auditor.kinds[run, row.agent_id]), row
    everyone = {agent for of_run, agent in auditor.agents if of_run == run and any(auditor.agents[run, agent].values())}
    assert everyone <= {row.agent_id for row in stats.agents}
    for point in stats.history.points:
        for role, tally in point.roles.items():
            counted_then = auditor.history[run, stats.history.bucket, _second(point.start), role]
            assert {name: getattr(tally, name) for name in _COUNTED} == {name: counted_then[name] for name in _COUNTED}


_COUNTED = (
    "turns",
    "messages",
    "broadcasts",
    "inline_tokens",
    "rejections",
    "resends",
    "derefs",
    "deref_tokens",
    "requests",
    "grants",
    "engrams",
    "contradictions",
    "pointed_tokens",
)


def _second(text: str) -> str:
    return datetime.fromisoformat(text).strftime("%Y-%m-%dT%H:%M:%SZ")
