"""The folders of a project: one `.catalog` for a repository and all its worktrees."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from engrambus.core import new_ulid
from engrambus.errors import FormatUnknown, ProjectExists, ProjectNotFound
from engrambus.policy import create_project, find_project

SETTINGS = (
    "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false",
    "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always",
)  # fmt: skip


def git(folder: Path, *words: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", *SETTINGS, *words], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    repo = tmp_path / "repo"
    git(repo, "init", "-q")
    (repo / "deep" / "er").mkdir(parents=True)
    (repo / "deep" / "er" / "file").write_text("x")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "first")
    return repo


def test_a_project_is_created_at_the_root_of_its_repository(repo: Path) -> None:
    project = create_project(repo / "deep" / "er", new_ulid(0))
    assert project.root == repo
    assert project.catalog == repo / ".catalog"
    assert project.git_folder == repo / ".git"
    for folder in (repo, repo / "deep", repo / "deep" / "er"):
        assert find_project(folder) == project


def test_only_the_files_for_git_are_committed(repo: Path) -> None:
    project = create_project(repo, new_ulid(0))
    (project.catalog / "memory.jsonl").write_text("x")
    (project.catalog / "index.db").write_text("x")
    git(repo, "add", "-A")
    listed = subprocess.run(["git", "ls-files"], cwd=repo, check=True, capture_output=True, text=True).stdout.split()
    assert sorted(name for name in listed if name.startswith(".catalog/")) == [
        ".catalog/.gitignore",
        ".catalog/policy.yaml",
        ".catalog/project.yaml",
    ]


def test_linked_worktrees_share_the_project(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    project = create_project(tmp_path / "linked" / "deep", new_ulid(0))
    assert project.catalog == repo / ".catalog"
    assert find_project(repo) == project
    assert find_project(tmp_path / "linked" / "deep" / "er") == project
    with pytest.raises(ProjectExists):
        create_project(repo, new_ulid(0))


def test_a_bare_repository_contains_its_catalog(tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(bare, "init", "-q", "--bare")
    project = create_project(bare, new_ulid(0))
    assert project.catalog == bare / ".catalog"
    assert project.git_folder == bare
    assert find_project(bare / "refs") == project


def test_worktrees_of_a_bare_repository_share_the_project(repo: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(bare))
    git(bare, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    project = create_project(tmp_path / "tree", new_ulid(0))
    assert project.catalog == bare / ".catalog"
    assert project.root == tmp_path / "tree"
    assert find_project(bare) == msgspec.structs.replace(project, root=bare)


def test_a_submodule_is_a_separate_project(repo: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    git(outer, "init", "-q")
    git(outer, "submodule", "add", "-q", str(repo), "inner")
    inner_project = create_project(outer / "inner", new_ulid(0))
    assert inner_project.catalog == outer / ".git" / "modules" / "inner" / ".catalog"
    assert inner_project.root == outer / "inner"
    outer_project = create_project(outer, new_ulid(1))
    assert outer_project.catalog == outer / ".catalog"
    assert find_project(outer / "inner" / "deep") == inner_project
    assert find_project(outer) == outer_project


def test_a_repository_inside_another_is_a_separate_project(repo: Path) -> None:
    outer_project = create_project(repo, new_ulid(0))
    inner = repo / "vendor" / "inner"
    git(inner, "init", "-q")
    with pytest.raises(ProjectNotFound):
        find_project(inner)
    inner_project = create_project(inner, new_ulid(1))
    assert find_project(inner) == inner_project
    assert find_project(repo / "vendor") == outer_project


def test_without_git_the_nearest_catalog_above_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    (folder / "a" / "b").mkdir(parents=True)
    with pytest.raises(ProjectNotFound):
        find_project(folder)
    project = create_project(folder, new_ulid(0))
    assert project.git_folder is None
    assert find_project(folder / "a" / "b") == project
    with pytest.raises(ProjectExists):
        create_project(folder / "a", new_ulid(0))


def test_a_project_is_found_through_a_symbolic_link(repo: Path, tmp_path: Path) -> None:
    project = create_project(repo, new_ulid(0))
    (tmp_path / "link").symlink_to(repo / "deep")
    assert find_project(tmp_path / "link" / "er") == project


def test_creating_a_project_keeps_an_existing_policy_file(repo: Path) -> None:
    (repo / ".catalog").mkdir()
    (repo / ".catalog" / "policy.yaml").write_text("max_ttl: P1D\n")
    create_project(repo, new_ulid(0))
    assert (repo / ".catalog" / "policy.yaml").read_text() == "max_ttl: P1D\n"


def test_further_repositories_are_read_by_name(repo: Path, tmp_path: Path) -> None:
    project = create_project(repo, new_ulid(0))
    file = project.catalog / "project.yaml"
    file.write_text(f"project: {project.project_id}\nrepositories:\n  lib: ../lib\n  abs: {tmp_path}/abs\n")
    assert find_project(repo).repositories == {"lib": tmp_path / "lib", "abs": tmp_path / "abs"}


@pytest.mark.parametrize(
    "text",
    [
        "", "project:", "project: nothing\n", "- a\n", "project: [1]\n", "project: 01KDVP9R00\n", "x",
        "project: &a b\n",
        "project: 01KDVP9R000000000000000000\nrepositories: [a]\n",
        "project: 01KDVP9R000000000000000000\nrepositories: {a: 1}\n",
    ],
)  # fmt: skip
def test_an_invalid_project_file_is_refused(repo: Path, text: str) -> None:
    project = create_project(repo, new_ulid(0))
    (project.catalog / "project.yaml").write_text(text)
    with pytest.raises(FormatUnknown):
        find_project(repo)
    (project.catalog / "project.yaml").write_bytes(b"project: \xff\n")
    with pytest.raises(FormatUnknown):
        find_project(repo)
