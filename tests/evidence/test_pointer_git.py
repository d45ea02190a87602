"""Reading git: what is proved, what is refused, and what it survives."""  # EB-04

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
def test_any_path_a_pointer_may_hold_is_found(repo: Repo, path: str) -> None:
    sha = repo.commit({path: "here"})
    assert GitRepository(repo.path).read(sha, path).data == b"here"


def test_what_is_missing_or_no_file_has_its_own_code(repo: Repo, tmp_path: Path) -> None:
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


def test_files_larger_than_a_pipe_arrive_whole(repo: Repo) -> None:
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
    # Forty digits of a longer id are a shortened id, not a commit.
    assert code_of(lambda: git.read(sha[:40], "a/b")) == "REVISION_NOT_FOUND"


def test_a_branch_named_like_an_id_is_not_one(repo: Repo) -> None:
    repo.commit({"a": "x"})
    repo.git("update-ref", "refs/heads/" + "a" * 64, "HEAD")
    repo.git("update-ref", "refs/heads/" + "b" * 40, "HEAD")
    git = GitRepository(repo.path)
    assert code_of(lambda: git.read("a" * 64, "a")) == "REVISION_NOT_FOUND"
    assert code_of(lambda: git.read("b" * 40, "a")) == "REVISION_NOT_FOUND"


def test_replace_refs_change_nothing(repo: Repo) -> None:
    sha = repo.commit({"a": "true\n"})
    forged = repo.git("hash-object", "-w", "--stdin", given=b"forged\n")
    repo.git("replace", repo.git("rev-parse", "HEAD:a"), forged)
    assert repo.git("show", f"{sha}:a") == "forged"
    assert GitRepository(repo.path).read(sha, "a").data == b"true\n"


@pytest.mark.parametrize("relative", [False, True])
def test_objects_from_outside_are_refused(repo: Repo, tmp_path: Path, relative: bool) -> None:
    other = Repo(tmp_path / "other")
    sha = other.commit({"a": "x\n"})
    repo.commit({"b": "y\n"})
    git = GitRepository(repo.path)
    assert code_of(lambda: git.read(sha, "a")) == "REVISION_NOT_FOUND"
    place = "../../../other/.git/objects" if relative else str(other.path / ".git" / "objects")
    (repo.path / ".git" / "objects" / "info" / "alternates").write_text(place + "\n")
    assert code_of(lambda: git.read(sha, "a")) == "REPOSITORY_REFUSED"
    assert code_of(lambda: GitRepository(repo.path).head()) == "REPOSITORY_REFUSED"


