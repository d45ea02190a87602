"""Folders that steps read hold what git would track: caches and environments change nothing. # YT-09"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from engrambus.space.work.input_files import InputFiles
from tests.space.worker_harness import WorkerHarness, step

PATTERNS = ["src", "src/", ".", "s*", "**", "src/**/*.py", "**/*.py", "${folder}"]


def git(folder: Path, *args: str) -> str:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def digests(root: Path, *patterns: str, files: InputFiles | None = None) -> dict[str, str]:
    return (files or InputFiles()).digests(root, patterns, {"folder": "src"})


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Return a repository with a tracked, an untracked and an ignored file."""
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    git(root, "init", "-q")
    (root / ".gitignore").write_text("__pycache__/\n.venv/\ndist/\n*.log\n")
    (root / "src/tracked.py").write_text("tracked")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "src/untracked.py").write_text("untracked")
    return root


@pytest.mark.parametrize("pattern", PATTERNS)
def test_ignored_files_change_nothing(repo: Path, pattern: str) -> None:
    original = digests(repo, pattern)
    assert {"src/tracked.py", "src/untracked.py"} <= original.keys()
    (repo / "src/__pycache__").mkdir()
    (repo / "src/__pycache__/tracked.py").write_bytes(b"cache")
    (repo / "src/debug.log").write_text("line")
    (repo / ".venv/bin").mkdir(parents=True)
    (repo / ".venv/bin/python").symlink_to("/usr/bin/env")
    (repo / ".venv/x.py").touch()
    assert digests(repo, pattern) == original


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_git_would_track_is_read_from_the_disk(repo: Path, pattern: str) -> None:
    original = digests(repo, pattern)
    (repo / "src/tracked.py").write_text("edited, not added")
    edited = digests(repo, pattern)
    assert edited["src/tracked.py"] != original["src/tracked.py"]
    git(repo, "commit", "-qam", "second")
    assert digests(repo, pattern) == edited, "a commit changes no file"
    (repo / "src/new.py").write_text("new")
    assert digests(repo, pattern).keys() - edited.keys() == {"src/new.py"}
    (repo / "src/tracked.py").unlink()
    assert "src/tracked.py" not in digests(repo, pattern), "deleted, though still in the index"


def test_a_file_that_is_named_counts_though_it_is_ignored(repo: Path) -> None:
    (repo / "src/debug.log").write_text("one")
    original = digests(repo, "src/debug.log")
    (repo / "src/debug.log").write_text("two")
    assert digests(repo, "src/debug.log") != original
    assert original.keys() == {"src/debug.log"}


@pytest.mark.parametrize("pattern", ["dist", "dist/*.js", "dist/**"])
def test_a_folder_that_is_named_counts_though_it_is_ignored(repo: Path, pattern: str) -> None:
    """Else a step that deploys a build would be answered from the cache whatever was built."""
    (repo / "dist/__pycache__").mkdir(parents=True)
    (repo / "dist/a.js").write_text("one")
    original = digests(repo, pattern)
    assert original.keys() == {"dist/a.js"}
    (repo / "dist/__pycache__/b.js").touch()
    assert digests(repo, pattern) == original
    (repo / "dist/a.js").write_text("two")
    assert digests(repo, pattern) != original


def test_ignore_rules_of_the_user_and_of_the_clone_count(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = digests(repo, "src")
    (tmp_path / "ignored").write_text("*.swp\n")
    (tmp_path / "config").write_text(f"[core]\nexcludesFile = {tmp_path / 'ignored'}\n")
    (repo / ".git/info/exclude").write_text("*.local\n")
    (repo / "src/a.swp").touch()
    (repo / "src/a.local").touch()
    assert digests(repo, "src").keys() - original.keys() == {"src/a.swp"}
    # Restored by monkeypatch: the user's configuration is found by HOME.
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "config").rename(tmp_path / ".gitconfig")
    assert digests(repo, "src") == original


