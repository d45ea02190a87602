"""A team with a lead and a coder, on a project in files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engrambus.app import open_project
from engrambus.gateway import Credential
from engrambus.settings import Settings
from engrambus.testing.client import GatewayClient
from engrambus.testing.clock import ManualClock
from tests.projects import Repository, make_gateway, make_repository, make_settings


class Team:
    """A project in files, with a manual clock, a lead and a coder that reports to the lead."""

    def __init__(self, repository: Repository, settings: Settings, clock: ManualClock) -> None:
        self.repository = repository
        self.settings = settings
        self.clock = clock
        self.gateway = make_gateway(repository.path, settings, clock)
        self.catalog = repository.path / ".catalog"
        self.store = self.catalog / "sam" / "episodes.jsonl"
        self.client = GatewayClient(self)
        self.lead: Credential = self.client.add_agent("lead", "manager")
        self.coder: Credential = self.client.add_agent("coder", "programmer", parent="lead")

    def reopen(self) -> None:
        """Close the project and open it again, as another process would."""
        self.gateway.close()
        self.gateway = open_project(self.repository.path, self.settings, clock=self.clock)

    def close(self) -> None:
        self.gateway.close()

    def keep(self, text: str, **fields: Any) -> Any:
        """Keep an episode as the admin."""
        return self.client.call("keep_episode", text=text, **fields)

    def contribute(self, content: str, **fields: Any) -> Any:
        """Contribute as the coder."""
        return self.client.call("contribute", self.coder, content=content, **fields)

    def read(self, query: str, *stores: str, caller: Credential | None = None) -> Any:
        """Read memory stores as the coder: the team's own by default."""
        return self.client.call(
            "memory_read",
            caller or self.coder,
            query=query,
            store_paths=list(stores) or [".catalog/sam/episodes.jsonl"],
            budget={"max_excerpt_tokens": 400},
        )

    def records(self) -> list[dict[str, Any]]:
        """Return the records of the episodic store."""
        return [json.loads(line) for line in self.store.read_bytes().splitlines()]

    def journal(self) -> bytes:
        """Return the content of the journal."""
        return (self.catalog / "memory.jsonl").read_bytes()

    def log(self) -> list[str]:
        """Return the lines of the cortex log without their times."""
        text = (self.catalog / "shared-cortex.log").read_text("utf-8")
        assert text.endswith("\n")
        return [line.partition(" ")[2] for line in text.split("\n")[:-1]]


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A team whose project is new."""
    with closing(
        Team(make_repository(tmp_path / "repository"), make_settings(tmp_path / "home"), ManualClock())
    ) as team:
        yield team
