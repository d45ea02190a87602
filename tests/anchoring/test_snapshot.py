"""A snapshot commits uncommitted lines to a ref of ours and touches nothing of the user's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engrambus.errors import FileNotFound, LinkRefused, NoRepository, NotAFile, PointerPath, RepositoryRefused
from engrambus.evidence.pointers import GitRepository
from tests.evidence.repos import Repo

SNAPSHOTS = "refs/engrambus/snapshots/"


@pytest.fixture
def repository(repo: Repo) -> Iterator[GitRepository]:
    """The repository, opened."""
    with closing(GitRepository(repo.path)) as opened:
        yield opened


def user_state(repo: Repo) -> dict[str, object]:
    """Return all that is the user's, to the byte: worktree with times, index, HEAD, refs, reflogs, status."""
    files: dict[str, object] = {}
    for folder, _, names in os.walk(repo.path):
        inside = Path(folder).relative_to(repo.path)
        if inside.parts[:2] in ((".git", "objects"), (".git", "refs")) and "engrambus" in str(inside) + str(names):
            continue
        if inside.parts[:2] == (".git", "objects"):
            continue
        for name in names:
            path = Path(folder) / name
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
            files[str(inside / name)] = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino, content)
    refs = [ref for ref in repo.git("for-each-ref").splitlines() if SNAPSHOTS not in ref]
    return {
        **files,
        "refs": refs,
        "status": repo.git("--no-optional-locks", "status", "--porcelain=v2", "--branch", "--show-stash", "--ignored"),
        "stash": repo.git("stash", "list"),
    }


def files(repo: Repo, commit: str) -> dict[str, str]:
    """Return the files of a commit."""
    names = repo.git("ls-tree", "-r", "-z", "--name-only", commit).split("\0")
    return {name: repo.git("show", f"{commit}:{name}") for name in names if name}


def test_staged_unstaged_and_named_untracked_files_are_included(repo: Repo, repository: GitRepository) -> None:
    repo.commit(
        {"same.py": "same\n", "staged.py": "one\n", "edited.py": "one\n", "gone.py": "one\n", "both.py": "one\n"}
    )
    repo.git("stash", "store", "-m", "kept", repo.git("rev-parse", "HEAD"))
    (repo.path / "staged.py").write_text("two\n")
    (repo.path / "both.py").write_text("two\n")
    (repo.path / "added.py").write_text("new\n")
    repo.git("add", "staged.py", "both.py", "added.py")
    (repo.path / "both.py").write_text("three\n")
    (repo.path / "edited.py").write_text("two\n")
    (repo.path / "gone.py").unlink()
    (repo.path / "named.py").write_text("mine\n")
    (repo.path / "unnamed.py").write_text("not asked for\n")
    state_before = user_state(repo)
    commit = repository.snapshot(repo.path, ["named.py"])
    assert user_state(repo) == state_before
    assert files(repo, commit) == {
        "same.py": "same", "staged.py": "two", "edited.py": "two", "both.py": "three", "added.py": "new",
        "named.py": "mine",
    }  # fmt: skip
    assert repo.git("rev-parse", f"{commit}^") == repo.git("rev-parse", "HEAD")
    assert repo.git("rev-parse", SNAPSHOTS + commit) == commit
    assert repository.read(commit, "both.py").data == b"three\n"


def test_without_changes_the_snapshot_is_head(repo: Repo, repository: GitRepository) -> None:
    head = repo.commit({"a.py": "one\n", "run.sh": "#!/bin/sh\n"})
    assert repository.snapshot(repo.path) == head
    (repo.path / "untracked.py").write_text("x\n")
    os.utime(repo.path / "a.py")
    assert repository.snapshot(repo.path) == head
    assert repo.git("for-each-ref", SNAPSHOTS) == ""


def test_the_same_files_give_the_same_commit(repo: Repo, repository: GitRepository) -> None:
    repo.commit({"a.py": "one\n"})
    (repo.path / "a.py").write_text("two\n")
    first = repository.snapshot(repo.path)
    assert repository.snapshot(repo.path) == first
    (repo.path / "a.py").write_text("three\n")
    assert repository.snapshot(repo.path) != first
    assert len(repo.git("for-each-ref", SNAPSHOTS).splitlines()) == 2


