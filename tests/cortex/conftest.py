"""A team with something to remember: a lead, and a coder below it."""

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
    """One project on files, with a clock to turn."""

    def __init__(self, repository: Repository, settings: Settings, clock: ManualClock) -> None:
        self.repository = repository
        self.settings = settings
        self.clock = clock
        self.gateway = make_gateway(repository.path, settings, clock)
        self.catalog = repository.path / ".catalog"
        self.store = self.catalog / "sam" / "episodes.jsonl"
        self.hand = GatewayClient(self)
        self.lead: Credential = self.hand.add_agent("lead", "manager")
        self.coder: Credential = self.hand.add_agent("coder", "programmer", parent="lead")

    def reopen(self) -> None:
        """As another process would."""
        self.gateway.close()
        self.gateway = open_project(self.repository.path, self.settings, clock=self.clock)

    def close(self) -> None:
        """Let go of the files."""
        self.gateway.close()

    def keep(self, text: str, **more: Any) -> Any:
        """Remember something."""
        return self.hand.call("keep_episode", text=text, **more)

    def contribute(self, content: str, **more: Any) -> Any:
        """Contribute something as the coder."""
        return self.hand.call("contribute", self.coder, content=content, **more)

    def read(self, query: str, *stores: str, who: Credential | None = None) -> Any:
        """Read memory stores as the coder; the team's own unless others are named."""
        return self.hand.call(
            "memory_read",
            who or self.coder,
            query=query,
            store_paths=list(stores) or [".catalog/sam/episodes.jsonl"],
            budget={"max_excerpt_tokens": 400},
        )

    def records(self) -> list[dict[str, Any]]:
        """What stands in the episodic store."""
        return [json.loads(line) for line in self.store.read_bytes().splitlines()]

    def journal(self) -> bytes:
        """Everything that was ever stored."""
        return (self.catalog / "memory.jsonl").read_bytes()

    def log(self) -> list[str]:
        """The lines of the cortex's log, without their times."""
        text = (self.catalog / "shared-cortex.log").read_text("utf-8")
        assert text.endswith("\n")
        return [line.partition(" ")[2] for line in text.split("\n")[:-1]]


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A fresh team."""
    made = Team(make_repository(tmp_path / "repository"), make_settings(tmp_path / "home"), ManualClock())
    with closing(made):
        yield made
