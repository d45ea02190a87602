"""A full disk: writes are refused clearly, reads continue, and writes work again once there is room. # BX-03"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from engrambus.backends.sqlite import SqliteStore, connections, journal_index
from engrambus.core.journal import Journal
from engrambus.testing import GatewayClient
from engrambus.testing.harness import KEY
from tests.harness.stores import SqliteHarness

BALLAST = "ballast"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SqliteHarness]:
    harness = SqliteHarness(tmp_path / "catalog")
    yield harness
    harness.close()


def put_until_refused(client: GatewayClient, most: int = 3000) -> tuple[list[str], str]:
    """Put engrams until one is refused; return the acknowledged claims and the code of the refusal."""
    stored: list[str] = []
    for number in range(most):
        code, _ = client.try_call("put_engram", claim=matter(number), pointers=_pointers())
        if code != "ok":
            return stored, code
        stored.append(matter(number))
    raise AssertionError("the disk never filled up")


def matter(number: int) -> str:
    """Return a claim of some length."""
    return (f"Matter number {number} " + "filler " * 40).strip()


NOTES = count(1)


def _pointers() -> list[dict[str, str]]:
    """Return pointers that no other engram has."""
    return [{"type": "sam", "ref": f"sam:note:full-{next(NOTES)}@2026-01-01"}]


def everything(client: GatewayClient) -> list[str]:
    """Return every claim, newest last."""
    claims: list[str] = []
    cursor = None
    while True:
        page = client.query(k=100, cursor=cursor)
        claims += [engram.claim for engram in page.engrams]
        cursor = page.cursor
        if cursor is None:
            return claims[::-1]


def test_writing_resumes_after_a_full_disk_is_cleared(small_disk: Path) -> None:
    harness = SqliteHarness(small_disk / "catalog")
    try:
        client = GatewayClient(harness)
        (small_disk / BALLAST).write_bytes(bytes(400_000))
        stored, code = put_until_refused(client)
        assert code == "DISK_PRESSURE"
        assert len(stored) > 20
        for _ in range(3):
            assert client.try_call("put_engram", claim="Not stored", pointers=_pointers())[0] == "DISK_PRESSURE"
            assert everything(client) == stored
        (small_disk / BALLAST).unlink()
        client.put("Stored again")
        assert everything(client) == [*stored, "Stored again"]
        harness.reopen()
        assert everything(client) == [*stored, "Stored again"]
    finally:
        harness.close()


def test_a_disk_full_to_the_last_byte(small_disk: Path) -> None:
    """Other files take the last byte at any moment; nothing acknowledged is lost."""
    harness = SqliteHarness(small_disk / "catalog")
    stored: list[str] = []
    try:
        client = GatewayClient(harness)
        for step in range(12):
            _fill(small_disk / BALLAST)
            for number in range(3):
                claim = f"Matter {step} {number}"
                code, _ = client.try_call("put_engram", claim=claim, pointers=_pointers())
                assert code in ("ok", "DISK_PRESSURE")
                if code == "ok":
                    stored.append(claim)
            assert everything(client) == stored
            (small_disk / BALLAST).unlink()
            client.put(f"Matter {step} after")
            stored.append(f"Matter {step} after")
            assert everything(client) == stored
        (small_disk / BALLAST).unlink(missing_ok=True)
        assert harness.gateway.store.verify() == []
    finally:
        harness.close()


# W5: the last acknowledged engram answered 404; `verify`, and `query` without an index, were refused.
@pytest.mark.parametrize("index", ["open", "closed", "deleted", "damaged"])
def test_everything_acknowledged_is_readable_while_the_disk_is_full(small_disk: Path, index: str) -> None:
    harness = SqliteHarness(small_disk / "catalog")
    try:
        client = GatewayClient(harness)
        stored = [client.put(f"Matter {number}").claim for number in range(5)]
        derived = harness.folder / KEY.derived_folder
        if index != "open":
            harness.close()
        if index == "deleted":
            shutil.rmtree(derived)
        if index == "damaged":
            (derived / "index.db").write_bytes(bytes(8192))
        _fill(small_disk / BALLAST)
        if index != "open":
            harness._open()
        assert client.try_call("put_engram", claim="Not stored", pointers=_pointers())[0] == "DISK_PRESSURE"
        for _ in range(2):
            assert everything(client) == stored
            findings = [finding.what for finding in harness.gateway.store.verify()]
            assert findings == ([] if index == "open" else ["was not compared: the disk is full"])
        assert len(harness.gateway.store.lines_after(0, 100)) == len(stored) + 1
        (small_disk / BALLAST).unlink()
        stored.append(client.put("Stored again").claim)
        assert everything(client) == stored
        assert harness.gateway.store.verify() == []
    finally:
        harness.close()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("written", [0, 1, 100])
def test_a_commit_the_journal_has_no_room_for_is_refused(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch, number: int, written: int
) -> None:
    client = GatewayClient(harness)
    client.put("Alpha before")
    journal_text = harness.journal_bytes()
    real = os.write
    journal = os.stat(harness.folder / "memory.jsonl").st_ino

    def full(descriptor: int, data: Any) -> int:
        if os.fstat(descriptor).st_ino != journal:
            return real(descriptor, data)
        if written and len(data) > written and len(harness.journal_bytes()) == len(journal_text):
            return real(descriptor, data[:written])
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for _ in range(3):
            code, problem = client.try_call("put_engram", claim="Alpha refused", pointers=_pointers())
            assert code == "DISK_PRESSURE"
            assert b"nothing was stored" in problem
            assert client.query_claims("alpha") == ["Alpha before"]
        assert harness.journal_bytes() == journal_text
    client.put("Alpha after")
    assert sorted(client.query_claims("alpha")) == ["Alpha after", "Alpha before"]
    assert harness.gateway.store.verify() == []


def limited(monkeypatch: pytest.MonkeyPatch, room: int) -> Callable[[], None]:
    """Let the index grow only by this many pages; return a function that lifts the limit."""
    real = connections.connect
    opened: list[apsw.Connection] = []

    def connect(path: Path, *, writer: bool = False) -> apsw.Connection:
        connection = real(path, writer=writer)
        if writer:
            pages: Any = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages[0] + room}")
            opened.append(connection)
        return connection

    monkeypatch.setattr(journal_index, "connect", connect)

    def lift() -> None:
        monkeypatch.undo()
        for connection in opened:
            connection.execute("PRAGMA max_page_count = 1000000")

    return lift


@pytest.mark.parametrize("room", [0, 1, 3, 8])
def test_a_commit_the_index_has_no_room_for_is_refused(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    client = GatewayClient(harness)
    client.put("Alpha before")
    lift = limited(monkeypatch, room)
    harness.reopen()
    stored, code = put_until_refused(client)
    assert code == "DISK_PRESSURE"
    for _ in range(3):
        assert client.try_call("put_engram", claim=matter(len(stored)), pointers=_pointers())[0] == "DISK_PRESSURE"
        assert everything(client) == ["Alpha before", *stored]
    lift()
    client.put("Alpha after")
    assert everything(client) == ["Alpha before", *stored, "Alpha after"]
    assert harness.gateway.store.verify() == []


def test_a_synced_commit_is_acknowledged_even_if_the_index_fails_to_commit(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has it on disk; the index catches up later."""
    client = GatewayClient(harness)
    synced = Journal.sync

    def sync_then_full(journal: Journal, cut_to: int | None = None) -> None:
        synced(journal, cut_to)
        store = harness.gateway.store
        assert isinstance(store, SqliteStore)
        assert store.index.writer is not None
        store.index.writer.execute("ROLLBACK")  # what SQLite does when it is out of room

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "sync", sync_then_full)
        client.put("Alpha", id="01KDVP9R000000000000000000")
    assert client.query_claims("alpha") == ["Alpha"]
    assert harness.journal_bytes().count(b"engram.put") == 1
    assert harness.gateway.store.verify() == []
