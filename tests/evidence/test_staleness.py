"""Pointed lines at a later commit: the same, moved, changed, or gone."""  # BX-01, EB-27

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from engrambus.evidence.pointers import (
    STALE,
    CompareTarget,
    EvidenceState,
    FileRanges,
    GitRepository,
    Pointer,
    Repositories,
    StalenessChecker,
)
from engrambus.evidence.pointers.alignment_cache import AlignmentCache
from tests.projects import Repository, commit_files, git

LINES = [f"line {number} of the parser\n" for number in range(1, 31)]
OTHER = [f"another text, number {number}, for a file of its own\n" for number in range(1, 31)]


@pytest.fixture
def checker(repository: Repository) -> StalenessChecker:
    """A checker of the repository's pointers."""
    return StalenessChecker(Repositories(GitRepository(repository.path)))


def pointer(repository: Repository, path: str = "src/parser.py#L10-L12", sha: str | None = None) -> Pointer:
    """Return a pointer at the first commit, by default to three lines of the parser."""
    return Pointer(type="repo", ref=f"repo:{path}@{sha or repository.sha}")


def describe(state: EvidenceState | None) -> str:
    """Return a state in one line."""
    if state is None:
        return "none"
    share = f" {state.share}" if state.share is not None else ""
    return f"{state.state}{share}{f' {state.now}' if state.now else ''}"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("".join(LINES), "same"),
        ("".join(LINES) + "more\n", "same"),
        ("# a new first line\n" + "".join(LINES), "moved src/parser.py:11-13"),
        ("".join(LINES[9:12]), "moved src/parser.py:1-3"),
        ("".join(LINES[9:12]).rstrip("\n"), "changed 0.667 src/parser.py:1-2"),
        ("".join(LINES).replace("line 11", "line eleven"), "changed 0.667 src/parser.py:10-12"),
        (
            "".join(LINES).replace("line 12 of the parser", "line 12 of the parser!"),
            "changed 0.667 src/parser.py:10-11",
        ),
        ("".join([*LINES[:11], "between\n", *LINES[11:]]), "changed 1.0 src/parser.py:10-13"),
        ("".join([*LINES[:10], *OTHER, *LINES[10:]]), "changed 1.0 src/parser.py:41-42"),
        ("".join([*LINES[:9], *LINES[12:]]), "gone"),
        ("nothing\n", "gone"),
        ("", "gone"),
        (None, "gone"),
    ],
)
def test_lines_are_compared_with_a_later_commit(
    repository: Repository, checker: StalenessChecker, text: str | None, state: str
) -> None:
    head = commit_files(repository.path, {"src/parser.py": text, "src/other.py": "x\n"})
    assert describe(checker.check(pointer(repository), head)) == state
    assert describe(checker.check(pointer(repository), repository.sha)) == "same"


def test_changed_and_gone_are_stale(repository: Repository, checker: StalenessChecker) -> None:
    assert {"changed", "gone"} == STALE
    head = commit_files(repository.path, {"src/parser.py": "x\n" + "".join(LINES[:10])})
    refs = ("src/parser.py#L1-L10", "src/parser.py#L9-L12", "src/parser.py#L11-L12")
    states = [checker.check(pointer(repository, ref), head) for ref in refs]
    assert [state.is_stale for state in states if state is not None] == [False, True, True]


def test_lines_follow_their_file_when_it_is_renamed_and_edited(
    repository: Repository, checker: StalenessChecker
) -> None:
    git(repository.path, "mv", "src/parser.py", "src/reader.py")
    head = commit_files(repository.path, {"src/reader.py": "# renamed\n" + "".join(LINES)})
    assert describe(checker.check(pointer(repository), head)) == "moved src/reader.py:11-13"
    later = commit_files(repository.path, {"src/reader.py": "".join([*LINES[:10], "new\n", *LINES[11:]])})
    assert describe(checker.check(pointer(repository), later)) == "changed 0.667 src/reader.py:10-12"


def test_lines_follow_to_another_file_in_the_same_commit(repository: Repository, checker: StalenessChecker) -> None:
    files = {"src/parser.py": "".join([*LINES[:5], *LINES[20:]]), "src/part.py": "".join(["import x\n", *LINES[5:20]])}
    head = commit_files(repository.path, files)
    assert describe(checker.check(pointer(repository), head)) == "moved src/part.py:6-8"


def test_an_equal_line_elsewhere_does_not_count(repository: Repository, checker: StalenessChecker) -> None:
    commit_files(repository.path, {"src/parser.py": "".join([*LINES[:9], *LINES[12:]])})
    head = commit_files(repository.path, {"src/copy.py": "".join(LINES)})
    assert describe(checker.check(pointer(repository), head)) == "gone"


