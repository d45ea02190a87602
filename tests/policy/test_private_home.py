"""With ENGRAMBUS_HOME, private state lives there and `.catalog` holds only the files that users commit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engrambus import Bus
from engrambus.app import find_project_damage, init_project, recover_project
from engrambus.errors import FieldValue
from engrambus.policy import find_project
from engrambus.settings import Settings
from tests.projects import Repository

COMMITTED = {".gitignore", "project.yaml", "policy.yaml"}


@pytest.fixture
def private(settings: Settings, tmp_path: Path) -> Settings:
    """Settings with a home for private state."""
    return msgspec.structs.replace(settings, private_home=tmp_path / "private")


def test_private_state_is_kept_in_the_home_and_only_committed_files_in_the_catalog(
    repository: Repository, private: Settings, tmp_path: Path
) -> None:
    project = init_project(repository.path, private)
    with Bus.open(repository.path, settings=private) as bus:
        bus.put_engram("The home has the journal.", at=["src/parser.py:1"])
        bus.stats()
    assert project.state == tmp_path / "private" / project.project_id
    assert {file.name for file in project.catalog.iterdir()} == COMMITTED
    assert {"memory.jsonl", "index.db"} <= {file.name for file in project.state.rglob("*")}
    assert find_project_damage(repository.path, private) == recover_project(repository.path, private) == []


def test_without_a_home_private_state_is_in_the_catalog(repository: Repository, settings: Settings) -> None:
    project = init_project(repository.path, settings)
    assert project.state == project.catalog == repository.path / ".catalog"


def test_a_journal_that_came_with_a_clone_does_not_name_the_project(
    repository: Repository, settings: Settings, private: Settings
) -> None:
    """The journal in the catalog names another project than the committed file, which counts."""
    foreign = init_project(repository.path, settings)
    file = repository.path / ".catalog" / "project.yaml"
    file.write_text("project: 01KDVP9R000000000000000000\n")
    assert find_project(repository.path).project_id == foreign.project_id
    assert find_project(repository.path, private.private_home).project_id == "01KDVP9R000000000000000000"


def test_a_home_must_be_an_absolute_path() -> None:
    with pytest.raises(FieldValue) as refusal:
        Settings.from_environment({"HOME": "/home/ada", "ENGRAMBUS_HOME": "private"})
    assert refusal.value.field == "ENGRAMBUS_HOME"
