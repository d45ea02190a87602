"""A worker in a program. # YT-05 # YT-06"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engrambus import Bus, Worker
from engrambus.errors import TupleNotFound
from engrambus.settings import Settings
from engrambus.space.catalog import CAPABILITIES, REGISTRY, Catalog, write_catalog
from engrambus.space.work import Progress
from tests.projects import Repository, make_gateway
from tests.space.worker_harness import MODULE, YOOLS

ADD = {"yool": "agent.sum.numbers", "args": {"a": 20, "b": 22}}


@pytest.fixture
def given(repository: Repository, tmp_path: Path) -> Iterator[Settings]:
    """The settings of a project whose catalog has the tests' yools, as this process has for a while."""
    settings = Settings.from_environment({"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]})
    make_gateway(repository.path, settings).close()
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([item.entry for item in YOOLS]))
    for item in YOOLS:
        REGISTRY.add(item)
    yield settings
    for item in YOOLS:
        REGISTRY._versions.pop(item.entry.name, None)


def test_a_worker_in_a_program_processes_a_lane_and_stops(repository: Repository, given: Settings) -> None:
    payload: list[Progress] = []
    with (
        Bus.open(repository.path, settings=given) as bus,
        Worker.open(
            repository.path, lane="build", modules=[MODULE], settings=given, on_progress=payload.append
        ) as worker,
    ):
        one = bus.tuple_out("build", payload=[ADD]).id
        thread = threading.Thread(target=worker.run)
        thread.start()
        while bus.tuple_observe(one).state != "done":
            time.sleep(0.02)
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()
    assert [item.kind for item in payload] == ["miss", "done"]


def test_a_long_running_worker_collects_garbage_by_itself(repository: Repository, given: Settings) -> None:  # YT-13
    with (
        Bus.open(repository.path, settings=given) as bus,
        Worker.open(repository.path, lane="build", modules=[MODULE], settings=given) as worker,
    ):
        thread = threading.Thread(target=worker.run)
        thread.start()
        night = bus.tuple_rd(lane="gc.urgent", timeout=30)
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()
        assert night.tuple["payload"][0]["yool"] == "fs.gc.run"


def test_a_worker_that_runs_until_empty_collects_no_garbage(repository: Repository, given: Settings) -> None:
    with (
        Bus.open(repository.path, settings=given) as bus,
        Worker.open(repository.path, lane="build", modules=[MODULE], settings=given) as worker,
    ):
        worker.run(until_empty=True)
        with pytest.raises(TupleNotFound):
            bus.tuple_rd(lane="gc.urgent")


def test_a_policy_applied_while_working_takes_effect_with_the_next_step(
    repository: Repository, given: Settings
) -> None:
    """A yool is closed to people, then a quota is set, while the worker is at work. # YT-04 # YT-12"""
    payload: list[Progress] = []
    with (
        Bus.open(repository.path, settings=given) as bus,
        Worker.open(
            repository.path, lane="build", modules=[MODULE], settings=given, on_progress=payload.append
        ) as worker,
    ):
        bus.tuple_out("build", payload=[{"yool": "agent.show.file", "args": {"path": "README.md"}}])
        narrowed = [msgspec.structs.replace(item.entry, authority=("ci",)) for item in YOOLS]
        write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog(narrowed))
        bus.apply_policy({"guardrails": {"cpu_quota_pct": 7}})
        worker.run(until_empty=True)
        assert worker.pool._deps.quotas()[-1].cpu_quota_pct == 7
    assert "YOOL_FORBIDDEN" in (payload[0].error or "")


def test_an_evaluated_tuple_has_the_callers_authority(repository: Repository, given: Settings) -> None:
    with (
        Bus.open(repository.path, settings=given) as bus,
        Worker.open(repository.path, lane="build", modules=[MODULE], settings=given) as worker,
    ):
        active = worker.eval({"lane": "own", "payload": [ADD]})
        active.join(60)
        matches = bus.tuple_rd(lane="own", state="done")
        assert matches.tuple["id"] == active.name
        assert matches.tuple["authority"] == {"user": "admin", "agent": None, "ci": False}
