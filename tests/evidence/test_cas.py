"""Bodies stored by digest."""  # EB-04

from __future__ import annotations

import errno
import io
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import digest
from engrambus.errors import EngramBusError
from engrambus.evidence.receipts import BodyFolder


def body_file(root: Path, name: str) -> Path:
    return root / name[7:9] / name[9:]


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(EngramBusError) as caught:
        action()
    return caught.value.code


@pytest.mark.parametrize("body", [b"", b"x", os.urandom(3_000_000)])
def test_a_body_is_read_by_its_digest(tmp_path: Path, body: bytes) -> None:
    store = BodyFolder(tmp_path / "cas")
    name = store.put(body)
    assert name == digest(body)
    assert store.get(name) == body
    assert store.put(body) == store.put(io.BytesIO(body)) == name
    assert body_file(tmp_path / "cas", name).read_bytes() == body
    files = [path for path in (tmp_path / "cas").rglob("*") if path.is_file()]
    assert files == [body_file(tmp_path / "cas", name)]


def test_absent_bodies_and_malformed_digests_are_refused(tmp_path: Path) -> None:
    store = BodyFolder(tmp_path / "cas")
    assert code_of(lambda: store.get(digest(b"x"))) == "BODY_NOT_FOUND"
    store.put(b"y")
    assert code_of(lambda: store.get(digest(b"x"))) == "BODY_NOT_FOUND"
    for name in ("", "sha256:..", "../../etc/passwd", digest(b"y").upper(), digest(b"y")[7:]):
        assert code_of(lambda name=name: store.get(name)) == "POINTER_SYNTAX"  # type: ignore[misc]


def test_a_damaged_body_is_refused_until_it_is_put_again(tmp_path: Path) -> None:
    store = BodyFolder(tmp_path)
    name = store.put(b"true")
    for damage in (b"fake", b"tru", b"true!", b""):
        body_file(tmp_path, name).chmod(0o600)
        body_file(tmp_path, name).write_bytes(damage)
        assert code_of(lambda: store.get(name)) == "OBJECT_DAMAGED"
        assert store.put(b"true") == name
        assert store.get(name) == b"true"


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    store = BodyFolder(tmp_path / "cas")
    name = store.put(b"x")
    file = body_file(tmp_path / "cas", name)
    (tmp_path / "aside").write_bytes(b"x")
    file.unlink()
    file.symlink_to(tmp_path / "aside")
    assert code_of(lambda: store.get(name)) == "LINK_REFUSED"
    file.unlink()
    os.mkfifo(file)
    assert code_of(lambda: store.get(name)) == "NOT_A_FILE"
    file.unlink()
    file.mkdir()
    assert code_of(lambda: store.get(name)) == "NOT_A_FILE"
    file.rmdir()
    folder = file.parent
    folder.rmdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / file.name).write_bytes(b"x")
    folder.symlink_to(tmp_path / "other")
    assert code_of(lambda: store.get(name)) == "LINK_REFUSED"


def test_a_body_over_the_limit_is_refused_by_its_size(tmp_path: Path) -> None:
    store = BodyFolder(tmp_path)
    name = store.put(b"12345")
    assert store.get(name, 5) == b"12345"
    assert code_of(lambda: store.get(name, 4)) == "CONTENT_TOO_LARGE"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_full_disk_is_reported_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    store = BodyFolder(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        assert code_of(lambda: store.put(io.BytesIO(b"x") if streamed else b"x")) == "DISK_PRESSURE"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert store.get(store.put(b"x")) == b"x"


def test_threads_put_the_same_body_at_the_same_time(tmp_path: Path) -> None:
    store = BodyFolder(tmp_path)
    names: list[str] = []
    threads = [threading.Thread(target=lambda: names.append(store.put(b"same"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(names) == {digest(b"same")}
    assert len(names) == 8


@pytest.fixture
def disk_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The syncs and renames that were made, in order; a sync with the inode of its file."""
    calls: list[tuple[str, int]] = []
    fsync, rename = os.fsync, os.rename

    def recorded_fsync(descriptor: int) -> None:
        fsync(descriptor)
        calls.append(("sync", os.fstat(descriptor).st_ino))

    def recorded_rename(*args: Any, **options: Any) -> None:
        rename(*args, **options)
        calls.append(("rename", 0))

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "rename", recorded_rename)
    return calls


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a disk is synced by another call")
@pytest.mark.parametrize("make_body", [lambda: b"body", lambda: io.BytesIO(b"body")], ids=["bytes", "stream"])
def test_a_body_is_synced_before_it_gets_its_name(
    tmp_path: Path, disk_calls: list[tuple[str, int]], make_body: Callable[[], bytes | io.BytesIO]
) -> None:
    store = BodyFolder(tmp_path / "cas")
    file = body_file(tmp_path / "cas", store.put(make_body()))
    body, folder, root = (path.stat().st_ino for path in (file, file.parent, tmp_path / "cas"))
    assert [call for call in disk_calls if call != ("sync", root)] == [("sync", body), ("rename", 0), ("sync", folder)]
    assert ("sync", root) in disk_calls, "the folder is new, so its own entry must be synced"
    disk_calls.clear()
    store.put(make_body())  # the process that wrote it may not have synced it yet
    body = file.stat().st_ino
    assert [call for call in disk_calls if call[0] == "sync"] == [("sync", body), ("sync", folder)]
