"""An independent count of a journal, line by line, to compare the figures of `stats` with."""

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
    """Totals of every agent, role and period in a journal."""

    def __init__(self, journal: bytes) -> None:
        self.agents, self.roles, self.history = _sums(), _sums(), _sums()
        self.kinds, self.codes = _sums(), _sums()
        self._role: dict[tuple[str, str], str] = {}
        self._turn: dict[tuple[str, str], tuple[int, datetime]] = {}
        self._delivered: defaultdict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        self._counted_turns: set[tuple[str, str, int]] = set()
        for text in journal.splitlines()[1:]:
            line = json.loads(text)
            for fact in line["facts"]:
                self._apply(fact, datetime.fromisoformat(line["at"]))

    def _apply(self, fact: dict[str, Any], time: datetime) -> None:
        run, agent = str(fact.get("run")), str(fact.get("agent"))
        match fact["fact"]:
            case "agent.added":
                self._role[run, fact["name"]] = fact["role"]
            case "engram.put":
                engram = fact["engram"]
                author = engram["provenance"]["created_by"].rpartition("/")[2]
                # the files, artifacts and memories it points at, without commits, versions, lines and sections
                sources = {pointer["ref"].rpartition("@")[0].partition("#")[0] for pointer in engram["pointers"]}
                disagrees = engram["kind"] == "risk" and len(sources) > 1
                self._add(run, author, time, engrams=1, contradictions=int(disagrees))
                self.kinds[run, author][engram["kind"]] += 1
                if "turn" in fact:
                    self._count_turn(run, author, time, fact["turn"])
                    self._turn[run, author] = fact["turn"], time
            case "message.accepted" | "broadcast.sent" as kind:
                self._add(run, agent, time, **{"messages" if kind == "message.accepted" else "broadcasts": 1})
                self._add(run, agent, time, inline_tokens=fact["tokens"], resends=int("resends" in fact))
                self._deliver(fact, time)
                if kind == "broadcast.sent":
                    number, last = self._turn.get((run, agent), (1, time))
                    self._count_turn(run, agent, time, number + (time - last > IDLE))
            case "message.rejected":
                self._add(run, agent, time, rejections=1, denials=1, rejected_tokens=fact["tokens"])
                self.codes[run, agent]["BUDGET_EXCEEDED"] += 1
            case "call.denied" if fact.get("mode") == "warn":
                self._add(run, agent, time, warnings=fact.get("count", 1))
            case "call.denied":
                self._add(run, agent, time, denials=fact.get("count", 1), rejected_tokens=fact.get("tokens", 0))
                self.codes[run, agent][fact["code"]] += fact.get("count", 1)
            case "deref.proved":
                self._count_turn(run, agent, time, fact["turn"])
                self._turn[run, agent] = fact["turn"], time
                self._add(run, agent, time, derefs=1, deref_tokens=fact["tokens"])
                self._read_delivered(fact, time)
            case "turn.charged":
                self._count_turn(run, agent, time, fact["turn"])
                self._turn[run, agent] = fact["turn"], time
            case "turn.closed":
                self._count_turn(run, agent, time, fact["turn"])
                self._turn[run, agent] = fact["turn"] + 1, time
            case "deref.requested":
                self._add(run, agent, time, requests=1)
            case "grant.issued":
                self._add(run, fact["parent"], time, grants=1)

    def _deliver(self, fact: dict[str, Any], time: datetime) -> None:
        """Count the content behind the pointers of a message for each agent that got it for the first time."""
        if fact["fact"] == "message.accepted":
            packs = [((fact["to"],), fact.get("pointed", ()))]
        else:
            packs = (
                [(pack["to"], contents) for pack, contents in zip(fact["packs"], fact["pointed"], strict=True)]
                if "packs" in fact
                else []
            )
        run = fact.get("to_run", fact["run"])
        for receivers, contents in packs:
            for agent in receivers:
                for content in contents if agent != "admin" else ():
                    if content["digest"] not in self._delivered[run, agent]:
                        self._delivered[run, agent][content["digest"]] = [content, content["tokens"]]
                        self._add(run, agent, time, pointed_tokens=content["tokens"])

    def _read_delivered(self, proof: dict[str, Any], time: datetime) -> None:
        """Take a read off the delivered content that it returned lines of: the same content first, then by digest."""
        left = proof["tokens"]
        delivered = self._delivered[proof["run"], proof["agent"]]
        for digest in sorted(delivered, key=lambda digest: (digest != proof["digest"], digest)):
            content, unread = delivered[digest]
            lines = range(content.get("first", 1), content.get("last", 2**31) + 1)
            files = [span for span in proof.get("spans", ()) if span["of"] == content.get("file")]
            shares = any(span.get("first", 1) < lines.stop and span.get("last", 2**31) >= lines.start for span in files)
            if digest == proof["digest"] or shares:
                tokens = min(left, unread)
                left -= tokens
                delivered[digest][1] -= tokens
                self._add(proof["run"], proof["agent"], time, pointed_read_tokens=tokens)

    def _count_turn(self, run: str, agent: str, time: datetime, turn: int) -> None:
        if (run, agent, turn) not in self._counted_turns:
            self._counted_turns.add((run, agent, turn))
            self._add(run, agent, time, turns=1)

    def _add(self, run: str, agent: str, time: datetime, **counts: int) -> None:
        role = self._role.get((run, agent), "admin")
        keys = [(run, bucket, time.strftime(form), role) for bucket, form in BUCKETS.items()]
        for name, count in counts.items():
            self.agents[run, agent][name] += count
            self.roles[role][name] += count
            for key in keys:
                self.history[key][name] += count


def check_figures(stats: Any, expected: JournalFigures) -> None:
    """Assert that the figures of a run, as `stats` gives them, are those of the journal."""
    run = stats.run_id
    for row in stats.agents:
        reported = {name: getattr(row.figures, name) for name in _COUNTED}
        counted = {name: expected.agents[run, row.agent_id][name] for name in _COUNTED}
        assert reported == counted, (row.agent_id, reported, counted)
        assert dict(row.figures.kinds) == dict(expected.kinds[run, row.agent_id]), row
        assert dict(row.figures.denial_codes) == dict(expected.codes[run, row.agent_id]), row
    everyone = {
        agent for of_run, agent in expected.agents if of_run == run and any(expected.agents[run, agent].values())
    }
    assert everyone <= {row.agent_id for row in stats.agents}
    for point in stats.history.points:
        for role, tally in point.roles.items():
            counted_then = expected.history[run, stats.history.bucket, _second(point.start), role]
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
    "pointed_read_tokens",
    "denials",
    "warnings",
    "rejected_tokens",
)


def _second(text: str) -> str:
    return datetime.fromisoformat(text).strftime("%Y-%m-%dT%H:%M:%SZ")
