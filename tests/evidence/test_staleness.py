"""How pointed lines stand after the file went on: as they were, moved, changed, or gone."""  # EB-27

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.core import digest
from engrambus.evidence.pointers import STALE, GitRepository, Pointer, Repositories, StalenessChecker
from tests.projects import Repository, commit_files, make_repository

LINES = [f"line {number} of the parser\n" for number in range(1, 31)]


@pytest.fixture
def standings(repository: Repository) -> StalenessChecker:
    """The standings of a repository's pointers."""
    return StalenessChecker(Repositories(GitRepository(repository.path)))


def pointer(repository: Repository, place: str = "src/parser.py#L10-L12") -> Pointer:
    """Three lines of the parser at the first commit."""
    return Pointer(type="repo", ref=f"repo:{place}@{repository.sha}")


@pytest.mark.parametrize(
    ("text", "standing"),
    [
        ("".join(LINES), "same"),
        ("".join(LINES) + "more\n", "same"),
        ("# a new first line\n" + "".join(LINES), "moved"),
        ("".join(LINES[9:12]), "moved"),
        ("".join(LINES[9:12]).rstrip("\n"), "moved"),
        ("".join(LINES).replace("line 11", "line eleven"), "changed"),
        ("".join(LINES).replace("line 12 of the parser", "line 12 of the parser!"), "changed"),
        ("".join(LINES).replace("line 10", "the line 10"), "changed"),
        ("", "changed"),
        (None, "gone"),
    ],
)
def test_lines_that_stay_move_change_or_go(
    repository: Repository, standings: StalenessChecker, text: str | None, standing: str
) -> None:
    head = commit_files(repository.path, {"src/parser.py": text, "src/other.py": "x\n"})
    assert standings.check(pointer(repository), head) == standing
    assert standings.check(pointer(repository), repository.sha) == "same"


def test_a_whole_file_is_the_same_or_changed(repository: Repository, standings: StalenessChecker) -> None:
    head = commit_files(repository.path, {"docs/design.md": "# Design\n"})
    assert standings.check(pointer(repository, "docs/design.md"), head) == "changed"
    assert standings.check(pointer(repository, "src/parser.py"), head) == "same"


@pytest.mark.parametrize(
    "ref",
    [
        "sam:note:anything@v1",
        "artifact:docs/design.md@v1",
        "repo:elsewhere/x.py@0123456789012345678901234567890123456789",
        "javascript:alert(1)",
        "",
    ],
)
def test_what_cannot_be_judged_is_not(repository: Repository, standings: StalenessChecker, ref: str) -> None:
    assert standings.check(Pointer(type="repo", ref=ref), repository.sha) is None


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """One repository that goes on and on."""
    return make_repository(tmp_path_factory.mktemp("standing") / "repository")


@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, 30), added=st.lists(st.sampled_from(["", "a", "line 10 of the parser"]), max_size=4))
def test_stale_exactly_when_the_lines_stand_nowhere_any_more(shared: Repository, cut: int, added: list[str]) -> None:
    assert {"changed", "gone"} == STALE
    text = "".join([*LINES[cut:], *(line + "\n" for line in added)])
    head = commit_files(shared.path, {"src/parser.py": text, "mark.txt": digest(text.encode()) + "\n"})
    standing = StalenessChecker(Repositories(GitRepository(shared.path))).check(pointer(shared), head)
    assert (standing in STALE) == ("".join(LINES[9:12]) not in text)
