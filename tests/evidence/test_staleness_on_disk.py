"""Pointed lines compared with the files that a caller works on, committed or not."""  # BX-01

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engrambus import Bus
from engrambus.evidence.pointers import (
    CompareTarget,
    GitRepository,
    Pointer,
    Repositories,
    StalenessChecker,
    open_worktree,
)
from engrambus.gateway import Credential, Gateway, ProjectFiles
from engrambus.settings import Settings
from tests.evidence.test_staleness import LINES, OTHER, describe, pointer
from tests.http.running_server import run_server
from tests.projects import Repository, commit_files, git, make_repository


@pytest.fixture
def files(repository: Repository) -> ProjectFiles:
    """The files of the repository."""
    return ProjectFiles(repository.path, Repositories(GitRepository(repository.path)))


def write(repository: Repository, path: str, text: str | bytes) -> None:
    """Write a file without committing it."""
    file = repository.path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)


def state(files: ProjectFiles, *pointers: Pointer) -> str:
    """Return the states of pointers in the project's folder."""
    return ", ".join(map(describe, files.staleness_of(pointers)))


def untouched(repository: Repository) -> str:
    """Return what git knows of its objects, refs and index."""
    index = (repository.path / ".git/index").read_bytes()
    return git(repository.path, "count-objects", "-v") + git(repository.path, "for-each-ref") + index.hex()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("".join(LINES), "same"),
        ("# new\n" + "".join(LINES), "moved src/parser.py:11-13"),
        ("".join([*LINES[:10], "x\n", *LINES[11:]]), "changed 0.667 src/parser.py:10-12"),
        ("x\n", "gone"),
        ("", "gone"),
    ],
)
def test_uncommitted_edits_count(repository: Repository, files: ProjectFiles, text: str, expected: str) -> None:
    write(repository, "src/parser.py", text)
    assert state(files, pointer(repository)) == expected
    git(repository.path, "add", "-A")
    assert state(files, pointer(repository)) == expected
    git(repository.path, "reset", "-q")
    write(repository, "src/parser.py", "".join(LINES))
    assert state(files, pointer(repository)) == "same"


def test_nothing_is_written_to_the_repository(repository: Repository, files: ProjectFiles) -> None:
    write(repository, "src/parser.py", "# new\n" + "".join(LINES))
    write(repository, "src/fresh.py", "fresh\n")
    before = untouched(repository)
    assert state(files, pointer(repository)) == "moved src/parser.py:11-13"
    assert untouched(repository) == before


def test_a_file_that_was_renamed_without_git_is_followed(repository: Repository, files: ProjectFiles) -> None:
    os.rename(repository.path / "src/parser.py", repository.path / "src/reader.py")
    assert state(files, pointer(repository)) == "moved src/reader.py:10-12"
    write(repository, "src/reader.py", "".join(["# new\n", *LINES[:10], *LINES[11:]]))
    assert state(files, pointer(repository)) == "changed 0.667 src/reader.py:11-12"
    (repository.path / "src/reader.py").unlink()
    assert state(files, pointer(repository)) == "gone"


def test_lines_that_were_cut_into_an_untracked_file_are_followed(repository: Repository, files: ProjectFiles) -> None:
    write(repository, "src/parser.py", "".join([*LINES[:5], *LINES[20:]]))
    write(repository, "src/part.py", "".join(["import x\n", *LINES[5:20]]))
    assert state(files, pointer(repository)) == "moved src/part.py:6-8"
    write(repository, ".gitignore", "part.py\n")
    assert state(files, pointer(repository)) == "gone"


def test_lines_are_followed_through_history_and_then_on_disk(repository: Repository, files: ProjectFiles) -> None:
    git(repository.path, "mv", "src/parser.py", "src/reader.py")
    commit_files(repository.path, {"src/reader.py": "".join(["# one\n", *LINES])})
    write(repository, "src/reader.py", "".join(["# one\n", "# two\n", *LINES[:20]]))
    spans = [pointer(repository, f"src/parser.py#{lines}") for lines in ("L10-L12", "L19-L22", "L25-L27")]
    assert state(files, *spans) == "moved src/reader.py:12-14, changed 0.5 src/reader.py:21-22, gone"


