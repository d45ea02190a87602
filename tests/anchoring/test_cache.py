"""The index of lines may be deleted, damaged, shared or impossible to write: text is found all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from engrambus.evidence.anchoring import Anchors
from engrambus.evidence.pointers import Repositories
from tests.anchoring.conftest import CountingRepository
from tests.anchoring.generated import make_large, source
from tests.evidence.repos import Repo

COUNT = 40
TEXT = "\n".join(source(3).split("\n")[6:10])


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository of some files."""
    return make_large(Repo(tmp_path / "repo"), COUNT).repo


def look(anchors: Anchors) -> None:
    found = anchors.find(TEXT)
    assert found.pointer is not None
    assert "module_00003.py#L7-L10" in found.pointer.ref


def remove(cache: Path) -> None:
    for part in (cache, Path(f"{cache}-wal"), Path(f"{cache}-shm")):
        part.unlink(missing_ok=True)


def truncate(cache: Path) -> None:
    remove(Path(f"{cache}-none"))
    data = cache.read_bytes()
    cache.write_bytes(data[: len(data) // 2])


def scribble(cache: Path) -> None:
    data = bytearray(cache.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    cache.write_bytes(data)


def not_a_database(cache: Path) -> None:
    cache.write_text("this is no database at all, only text\n" * 300)


def empty(cache: Path) -> None:
    cache.write_bytes(b"")


def of_another_layout(cache: Path) -> None:
    with closing(apsw.Connection(str(cache))) as connection:
        connection.execute("PRAGMA user_version = 99")


def without_tables(cache: Path) -> None:
    with closing(apsw.Connection(str(cache))) as connection:
        connection.execute("DROP TABLE line")


HARMS = [remove, truncate, scribble, not_a_database, empty, of_another_layout, without_tables]


@pytest.mark.parametrize("harm", HARMS)
def test_between_two_processes(repo: Repo, tmp_path: Path, harm: Callable[[Path], None]) -> None:
    cache = tmp_path / "anchors.db"
    for _ in range(2):
        with closing(CountingRepository(repo.path)) as repository:
            with closing(Anchors(Repositories(repository), cache)) as anchors:
                look(anchors)
            assert repository.reads >= COUNT
        harm(cache)
    with closing(CountingRepository(repo.path)) as repository:
        with closing(Anchors(Repositories(repository), cache)) as anchors:
            look(anchors)
        with closing(Anchors(Repositories(repository), cache)) as anchors:
            before = repository.reads
            look(anchors)
        assert repository.reads == before + 1  # it was written again, and is used


@pytest.mark.parametrize("harm", [remove, scribble, not_a_database])
def test_while_it_is_in_use(repo: Repo, tmp_path: Path, harm: Callable[[Path], None]) -> None:
    cache = tmp_path / "anchors.db"
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), cache)) as anchors,
    ):
        for _ in range(3):
            look(anchors)
            harm(cache)
        look(anchors)


def test_where_nothing_can_be_written(repo: Repo, tmp_path: Path) -> None:
    nowhere = tmp_path / "file"
    nowhere.write_text("not a folder")
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), nowhere / "anchors.db")) as anchors,
    ):
        look(anchors)
        look(anchors)
        assert repository.reads == COUNT + 1


def test_without_a_place_for_it(repo: Repo) -> None:
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), None)) as anchors,
    ):
        look(anchors)
        assert not list(Path().glob("*memory*"))


PROGRAM = """
import sys
from pathlib import Path
from engrambus.evidence.anchoring import Anchors
from engrambus.evidence.pointers import GitRepository, Repositories

anchors = Anchors(Repositories(GitRepository(sys.argv[1])), Path(sys.argv[2]))
print("ready", flush=True)
for text in sys.stdin.read().split("\\0"):
    print(anchors.find(text).pointer.ref, flush=True)
"""


def test_two_processes_build_it_at_once(tmp_path: Path) -> None:
    large = make_large(Repo(tmp_path / "large"), 1500)
    cache = tmp_path / "anchors.db"
    texts = ["\n".join(source(number).split("\n")[6:10]) for number in (0, 700, 1499)]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(large.repo.path), str(cache)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    with ThreadPoolExecutor() as threads:
        said = list(threads.map(lambda process: process.communicate("\0".join(texts))[0].split(), started))
    assert [process.returncode for process in started] == [0, 0, 0]
    assert said == [[f"repo:{large.path(each)}#L7-L10@{large.commit}" for each in (0, 700, 1499)]] * 3
    with closing(apsw.Connection(str(cache))) as connection:
        assert connection.execute("SELECT count(*) FROM blob").get == 1500
        assert connection.execute("PRAGMA integrity_check").get == "ok"


def test_threads_share_one(repo: Repo, tmp_path: Path) -> None:
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), tmp_path / "anchors.db")) as anchors,
        ThreadPoolExecutor(8) as threads,
    ):
        list(threads.map(lambda _: look(anchors), range(64)))
        assert repository.reads <= COUNT + 8


def test_after_a_fork(repo: Repo, tmp_path: Path) -> None:
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), tmp_path / "anchors.db")) as anchors,
    ):
        look(anchors)
        child = os.fork()
        if child == 0:
            try:
                look(anchors)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        look(anchors)
