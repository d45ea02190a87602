"""Reading git: proved objects, refusals, and recovery from failures."""  # EB-04

from __future__ import annotations

import os
import shutil
import signal
import threading
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import GitRepository, find_repository

from .repos import Repo


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(EngramBusError) as caught:
        action()
    return caught.value.code


def test_a_file_at_a_commit_comes_with_its_object_id(repo: Repo) -> None:
    first = repo.commit({"a.txt": "one\n", "dir/sub/b.txt": "two\n"})
    second = repo.commit({"a.txt": "changed\n"})
    git = GitRepository(repo.path)
    assert git.read(first, "a.txt").data == b"one\n"
    assert git.read(second, "a.txt").data == b"changed\n"
    assert git.read(second, "dir/sub/b.txt") == (repo.git("rev-parse", "HEAD:dir/sub/b.txt"), b"two\n")


@pytest.mark.parametrize("path", ["ünï/文 件.txt", "a b", "tab", "-x", ":x", "a:b", "x\u2028y", "%41", "~", "^{tree}"])
def test_unusual_paths_are_read(repo: Repo, path: str) -> None:
    sha = repo.commit({path: "here"})
    assert GitRepository(repo.path).read(sha, path).data == b"here"


def test_missing_and_special_files_have_their_own_codes(repo: Repo, tmp_path: Path) -> None:
    other = Repo(tmp_path / "other")
    other.commit({"x": "x"})
    repo.git("submodule", "--quiet", "add", str(other.path), "module")
    (repo.path / "link").symlink_to("/etc/passwd")
    (repo.path / "links").symlink_to("dir")
    sha = repo.commit({"dir/file": "x\n", "small": "no newline"})
    repo.git("tag", "-a", "-m", "x", "noted")
    git = GitRepository(repo.path)
    assert code_of(lambda: git.read("0" * 40, "dir/file")) == "REVISION_NOT_FOUND"
    assert code_of(lambda: git.read("0" * 64, "dir/file")) == "REVISION_NOT_FOUND"
    for not_a_commit in ("HEAD^{tree}", "HEAD:dir/file", "refs/tags/noted"):
        object_id = repo.git("rev-parse", not_a_commit)
        assert code_of(lambda object_id=object_id: git.read(object_id, "dir/file")) == "REVISION_NOT_FOUND"  # type: ignore[misc]
    assert code_of(lambda: git.read(sha, "nothing")) == "FILE_NOT_FOUND"
    assert code_of(lambda: git.read(sha, "nothing/file")) == "FILE_NOT_FOUND"
    assert code_of(lambda: git.read(sha, "dir/file/deeper")) == "FILE_NOT_FOUND"
    assert code_of(lambda: git.read(sha, "dir")) == "NOT_A_FILE"
    assert code_of(lambda: git.read(sha, "module")) == "NOT_A_FILE"
    assert code_of(lambda: git.read(sha, "module/x")) == "NOT_A_FILE"
    assert code_of(lambda: git.read(sha, "link")) == "LINK_REFUSED"
    assert code_of(lambda: git.read(sha, "links/file")) == "LINK_REFUSED"
    assert git.read(sha, "small").data == b"no newline"


def test_a_large_file_is_refused_by_its_size(repo: Repo) -> None:
    sha = repo.commit({"large": b"x" * 5000, "small": "x"})
    git = GitRepository(repo.path, max_bytes=4999)
    with pytest.raises(EngramBusError) as caught:
        git.read(sha, "large")
    assert (caught.value.code, caught.value.limit, caught.value.used) == ("CONTENT_TOO_LARGE", 4999, 5000)
    assert git.read(sha, "small").data == b"x"
    assert len(GitRepository(repo.path, max_bytes=5000).read(sha, "large").data) == 5000


def test_files_larger_than_a_pipe_are_read_completely(repo: Repo) -> None:
    content = os.urandom(700_000)
    sha = repo.commit({"large": content})
    assert GitRepository(repo.path).read(sha, "large").data == content


