"""Receipts as files: however many write them at once, each lies there whole. # YT-08"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from engrambus.evidence.receipts import Receipt, ReceiptFolder, new_receipt
from tests.space.shop import open_shop, step


def receipts(count: int) -> list[tuple[int, Receipt]]:
    """Some receipts with their numbers."""
    at = "2026-05-19T17:30:00Z"
    return [
        (
            number,
            new_receipt(yool="agent.sum.numbers", tuple_id=f"sha256:{number:064x}", started_at=at, ended_at=at, exit=0),
        )
        for number in range(1, count + 1)
    ]


def test_those_who_write_the_same_receipts_at_once_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits before it renames until the other has come as far: as two threads of a worker can meet."""
    some = receipts(20)
    meeting = threading.Barrier(2)
    rename = Path.rename

    def rename_together(self: Path, target: Path) -> Path:
        meeting.wait(30)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_together)

    def numbered(after: int, limit: int) -> Iterable[tuple[int, Receipt]]:
        return [each for each in some if each[0] > after][:limit]

    problems: list[BaseException] = []

    def write() -> None:
        try:
            ReceiptFolder(tmp_path / "receipts").catch_up(numbered, batch=500)
        except BaseException as problem:
            problems.append(problem)
            meeting.abort()

    writers = [threading.Thread(target=write) for _ in range(2)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert problems == []
    folder = ReceiptFolder(tmp_path / "receipts")
    assert all(json.loads(folder.path(each.id).read_bytes())["id"] == each.id for _, each in some)
    kept = {folder.path(each.id) for _, each in some} | {tmp_path / "receipts/.written"}
    assert {each for each in (tmp_path / "receipts").rglob("*") if each.is_file()} == kept


@pytest.mark.parametrize("at_once", [2, 500])
def test_whoever_is_cut_short_leaves_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """How far it came is noted when the files lie there, and they are not written again."""
    some, folder = receipts(5), ReceiptFolder(tmp_path / "receipts")
    asked: list[int] = []
    rename = Path.rename

    def numbered(after: int, limit: int) -> Iterable[tuple[int, Receipt]]:
        asked.append(after)
        return [each for each in some if each[0] > after][:limit]

    def rename_others(self: Path, target: Path) -> Path:
        if target == folder.path(some[3][1].id):
            raise OSError("no room")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename_others)
        with pytest.raises(OSError, match="no room"):
            folder.catch_up(numbered, batch=at_once)
    folder.catch_up(numbered, batch=at_once)
    assert all(folder.path(each.id).exists() for _, each in some)
    asked.clear()
    assert folder.catch_up(numbered, batch=at_once) == 0
    assert asked == [4], "it begins where it had come to"


def test_a_worker_that_has_ended_does_nothing_more(tmp_path: Path) -> None:
    with open_shop(tmp_path / "project") as shop:
        shop.put(step("agent.sum.numbers", a=1, b=2))
        pool = shop.pool()
        pool.run(until_empty=True)
        assert not [each for each in threading.enumerate() if each.name == "heartbeat"]