def test_a_snapshot_before_the_first_commit(repo: Repo, repository: GitRepository) -> None:
    (repo.path / "a.py").write_text("one\n")
    commit = repository.snapshot(repo.path, ["a.py"])
    assert files(repo, commit) == {"a.py": "one"}
    assert repo.git("rev-list", "--count", commit) == "1"


def test_git_gc_keeps_a_snapshot(repo: Repo, repository: GitRepository) -> None:
    repo.commit({"a.py": "one\n"})
    (repo.path / "a.py").write_text("two\n")
    commit = repository.snapshot(repo.path)
    repo.git("checkout", "-q", ".")
    repo.git("gc", "-q", "--prune=now")
    assert repository.read(commit, "a.py").data == b"two\n"


def test_modes_unusual_names_and_links_are_preserved(repo: Repo, repository: GitRepository) -> None:
    repo.commit({"run.sh": "echo\n", "tab\tand\nline.py": "one\n", "ö.py": "one\n", "target.py": "one\n"})
    (repo.path / "run.sh").chmod(0o755)
    (repo.path / "tab\tand\nline.py").write_text("two\n")
    (repo.path / "ö.py").write_text("two\n")
    (repo.path / "target.py").unlink()
    (repo.path / "target.py").symlink_to("ö.py")
    commit = repository.snapshot(repo.path)
    entries = repo.git("ls-tree", "-r", "-z", commit).split("\0")
    assert {entry.split("\t", 1)[1]: entry.split(" ")[0] for entry in entries if entry} == {
        "run.sh": "100755", "tab\tand\nline.py": "100644", "ö.py": "100644", "target.py": "120000",
    }  # fmt: skip
    assert repo.git("show", f"{commit}:target.py") == "ö.py"


def test_no_filter_and_no_hook_is_run(repo: Repo, repository: GitRepository, tmp_path: Path) -> None:
    repo.commit({"a.py": "one\n", ".gitattributes": "*.py filter=evil\n"})
    marker = tmp_path / "ran"
    for name in ("clean", "smudge", "process"):
        repo.git("config", f"filter.evil.{name}", f"touch {marker}; cat")
    repo.git("config", "filter.evil.required", "true")
    hooks = repo.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("reference-transaction", "pre-commit", "post-commit", "post-index-change"):
        (hooks / hook).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (hooks / hook).chmod(0o755)
    repo.git("config", "core.fsmonitor", f"touch {marker}")
    (repo.path / "a.py").write_text("two\r\n")
    commit = repository.snapshot(repo.path)
    assert repository.read(commit, "a.py").data == b"two\r\n"
    assert not marker.exists()


def test_a_checkout_that_a_filter_made_counts_as_clean(repo: Repo, repository: GitRepository) -> None:
    head = repo.commit({"a.txt": "one\n", ".gitattributes": "*.txt eol=crlf\n"})
    (repo.path / "a.txt").unlink()
    repo.git("checkout", "-q", "a.txt")
    assert (repo.path / "a.txt").read_bytes() == b"one\r\n"
    index = repo.path / ".git" / "index"
    os.utime(index, ns=(index.stat().st_atime_ns, index.stat().st_mtime_ns + 10**9))
    assert repository.snapshot(repo.path) == head


def test_ignored_files_are_refused(repo: Repo, repository: GitRepository) -> None:
    repo.commit({"a.py": "one\n", ".gitignore": "secret.env\nbuild/\n"})
    (repo.path / "secret.env").write_text("KEY=1\n")
    (repo.path / "build").mkdir()
    (repo.path / "build" / "out.py").write_text("x\n")
    for path in ("secret.env", "build/out.py"):
        with pytest.raises(NotAFile, match="ignore"):
            repository.snapshot(repo.path, [path])


@pytest.mark.parametrize("path", ["../outside.py", "/etc/passwd", "a/../../x", ".git/config", "sub/.GIT/x"])
def test_only_files_of_the_worktree_can_be_named(repo: Repo, repository: GitRepository, path: str) -> None:
    repo.commit({"a.py": "one\n"})
    (repo.path.parent / "outside.py").write_text("x\n")
    with pytest.raises(PointerPath):
        repository.snapshot(repo.path, [path])
    with pytest.raises(FileNotFound):
        repository.snapshot(repo.path, ["absent.py"])


