"""Real clients, each at a place of its own, and which they were."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integrations.live.place import Place
from tests.integrations.live.programs import PROGRAMS

_VERSIONS = pytest.StashKey[dict[str, str]]()


@pytest.fixture(scope="package")
def make_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Place]:
    """Makes a place for a client, which is not told of us yet."""
    versions = request.config.stash.setdefault(_VERSIONS, {})

    def make(name: str) -> Place:
        place = Place(PROGRAMS[name], tmp_path_factory.mktemp(name))
        if name not in versions:
            versions[name] = place.client("--version").splitlines()[-1]  # warnings come before
        return place

    return make


@pytest.fixture
def place(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """A place for the client that the test names."""
    return make_place(request.param)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which clients were tried."""
    for name, version in config.stash.get(_VERSIONS, {}).items():
        terminalreporter.write_line(f"tried {name}: {version}")