def test_a_whole_file_is_the_same_only_if_nothing_was_added(repository: Repository, checker: StalenessChecker) -> None:
    whole = pointer(repository, "src/parser.py")
    assert describe(checker.check(whole, commit_files(repository.path, {"a": "x\n"}))) == "same"
    added = commit_files(repository.path, {"src/parser.py": "".join([*LINES, "more\n"])})
    assert describe(checker.check(whole, added)) == "changed 1.0 src/parser.py:1-30"
    commit_files(repository.path, {"src/parser.py": "".join(LINES)})
    git(repository.path, "mv", "src/parser.py", "src/reader.py")
    assert describe(checker.check(whole, commit_files(repository.path, {}))) == "moved src/reader.py"
    assert describe(checker.check(whole, commit_files(repository.path, {"src/reader.py": None}))) == "gone"


def test_documents_and_their_sections_have_a_state(repository: Repository, checker: StalenessChecker) -> None:
    git(repository.path, "tag", "v1")
    text = (repository.path / "docs/design.md").read_text("utf-8")
    head = commit_files(repository.path, {"docs/design.md": "New.\n\n" + text.replace("Small.", "Large.")})
    states = {
        ref: describe(checker.check(Pointer(type="artifact", ref=f"artifact:docs/design.md{ref}"), head))
        for ref in (
            f"#sec=Parser@{repository.sha}",
            "#sec=Parser@v1",
            f"#sec=Lexer@{repository.sha}",
            f"@{repository.sha}",
        )
    }
    assert states == {
        f"#sec=Parser@{repository.sha}": "moved docs/design.md:7-9",
        "#sec=Parser@v1": "moved docs/design.md:7-9",
        f"#sec=Lexer@{repository.sha}": "changed 0.667 docs/design.md:11-12",
        f"@{repository.sha}": "changed 0.909 docs/design.md:3-12",
    }


def test_commits_that_are_no_ancestors_are_compared_directly(repository: Repository, checker: StalenessChecker) -> None:
    old = commit_files(repository.path, {"src/parser.py": "".join(["# first try\n", *LINES])})
    git(repository.path, "mv", "src/parser.py", "src/reader.py")
    (repository.path / "src/reader.py").write_text("".join(["# second\n", "# try\n", *LINES]), "utf-8")
    git(repository.path, "commit", "-q", "-a", "--amend", "-m", "Amended")
    head = git(repository.path, "rev-parse", "HEAD")
    assert (
        describe(checker.check(pointer(repository, "src/parser.py#L11-L13", old), head)) == "moved src/reader.py:12-14"
    )
    assert (
        describe(checker.check(pointer(repository, "src/parser.py#L1-L3", old), head))
        == "changed 0.667 src/reader.py:3-4"
    )
    # An older commit is no descendant either.
    assert describe(checker.check(pointer(repository, "src/reader.py#L12-L14", head), repository.sha)) == (
        "moved src/parser.py:10-12"
    )


def test_lines_are_followed_through_merges(repository: Repository, checker: StalenessChecker) -> None:
    git(repository.path, "checkout", "-q", "-b", "side")
    commit_files(repository.path, {"src/parser.py": "".join([*LINES[:20], "side\n", *LINES[21:]])})
    git(repository.path, "checkout", "-q", "main")
    commit_files(repository.path, {"src/parser.py": "".join(["# main\n", *LINES])})
    git(repository.path, "merge", "-q", "-m", "Merge", "side")
    head = git(repository.path, "rev-parse", "HEAD")
    assert describe(checker.check(pointer(repository), head)) == "moved src/parser.py:11-13"
    assert describe(checker.check(pointer(repository, "src/parser.py#L20-L22"), head)) == (
        "changed 0.667 src/parser.py:21-23"
    )


def test_where_lines_are_now_is_given_by_file_and_ranges(repository: Repository, checker: StalenessChecker) -> None:
    files = {"src/parser.py": "".join([*LINES[:10], *LINES[25:]]), "src/part.py": "".join(["x\n", *LINES[10:24]])}
    head = commit_files(repository.path, files)
    lines = checker.lines_now(pointer(repository, "src/parser.py#L9-L28"), CompareTarget(head))
    assert lines is not None
    assert lines.files == (
        FileRanges(path="src/parser.py", ranges=((9, 13),)),
        FileRanges(path="src/part.py", ranges=((2, 15),)),
    )
    assert describe(lines.state) == "changed 0.95 src/part.py:2-15"