def test_a_sha256_repository(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo", "--object-format=sha256")
    sha = repo.commit({"a/b": "x\n"})
    git = GitRepository(repo.path)
    assert len(sha) == 64
    assert git.head() == sha
    assert git.read(sha, "a/b").data == b"x\n"
    # 40 digits of a 64-digit id are a shortened id, not a commit.
    assert code_of(lambda: git.read(sha[:40], "a/b")) == "REVISION_NOT_FOUND"


def test_a_branch_named_like_an_id_is_not_one(repo: Repo) -> None:
    repo.commit({"a": "x"})
    repo.git("update-ref", "refs/heads/" + "a" * 64, "HEAD")
    repo.git("update-ref", "refs/heads/" + "b" * 40, "HEAD")
    git = GitRepository(repo.path)
    assert code_of(lambda: git.read("a" * 64, "a")) == "REVISION_NOT_FOUND"
    assert code_of(lambda: git.read("b" * 40, "a")) == "REVISION_NOT_FOUND"


def test_replace_refs_are_ignored(repo: Repo) -> None:
    sha = repo.commit({"a": "true\n"})
    forged = repo.git("hash-object", "-w", "--stdin", stdin=b"forged\n")
    repo.git("replace", repo.git("rev-parse", "HEAD:a"), forged)
    assert repo.git("show", f"{sha}:a") == "forged"
    assert GitRepository(repo.path).read(sha, "a").data == b"true\n"


@pytest.mark.parametrize("relative", [False, True])
def test_objects_outside_the_repository_are_refused(repo: Repo, tmp_path: Path, relative: bool) -> None:
    other = Repo(tmp_path / "other")
    sha = other.commit({"a": "x\n"})
    repo.commit({"b": "y\n"})
    git = GitRepository(repo.path)
    assert code_of(lambda: git.read(sha, "a")) == "REVISION_NOT_FOUND"
    alternate = "../../../other/.git/objects" if relative else str(other.path / ".git" / "objects")
    (repo.path / ".git" / "objects" / "info" / "alternates").write_text(alternate + "\n")
    assert code_of(lambda: git.read(sha, "a")) == "REPOSITORY_REFUSED"
    assert code_of(lambda: GitRepository(repo.path).head()) == "REPOSITORY_REFUSED"


def test_alternates_inside_the_repository_are_accepted(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    objects = repo.path / ".git" / "objects"
    (repo.path / ".git" / "extra").mkdir()
    for folder in objects.iterdir():
        if len(folder.name) == 2:
            folder.rename(repo.path / ".git" / "extra" / folder.name)
    (objects / "info" / "alternates").write_text("# ours\n../extra\n")
    assert GitRepository(repo.path).read(sha, "a").data == b"x\n"
    (repo.path / ".git" / "extra" / "info").mkdir()
    (repo.path / ".git" / "extra" / "info" / "alternates").write_text("/tmp\n")
    assert code_of(lambda: GitRepository(repo.path).read(sha, "a")) == "REPOSITORY_REFUSED"


def test_an_objects_folder_outside_the_repository_is_refused(repo: Repo, tmp_path: Path) -> None:
    sha = repo.commit({"a": "x\n"})
    objects = repo.path / ".git" / "objects"
    objects.rename(tmp_path / "elsewhere")
    objects.symlink_to(tmp_path / "elsewhere")
    assert code_of(lambda: GitRepository(repo.path).read(sha, "a")) == "REPOSITORY_REFUSED"


def test_git_variables_of_the_caller_are_ignored(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Repo(tmp_path / "other")
    foreign = other.commit({"a": "x\n"})
    sha = repo.commit({"b": "y\n"})
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", str(other.path / ".git" / "objects"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.path / ".git" / "objects"))
    git = GitRepository(repo.path)
    assert git.head() == sha
    assert git.read(sha, "b").data == b"y\n"
    assert code_of(lambda: git.read(foreign, "a")) == "REVISION_NOT_FOUND"


@pytest.mark.parametrize("name", ["HEAD", "HEAD^{tree}", "HEAD:dir", "HEAD:dir/a"])
def test_a_forged_object_is_refused(repo: Repo, name: str) -> None:
    sha = repo.commit({"dir/a": "true\n"})
    kind = repo.git("cat-file", "-t", name)
    file = repo.loose(repo.git("rev-parse", name))
    content = zlib.decompress(file.read_bytes())
    forged = content.replace(b"true", b"fake") if kind == "blob" else content[:-1] + bytes([content[-1] ^ 1])
    file.chmod(0o600)
    file.write_bytes(zlib.compress(forged))
    assert code_of(lambda: GitRepository(repo.path).read(sha, "dir/a")) == "OBJECT_DAMAGED"


def test_a_truncated_object_fails_and_other_reads_succeed(repo: Repo) -> None:
    sha = repo.commit({"a": b"torn\n" * 100, "b": "intact\n"})
    file = repo.loose(repo.git("rev-parse", "HEAD:a"))
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:10])
    git = GitRepository(repo.path)
    assert git.read(sha, "b").data == b"intact\n"
    assert code_of(lambda: git.read(sha, "a")) in ("GIT_TROUBLE", "OBJECT_DAMAGED")
    assert git.read(sha, "b").data == b"intact\n"


def test_a_commit_with_missing_objects_fails(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    repo.loose(repo.git("rev-parse", "HEAD:a")).unlink()
    assert code_of(lambda: GitRepository(repo.path).read(sha, "a")) == "GIT_TROUBLE"


def test_a_killed_git_is_restarted(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    git = GitRepository(repo.path)
    for _ in range(3):
        assert git.read(sha, "a").data == b"x\n"
        assert git.git_pid is not None
        os.kill(git.git_pid, signal.SIGKILL)
    git.close()
    assert git.git_pid is None
    assert git.read(sha, "a").data == b"x\n"


def test_threads_share_a_git_that_is_killed_repeatedly(repo: Repo) -> None:
    files = {f"d{n}/f{n}": f"content of {n}\n" * (n + 1) for n in range(20)}
    sha = repo.commit(dict(files))
    git = GitRepository(repo.path)
    failures: list[object] = []
    reads: list[str] = []
    stop = threading.Event()

    def read_repeatedly(seed: int) -> None:
        turn = seed
        while not stop.is_set() and not failures:
            turn += 7
            path, content = list(files.items())[turn % len(files)]
            try:
                if git.read(sha, path).data != content.encode():
                    failures.append(path)
                reads.append(path)
            except EngramBusError as problem:
                failures.append(problem.problem())

    threads = [threading.Thread(target=read_repeatedly, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    kills = reads_at_last_kill = 0
    while kills < 5 and not failures:
        pid = git.git_pid
        if pid is not None and len(reads) > reads_at_last_kill + 20:
            os.kill(pid, signal.SIGKILL)
            kills, reads_at_last_kill = kills + 1, len(reads)
        stop.wait(0.002)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_forked_child_starts_its_own_git(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    git = GitRepository(repo.path)
    git.read(sha, "a")
    parent_pid = git.git_pid
    with git._reader._lock, warnings.catch_warnings():  # as if another thread were reading now
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks in threaded programs
        child = os.fork()
        if child == 0:
            independent = git.read(sha, "a").data == b"x\n" and git.git_pid != parent_pid
            git.close()
            os._exit(0 if independent else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert git.git_pid == parent_pid
    assert git.read(sha, "a").data == b"x\n"


def test_a_hanging_and_a_missing_git_fail(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha = repo.commit({"a": "x\n"})
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{fake.parent}:{path}")
    hanging = GitRepository(repo.path / ".git", timeout_s=0.2)
    assert code_of(lambda: hanging.read(sha, "a")) == "GIT_TROUBLE"
    assert code_of(hanging.head) == "GIT_TROUBLE"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_of(lambda: GitRepository(repo.path / ".git").read(sha, "a")) == "GIT_TROUBLE"
    assert find_repository(repo.path) is None


def test_revisions_are_expanded_as_people_write_them(repo: Repo) -> None:
    git = GitRepository(repo.path)
    assert code_of(git.head) == "REVISION_NOT_FOUND"
    sha = repo.commit({"a": "x\n"})
    repo.git("tag", "v1.0")
    repo.git("branch", "topic")
    assert git.head() == sha
    for revision in (sha[:8], "HEAD", "topic", "v1.0", sha):
        assert git.expand(revision) == sha
    for option in ("-h", "--all", "--output=x", "", "a\nb"):
        assert code_of(lambda option=option: git.expand(option)) == "POINTER_REVISION"  # type: ignore[misc]
    for absent in ("nothing", "HEAD:a", "f" * 40, "f" * 7):
        assert code_of(lambda absent=absent: git.expand(absent)) == "REVISION_NOT_FOUND"  # type: ignore[misc]


def test_only_tags_of_commits_are_tags(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    repo.git("tag", "v1")
    repo.git("tag", "-a", "-m", "x", "v2")
    repo.git("tag", "-a", "-m", "x", "v3", "v2")
    repo.git("branch", "v4")
    repo.git("update-ref", "refs/heads/refs/tags/v5", "HEAD")
    repo.git("tag", "v6", repo.git("rev-parse", "HEAD:a"))
    git = GitRepository(repo.path)
    assert [git.tag_commit(name) for name in ("v1", "v2", "v3")] == [sha] * 3
    for name in ("v4", "v5", "v6", "v7"):
        assert code_of(lambda name=name: git.tag_commit(name)) == "REVISION_NOT_FOUND"  # type: ignore[misc]


def test_the_origin_and_files_by_name(repo: Repo) -> None:
    sha = repo.commit({"a/x.md": "1", "b/x.md": "2", "x.md": "3", "c/yx.md": "4"})
    git = GitRepository(repo.path)
    assert git.origin_url() is None
    repo.git("remote", "add", "origin", "git@github.com:o/r.git")
    assert git.origin_url() == "git@github.com:o/r.git"
    assert git.find_file(sha, "x.md") == ("a/x.md", "b/x.md", "x.md")
    assert git.find_file(sha, "nothing") == ()


def test_git_gc_keeps_a_retained_commit(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    parent, retained = repo.commit({"a": "parent\n"}), repo.commit({"a": "retained\n"})
    repo.git("reset", "-q", "--hard", "HEAD~2")
    hook = repo.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repo.path}/hook-ran\n")
    hook.chmod(0o755)
    git = GitRepository(repo.path)
    git.retain(retained)
    git.retain(retained)
    assert not (repo.path / "hook-ran").exists()
    assert code_of(lambda: git.retain("0" * 40)) == "REVISION_NOT_FOUND"
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert GitRepository(repo.path).read(retained, "a").data == b"retained\n"
    assert GitRepository(repo.path).read(parent, "a").data == b"parent\n"  # through its descendant
    assert git.read(retained, "a").data == b"retained\n"  # the long-lived git finds the new pack
    GitRepository(repo.path).retain(retained)  # the ref is packed by now


@pytest.mark.parametrize(("message", "code"), [("Read-only file system", None), ("out of luck", "GIT_TROUBLE")])
def test_a_read_only_repository_is_not_an_error(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, code: str | None
) -> None:
    sha = repo.commit({"a": "1\n"})
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in *update-ref*) echo "{message}" >&2; exit 128;; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    git = GitRepository(repo.path)
    if code is None:
        git.retain(sha)
        assert repo.git("for-each-ref", "refs/engrambus") == ""
    else:
        assert code_of(lambda: git.retain(sha)) == code


def test_a_repository_is_found_from_anywhere_in_it(repo: Repo, tmp_path: Path) -> None:
    sha = repo.commit({"dir/a": "x\n"})
    expected = (repo.path / ".git", repo.path)
    assert find_repository(repo.path) == expected
    assert find_repository(repo.path / "dir") == expected
    assert find_repository(repo.path / "dir" / "a") == expected
    assert find_repository(tmp_path) is None
    assert find_repository(tmp_path / "no" / "folder") is None
    assert code_of(lambda: GitRepository(tmp_path)) == "NO_REPOSITORY"

    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    linked = tmp_path / "linked"
    assert find_repository(linked / "dir") == expected
    repo.commit({"dir/a": "y\n"})
    git = GitRepository(linked)
    assert git.directory == repo.path / ".git"
    assert git.head(linked) == sha != git.head()

    bare = Repo(tmp_path / "bare.git", "--bare")
    assert find_repository(bare.path) == (bare.path, None)

    other = Repo(tmp_path / "other")
    other.commit({"x": "x"})
    repo.git("submodule", "--quiet", "add", str(other.path), "module")
    assert find_repository(repo.path / "module") == (repo.path / ".git" / "modules" / "module", None)


def test_a_linked_worktree_of_a_bare_repository_has_no_main_worktree(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"a": "x\n"})
    folder = tmp_path / "bare"
    folder.mkdir()
    repo.git("clone", "-q", "--bare", str(repo.path), str(folder / ".git"))
    repo.git("--git-dir", str(folder / ".git"), "worktree", "add", "-q", str(folder / "main"), "main")
    assert find_repository(folder / "main") == (folder / ".git", None)


def test_a_deleted_repository_is_reported(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    git = GitRepository(repo.path)
    shutil.rmtree(repo.path)
    assert code_of(lambda: git.read(sha, "a")) == "NO_REPOSITORY"
