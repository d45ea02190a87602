"""Shims: what the old code does is recorded beside it, and their trouble never breaks it. # YT-17"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engrambus import Bus
from engrambus.adapters.migration import (
    STEPS,
    ArtifactShim,
    MigrationEvidence,
    MigrationFlags,
    TupleLog,
    gather_evidence,
    standing,
)
from engrambus.errors import EngramBusError
from engrambus.settings import Settings
from tests.projects import Repository, make_gateway
from tests.space.worker_harness import wait_until

SOURCE = Path(__file__).parents[2] / "src"


class Old:
    """An old orchestrator with shims on a project."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self.settings = settings
        self.troubles: list[str] = []

    def options(self, **changes: Any) -> dict[str, Any]:
        report = self.troubles.append
        return {"path": self.path, "settings": self.settings, "orchestrator": "old", "on_trouble": report, **changes}

    def receipts(self) -> list[Any]:
        with Bus.open(self.path, settings=self.settings) as bus:
            return bus.receipt_list().receipts


@pytest.fixture
def old(repository: Repository, settings: Settings) -> Old:
    make_gateway(repository.path, settings).close()
    return Old(repository.path, settings)


def test_a_unit_is_claimed_while_it_runs_and_has_a_receipt_afterwards(old: Old) -> None:
    args = {"path": Path("src"), "n": 1}
    with TupleLog(**old.options()) as log, log.unit("agent.lint.ruff", args) as unit:
        with Bus.open(old.path, settings=old.settings) as bus:
            running = bus.tuple_rd(lane="migration")
        assert running.state == "claimed"
        assert running.tuple["payload"][0]["args"]["args"]["n"] == 1
        unit.spend(usd=0.25, tokens_in=7)
        unit.result = {"fine": True}
    (receipt,) = old.receipts()
    assert (receipt.yool, receipt.exit, receipt.usd) == ("agent.lint.ruff.v1", 0, 0.25)
    assert old.troubles == []


def test_a_failure_is_recorded_and_raised(old: Old) -> None:
    with TupleLog(**old.options()) as log:
        with pytest.raises(LookupError, match="nothing there"), log.unit("no name of a yool"):
            raise LookupError("nothing there")
        with pytest.raises(KeyboardInterrupt), log.unit("agent.test.pytest"):
            raise KeyboardInterrupt
    receipts = old.receipts()
    assert {(receipt.yool, receipt.exit) for receipt in receipts} == {
        ("op.migration.unit.v1", 1),
        ("agent.test.pytest.v1", 1),
    }
    with Bus.open(old.path, settings=old.settings) as bus:
        assert len(bus.list_dead().dead) == 2  # not waiting for a retry that nobody could carry out


