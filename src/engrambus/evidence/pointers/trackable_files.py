"""The files below a folder that git would track: those in its index, and those that it does not ignore.

Where git cannot be asked, every file counts except those of caches. Nothing of a repository is run: no hook, filter or
file system monitor, and a repository that takes objects from outside itself is not asked.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

from engrambus.core import LruCache
from engrambus.errors import GitTrouble, NoRepository, RepositoryRefused
from engrambus.evidence.pointers.file_statuses import FileStatuses
from engrambus.evidence.pointers.git import GitRepository
from engrambus.evidence.pointers.git_process import git_environment, run_git
from engrambus.evidence.pointers.worktrees import find_worktree, git_directories

TIMEOUT_S = 60.0
MAX_NESTED = 64
"""Repositories inside a folder that are asked for their files; those of the others all count, except caches."""
_SKIPPED_FOLDERS = frozenset({b".git", b".hg", b".svn", b".catalog", b"__pycache__", b"node_modules"})
_SKIP_MARKS = frozenset({b"CACHEDIR.TAG", b"pyvenv.cfg"})
"""Files by which tools mark a folder as a cache, and Python marks one as an environment."""


class TrackableFiles:
    """Lists the files of folders. Safe to share between threads."""

    def __init__(self) -> None:
        self._repositories: LruCache[Path, GitRepository] = LruCache(256)
        self._lock = threading.Lock()

    def below(self, folder: Path) -> set[bytes]:
        """Return the files and links below a folder, as paths relative to it. Some may be deleted on disk."""
        return self._below(folder, [MAX_NESTED])

    def _below(self, folder: Path, nested_left: list[int]) -> set[bytes]:
        listed = self._ask_git(folder, nested_left)
        # decision 104: a folder that is named although git ignores it is read whole; else no change in it would count.
        return listed or _walk(os.fsencode(folder))

    def _ask_git(self, folder: Path, nested_left: list[int]) -> set[bytes]:
        """Return the files that git would track; none if there are none, or if git cannot be asked."""
        top = find_worktree(folder)
        directories = git_directories(top) if top is not None else None
        if top is None or directories is None:
            return set()
        directory, common = directories
        try:
            self._check(common)
            # With the user's own configuration, which may name more files to ignore; the repository's cannot move the
            # worktree, because both folders are given.
            environment = git_environment() | {"GIT_DIR": str(directory), "GIT_WORK_TREE": str(top)}
            options = ("--cached", "--others", "--exclude-standard")
            done = run_git(("ls-files", "-z", *options), environment, TIMEOUT_S, folder=folder)
        except (GitTrouble, NoRepository, RepositoryRefused):
            return set()
        if done.returncode:
            return set()
        paths = {path for path in done.stdout.split(b"\0") if path}
        for path in _folders_among(paths, folder):
            paths.discard(path)
            name = path.rstrip(b"/")
            inner = folder / os.fsdecode(name)
            if nested_left[0] > 0 and self._is_inside(inner, top, common):
                nested_left[0] -= 1
                inner_paths = self._below(inner, nested_left)
            else:
                inner_paths = _walk(os.fsencode(inner))
            paths.update(b"%s/%s" % (name, below) for below in inner_paths)
        return paths

    def _check(self, common: Path) -> None:
        """Refuse a repository that has links in its own directory, or takes objects from outside it."""
        with self._lock:
            repository = self._repositories.get(common)
            if repository is None:
                repository = GitRepository(common)
                self._repositories.put(common, repository)
            repository.check_own_objects()

    @staticmethod
    def _is_inside(inner: Path, top: Path, common: Path) -> bool:
        """True for a repository whose git directory lies in the outer worktree, or in the outer repository's own."""
        directories = git_directories(inner) if (inner / ".git").exists() else None
        return directories is not None and all(
            directory.is_relative_to(top.resolve()) or directory.is_relative_to(common) for directory in directories
        )


def _folders_among(paths: set[bytes], folder: Path) -> list[bytes]:
    """Return the paths that are folders on disk: git names submodules and other repositories by their folder."""
    status_of = FileStatuses(folder).get
    statuses = ((path, status_of(path.rstrip(b"/"))) for path in sorted(paths))
    return [path for path, status in statuses if status is not None and stat.S_ISDIR(status.st_mode)]


def _walk(top: bytes) -> set[bytes]:
    """Return every file and link below a folder, without version control, environments and caches."""
    paths: set[bytes] = set()
    queue = [b""]
    while queue:
        folder = queue.pop()
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(os.path.join(top, folder)) as entries:
            inside = list(entries)
            if folder and not _SKIP_MARKS.isdisjoint(entry.name for entry in inside):
                continue
            for entry in inside:
                path = os.path.join(folder, entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    paths.add(path)
                elif entry.name not in _SKIPPED_FOLDERS:
                    queue.append(path)
    return paths
