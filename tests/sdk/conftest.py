"""The same project seen both ways: its files opened here, and a gateway that serves them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from engrambus import Bus
from engrambus.gateway import LOCAL_ADMIN, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from tests.http.running_server import RunningServer, run_server
from tests.projects import make_gateway, make_repository


class Both(NamedTuple):
    """Two ways onto one bus, in the name of the same manager."""

    served: RunningServer
    settings: Settings
    local: Bus
    remote: Bus


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A project with a manager `lead`, a programmer `coder` below it, and a `stranger`."""
    folder = tmp_path_factory.mktemp("both")
    settings = Settings.from_environment({"HOME": str(folder)})
    repository = make_repository(folder / "repository")
    with closing(make_gateway(repository.path, settings)) as gateway, run_server(gateway, repository) as served:
        ample = to_request({"policy": {"deref": {"repo": 100, "tokens": 100_000}}}, OPERATIONS["apply_policy"].request)
        gateway.call(OPERATIONS["apply_policy"], ample, LOCAL_ADMIN)
        token = served.add("lead", "manager")
        served.add("coder", parent="lead")
        served.add("stranger")
        with (
            Bus.open(repository.path, token=token, settings=settings) as local,
            Bus.connect(f"http://127.0.0.1:{served.port}", token=token) as remote,
        ):
            yield Both(served, settings, local, remote)
