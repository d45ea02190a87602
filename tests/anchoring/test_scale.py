"""On 10,000 files a lookup reads a file or two, and a new commit costs what is new in it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engrambus.evidence.anchoring import Anchors
from engrambus.evidence.pointers import Repositories
from tests.anchoring.conftest import CountingRepository
from tests.anchoring.generated import FILES, HEADER, Large, make_large, source
from tests.evidence.repos import Repo


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Large, CountingRepository, Anchors]]:
    """A repository of 10,000 files, and its index."""
    folder = tmp_path_factory.mktemp("large")
    made = make_large(Repo(folder / "repo"))
    with closing(CountingRepository(made.repo.path)) as repository:
        news: list[tuple[int, int]] = []
        with closing(
            Anchors(Repositories(repository), folder / "anchors.db", lambda done, total: news.append((done, total)))
        ) as anchors:
            anchors.find("nothing of the kind is anywhere")
            assert repository.reads == FILES
            assert news[-1] == (FILES, FILES)
            yield made, repository, anchors


def test_a_lookup_reads_one_file(large: tuple[Large, CountingRepository, Anchors]) -> None:
    made, repository, anchors = large
    chosen = random.Random(7)
    before, lookups = repository.reads, 50
    for number in chosen.sample(range(FILES), lookups):
        lines = source(number).split("\n")
        start = 6 + 6 * chosen.randrange(3)
        found = anchors.find("\n".join(f"> {line}" for line in lines[start : start + 10]))
        assert found.pointer is not None
        assert found.pointer.ref == f"repo:{made.path(number)}#L{start + 1}-L{start + 10}@{made.commit}"
    assert repository.reads - before <= lookups


def test_what_every_file_holds_is_not_read_in_every_file(large: tuple[Large, CountingRepository, Anchors]) -> None:
    _, repository, anchors = large
    before = repository.reads
    assert len(anchors.find(HEADER).candidates) == 8
    assert repository.reads - before <= 9


def test_what_is_nowhere_costs_no_reading(large: tuple[Large, CountingRepository, Anchors]) -> None:
    _, repository, anchors = large
    before = repository.reads
    assert anchors.find("def nothing_like_it():\n    raise NotImplementedError\n    # at all\n").matched_lines == 0
    assert repository.reads == before


def test_recognising_reads_few_files(large: tuple[Large, CountingRepository, Anchors]) -> None:
    made, repository, anchors = large
    lines = source(77).split("\n")
    message = "\n".join(["I think that this is it:", *lines[6:14], "and nothing else, as far as I can see."])
    before = repository.reads
    (found,) = anchors.recognise(message)
    assert found.pointer.ref == f"repo:{made.path(77)}#L7-L14@{made.commit}"
    assert repository.reads - before <= 1


def test_a_new_commit_costs_its_new_blobs(large: tuple[Large, CountingRepository, Anchors], tmp_path: Path) -> None:
    made, repository, anchors = large
    fresh = source(FILES + 1)
    commit = made.repo.git("commit-tree", _tree_with(made, fresh), "-p", made.commit, "-m", "One more")
    before = repository.reads
    found = anchors.find("\n".join(fresh.split("\n")[6:10]), revision=commit)
    assert found.pointer is not None
    assert found.pointer.ref == f"repo:zzz.py#L7-L10@{commit}"
    assert repository.reads - before == 2  # once into the index, once to compare


def test_another_process_reads_nothing_anew(large: tuple[Large, CountingRepository, Anchors], tmp_path: Path) -> None:
    made, _, _ = large
    cache = made.repo.path.parent / "anchors.db"
    with closing(CountingRepository(made.repo.path)) as repository:
        with closing(Anchors(Repositories(repository), cache)) as again:
            assert again.find("\n".join(source(5).split("\n")[6:10]), revision=made.commit).pointer is not None
        assert repository.reads == 1


def _tree_with(made: Large, text: str) -> str:
    blob = made.repo.git("hash-object", "-w", "--stdin", given=text.encode())
    listed = made.repo.git("ls-tree", "-z", made.commit).encode()
    return made.repo.git("mktree", "-z", given=listed + f"100644 blob {blob}\tzzz.py\0".encode())
