"""Bodies kept by digest."""  # EB-04

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
from engrambus.evidence.receipts import BodyStore


def place(root: Path, name: str) -> Path:
    return root / name[7:9] / name[9:]


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(EngramBusError) as caught:
        action()
    return caught.value.code


@pytest.mark.parametrize("body", [b"", b"x", os.urandom(3_000_000)])
def test_a_body_comes_back_by_its_digest(tmp_path: Path, body: bytes) -> None:
    store = BodyStore(tmp_path / "cas")
    name = store.put(body)
    assert name == digest(body)
    assert store.get(name) == body
    assert store.put(body) == store.put(io.BytesIO(body)) == name
    assert place(tmp_path / "cas", name).read_bytes() == body
    left = [path for path in (tmp_path / "cas").rglob("*") if path.is_file()]
    assert left == [place(tmp_path / "cas", name)]


def test_what_is_absent_or_no_digest_is_said_so(tmp_path: Path) -> None:
    store = BodyStore(tmp_path / "cas")
    assert code_of(lambda: store.get(digest(b"x"))) == "BODY_NOT_FOUND"
    store.put(b"y")
    assert code_of(lambda: store.get(digest(b"x"))) == "BODY_NOT_FOUND"
    for name in ("", "sha256:..", "../../etc/passwd", digest(b"y").upper(), digest(b"y")[7:]):
        assert code_of(lambda name=name: store.get(name)) == "POINTER_SYNTAX"  # type: ignore[misc]


def test_a_damaged_body_is_never_given_and_is_mended_by_putting_it_again(tmp_path: Path) -> None:
    store = BodyStore(tmp_path)
    name = store.put(b"true")
    for damage in (b"fake", b"tru", b"true!", b""):
        place(tmp_path, name).chmod(0o600)
        place(tmp_path, name).write_bytes(damage)
        assert code_of(lambda: store.get(name)) == "OBJECT_DAMAGED"
        assert store.put(b"true") == name
        assert store.get(name) == b"true"


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    store = BodyStore(tmp_path / "cas")
    name = store.put(b"x")
    file = place(tmp_path / "cas", name)
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
    store = BodyStore(tmp_path)
    name = store.put(b"12345")
    assert store.get(name, 5) == b"12345"
    assert code_of(lambda: store.get(name, 4)) == "CONTENT_TOO_LARGE"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_full_disk_is_said_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    store = BodyStore(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        assert code_of(lambda: store.put(io.BytesIO(b"x") if streamed else b"x")) == "DISK_PRESSURE"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert store.get(store.put(b"x")) == b"x"


def test_many_may_put_the_same_body_at_once(tmp_path: Path) -> None:
    store = BodyStore(tmp_path)
    names: list[str] = []
    threads = [threading.Thread(target=lambda: names.append(store.put(b"same"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(names) == {digest(b"same")}
    assert len(names) == 8


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is synced and renamed, in order; each by the file it is."""
    calls: list[tuple[str, int]] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(descriptor: int) -> None:
        fsync(descriptor)
        calls.append(("sync", os.fstat(descriptor).st_ino))

    def noted_rename(*args: Any, **more: Any) -> None:
        rename(*args, **more)
        calls.append(("rename", 0))

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    return calls


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a disk is synced by another call")
@pytest.mark.parametrize("given", [lambda: b"body", lambda: io.BytesIO(b"body")], ids=["bytes", "stream"])
def test_a_body_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, done: list[tuple[str, int]], given: Callable[[], bytes | io.BytesIO]
) -> None:
    store = BodyStore(tmp_path / "cas")
    file = place(tmp_path / "cas", store.put(given()))
    body, folder, root = (each.stat().st_ino for each in (file, file.parent, tmp_path / "cas"))
    assert [each for each in done if each != ("sync", root)] == [("sync", body), ("rename", 0), ("sync", folder)]
    assert ("sync", root) in done, "the folder is new, and an entry of its own"
    done.clear()
    store.put(given())  # whoever wrote it may not have come to the sync yet
    body = file.stat().st_ino
    assert [each for each in done if each[0] == "sync"] == [("sync", body), ("sync", folder)]
