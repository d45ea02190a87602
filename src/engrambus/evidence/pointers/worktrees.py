"""Worktrees of a repository: where a folder's checkout begins, and which commit is checked out there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from engrambus.core import is_hex

TIMEOUT_S = 10.0


class Worktree(NamedTuple):
    """A checkout of a repository."""

    top: Path
    directory: Path
    """Its own git directory, with its HEAD and its index."""


def find_worktree(folder: Path) -> Path | None:
    """Return the top folder of the checkout that a folder belongs to; None outside of git."""
    folder = folder.resolve()
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def checked_out_commit(worktree: Path) -> str | None:
    """Return the commit that is checked out in a worktree, as its files tell it; None if they do not."""
    # Reading files costs microseconds, starting git milliseconds, and every request may ask for this.
    try:
        folder = worktree / ".git"
        common = folder
        if folder.is_file():  # a linked worktree
            folder = worktree / folder.read_text("utf-8").strip().removeprefix("gitdir: ")
            common = folder / (folder / "commondir").read_text("utf-8").strip()
        text = (folder / "HEAD").read_text("ascii").strip()
        ref = text.removeprefix("ref: ")
        commit = text if ref == text else _read_branch(common, ref)
    except (OSError, UnicodeDecodeError):
        return None
    return commit if is_hex(commit, 40, 64) else None


def worktree_head(worktree: Path) -> str | None:
    """Return the commit that is checked out in a worktree, asking git where its files do not tell it."""
    commit = checked_out_commit(worktree)
    if commit is None:  # another format of refs, or no commit yet
        from engrambus.evidence.pointers.git_process import git_environment, run_git

        done = run_git(("-C", str(worktree), "rev-parse", "--verify", "--quiet", "HEAD"), git_environment(), TIMEOUT_S)
        commit = done.stdout.decode(errors="replace").strip()
    return commit if is_hex(commit, 40, 64) else None


def open_worktree(common: Path, top: Path) -> Worktree | None:
    """Return the worktree in a folder; None if it is none of the repository with this common directory."""
    directories = git_directories(top)
    return Worktree(top, directories[0]) if directories is not None and directories[1] == common else None


def git_directories(top: Path) -> tuple[Path, Path] | None:
    """Return a checkout's own git directory and the one its repository shares, as its files name them."""
    try:
        git_file = top / ".git"
        directory = git_file
        if git_file.is_file():
            directory = top / git_file.read_text("utf-8").strip().removeprefix("gitdir: ")
        directory = Path(os.path.realpath(directory))
        shared = directory
        if (directory / "commondir").is_file():
            shared = Path(os.path.realpath(directory / (directory / "commondir").read_text("utf-8").strip()))
    except (OSError, UnicodeDecodeError, ValueError):
        return None
    return directory, shared


def find_registered(common: Path, name: str) -> Worktree | None:
    """Return the worktree of a repository in the folder of this name, as a caller has sent it.

    The name is only compared with those that the repository has on record, so that no other folder is looked at.
    """
    if common.name == ".git" and name == str(common.parent):
        return open_worktree(common, common.parent)
    try:
        records = sorted(entry.path for entry in os.scandir(common / "worktrees"))
    except OSError:
        return None
    for record in records:
        try:
            git_file = Path(os.path.normpath(os.path.join(record, Path(record, "gitdir").read_text("utf-8").strip())))
        except (OSError, UnicodeDecodeError):
            continue
        if git_file.name == ".git" and os.path.realpath(git_file.parent) == name:
            worktree = open_worktree(common, git_file.parent)
            return worktree if worktree is not None and str(worktree.directory) == os.path.realpath(record) else None
    return None


def _read_branch(common: Path, ref: str) -> str:
    """Return the commit of a branch from its file or from the packed ones; empty if it has none."""
    if ".." in ref:
        return ""
    try:
        return (common / ref).read_text("ascii").strip()
    except FileNotFoundError:
        lines = (common / "packed-refs").read_text("utf-8").splitlines()
        return next((line.partition(" ")[0] for line in lines if line.endswith(f" {ref}")), "")


def git_identity(folder: Path) -> str | None:
    """Return the name and the mail address that git commits under in a folder; None if they are not configured."""
    from engrambus.evidence.pointers.git_process import git_environment, run_git

    done = run_git(("-C", str(folder), "var", "GIT_COMMITTER_IDENT"), git_environment(), TIMEOUT_S)
    # The time and the zone follow the address.
    name, found, _ = done.stdout.decode(errors="replace").rpartition("> ")
    return f"{name}>" if found and not done.returncode else None


def hooks_folder(worktree: Path) -> Path:
    """Return the folder that git takes the hooks of a worktree from: the repository's own, or a configured one."""
    from engrambus.evidence.pointers.git_process import git_environment, run_git

    def ask(*args: str) -> str:
        return os.fsdecode(run_git(args, git_environment(), TIMEOUT_S, folder=worktree).stdout).strip()

    # Each file by itself: our own commands run without hooks, which hides what the files say together.
    scopes = ("--local", "--global", "--system")
    configured = next(filter(None, (ask("config", scope, "--type=path", "core.hooksPath") for scope in scopes)), None)
    return worktree / (configured or Path(ask("rev-parse", "--git-common-dir")) / "hooks")
