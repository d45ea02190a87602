"""Text is found even if the index of lines is deleted, damaged, shared or impossible to write."""

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
    """A repository of 40 files."""
    return make_large(Repo(tmp_path / "repo"), COUNT).repo


def check_found(anchors: Anchors) -> None:
    anchor = anchors.find(TEXT)
    assert anchor.pointer is not None
    assert "module_00003.py#L7-L10" in anchor.pointer.ref


def check_sound(cache: Path) -> None:
    with closing(apsw.Connection(str(cache))) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert connection.execute("SELECT count(*) FROM blob").get == COUNT


def remove(cache: Path) -> None:
    for part in (cache, Path(f"{cache}-wal"), Path(f"{cache}-shm")):
        part.unlink(missing_ok=True)


def truncate(cache: Path) -> None:
    remove(Path(f"{cache}-none"))
    data = cache.read_bytes()
    cache.write_bytes(data[: len(data) // 2])


def overwrite(cache: Path) -> None:
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


DAMAGES = [remove, truncate, overwrite, not_a_database, empty, of_another_layout, without_tables]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_cache_damaged_between_two_processes_is_rebuilt(
    repo: Repo, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    cache = tmp_path / "anchors.db"
    for _ in range(2):
        with closing(CountingRepository(repo.path)) as repository:
            with closing(Anchors(Repositories(repository), cache)) as anchors:
                check_found(anchors)
            assert repository.reads >= COUNT
        damage(cache)
    with closing(CountingRepository(repo.path)) as repository:
        with closing(Anchors(Repositories(repository), cache)) as anchors:
            check_found(anchors)
        with closing(Anchors(Repositories(repository), cache)) as anchors:
            reads_before = repository.reads
            check_found(anchors)
        assert repository.reads == reads_before + 1  # only the matching file: the rebuilt cache is used
    check_sound(cache)


@pytest.mark.parametrize(("damage", "rebuilds"), [(remove, 3), (overwrite, 0), (not_a_database, 0)])
def test_a_cache_damaged_while_in_use_is_rebuilt_or_read_on(
    repo: Repo, tmp_path: Path, damage: Callable[[Path], None], rebuilds: int
) -> None:
    cache = tmp_path / "anchors.db"
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), cache)) as anchors,
    ):
        for _ in range(3):
            check_found(anchors)
            damage(cache)
        check_found(anchors)
        # A deleted file is noticed and built again; of an overwritten one SQLite still has the pages it needs.
        assert repository.reads == COUNT * (1 + rebuilds) + 1
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), cache)) as anchors,
    ):
        check_found(anchors)
    check_sound(cache)


def test_a_cache_that_cannot_be_written_is_held_in_memory(repo: Repo, tmp_path: Path) -> None:
    no_folder = tmp_path / "file"
    no_folder.write_text("not a folder")
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), no_folder / "anchors.db")) as anchors,
    ):
        check_found(anchors)
        check_found(anchors)
        assert repository.reads == COUNT + 1


def test_without_a_path_no_file_is_written(repo: Repo) -> None:
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), None)) as anchors,
    ):
        check_found(anchors)
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


def test_three_processes_build_a_cache_at_the_same_time(tmp_path: Path) -> None:
    large = make_large(Repo(tmp_path / "large"), 1500)
    cache = tmp_path / "anchors.db"
    texts = ["\n".join(source(number).split("\n")[6:10]) for number in (0, 700, 1499)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(large.repo.path), str(cache)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    with ThreadPoolExecutor() as threads:
        outputs = list(threads.map(lambda process: process.communicate("\0".join(texts))[0].split(), processes))
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert outputs == [[f"repo:{large.path(number)}#L7-L10@{large.commit}" for number in (0, 700, 1499)]] * 3
    with closing(apsw.Connection(str(cache))) as connection:
        assert connection.execute("SELECT count(*) FROM blob").get == 1500
        assert connection.execute("PRAGMA integrity_check").get == "ok"


def test_threads_share_a_cache(repo: Repo, tmp_path: Path) -> None:
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), tmp_path / "anchors.db")) as anchors,
        ThreadPoolExecutor(8) as threads,
    ):
        list(threads.map(lambda _: check_found(anchors), range(64)))
        assert repository.reads <= COUNT + 8


def test_parent_and_child_find_text_after_a_fork(repo: Repo, tmp_path: Path) -> None:
    with (
        closing(CountingRepository(repo.path)) as repository,
        closing(Anchors(Repositories(repository), tmp_path / "anchors.db")) as anchors,
    ):
        check_found(anchors)
        child = os.fork()
        if child == 0:
            try:
                check_found(anchors)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        check_found(anchors)
