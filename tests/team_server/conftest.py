"""One server for the tests of a module, and clones that are logged in to it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.team_server.machines import Machine, TeamServer, clone_of, run_team_server

_numbers = count(1)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TeamServer, Machine]]:
    """The server of a module, and the clone that its project comes from."""
    with run_team_server(tmp_path_factory.mktemp("team")) as both:
        yield both


@pytest.fixture(scope="module")
def server(running: tuple[TeamServer, Machine]) -> TeamServer:
    """The server."""
    return running[0]


@pytest.fixture
def stranger(running: tuple[TeamServer, Machine], tmp_path: Path) -> Machine:
    """A clone on the client's host that is not logged in."""
    return clone_of(running[1], tmp_path / "clone", tmp_path / "home")


@pytest.fixture
def anna(server: TeamServer, stranger: Machine) -> Machine:
    """A clone that is logged in as a new person."""
    done = server.login(stranger, server.add_person(f"anna-{next(_numbers)}"))
    assert done.code == 0, done
    return stranger