def test_lines_in_hidden_files_count_as_gone(repository: Repository, checker: StalenessChecker) -> None:
    git(repository.path, "mv", "src/parser.py", "src/hidden.py")
    target = CompareTarget(commit_files(repository.path, {}))
    hidden = checker.check_many([pointer(repository)], target, timeout_s=60, sees=lambda path: path != "src/hidden.py")
    seen = checker.check_many([pointer(repository)], target, timeout_s=60)
    assert [describe(lines.state) for lines in (*hidden, *seen) if lines] == ["gone", "moved src/hidden.py:10-12"]


@pytest.mark.parametrize(
    "ref",
    [
        "sam:note:anything@v1",
        "artifact:docs/design.md@v1",
        "repo:elsewhere//x.py@0123456789012345678901234567890123456789",
        "repo:src/parser.py@0123456789012345678901234567890123456789",
        "repo:src/none.py@{sha}",
        "javascript:alert(1)",
        "",
    ],
)
def test_pointers_that_cannot_be_compared_have_no_state(
    repository: Repository, checker: StalenessChecker, ref: str
) -> None:
    assert checker.check(Pointer(type="repo", ref=ref.format(sha=repository.sha)), repository.sha) is None


# --- continuing from an earlier target, and the cache ---


def advance(repository: Repository) -> list[str]:
    """Make a history of four more commits, and return its commits."""
    heads = [commit_files(repository.path, {"src/parser.py": "".join(["# one\n", *LINES])})]
    git(repository.path, "mv", "src/parser.py", "src/reader.py")
    heads.append(commit_files(repository.path, {"src/other.py": "x\n"}))
    heads.append(commit_files(repository.path, {"src/reader.py": "".join(["# one\n", *LINES[:10], *LINES[11:]])}))
    heads.append(commit_files(repository.path, {"src/other.py": "y\n"}))
    return heads


STATES = [
    "moved src/parser.py:11-13",
    "moved src/reader.py:11-13",
    "changed 0.667 src/reader.py:11-12",
    "changed 0.667 src/reader.py:11-12",
]


def test_each_commit_continues_from_the_last_one(repository: Repository, tmp_path: Path) -> None:
    heads = advance(repository)
    for cache in (None, tmp_path / "alignments.db"):
        checker = StalenessChecker(Repositories(GitRepository(repository.path)), cache)
        assert [describe(checker.check(pointer(repository), head)) for head in heads] == STATES
        checker.close()


def test_another_process_continues_where_the_first_one_ended(repository: Repository, tmp_path: Path) -> None:
    states = []
    for head in advance(repository):
        checker = StalenessChecker(Repositories(GitRepository(repository.path)), tmp_path / "alignments.db")
        states.append(describe(checker.check(pointer(repository), head)))
        checker.close()
    assert states == STATES


def test_a_merged_branch_from_before_the_last_target_is_followed_from_the_start(
    repository: Repository, checker: StalenessChecker
) -> None:
    git(repository.path, "checkout", "-q", "-b", "side")
    commit_files(repository.path, {"src/parser.py": "".join([*LINES[:10], "side\n", *LINES[11:]])})
    git(repository.path, "checkout", "-q", "main")
    main = commit_files(repository.path, {"src/parser.py": "".join(["# main\n", *LINES])})
    assert describe(checker.check(pointer(repository), main)) == "moved src/parser.py:11-13"
    git(repository.path, "merge", "-q", "-m", "Merge", "side")
    merged = git(repository.path, "rev-parse", "HEAD")
    assert describe(checker.check(pointer(repository), merged)) == "changed 0.667 src/parser.py:11-13"


def test_a_branch_that_is_checked_out_later_is_compared_by_itself(
    repository: Repository, checker: StalenessChecker
) -> None:
    main = commit_files(repository.path, {"src/parser.py": "".join(LINES[12:])})
    git(repository.path, "checkout", "-q", "-b", "side", repository.sha)
    side = commit_files(repository.path, {"src/parser.py": "".join(["# side\n", *LINES])})
    states = [describe(checker.check(pointer(repository), commit)) for commit in (main, side, main)]
    assert states == ["gone", "moved src/parser.py:11-13", "gone"]


