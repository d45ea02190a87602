"""Where a project's evidence lies."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engrambus.errors import RevisionNotFound
from engrambus.evidence.pointers import GitRepository, Repositories
from engrambus.gateway import ProjectFiles
from tests.projects import make_repository


def _git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_the_head_is_what_git_says_it_is(tmp_path: Path) -> None:
    made = make_repository(tmp_path / "main")
    other = tmp_path / "linked"
    _git(made.path, "worktree", "add", "-b", "other", str(other))
    _git(other, "commit", "--allow-empty", "-m", "on the side")
    for step in (
        [],
        ["commit", "--allow-empty", "-m", "on a branch"],
        ["pack-refs", "--all"],
        ["checkout", "-q", "--detach"],
        ["checkout", "-q", "-b", "deep/er"],
    ):
        if step:
            _git(made.path, *step)
        for folder in (made.path, other):
            project_files = ProjectFiles(folder, Repositories(GitRepository(made.path)))
            assert project_files.head() == project_files.expand("HEAD")
            project_files.close()


def test_a_repository_without_a_commit_has_no_head(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    project_files = ProjectFiles(tmp_path, Repositories(GitRepository(tmp_path)))
    with pytest.raises(RevisionNotFound):
        project_files.head()
    project_files.close()
