"""Projects in which questions are answered by meaning, and the model, loaded once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from engrambus.adapters.semantic import MiniLm, load_model
from engrambus.app import init_project, open_project
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway
from engrambus.operations.engram_queries import QueryAnswer
from engrambus.settings import Settings
from engrambus.testing.client import GatewayClient
from engrambus.testing.clock import ManualClock
from tests.projects import Repository, make_repository

CLAIMS = (
    "Authentication tokens expire after one hour.",
    "Refunds over 500 need a second approval.",
    "The parser trusts its input.",
    "Nightly backups are copied to another disk.",
    "Invoices are rounded to cents.",
)


class SemanticProject:
    """A project, opened with or without search by meaning."""

    def __init__(self, repository: Repository, home: Path) -> None:
        self.repository = repository
        self._environment = {"HOME": str(home)}
        self._gateway: Gateway | None = None
        self.clock: ManualClock | None = None
        """A clock to turn, from the next time that the project is opened."""
        init_project(repository.path, Settings.from_environment(self._environment))
        self.open(semantic="1")

    @property
    def gateway(self) -> Gateway:
        """The open project."""
        assert self._gateway is not None
        return self._gateway

    @property
    def client(self) -> GatewayClient:
        """Calls operations of the open project."""
        return GatewayClient(self)

    def open(self, *, semantic: str) -> None:
        """Open the project again, with ENGRAMBUS_SEMANTIC set to this."""
        self.close()
        settings = Settings.from_environment({**self._environment, "ENGRAMBUS_SEMANTIC": semantic})
        self._gateway = open_project(self.repository.path, settings, clock=self.clock)

    def close(self) -> None:
        """Close the project."""
        if self._gateway is not None:
            self._gateway.close()
        self._gateway = None

    def put(self, *claims: str, caller: Credential = LOCAL_ADMIN, **fields: str) -> list[str]:
        """Put claims and return their ids."""
        put = {"scope": "project", "at": ["docs/design.md:1-3"], **fields}
        return [self.client.call("put_engram", caller, claim=claim, **put).id for claim in claims]

    def ask(self, question: str, caller: Credential = LOCAL_ADMIN, k: int = 12) -> list[str]:
        """Return the claims that answer a question."""
        return self.client.query_claims(question, caller, k=k)

    def similar(self, engram_id: str, caller: Credential = LOCAL_ADMIN, k: int = 12) -> list[str]:
        """Return the claims that are most similar to an engram's."""
        answer: QueryAnswer = self.client.call("query_by_embedding", caller, embedding_ref=f"emb:{engram_id}", k=k)
        return [engram.claim for engram in answer.engrams]

    @property
    def vector_file(self) -> Path:
        """The file of stored vectors."""
        (path,) = (self.repository.path / ".catalog").glob("derived-*/vectors.db")
        return path


class MakeProject(Protocol):
    """Creates a project."""

    def __call__(self, name: str = "one") -> SemanticProject: ...


@pytest.fixture
def make_project(tmp_path: Path) -> Iterator[MakeProject]:
    """A function that creates projects of one account."""
    made: list[SemanticProject] = []

    def make(name: str = "one") -> SemanticProject:
        made.append(SemanticProject(make_repository(tmp_path / name), tmp_path / "home"))
        return made[-1]

    yield make
    for project in made:
        project.close()


@pytest.fixture
def project(make_project: MakeProject) -> SemanticProject:
    """A project with a few claims."""
    project = make_project()
    project.put(*CLAIMS)
    return project


@pytest.fixture(scope="session")
def model() -> MiniLm:
    """The model."""
    return load_model()
