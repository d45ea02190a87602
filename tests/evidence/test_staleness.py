"""Pointed lines at a later commit: the same, moved, changed, or gone."""  # EB-27

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.core import digest
from engrambus.evidence.pointers import STALE, EvidenceState, GitRepository, Pointer, Repositories, StalenessChecker
from tests.projects import Repository, commit_files, make_repository

LINES = [f"line {number} of the parser\n" for number in range(1, 31)]


@pytest.fixture
def checker(repository: Repository) -> StalenessChecker:
    """A checker of the repository's pointers."""
    return StalenessChecker(Repositories(GitRepository(repository.path)))


def pointer(repository: Repository, path: str = "src/parser.py#L10-L12") -> Pointer:
    """Return a pointer at the first commit, by default to three lines of the parser."""
    return Pointer(type="repo", ref=f"repo:{path}@{repository.sha}")


@pytest.mark.parametrize(
    ("text", "staleness"),
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
def test_lines_are_compared_with_a_later_commit(
    repository: Repository, checker: StalenessChecker, text: str | None, staleness: str
) -> None:
    head = commit_files(repository.path, {"src/parser.py": text, "src/other.py": "x\n"})
    assert checker.check(pointer(repository), head) == EvidenceState(state=staleness)  # type: ignore[arg-type]
    assert checker.check(pointer(repository), repository.sha) == EvidenceState(state="same")


def test_a_pointer_to_a_file_is_the_same_or_changed(repository: Repository, checker: StalenessChecker) -> None:
    head = commit_files(repository.path, {"docs/design.md": "# Design\n"})
    assert checker.check(pointer(repository, "docs/design.md"), head) == EvidenceState(state="changed")
    assert checker.check(pointer(repository, "src/parser.py"), head) == EvidenceState(state="same")


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
def test_pointers_that_cannot_be_compared_have_no_staleness(
    repository: Repository, checker: StalenessChecker, ref: str
) -> None:
    assert checker.check(Pointer(type="repo", ref=ref), repository.sha) is None


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """One repository that gets a commit with every example."""
    return make_repository(tmp_path_factory.mktemp("staleness") / "repository")


@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, 30), added=st.lists(st.sampled_from(["", "a", "line 10 of the parser"]), max_size=4))
def test_evidence_is_stale_exactly_if_the_lines_are_nowhere_in_the_file(
    shared: Repository, cut: int, added: list[str]
) -> None:
    assert {"changed", "gone"} == STALE
    text = "".join([*LINES[cut:], *(line + "\n" for line in added)])
    head = commit_files(shared.path, {"src/parser.py": text, "mark.txt": digest(text.encode()) + "\n"})
    staleness = StalenessChecker(Repositories(GitRepository(shared.path))).check(pointer(shared), head)
    assert staleness is not None
    assert staleness.is_stale == ("".join(LINES[9:12]) not in text)