def test_objects_lent_inside_the_repository_are_its_own(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    objects = repo.path / ".git" / "objects"
    (repo.path / ".git" / "more").mkdir()
    for folder in objects.iterdir():
        if len(folder.name) == 2:
            folder.rename(repo.path / ".git" / "more" / folder.name)
    (objects / "info" / "alternates").write_text("# ours\n../more\n")
    assert GitRepository(repo.path).read(sha, "a").data == b"x\n"
    (repo.path / ".git" / "more" / "info").mkdir()
    (repo.path / ".git" / "more" / "info" / "alternates").write_text("/tmp\n")
    assert code_of(lambda: GitRepository(repo.path).read(sha, "a")) == "REPOSITORY_REFUSED"


def test_an_objects_folder_that_leads_outside_is_refused(repo: Repo, tmp_path: Path) -> None:
    sha = repo.commit({"a": "x\n"})
    objects = repo.path / ".git" / "objects"
    objects.rename(tmp_path / "elsewhere")
    objects.symlink_to(tmp_path / "elsewhere")
    assert code_of(lambda: GitRepository(repo.path).read(sha, "a")) == "REPOSITORY_REFUSED"


def test_the_callers_git_environment_is_not_gits(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("what", ["HEAD", "HEAD^{tree}", "HEAD:dir", "HEAD:dir/a"])
def test_a_forged_object_is_noticed(repo: Repo, what: str) -> None:
    sha = repo.commit({"dir/a": "true\n"})
    kind = repo.git("cat-file", "-t", what)
    place = repo.loose(repo.git("rev-parse", what))
    content = zlib.decompress(place.read_bytes())
    forged = content.replace(b"true", b"fake") if kind == "blob" else content[:-1] + bytes([content[-1] ^ 1])
    place.chmod(0o600)
    place.write_bytes(zlib.compress(forged))
    assert code_of(lambda: GitRepository(repo.path).read(sha, "dir/a")) == "OBJECT_DAMAGED"


def test_a_torn_object_is_trouble_and_other_reads_go_on(repo: Repo) -> None:
    sha = repo.commit({"a": b"torn\n" * 100, "b": "whole\n"})
    place = repo.loose(repo.git("rev-parse", "HEAD:a"))
    place.chmod(0o600)
    place.write_bytes(place.read_bytes()[:10])
    git = GitRepository(repo.path)
    assert git.read(sha, "b").data == b"whole\n"
    assert code_of(lambda: git.read(sha, "a")) in ("GIT_TROUBLE", "OBJECT_DAMAGED")
    assert git.read(sha, "b").data == b"whole\n"


def test_a_commit_that_is_not_here_whole_is_trouble(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    repo.loose(repo.git("rev-parse", "HEAD:a")).unlink()
    assert code_of(lambda: GitRepository(repo.path).read(sha, "a")) == "GIT_TROUBLE"


def test_a_killed_git_is_started_again(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    git = GitRepository(repo.path)
    for _ in range(3):
        assert git.read(sha, "a").data == b"x\n"
        assert git.git_pid is not None
        os.kill(git.git_pid, signal.SIGKILL)
    git.close()
    assert git.git_pid is None
    assert git.read(sha, "a").data == b"x\n"


def test_threads_share_one_git_even_while_it_is_being_killed(repo: Repo) -> None:
    files = {f"d{n}/f{n}": f"content of {n}\n" * (n + 1) for n in range(20)}
    sha = repo.commit(dict(files))
    git = GitRepository(repo.path)
    wrong: list[object] = []
    reads: list[str] = []
    enough = threading.Event()

    def hammer(seed: int) -> None:
        turn = seed
        while not enough.is_set() and not wrong:
            turn += 7
            path, content = list(files.items())[turn % len(files)]
            try:
                if git.read(sha, path).data != content.encode():
                    wrong.append(path)
                reads.append(path)
            except EngramBusError as problem:
                wrong.append(problem.problem())

    threads = [threading.Thread(target=hammer, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    kills = seen = 0
    while kills < 5 and not wrong:
        pid = git.git_pid
        if pid is not None and len(reads) > seen + 20:
            os.kill(pid, signal.SIGKILL)
            kills, seen = kills + 1, len(reads)
        enough.wait(0.002)
    enough.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_fork_reads_with_a_git_of_its_own(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    git = GitRepository(repo.path)
    git.read(sha, "a")
    parents = git.git_pid
    with git._reader._lock, warnings.catch_warnings():  # as if another thread were reading at this moment
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks among threads
        child = os.fork()
        if child == 0:
            same = git.read(sha, "a").data == b"x\n" and git.git_pid != parents
            git.close()
            os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert git.git_pid == parents
    assert git.read(sha, "a").data == b"x\n"


def test_a_hung_git_and_an_absent_git_are_trouble(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha = repo.commit({"a": "x\n"})
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{fake.parent}:{path}")
    hung = GitRepository(repo.path / ".git", timeout_s=0.2)
    assert code_of(lambda: hung.read(sha, "a")) == "GIT_TROUBLE"
    assert code_of(hung.head) == "GIT_TROUBLE"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_of(lambda: GitRepository(repo.path / ".git").read(sha, "a")) == "GIT_TROUBLE"
    assert find_repository(repo.path) is None


def test_revisions_as_people_write_them(repo: Repo) -> None:
    git = GitRepository(repo.path)
    assert code_of(git.head) == "REVISION_NOT_FOUND"
    sha = repo.commit({"a": "x\n"})
    repo.git("tag", "v1.0")
    repo.git("branch", "topic")
    assert git.head() == sha
    for written in (sha[:8], "HEAD", "topic", "v1.0", sha):
        assert git.expand(written) == sha
    for option in ("-h", "--all", "--output=x", "", "a\nb"):
        assert code_of(lambda option=option: git.expand(option)) == "POINTER_REVISION"  # type: ignore[misc]
    for absent in ("nothing", "HEAD:a", "f" * 40, "f" * 7):
        assert code_of(lambda absent=absent: git.expand(absent)) == "REVISION_NOT_FOUND"  # type: ignore[misc]


def test_tags_are_tags_and_nothing_else(repo: Repo) -> None:
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


def test_origin_and_files_by_name(repo: Repo) -> None:
    sha = repo.commit({"a/x.md": "1", "b/x.md": "2", "x.md": "3", "c/yx.md": "4"})
    git = GitRepository(repo.path)
    assert git.origin_url() is None
    repo.git("remote", "add", "origin", "git@github.com:o/r.git")
    assert git.origin_url() == "git@github.com:o/r.git"
    assert git.find_file(sha, "x.md") == ("a/x.md", "b/x.md", "x.md")
    assert git.find_file(sha, "nothing") == ()


def test_a_kept_commit_outlives_its_branch(repo: Repo) -> None:
    repo.commit({"a": "1\n"})
    lost, kept = repo.commit({"a": "lost\n"}), repo.commit({"a": "kept\n"})
    repo.git("reset", "-q", "--hard", "HEAD~2")
    hook = repo.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repo.path}/hook-ran\n")
    hook.chmod(0o755)
    git = GitRepository(repo.path)
    git.retain(kept)
    git.retain(kept)
    assert not (repo.path / "hook-ran").exists()
    assert code_of(lambda: git.retain("0" * 40)) == "REVISION_NOT_FOUND"
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert GitRepository(repo.path).read(kept, "a").data == b"kept\n"
    assert GitRepository(repo.path).read(lost, "a").data == b"lost\n"  # kept through its descendant
    assert git.read(kept, "a").data == b"kept\n"  # the long-lived git finds the new pack
    GitRepository(repo.path).retain(kept)  # packed by now


@pytest.mark.parametrize(("said", "code"), [("Read-only file system", None), ("out of luck", "GIT_TROUBLE")])
def test_a_read_only_repository_is_left_as_it_is(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: str | None
) -> None:
    sha = repo.commit({"a": "1\n"})
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in *update-ref*) echo "{said}" >&2; exit 128;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    git = GitRepository(repo.path)
    if code is None:
        git.retain(sha)
    else:
        assert code_of(lambda: git.retain(sha)) == code


def test_a_repository_is_found_from_anywhere_in_it(repo: Repo, tmp_path: Path) -> None:
    sha = repo.commit({"dir/a": "x\n"})
    found = (repo.path / ".git", repo.path)
    assert find_repository(repo.path) == found
    assert find_repository(repo.path / "dir") == found
    assert find_repository(repo.path / "dir" / "a") == found
    assert find_repository(tmp_path) is None
    assert find_repository(tmp_path / "nothing" / "here") is None
    assert code_of(lambda: GitRepository(tmp_path)) == "NO_REPOSITORY"

    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    linked = tmp_path / "linked"
    assert find_repository(linked / "dir") == found
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


def test_a_linked_worktree_of_a_bare_repository_has_no_main_one(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"a": "x\n"})
    place = tmp_path / "house"
    place.mkdir()
    repo.git("clone", "-q", "--bare", str(repo.path), str(place / ".git"))
    repo.git("--git-dir", str(place / ".git"), "worktree", "add", "-q", str(place / "main"), "main")
    assert find_repository(place / "main") == (place / ".git", None)


def test_a_repository_that_went_away_is_said_so(repo: Repo) -> None:
    sha = repo.commit({"a": "x\n"})
    git = GitRepository(repo.path)
    shutil.rmtree(repo.path)
    assert code_of(lambda: git.read(sha, "a")) == "NO_REPOSITORY"
