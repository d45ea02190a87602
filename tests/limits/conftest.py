"""A team for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import bare_shell, shell
from tests.http.running_server import run_server
from tests.limits.edges import EDGES, Edge
from tests.limits.team import Team

__all__ = ["bare_shell", "shell"]


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A project with its repository, a manager and a programmer."""
    team = Team(tmp_path)
    yield team
    team.gateway.close()


@pytest.fixture(params=EDGES)
def edge(request: pytest.FixtureRequest, team: Team) -> Iterator[Edge]:
    """Calls to the team's server, over HTTP and over MCP."""
    with run_server(team.gateway, team.repository) as server:
        yield Edge(request.param, team, server)