def test_a_whole_file_on_disk(repository: Repository, files: ProjectFiles) -> None:
    whole = pointer(repository, "src/parser.py")
    assert state(files, whole) == "same"
    write(repository, "src/parser.py", "".join([*LINES, "more\n"]))
    assert state(files, whole) == "changed 1.0 src/parser.py:1-30"
    write(repository, "src/parser.py", "".join(LINES))
    os.rename(repository.path / "src/parser.py", repository.path / "src/reader.py")
    assert state(files, whole) == "moved src/reader.py"


@pytest.mark.parametrize("replacement", ["folder", "link", "pipe", "link to folder"])
def test_a_file_that_became_something_else_is_gone(
    repository: Repository, files: ProjectFiles, tmp_path: Path, replacement: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/parser.py").write_text("".join(LINES))
    file = repository.path / "src/parser.py"
    file.unlink()
    if replacement == "folder":
        write(repository, "src/parser.py/__init__.py", "x\n")
    elif replacement == "link":
        file.symlink_to(tmp_path / "elsewhere/parser.py")
    elif replacement == "pipe":
        os.mkfifo(file)
    else:
        git(repository.path, "rm", "-rq", "--cached", "src")
        for child in (repository.path / "src").iterdir():
            child.unlink()
        (repository.path / "src").rmdir()
        (repository.path / "src").symlink_to(tmp_path / "elsewhere")
    assert state(files, pointer(repository)) == "gone"


def test_a_folder_that_became_a_file(repository: Repository, files: ProjectFiles) -> None:
    for child in (repository.path / "src").iterdir():
        child.unlink()
    (repository.path / "src").rmdir()
    write(repository, "src", "".join(LINES))
    assert state(files, pointer(repository)) == "moved src:10-12"


def test_line_ends_written_by_a_checkout_do_not_count(repository: Repository, files: ProjectFiles) -> None:
    write(repository, "src/parser.py", "".join(LINES).replace("\n", "\r\n"))
    assert state(files, pointer(repository)) == "same"
    write(repository, "src/parser.py", "".join(["# new\n", *LINES]).replace("\n", "\r\n"))
    assert state(files, pointer(repository)) == "moved src/parser.py:11-13"
    commit = commit_files(repository.path, {"src/parser.py": "".join(LINES).replace("\n", "\r\n")})
    committed = pointer(repository, sha=commit)
    write(repository, "src/parser.py", "".join(["# new\n", *LINES]).replace("\n", "\r\n"))
    assert state(files, committed) == "moved src/parser.py:11-13"
    write(repository, "src/parser.py", "".join(LINES))
    assert state(files, committed) == "gone"


def test_filters_and_hooks_of_the_repository_are_not_run(
    repository: Repository, files: ProjectFiles, tmp_path: Path
) -> None:
    trap = f"touch {tmp_path / 'trapped'}; cat"
    commit_files(repository.path, {".gitattributes": "* filter=trap diff=trap\n"})
    for name in ("filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "diff.trap.textconv"):
        git(repository.path, "config", name, trap)
    for name in ("diff.external", "diff.trap.command", "core.fsmonitor", "core.pager", "gpg.program"):
        git(repository.path, "config", name, trap)
    git(repository.path, "config", "log.showSignature", "true")
    write(repository, "src/parser.py", "# new\n" + "".join(LINES))
    spans = [pointer(repository, path) for path in ("src/parser.py#L10-L12", "src/wörter.py", "docs/design.md#L1-L2")]
    assert state(files, *spans) == "moved src/parser.py:11-13, same, same"
    assert not (tmp_path / "trapped").exists()


def test_files_left_out_of_a_sparse_checkout_are_as_committed(repository: Repository, files: ProjectFiles) -> None:
    git(repository.path, "sparse-checkout", "set", "--no-cone", "docs/")
    assert not (repository.path / "src").exists()
    assert state(files, pointer(repository)) == "same"


def test_files_that_a_filter_wrote_are_clean_if_the_index_says_so(repository: Repository, files: ProjectFiles) -> None:
    commit_files(repository.path, {".gitattributes": "*.py filter=upper\n"})
    git(repository.path, "config", "filter.upper.smudge", "tr a-z A-Z")
    git(repository.path, "config", "filter.upper.clean", "tr A-Z a-z")
    (repository.path / "src/parser.py").unlink()
    git(repository.path, "checkout", "src/parser.py")
    os.utime(repository.path / ".git/index", (2_000_000_000, 2_000_000_000))
    assert (repository.path / "src/parser.py").read_text().startswith("LINE 1")
    assert state(files, pointer(repository)) == "same"


def test_a_file_written_twice_at_once_is_read_twice(repository: Repository, files: ProjectFiles) -> None:
    file = repository.path / "src/parser.py"
    for number in range(5):
        lines = [f"variant {number} of a line\n" if position == number else line for position, line in enumerate(LINES)]
        file.write_text("".join(lines))
        assert state(files, pointer(repository, f"src/parser.py#L{number + 1}-L{number + 1}")) == "gone"
        assert state(files, pointer(repository, f"src/parser.py#L{number + 2}-L{number + 2}")) == "same"


def test_an_unfinished_merge_is_compared_as_it_is_on_disk(repository: Repository, files: ProjectFiles) -> None:
    git(repository.path, "checkout", "-q", "-b", "side")
    commit_files(repository.path, {"src/parser.py": "".join([*LINES[:10], "side\n", *LINES[11:]])})
    git(repository.path, "checkout", "-q", "main")
    commit_files(repository.path, {"src/parser.py": "".join([*LINES[:10], "main\n", *LINES[11:]])})
    with pytest.raises(Exception, match="merge"):
        git(repository.path, "merge", "-q", "side")
    assert state(files, pointer(repository, "src/parser.py#L20-L21")) == "moved src/parser.py:24-25"


def test_a_branch_without_a_commit_is_not_compared(repository: Repository, files: ProjectFiles) -> None:
    git(repository.path, "checkout", "-q", "--orphan", "empty")
    assert state(files, pointer(repository)) == "none"


def test_a_detached_head_is_compared(repository: Repository, files: ProjectFiles) -> None:
    git(repository.path, "checkout", "-q", "--detach")
    commit_files(repository.path, {"src/parser.py": "".join(["# new\n", *LINES])})
    assert state(files, pointer(repository)) == "moved src/parser.py:11-13"


# --- the caller's worktree ---


@pytest.fixture
def linked(repository: Repository, tmp_path: Path) -> Path:
    """A linked worktree in which the lines have moved, by a commit and on disk."""
    folder = tmp_path / "linked"
    git(repository.path, "worktree", "add", "-q", "-b", "other", str(folder))
    commit_files(folder, {"src/parser.py": "".join(["# one\n", *LINES])})
    (folder / "src/parser.py").write_text("".join(["# one\n", "# two\n", *LINES]), "utf-8")
    return folder


def test_the_callers_worktree_counts(repository: Repository, files: ProjectFiles, linked: Path) -> None:
    head = git(linked, "rev-parse", "HEAD")
    span = pointer(repository)
    assert state(files, span) == "same"
    assert state(files.of_caller(head, str(linked)), span) == "moved src/parser.py:12-14"
    assert state(files.of_caller(None, str(linked)), span) == "moved src/parser.py:12-14"
    assert state(files.of_caller(head, None), span) == "moved src/parser.py:11-13"


def test_only_worktrees_of_the_repository_count(
    repository: Repository, files: ProjectFiles, linked: Path, tmp_path: Path
) -> None:
    head = git(linked, "rev-parse", "HEAD")
    span = pointer(repository)
    other = make_repository(tmp_path / "another")
    (other.path / "src/parser.py").write_text("x\n")
    (tmp_path / "claimed").mkdir()
    (tmp_path / "claimed/.git").write_text((linked / ".git").read_text())
    (tmp_path / "link").symlink_to(linked)
    names = [
        str(other.path),
        str(tmp_path / "claimed"),
        str(tmp_path / "link"),
        str(linked / "src"),
        "linked",
        "",
        "\0",
    ]
    for name in names:
        assert state(files.of_caller(head, name), span) == "moved src/parser.py:11-13", name
        assert state(files.of_caller(None, name), span) == "same", name
        assert state(files.of_caller("0" * 40, name), span) == "same", name


def test_a_git_directory_elsewhere(repository: Repository, tmp_path: Path) -> None:
    git(
        tmp_path, "clone", "-q", "--separate-git-dir", str(tmp_path / "elsewhere.git"), str(repository.path), "checkout"
    )
    files = ProjectFiles(tmp_path / "checkout", Repositories(GitRepository(tmp_path / "checkout")))
    (tmp_path / "checkout/src/parser.py").write_text("".join(["# new\n", *LINES]))
    for caller in (files, files.of_caller(repository.sha, str(tmp_path / "checkout"))):
        assert state(caller, pointer(repository)) == "moved src/parser.py:11-13"


def test_a_record_that_leads_elsewhere_is_not_followed(
    repository: Repository, files: ProjectFiles, linked: Path, tmp_path: Path
) -> None:
    other = make_repository(tmp_path / "another")
    record = repository.path / ".git/worktrees/linked/gitdir"
    record.write_text(f"{other.path / '.git'}\n")
    assert state(files.of_caller(None, str(other.path)), pointer(repository)) == "same"


def test_a_worktree_of_the_same_name_on_another_machine_does_not_count(
    repository: Repository, files: ProjectFiles, linked: Path
) -> None:
    assert state(files.of_caller(repository.sha, str(linked)), pointer(repository)) == "same"


def test_hidden_files_are_not_named(repository: Repository, files: ProjectFiles, linked: Path) -> None:
    os.rename(linked / "src/parser.py", linked / "src/hidden.py")
    seen = files.of_caller(None, str(linked))
    assert state(seen, pointer(repository)) == "moved src/hidden.py:12-14"
    assert state(seen.seen_by(lambda path: "hidden" not in path), pointer(repository)) == "gone"
    assert (
        state(files.seen_by(lambda path: "hidden" not in path).of_caller(None, str(linked)), pointer(repository))
        == "gone"
    )


def test_every_edge_tells_of_the_callers_worktree(
    repository: Repository, gateway: Gateway, settings: Settings, linked: Path
) -> None:
    admin = Credential(local_admin=True)
    with Bus(gateway, admin, owns_transport=False, worktree=repository.path) as bus:
        bus.put_engram("The parser trusts its input.", at=["src/parser.py:10-12"])
        assert told(bus) == "same"
        token = bus.add_agent("ada").token
    with Bus(gateway, admin, owns_transport=False, worktree=linked) as bus:
        assert told(bus) == "moved"
    with run_server(gateway, repository) as server:
        url = f"http://127.0.0.1:{server.port}"
        states = []
        for worktree in (linked, repository.path, None):
            with Bus.connect(url, token=token, worktree=worktree) as remote:
                states.append(told(remote))
    assert states == ["moved", "same", "same"]


def told(bus: Bus) -> str | None:
    """Return the state of the only engram's evidence, as a query tells it."""
    answer = bus.query_engrams("parser")
    evidence = answer.about[answer.engrams[0].id].evidence
    return evidence.state if evidence is not None else "same"


def test_an_answer_waits_for_the_disk_only_for_a_short_time(repository: Repository, files: ProjectFiles) -> None:
    write(repository, "src/parser.py", "".join(OTHER))
    top = open_worktree(repository.path / ".git", repository.path)
    checker = StalenessChecker(Repositories(GitRepository(repository.path)))
    target = CompareTarget(repository.sha, top)
    assert checker.check_many([pointer(repository)], target, timeout_s=0) == [None]
    (lines,) = checker.check_many([pointer(repository)], target, timeout_s=60)
    assert lines is not None
    assert lines.state.state == "gone"


def test_a_snapshot_of_uncommitted_lines_is_compared_with_the_disk(repository: Repository, files: ProjectFiles) -> None:
    write(repository, "src/parser.py", "".join([*LINES, *OTHER]))
    write(repository, "src/fresh.py", "".join(LINES).upper())
    commit = files.snapshot("src/fresh.py")
    refs = ("src/parser.py#L35-L37", "src/fresh.py#L1-L2", "src/fresh.py")
    spans = [pointer(repository, ref, commit) for ref in refs]
    assert state(files, *spans) == "same, same, same"
    write(repository, "src/parser.py", "".join(["# first\n", *LINES, *OTHER]))
    os.rename(repository.path / "src/fresh.py", repository.path / "src/fresher.py")
    assert state(files, *spans) == "moved src/parser.py:36-38, moved src/fresher.py:1-2, moved src/fresher.py"
    commit_files(repository.path, {})
    assert state(files, *spans) == "moved src/parser.py:36-38, moved src/fresher.py:1-2, moved src/fresher.py"
    write(repository, "src/parser.py", "".join(LINES))
    (repository.path / "src/fresher.py").unlink()
    assert state(files, *spans) == "gone, gone, gone"
