"""A team on a bus, opened in process and served over HTTP: every test runs both ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from engrambus import Bus, Hooks, Settings
from engrambus.gateway import LOCAL_ADMIN
from tests.http.running_server import run_server
from tests.projects import Repository, make_gateway, make_repository, make_settings


class Team(NamedTuple):
    """`lead` and its children `ada` and `ben`; `stranger` belongs to nobody. The hooks hold the lead's token."""

    hooks: Hooks
    bus: Bus
    admin: Bus
    repository: Repository
    settings: Settings

    def ref(self, path: str = "src/parser.py", lines: str = "L10-L20") -> str:
        """A pointer into the repository."""
        return f"repo:{path}#{lines}@{self.repository.sha}"

    def open(self, token: str) -> Bus:
        """The same project for the bearer of another token."""
        return Bus.open(self.repository.path, token=token, settings=self.settings)


@pytest.fixture(params=["in process", "over HTTP"])
def team(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A fresh team, both ways."""
    folder = tmp_path_factory.mktemp("team")
    repository = make_repository(folder / "repository")
    settings = make_settings(folder / "home")
    with closing(make_gateway(repository.path, settings)) as gateway:
        admin = Bus(gateway, LOCAL_ADMIN, owns_transport=False)
        token = admin.add_agent("lead", role="architect").token
        for name in ("ada", "ben"):
            admin.add_agent(name, role="programmer", parent="lead")
        admin.add_agent("stranger", role="programmer")
        if request.param == "in process":
            with Bus.open(repository.path, token=token, settings=settings) as bus:
                yield Team(Hooks(bus), bus, admin, repository, settings)
        else:
            with (
                run_server(gateway, repository) as served,
                Bus.connect(f"http://127.0.0.1:{served.port}", token=token) as bus,
            ):
                yield Team(Hooks(bus), bus, admin, repository, settings)
