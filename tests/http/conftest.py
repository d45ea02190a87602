"""One served project for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http.served import Served, served_project


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A project of its own for each module."""
    with served_project(tmp_path_factory.mktemp("bus")) as bus:
        yield bus


@pytest.fixture(scope="module")
def other_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Another project, with keys and engrams of its own."""
    with served_project(tmp_path_factory.mktemp("other")) as bus:
        yield bus
