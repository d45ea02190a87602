"""What a yool declares about its effect is held while its steps run. # YT-01, YT-22"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engrambus.space.catalog import Catalog
from engrambus.space.work import can_hold_effects
from tests.space.worker_harness import SAME_NAMESPACE, WorkerHarness, open_worker_harness, registry_of_module, step

MODULE = "tests.space.effect_yools"
YOOLS = registry_of_module(MODULE)
needs_landlock = pytest.mark.skipif(not can_hold_effects(), reason="this kernel has no Landlock")


@pytest.fixture(params=["pid namespace", "same namespace"])
def steps(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkerHarness]:
    """A project whose yools declare an effect; its steps are contained in each way."""
    containment = SAME_NAMESPACE if request.param == "same namespace" else None
    with open_worker_harness(tmp_path / "project", containment=containment) as harness:
        deps = msgspec.structs.replace(
            harness.deps, registry=YOOLS, catalog=lambda: Catalog(yool.entry for yool in YOOLS)
        )
        yield WorkerHarness(deps, harness.progress)


def outcome(harness: WorkerHarness, yool: str, **args: str) -> tuple[list[str], str]:
    """Run one step; return what was reported, and the error on its receipt."""
    tuple_id = harness.put(step(yool, **args))
    kinds = harness.work()
    return kinds, harness.receipts(tuple_id)[0].error or ""


@needs_landlock
@pytest.mark.parametrize("kind", ["command", "function"])
@pytest.mark.parametrize(("effect", "place"), [("pure", "in"), ("pure", "out"), ("reads", "in")])
def test_a_write_that_the_effect_rules_out_fails_the_step_and_names_the_file(
    steps: WorkerHarness, tmp_path: Path, kind: str, effect: str, place: str
) -> None:
    target = tmp_path / ("project/written" if place == "in" else "written")
    kinds, error = outcome(steps, f"agent.{effect}.{kind}", path=str(target))
    assert kinds == ["failed", "dead"]
    assert error.startswith("EFFECT_VIOLATED: ")
    shown = "written" if place == "in" else str(target)
    assert f"declared '{effect}' tried to write '{shown}'" in error
    assert not target.exists()


@needs_landlock
@pytest.mark.parametrize("kind", ["command", "function"])
def test_a_step_that_reads_may_write_outside_the_project_and_one_that_writes_anywhere(
    steps: WorkerHarness, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "beside").mkdir()
    assert outcome(steps, f"agent.reads.{kind}", path=str(tmp_path / "beside/a"))[0] == ["miss", "done"]
    assert outcome(steps, f"agent.writes.{kind}", path=str(tmp_path / "project/a"))[0] == ["miss", "done"]


@pytest.mark.parametrize("effect", ["pure", "reads"])
@pytest.mark.parametrize("kind", ["command", "function"])
def test_every_step_may_write_into_its_own_folders_and_to_devices(steps: WorkerHarness, kind: str, effect: str) -> None:
    kinds, error = outcome(steps, f"agent.{effect}.{kind}", path="")
    assert (kinds, error) == (["miss", "done"], "")


@needs_landlock
@pytest.mark.parametrize("kind", ["command", "function"])
def test_a_pure_step_uses_no_tcp(steps: WorkerHarness, kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        kinds, error = outcome(steps, f"agent.connect.{kind}", port=port)
    assert kinds == ["failed", "dead"]
    assert "declared 'pure' tried to use the network" in error


@needs_landlock
def test_a_file_can_be_neither_deleted_nor_renamed_nor_emptied_nor_linked(steps: WorkerHarness, tmp_path: Path) -> None:
    victim = tmp_path / "project/victim"
    victim.write_text("text")
    for change in ("unlink", "rename", "truncate", "link", "symlink", "mkdir"):
        assert outcome(steps, "agent.change.file", change=change, path=str(victim))[0] == ["failed", "dead"], change
    assert [path.name for path in (tmp_path / "project").iterdir() if path.name != ".catalog"] == ["victim"]
    assert victim.read_text() == "text"


def test_a_step_that_fails_by_itself_is_not_called_a_violation(steps: WorkerHarness, tmp_path: Path) -> None:
    script = tmp_path / "project/not_executable"
    script.write_text("#!/bin/sh\n")
    for text in ("git@example.invalid: Permission denied (publickey).", "no such file", ""):
        assert outcome(steps, "agent.fail.saying", text=text)[1] == "exit 3"
    assert outcome(steps, "agent.run.script", path=str(script))[1] == "exit 126"


def test_where_nothing_refuses_a_write_the_result_is_not_reused_and_the_file_is_named(
    steps: WorkerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine without Landlock.
    monkeypatch.setattr("engrambus.space.work.guard.effects._abi", lambda: 0)
    target = tmp_path / "project/written"
    tuple_id = steps.put(step("agent.reads.command", path=str(target)))
    assert steps.work() == ["miss", "done"]
    receipt = steps.receipts(tuple_id)[0]
    assert (receipt.key, receipt.changed_files) == (None, ("written",))
    assert steps.progress[0].changed_files == ("written",)
    tuple_id = steps.put(step("agent.reads.command", path=""))
    steps.work()
    assert steps.receipts(tuple_id)[0].key is not None