def test_links_out_of_the_tree_are_refused(repo: Repo, repository: GitRepository, tmp_path: Path) -> None:
    repo.commit({"a.py": "one\n", "folder/b.py": "one\n"})
    (tmp_path / "secret").write_text("hidden\n")
    (repo.path / "link.py").symlink_to(tmp_path / "secret")
    with pytest.raises(LinkRefused):
        repository.snapshot(repo.path, ["link.py"])
    (repo.path / "a.py").unlink()
    (repo.path / "a.py").symlink_to(tmp_path / "secret")
    with pytest.raises(LinkRefused, match=r"a\.py"):
        repository.snapshot(repo.path)
    (repo.path / "a.py").unlink()
    outside = tmp_path / "elsewhere"
    (repo.path / "folder").rename(outside)
    (outside / "b.py").write_text("changed outside\n")
    (repo.path / "folder").symlink_to(outside)
    commit = repository.snapshot(repo.path)
    assert files(repo, commit) == {}


def test_an_unchanged_link_may_lead_out_of_the_tree(repo: Repo, repository: GitRepository) -> None:
    (repo.path / "host.txt").symlink_to("/etc/hostname")
    head = repo.commit({"a.py": "one\n"})
    assert repository.snapshot(repo.path) == head
    (repo.path / "a.py").write_text("two\n")
    assert repo.git("show", f"{repository.snapshot(repo.path)}:host.txt") == "/etc/hostname"


def test_pipes_and_folders_in_place_of_files_are_skipped(repo: Repo, repository: GitRepository) -> None:
    repo.commit({"a.py": "one\n", "b.py": "one\n", "c.py": "one\n"})
    for name in ("a.py", "b.py"):
        (repo.path / name).unlink()
    os.mkfifo(repo.path / "a.py")
    (repo.path / "b.py").mkdir()
    os.mkfifo(repo.path / "pipe")
    assert files(repo, repository.snapshot(repo.path)) == {"c.py": "one"}
    with pytest.raises(NotAFile):
        repository.snapshot(repo.path, ["pipe"])


def test_a_linked_worktree_has_its_own_snapshot(repo: Repo, repository: GitRepository, tmp_path: Path) -> None:
    repo.commit({"a.py": "one\n"})
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side" / "a.py").write_text("aside\n")
    state_before = user_state(repo)
    commit = repository.snapshot(tmp_path / "side")
    assert files(repo, commit) == {"a.py": "aside"}
    assert repository.snapshot(repo.path) == repo.git("rev-parse", "HEAD")
    assert user_state(repo) == state_before


def test_a_snapshot_during_a_merge_with_conflicts(repo: Repo, repository: GitRepository) -> None:
    base = repo.commit({"a.py": "one\n"})
    repo.commit({"a.py": "ours\n"})
    repo.git("checkout", "-q", "-b", "theirs", base)
    repo.commit({"a.py": "theirs\n"})
    with pytest.raises(subprocess.CalledProcessError):
        repo.git("merge", "main")
    state_before = user_state(repo)
    commit = repository.snapshot(repo.path)
    assert "<<<<<<<" in files(repo, commit)["a.py"]
    assert user_state(repo) == state_before


def test_a_sparse_checkout_keeps_the_files_it_leaves_out(repo: Repo, repository: GitRepository) -> None:
    repo.commit({"in/a.py": "one\n", "out/b.py": "one\n"})
    repo.git("sparse-checkout", "set", "in")
    assert not (repo.path / "out").exists()
    (repo.path / "in" / "a.py").write_text("two\n")
    assert files(repo, repository.snapshot(repo.path)) == {"in/a.py": "two", "out/b.py": "one"}


def test_only_a_worktree_of_the_repository_is_accepted(repo: Repo, repository: GitRepository, tmp_path: Path) -> None:
    repo.commit({"a.py": "one\n"})
    other = Repo(tmp_path / "other")
    other.commit({"a.py": "two\n"})
    with pytest.raises(NoRepository):
        repository.snapshot(other.path)
    with pytest.raises(NoRepository):
        repository.snapshot(tmp_path)
    (tmp_path / "claimed").mkdir()
    repo.git("config", "core.worktree", str(tmp_path / "claimed"))
    with pytest.raises(RepositoryRefused):
        repository.snapshot(repo.path)