def test_a_link_of_the_repository_counts_as_its_target(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (repo / "src/out").symlink_to(tmp_path / "outside")
    (repo / "src/loop").symlink_to(".")
    git(repo, "add", "src/out")
    original = digests(repo, "src")
    assert {"src/out", "src/loop"} <= original.keys()
    (tmp_path / "outside/new").touch()
    assert digests(repo, "src") == original
    (repo / "src/out").unlink()
    (repo / "src/out").symlink_to("/etc")
    assert digests(repo, "src")["src/out"] != original["src/out"]


def test_a_folder_that_became_a_link_hides_its_files(repo: Path, tmp_path: Path) -> None:
    """Git's index still names the file, which is now another one, outside the project."""
    (repo / "src").rename(tmp_path / "moved")
    (repo / "src").symlink_to(tmp_path / "moved")
    assert digests(repo, ".").keys() == {".gitignore", "src"}


def test_files_of_submodules_and_of_repositories_inside_are_inputs(repo: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "lib.py").write_text("one")
    git(library, "add", ".")
    git(library, "commit", "-qm", "first")
    git(repo, "submodule", "add", "-q", str(library), "sub")
    git(repo, "clone", "-q", str(library), "nested")
    git(repo, "worktree", "add", "-q", "tree", "-b", "other")
    original = digests(repo, ".")
    assert {"sub/lib.py", "nested/lib.py", "tree/src/tracked.py"} <= original.keys()
    assert not [path for path in original if ".git/" in path or path.endswith("/.git")]
    for name in ("sub", "nested"):
        (repo / name / ".gitignore").write_text("*.o\n")
        (repo / name / "lib.py").write_text("two")
        (repo / name / "lib.o").touch()
    changed = digests(repo, ".")
    assert {path for path in changed if changed[path] != original.get(path)} == {
        f"{name}/{file}" for name in ("sub", "nested") for file in (".gitignore", "lib.py")
    }


def test_a_repository_cannot_have_git_run_anything_or_look_elsewhere(repo: Path, tmp_path: Path) -> None:
    (repo / "run.sh").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (repo / "run.sh").chmod(0o755)
    (tmp_path / "elsewhere").mkdir()
    (repo / ".gitattributes").write_text("* filter=run\n")
    with open(repo / ".git/config", "a") as config:
        config.write(
            f"[core]\nfsmonitor = {repo}/run.sh\nhooksPath = {repo}\nworktree = {tmp_path}/elsewhere\n"
            f'[filter "run"]\nclean = {repo}/run.sh\nprocess = {repo}/run.sh\n'
        )
    assert {"src/tracked.py", "src/untracked.py"} <= digests(repo, ".").keys()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("damage", ["index", "alternates", "gitdir"])
def test_without_an_answer_of_git_every_file_counts_except_caches(repo: Path, tmp_path: Path, damage: str) -> None:
    match damage:
        case "index":
            (repo / ".git/index").write_bytes(b"garbage")
        case "alternates":
            (repo / ".git/objects/info/alternates").write_text(f"{tmp_path}\n")
        case "gitdir":
            (repo / ".git").rename(tmp_path / "gone")
            (repo / ".git").write_text("gitdir: /nowhere\n")
    (repo / "src/__pycache__").mkdir()
    (repo / "src/__pycache__/a.pyc").touch()
    (repo / "src/debug.log").touch()
    for name, mark in (("env", "pyvenv.cfg"), (".cache", "CACHEDIR.TAG")):
        (repo / name).mkdir()
        (repo / name / mark).touch()
        (repo / name / "file").touch()
    assert digests(repo, ".").keys() == {".gitignore", "src/tracked.py", "src/untracked.py", "src/debug.log"}


def test_a_file_is_hashed_again_whenever_it_may_have_changed(repo: Path) -> None:
    """As fast as writing allows: with the same size, and with its time of writing set back."""
    files, path = InputFiles(), repo / "src/tracked.py"
    seen = set()
    for number in range(50):
        path.write_text(f"{number:04}")
        os.utime(path, ns=(0, 0))
        seen.add(digests(repo, "src", files=files)["src/tracked.py"])
    assert len(seen) == 50


def test_a_step_that_reads_everything_goes_on_beside_a_virtual_environment(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    git(project, "init", "-q")
    (project / ".gitignore").write_text(".catalog\n.venv\n")
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python").symlink_to("/usr/bin/env")
    harness.put(step("agent.read.everything"))
    assert harness.work() == ["miss", "done"]
    (project / ".venv/more").touch()
    harness.put(step("agent.read.everything"))
    assert harness.work() == ["hit", "done"]
