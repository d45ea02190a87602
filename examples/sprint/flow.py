"""The emitter: it names the steps of each item and puts them into a lane. It knows neither workers nor stacks."""

from __future__ import annotations

from typing import ClassVar

from engrambus import Bus

from . import tracker


class SprintFlow:
    """Puts a tuple for every item of a sprint."""

    LANE = "build"
    TERMS: ClassVar = {"budget_usd": 0.50, "cpu_quota_pct": 60, "disk_quota_mb": 100}

    def __init__(self, sprint_id: str, stack: str, bus: Bus, *, no_cache: bool = False) -> None:
        self.sprint_id = sprint_id
        self.stack = stack
        self.bus = bus
        self.flags = {"no_cache": True} if no_cache else {}

    def run(self) -> list[str]:
        """Put the tuples; return their ids. A new stack is a new yool `agent.dev.<stack>`, and no change here."""
        return [self.emit(item.id, item.module) for item in tracker.list_items(self.sprint_id)]

    def emit(self, item: str, module: str) -> str:
        """Put the tuple of one item: fetched, developed, checked and proposed, in this order."""
        spec = {"sprint_id": self.sprint_id, "item": item}
        code = {"module": module}
        put = self.bus.tuple_out(
            self.LANE,
            map_pos={"sprint_id": self.sprint_id, "stack": self.stack, "item": item},
            agent_terms=self.TERMS,
            payload=[
                {"yool": "op.jira.fetch_sprint", "args": spec},
                {"yool": f"agent.dev.{self.stack}", "args": spec},
                {"yool": f"agent.lint.{self.stack}", "args": code},
                {"yool": f"agent.test.{self.stack}", "args": code},
                {"yool": "agent.security.scan", "args": code},
                {"yool": "agent.pr.create", "args": {"item": item, **code}},
            ],
            src_ptr=[f"jira://{item}"],
            flags=self.flags,
        )
        return put.id