def test_lines_lost_on_one_branch_are_found_on_another(repository: Repository, checker: StalenessChecker) -> None:
    part = "".join(["import x\n", *LINES[10:]])
    main = commit_files(repository.path, {"src/parser.py": "".join(LINES[:10]), "src/part.py": part})
    git(repository.path, "checkout", "-q", "-b", "side")
    side = commit_files(repository.path, {"src/parser.py": None})
    span = pointer(repository, "src/parser.py#L9-L12")
    states = [describe(checker.check(span, commit)) for commit in (side, main, side)]
    assert states == ["changed 0.5 src/part.py:2-3", "changed 1.0 src/parser.py:9-10", "changed 0.5 src/part.py:2-3"]


@pytest.mark.parametrize("damage", ["text", "empty", "layout", "rows", "folder"])
def test_a_damaged_cache_changes_no_answer(repository: Repository, tmp_path: Path, damage: str) -> None:
    import apsw

    heads = advance(repository)
    cache = tmp_path / "alignments.db"
    checker = StalenessChecker(Repositories(GitRepository(repository.path)), cache)
    assert describe(checker.check(pointer(repository), heads[0])) == STATES[0]
    checker.close()
    if damage == "text":
        cache.write_bytes(b"no database, " * 1000)
    elif damage == "empty":
        cache.write_bytes(b"")
    elif damage == "folder":
        cache.unlink()
        cache.mkdir()
    else:
        with apsw.Connection(str(cache)) as connection:
            if damage == "layout":
                connection.execute("PRAGMA user_version = 77")
            else:
                connection.execute("UPDATE alignment SET runs = CAST(replace(runs, '11', '19') AS BLOB)")
    checker = StalenessChecker(Repositories(GitRepository(repository.path)), cache)
    assert [describe(checker.check(pointer(repository), head)) for head in heads] == STATES
    checker.close()


def test_a_deleted_cache_is_made_again(repository: Repository, tmp_path: Path) -> None:
    heads = advance(repository)
    cache = tmp_path / "alignments.db"
    for _ in range(2):
        checker = StalenessChecker(Repositories(GitRepository(repository.path)), cache)
        assert describe(checker.check(pointer(repository), heads[3])) == STATES[3]
        checker.close()
        assert cache.stat().st_size
        cache.unlink()


def test_an_answer_does_not_wait_for_git_beyond_its_time(repository: Repository, checker: StalenessChecker) -> None:
    head = commit_files(repository.path, {"src/parser.py": "".join(["# new\n", *LINES])})
    pointers = [pointer(repository), pointer(repository, "docs/design.md#L1-L2")]
    answers = checker.check_many(pointers, CompareTarget(head), timeout_s=0)
    # What needs no git is answered; the rest is worked out afterwards.
    assert [describe(lines.state) if lines else None for lines in answers] == [None, "same"]
    for _ in range(1000):
        if (lines := checker.check_many(pointers, CompareTarget(head), timeout_s=0)[0]) is not None:
            break
        time.sleep(0.01)
    assert lines is not None
    assert describe(lines.state) == "moved src/parser.py:11-13"


def test_nothing_is_left_in_the_temporary_folder(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / 'with : and " in its name'
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    checker = StalenessChecker(Repositories(GitRepository(repository.path)))
    old = commit_files(repository.path, {"src/parser.py": "".join(["# old\n", *LINES])})
    git(repository.path, "reset", "-q", "--hard", repository.sha)
    assert describe(checker.check(pointer(repository, "src/parser.py#L2-L3", old), repository.sha)) == (
        "moved src/parser.py:1-2"
    )
    assert len(os.listdir(scratch)) == 1
    checker.close()
    assert os.listdir(scratch) == []


def test_commands_do_not_wait_again_for_a_file_that_takes_git_long(repository: Repository, tmp_path: Path) -> None:
    head = commit_files(repository.path, {"src/parser.py": "".join(["# new\n", *LINES])})
    cache = tmp_path / "alignments.db"
    AlignmentCache(cache).mark_slow(repository.sha, "src/parser.py")
    pointers = [pointer(repository), pointer(repository, "docs/design.md#L1-L2")]
    states = []
    for timeout_s in (1.5, 60, 1.5):  # a command, something that has time, a command
        checker = StalenessChecker(Repositories(GitRepository(repository.path)), cache)
        answers = checker.check_many(pointers, CompareTarget(head), timeout_s=timeout_s)
        states.append([describe(lines.state) if lines else "none" for lines in answers])
        if timeout_s == 1.5:
            wait_for_work()
        checker.close()
    assert states == [["none", "same"], *[["moved src/parser.py:11-13", "same"]] * 2]


def wait_for_work() -> None:
    """Wait until no thread works out states for later."""
    for thread in threading.enumerate():
        if thread.name == "evidence-state":
            thread.join()
