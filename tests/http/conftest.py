"""One running server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http.running_server import RunningServer, run_new_project


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a server with a project for each module."""
    with run_new_project(tmp_path_factory.mktemp("bus")) as bus:
        yield bus


@pytest.fixture(scope="module")
def other_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a server for a second project, with its own keys and engrams."""
    with run_new_project(tmp_path_factory.mktemp("other")) as bus:
        yield bus
