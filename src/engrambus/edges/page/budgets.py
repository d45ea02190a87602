"""What each agent and the team have spent, and what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engrambus.edges.page.desk import Desk
from engrambus.operations.stats import AgentFigures


def load(desk: Desk, params: Mapping[str, str]) -> dict[str, Any]:
    """The team's figures, and those of each agent below its parent."""
    answer = desk.ask("stats", last=0)
    return {"answer": answer, "agents": by_parent(answer.agents), "together": desk.ask("team_budget")}


def by_parent(agents: Sequence[AgentFigures]) -> list[tuple[int, AgentFigures]]:
    """The agents with how deep each stands, every child below its parent."""
    names = {agent.agent_id for agent in agents}
    children: dict[str | None, list[AgentFigures]] = {}
    for agent in agents:
        children.setdefault(agent.parent if agent.parent in names else None, []).append(agent)
    rows: list[tuple[int, AgentFigures]] = []

    def walk(parent: str | None, depth: int) -> None:
        for agent in children.get(parent, ()):
            rows.append((depth, agent))
            walk(agent.agent_id, depth + 1)

    walk(None, 0)
    return rows
