"""Opening our files: no component of a path may be a link, and what is created is private. # EB-32"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engrambus.core import files
from engrambus.errors import FileNotOurs, LinkInCatalog

WAYS: dict[str, Callable[[Path], object]] = {
    "open to read": lambda path: files.open_file(path, os.O_RDONLY),
    "open to write": lambda path: files.open_file(path, os.O_RDWR | os.O_CREAT),
    "append": lambda path: files.open_writer(path, "ab"),
    "write": lambda path: files.open_writer(path, "wb"),
    "create": lambda path: files.open_writer(path, "xb"),
    "read": files.read_file,
    "look": files.is_file,
    "status": files.status_of,
    "list": files.folder_names,
    "make a folder": files.make_folder,
    "make a folder below": lambda path: files.make_folder(path / "new"),
    "make a fifo below": lambda path: files.make_fifo(path / "fifo"),
    "open a fifo": lambda path: files.open_fifo(path, os.O_RDWR),
    "replace below": lambda path: files.replace_file(path / "file", b"ours"),
    "rename below": lambda path: files.rename(path / "file", path / "other"),
    "link below": lambda path: files.link(path / "file", path / "other"),
    "remove below": lambda path: files.remove(path / "file"),
    "sync": files.sync_folder,
    "database": lambda path: files.check_database(path, create=True),
}
BELOW = {name for name in WAYS if name.endswith("below")}


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The most open umask: what is private under it is private under any."""
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a file, to which nothing of ours may lead."""
    folder = tmp_path / "outside"
    (folder / "folder").mkdir(parents=True)
    (folder / "file").write_text("precious")
    (folder / "folder" / "file").write_text("precious")
    return folder


def contents(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None) for path in folder.rglob("*")
    }


@pytest.mark.parametrize("target", ["file", "folder", "absent"])
@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_link_is_refused_by_name(tmp_path: Path, outside: Path, way: str, target: str) -> None:
    link = tmp_path / "catalog" / "link"
    link.parent.mkdir()
    link.symlink_to(outside / target)
    before = contents(outside)
    with pytest.raises((LinkInCatalog, FileExistsError)) as refusal:
        WAYS[way](link)
    assert contents(outside) == before
    if isinstance(refusal.value, LinkInCatalog):
        assert refusal.value.field == str(link)
    else:
        assert way == "create", "a new file may not have the name of a link either"


@pytest.mark.parametrize("way", sorted(WAYS.keys() - BELOW))
def test_a_link_in_the_middle_of_a_path_is_refused_by_name(tmp_path: Path, outside: Path, way: str) -> None:
    link = tmp_path / "catalog"
    link.symlink_to(outside)
    before = contents(outside)
    with pytest.raises(LinkInCatalog) as refusal:
        WAYS[way](link / "folder" / "file")
    assert refusal.value.field == str(link)
    assert contents(outside) == before


@pytest.mark.parametrize("way", ["open to read", "open to write", "append", "write", "read", "look", "database"])
def test_a_fifo_in_the_place_of_a_file_is_refused_without_waiting(tmp_path: Path, way: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FileNotOurs) as refusal:
        WAYS[way](tmp_path / "fifo")
    assert refusal.value.field == str(tmp_path / "fifo")


def test_a_file_in_the_place_of_a_fifo_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(FileNotOurs):
        files.open_fifo(tmp_path / "file", os.O_WRONLY)


@pytest.mark.parametrize("part", ["-wal", "-shm", "-journal"])
def test_the_files_beside_a_database_are_looked_at_too(tmp_path: Path, outside: Path, part: str) -> None:
    (tmp_path / f"index.db{part}").symlink_to(outside / "file")
    with pytest.raises(LinkInCatalog) as refusal:
        files.check_database(tmp_path / "index.db", create=True)
    assert refusal.value.field == f"{tmp_path}/index.db{part}"


def test_a_file_with_a_name_elsewhere_is_read_but_not_written(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "catalog").mkdir()
    inside = tmp_path / "catalog" / "file"
    os.link(outside / "file", inside)
    assert files.read_file(inside) == b"precious"
    with pytest.raises(FileNotOurs, match="second name"):
        files.open_writer(inside, "wb")
    assert (outside / "file").read_text() == "precious", "it is emptied only after the check"


def test_a_file_with_two_names_in_one_folder_is_written(tmp_path: Path) -> None:
    """A journal has two while it is created, and while a new segment begins."""
    (tmp_path / "draft").write_text("a")
    os.link(tmp_path / "draft", tmp_path / "journal")
    with files.open_writer(tmp_path / "journal", "ab") as file:
        file.write(b"b")
    assert (tmp_path / "draft").read_text() == "ab"


def test_what_is_created_is_private_under_any_umask(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert files.make_folder(folder)
    assert not files.make_folder(folder)
    files.open_writer(folder / "file", "xb").close()
    files.replace_file(folder / "replaced", b"ours")
    files.check_database(folder / "index.db", create=True)
    files.make_fifo(folder / "fifo")
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (tmp_path / "a").rglob("*")}
    assert modes == {"b": 0o700, "file": 0o600, "replaced": 0o600, "index.db": 0o600, "fifo": 0o600}
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_the_hint_quotes_a_name_that_a_repository_chose(tmp_path: Path) -> None:
    """A person pastes the command that the hint shows."""
    (tmp_path / "x; touch owned").symlink_to("/etc/passwd")
    with pytest.raises(LinkInCatalog) as refusal:
        files.read_file(tmp_path / "x; touch owned")
    assert f"rm '{tmp_path}/x; touch owned'" in (refusal.value.hint or "")


def test_no_descriptor_stays_open_after_a_refusal(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "file").write_text("a")
    before = len(os.listdir("/dev/fd"))
    for way in WAYS.values():
        for name in ("link", "link/folder", "file/inside"):
            with suppress(LinkInCatalog, FileNotOurs, OSError):
                way(tmp_path / name)
    assert len(os.listdir("/dev/fd")) == before