def test_artifacts_are_written_first_and_stored_besides(old: Old, tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    folder.mkdir()
    shim = ArtifactShim(**old.options())
    with shim:
        shim.write_artifact(folder / "a.txt", b"one")
        with shim.capture(folder, yool="agent.write.report"):
            (folder / "b.txt").write_text("two")
        with shim.capture(folder):
            pass  # nothing was written, so there is nothing to record

        @shim.step("agent.count.words", outputs=[folder])
        def count(text: str) -> int:
            (folder / "c.txt").write_text(text)
            return len(text.split())

        assert count("three words here") == 3
    assert (folder / "a.txt").read_bytes() == b"one"
    counted, captured, written = old.receipts()
    assert [item.yool for item in (written, captured, counted)] == [
        "op.migration.artifact.v1",
        "agent.write.report.v1",
        "agent.count.words.v1",
    ]
    with Bus.open(old.path, settings=old.settings) as bus:
        receipt = bus.receipt_get(counted.id).receipt
        assert receipt is not None
        assert [item["path"] for item in receipt["artifacts"]] == ["c.txt"]
        assert bus.deref_pointer(f"artifact:{receipt['artifacts'][0]['sha']}").excerpt == "three words here"
        assert bus.deref_pointer(f"artifact:{receipt['stdout_sha']}").excerpt.strip() == "3"


def test_artifacts_written_in_a_unit_belong_to_its_receipt(old: Old, tmp_path: Path) -> None:
    with TupleLog(**old.options()) as log, ArtifactShim(**old.options()) as shim, log.unit("agent.lint.ruff"):
        shim.write_artifact(tmp_path / "a.txt", "one")
        shim.write_artifact(tmp_path / "b.txt", "two")
    (receipt,) = old.receipts()
    assert receipt.yool == "agent.lint.ruff.v1"
    assert receipt.artifacts == {"file": 2}


@pytest.mark.parametrize("strict", [False, True])
def test_trouble_of_a_shim_never_breaks_the_old_code(tmp_path: Path, settings: Settings, strict: bool) -> None:
    """There is no project at all: what the old code does is done, and said to be unrecorded."""
    old = Old(tmp_path, settings)
    log, shim = TupleLog(**old.options(strict=strict)), ArtifactShim(**old.options(strict=strict))
    file = tmp_path / "a.txt"
    if strict:
        with pytest.raises(EngramBusError):
            shim.write_artifact(file, "one")
        assert file.read_text() == "one"  # the old path is written first all the same
        return
    with log.unit("agent.lint.ruff"):
        shim.write_artifact(file, "one")

    @shim.step("agent.lint.ruff", outputs=[file])
    def step() -> str:
        return "done"

    assert (step(), file.read_text()) == ("done", "one")
    assert any("PROJECT_NOT_FOUND" in line for line in old.troubles)
    assert log.troubles == 2
    with pytest.raises(OSError, match="No such file"):
        shim.write_artifact(tmp_path / "missing" / "a.txt", "one")  # the old code's own trouble is its own


def test_a_shim_that_is_off_does_nothing(old: Old, tmp_path: Path) -> None:
    journal = old.path / ".catalog" / "tuples.jsonl"
    off = old.options(enabled=False)
    with TupleLog(**off) as log, ArtifactShim(**off) as shim, log.unit("agent.lint.ruff"):
        shim.write_artifact(tmp_path / "a.txt", "one")
    assert not journal.exists()
    assert (tmp_path / "a.txt").read_text() == "one"


KILLED = """
import sys, time
from engrambus.adapters.migration import TupleLog
with TupleLog(sys.argv[1], orchestrator="old", strict=True) as log, log.unit("agent.lint.ruff"):
    open(sys.argv[2], "w").close()
    time.sleep(600)
"""


def test_a_killed_unit_is_seen_and_ended_by_the_next_start(old: Old, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    environment = {**os.environ, "HOME": str(old.settings.home), "PYTHONPATH": str(SOURCE)}
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(old.path), str(begun)], env=environment)
    wait_until(begun.exists, 60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with Bus.open(old.path, settings=old.settings) as bus:
        (lost,) = [bus.tuple_rd(lane="migration").tuple["id"]]
    with TupleLog(**old.options()) as log, log.unit("agent.lint.ruff"):
        pass
    assert log.lost == [lost]
    found = gather_evidence(old.path, orchestrator="old", settings=old.settings)
    assert (found.units, found.units_lost, found.units_failed) == (1, 1, 0)
    assert old.troubles == []


# Flags


def test_each_flag_can_be_switched_by_itself() -> None:
    for item in STEPS:
        only = MigrationFlags.from_mapping({f"MIGRATION_{item.flag.upper()}": "on", "PATH": "/bin"})
        assert [step.flag for step in STEPS if getattr(only, step.flag)] == [item.flag]
        assert MigrationFlags.up_to(item.number) != MigrationFlags.up_to(item.number - 1)
    assert MigrationFlags.from_mapping({"MIGRATION_EMIT": "off"}) == MigrationFlags() == MigrationFlags.up_to(0)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"MIGRATION_EMITT": "on"}, "MIGRATION_EMITT"),
        ({"MIGRATION_EMIT": "perhaps"}, "MIGRATION_EMIT"),
        ({"MIGRATION_EMIT": 2}, "MIGRATION_EMIT"),
    ],
)
def test_a_flag_that_is_wrong_is_refused(values: dict[str, object], field: str) -> None:
    with pytest.raises(EngramBusError) as caught:
        MigrationFlags.from_mapping(values)
    assert caught.value.field == field
    with pytest.raises(EngramBusError):
        MigrationFlags.up_to(11)


def test_flags_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "flags.yaml"
    file.write_text("dual_read: on\nemit: true\nworkers: off\n")
    assert MigrationFlags.from_file(file) == MigrationFlags(dual_read=True, emit=True)
    for wrong in ("dual_reed: on\n", "- emit\n", "emit: maybe\n"):
        file.write_text(wrong)
        with pytest.raises(EngramBusError):
            MigrationFlags.from_file(file)


def test_standing_says_which_step_and_whether_the_next_may_be_taken() -> None:
    assert standing(MigrationFlags(), MigrationEvidence()).next_step == "1. generate the catalog (catalog)"
    at_two = MigrationFlags(catalog=True, dual_read=True, emit=True)
    unclear = standing(at_two, MigrationEvidence(yools=4, lookups=1204, different=3, lookups_since="T"))
    assert (unclear.step, unclear.may_go_on, unclear.skipped) == (2, False, ("emit",))
    clear = standing(at_two, MigrationEvidence(yools=4, lookups=1204, lookups_since="T"))
    assert clear.may_go_on
    assert str(clear).splitlines()[1] == "evidence: 0 differences in 1,204 look-ups since T"
    assert not standing(at_two, MigrationEvidence(yools=4)).may_go_on  # nothing was compared yet
    end = standing(MigrationFlags.up_to(10), MigrationEvidence())
    assert (end.step, end.next_step) == (10, None)
    for item in STEPS[:-1]:
        nothing = standing(MigrationFlags.up_to(item.number), MigrationEvidence())
        assert nothing.may_go_on == (item.flag == "mcp")
