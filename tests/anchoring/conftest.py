"""A repository, and a finder of text in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from engrambus.evidence.anchoring import Anchors
from engrambus.evidence.pointers import GitRepository, Repositories
from tests.evidence.repos import Repo

MakeAnchors = Callable[[Repo], Anchors]


class CountingRepository(GitRepository):
    """A repository that counts the blobs it is asked for."""

    reads = 0

    def blob(self, blob_id: str) -> bytes:
        """Read a blob and count it."""
        self.reads += 1
        return super().blob(blob_id)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """An empty repository."""
    return Repo(tmp_path / "repo")


@pytest.fixture
def make_anchors(tmp_path: Path) -> Iterator[MakeAnchors]:
    """Return a function that opens a finder of text in a repository."""
    with ExitStack() as stack:

        def make(repo: Repo) -> Anchors:
            repository = stack.enter_context(closing(GitRepository(repo.path)))
            return stack.enter_context(closing(Anchors(Repositories(repository), tmp_path / "anchors.db")))

        yield make
