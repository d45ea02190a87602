"""Receipts as files: several writers at once leave complete files. # YT-08"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from engrambus.evidence.receipts import Receipt, ReceiptFolder, ReceiptLookup, new_receipt
from engrambus.settings import Settings
from tests.projects import Repository
from tests.space.terminal import WORK, Terminal, open_terminal
from tests.space.worker_harness import open_worker_harness, step


def receipts(count: int) -> list[tuple[int, Receipt]]:
    """Return numbered receipts."""
    time = "2026-05-19T17:30:00Z"
    return [
        (
            number,
            new_receipt(
                yool="agent.sum.numbers",
                tuple_id=f"sha256:{number:064x}",
                started_at=time,
                ended_at=time,
                exit=0,
            ),
        )
        for number in range(1, count + 1)
    ]


def lookup(numbered_receipts: list[tuple[int, Receipt]], positions: list[int] | None = None) -> ReceiptLookup:
    """Return what looks receipts up; the positions from which they are read are added to a list."""

    def after(position: int, limit: int) -> list[tuple[int, Receipt]]:
        if positions is not None:
            positions.append(position)
        return [row for row in numbered_receipts if row[0] > position][:limit]

    by_id = {receipt.id: receipt for _, receipt in numbered_receipts}
    return ReceiptLookup(
        lambda digits: [id for id in by_id if id[7:].startswith(digits)], lambda ids: map(by_id.__getitem__, ids), after
    )


def test_two_writers_of_the_same_receipts_do_not_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits before it renames until the other is there too, as two threads of a worker may."""
    numbered_receipts = receipts(20)
    barrier = threading.Barrier(2)
    rename = os.rename

    def rename_together(source: str, target: str, **folders: int) -> None:
        barrier.wait(30)
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", rename_together)

    problems: list[BaseException] = []

    def write() -> None:
        try:
            ReceiptFolder(tmp_path / "receipts", tmp_path / "written").catch_up(lookup(numbered_receipts), batch=500)
        except BaseException as problem:
            problems.append(problem)
            barrier.abort()

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert problems == []
    folder = ReceiptFolder(tmp_path / "receipts", tmp_path / "written")
    assert all(json.loads(folder.path(receipt.id).read_bytes())["id"] == receipt.id for _, receipt in numbered_receipts)
    expected = {folder.path(receipt.id) for _, receipt in numbered_receipts}
    assert {path for path in (tmp_path / "receipts").glob("*/*") if path.is_file()} == expected


@pytest.mark.parametrize("batch", [2, 500])
def test_an_interrupted_writer_leaves_no_receipt_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """The position is noted after the files are written, and they are not written again."""
    numbered_receipts, folder = receipts(5), ReceiptFolder(tmp_path / "receipts", tmp_path / "written")
    positions: list[int] = []
    rename = os.rename

    def rename_others(source: str, target: str, **folders: int) -> None:
        if target == folder.path(numbered_receipts[3][1].id).name:
            raise OSError("disk full")
        rename(source, target, **folders)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename_others)
        with pytest.raises(OSError, match="disk full"):
            folder.catch_up(lookup(numbered_receipts, positions), batch=batch)
    folder.catch_up(lookup(numbered_receipts, positions), batch=batch)
    assert all(folder.path(receipt.id).exists() for _, receipt in numbered_receipts)
    positions.clear()
    assert folder.catch_up(lookup(numbered_receipts, positions), batch=batch) == 0
    assert positions == [4], "it begins at the noted position"


def test_files_that_a_power_cut_has_torn_are_written_again_after_the_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not synced. Before the restart, and once they were compared after it, a damaged one is a finding."""
    numbered_receipts, folder = receipts(5), ReceiptFolder(tmp_path / "receipts", tmp_path / "written")

    folder.catch_up(lookup(numbered_receipts))
    torn = folder.path(numbered_receipts[2][1].id)
    content = torn.read_bytes()
    torn.write_bytes(content[:100] + bytes(200))
    assert [path for path, _ in folder.differences(lookup(numbered_receipts))] == [torn]
    monkeypatch.setattr("engrambus.evidence.receipts.folder.boot_id", lambda: "another")
    assert list(folder.differences(lookup(numbered_receipts))) == []
    folder.catch_up(lookup(numbered_receipts))
    assert torn.read_bytes() == content
    torn.write_bytes(content[:100] + bytes(200))
    assert [path for path, _ in folder.differences(lookup(numbered_receipts))] == [torn]
    monkeypatch.setattr("engrambus.evidence.receipts.folder.boot_id", lambda: "a third")
    assert [path for path, _ in folder.differences(lookup(numbered_receipts))] == [torn], "it was on disk whole"


def test_a_worker_that_has_ended_leaves_no_thread(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project") as harness:
        harness.put(step("agent.sum.numbers", a=1, b=2))
        pool = harness.pool()
        pool.run(until_empty=True)
        assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat"]


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project in which a step was executed."""
    terminal = open_terminal(repository, settings, tmp_path, "tests.space.yools")
    terminal.run("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2")
    terminal.run(*WORK)
    return terminal


def step_file(terminal: Terminal) -> tuple[str, Path]:
    """Return id and file of the step's receipt."""
    (row,) = terminal.json("receipt", "list")["receipts"]
    return row["id"], terminal.path / ".catalog/receipts" / row["id"][7:9] / f"{row['id'][9:]}.json"


DIFFERS, MISSING = "a receipt differs from the journal", "the file of a receipt is missing"


# YT-08: whoever looks at a receipt notices that its file was edited or deleted, and writes it again.
@pytest.mark.parametrize("command", ["get", "verify"])
@pytest.mark.parametrize("problem", [DIFFERS, MISSING])
def test_a_changed_file_is_noticed_with_the_receipt(terminal: Terminal, command: str, problem: str) -> None:
    receipt_id, file = step_file(terminal)
    content = file.read_bytes()
    assert "file" not in terminal.json("receipt", command, receipt_id)
    if problem == DIFFERS:
        file.write_bytes(content.replace(b'"exit": 0', b'"exit": 1'))
    else:
        file.unlink()
    assert f"ts file: {problem}; it was written again" in terminal.run("receipt", command, receipt_id)
    assert file.read_bytes() == content
    answer = terminal.json("receipt", command, receipt_id)
    assert "file" not in answer
    assert answer["sound"] if command == "verify" else answer["receipt"]["exit"] == 0


# YT-08, YT-13
def test_a_collection_writes_changed_files_again(terminal: Terminal) -> None:
    _, file = step_file(terminal)
    content = file.read_bytes()
    forged = file.with_name("0" * 62 + ".json")
    assert terminal.json("gc", "--dry-run")["rewritten"] == 0
    file.write_bytes(content.replace(b'"exit": 0', b'"exit": 1'))
    forged.write_bytes(content)
    assert terminal.json("gc", "--dry-run")["rewritten"] == 2
    assert forged.exists()
    assert "2 receipts were not as files as in the journal and are written again." in terminal.run("gc")
    assert (file.read_bytes(), forged.exists()) == (content, False)
    assert terminal.run("verify").startswith("sound")


# YT-08
def test_a_file_that_cannot_be_written_again_is_reported(terminal: Terminal) -> None:
    receipt_id, file = step_file(terminal)
    file.unlink()
    file.mkdir()
    (file / "in the way").touch()
    process = terminal.start("receipt", "verify", receipt_id)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "could not be written again" in printed
    assert terminal.json("receipt", "get", receipt_id)["receipt"]["exit"] == 0, "the journal has it all the same"
