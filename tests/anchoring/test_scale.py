"""With 10,000 files a search reads one or two, and a new commit costs only its new blobs."""

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
    generated = make_large(Repo(folder / "repo"))
    with closing(CountingRepository(generated.repo.path)) as repository:
        progress: list[tuple[int, int]] = []
        with closing(
            Anchors(Repositories(repository), folder / "anchors.db", lambda done, total: progress.append((done, total)))
        ) as anchors:
            anchors.find("nothing of the kind is anywhere")
            assert repository.reads == FILES
            assert progress[-1] == (FILES, FILES)
            yield generated, repository, anchors


def test_a_search_reads_one_file(large: tuple[Large, CountingRepository, Anchors]) -> None:
    files, repository, anchors = large
    generator = random.Random(7)
    reads_before, searches = repository.reads, 50
    for number in generator.sample(range(FILES), searches):
        lines = source(number).split("\n")
        start = 6 + 6 * generator.randrange(3)
        anchor = anchors.find("\n".join(f"> {line}" for line in lines[start : start + 10]))
        assert anchor.pointer is not None
        assert anchor.pointer.ref == f"repo:{files.path(number)}#L{start + 1}-L{start + 10}@{files.commit}"
    assert repository.reads - reads_before <= searches


def test_text_that_every_file_contains_is_read_in_few_files(large: tuple[Large, CountingRepository, Anchors]) -> None:
    _, repository, anchors = large
    reads_before = repository.reads
    assert len(anchors.find(HEADER).candidates) == 8
    assert repository.reads - reads_before <= 9


def test_absent_text_is_searched_without_reading_a_file(large: tuple[Large, CountingRepository, Anchors]) -> None:
    _, repository, anchors = large
    reads_before = repository.reads
    assert anchors.find("def nothing_like_it():\n    raise NotImplementedError\n    # at all\n").matched_lines == 0
    assert repository.reads == reads_before


def test_recognising_reads_few_files(large: tuple[Large, CountingRepository, Anchors]) -> None:
    files, repository, anchors = large
    lines = source(77).split("\n")
    message = "\n".join(["I think that this is it:", *lines[6:14], "and nothing else, as far as I can see."])
    reads_before = repository.reads
    (part,) = anchors.recognise(message)
    assert part.pointer.ref == f"repo:{files.path(77)}#L7-L14@{files.commit}"
    assert repository.reads - reads_before <= 1


def test_a_new_commit_costs_its_new_blobs(large: tuple[Large, CountingRepository, Anchors], tmp_path: Path) -> None:
    files, repository, anchors = large
    fresh = source(FILES + 1)
    commit = files.repo.git("commit-tree", _tree_with(files, fresh), "-p", files.commit, "-m", "One more")
    reads_before = repository.reads
    anchor = anchors.find("\n".join(fresh.split("\n")[6:10]), revision=commit)
    assert anchor.pointer is not None
    assert anchor.pointer.ref == f"repo:zzz.py#L7-L10@{commit}"
    assert repository.reads - reads_before == 2  # once into the index, once to compare


def test_another_process_uses_the_same_cache(large: tuple[Large, CountingRepository, Anchors], tmp_path: Path) -> None:
    files, _, _ = large
    cache = files.repo.path.parent / "anchors.db"
    with closing(CountingRepository(files.repo.path)) as repository:
        with closing(Anchors(Repositories(repository), cache)) as reopened:
            assert reopened.find("\n".join(source(5).split("\n")[6:10]), revision=files.commit).pointer is not None
        assert repository.reads == 1


def _tree_with(files: Large, text: str) -> str:
    blob = files.repo.git("hash-object", "-w", "--stdin", stdin=text.encode())
    entries = files.repo.git("ls-tree", "-z", files.commit).encode()
    return files.repo.git("mktree", "-z", stdin=entries + f"100644 blob {blob}\tzzz.py\0".encode())
