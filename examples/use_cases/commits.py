"""Reads a git history: commits with the lines they change, and files at a commit. Nothing is written."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

MAX_FILE_BYTES = 200_000
"""A longer file is most likely not written by hand."""
MAX_FILES = 4000

_SUFFIXES = (".py", ".js", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".rb", ".php", ".c", ".cc", ".cpp", ".h", ".cs")
_SIMPLE_PATH = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_NOT_OURS = re.compile(r"(^|/)(node_modules|vendor|third_party|dist|build|\.[^/]+)/|\.min\.|_pb2|generated", re.I)
_TEST = re.compile(r"(^|/)(tests?|testing|spec|__tests__)(/|$)|(^|/)(test_|conftest\.)|_test\.|\.spec\.|\.test\.", re.I)
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_DIFF = ("-U0", "-M", "--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")


class Hunk(NamedTuple):
    """Lines that a commit changes, by the numbers of the new file."""

    first: int
    last: int
    """Smaller than `first` if lines were only deleted, after the line `last`."""

    def touches(self, first: int, last: int) -> bool:
        """True if it changes one of these lines, or deletes lines between two of them."""
        return self.first <= last and self.last >= first if self.last >= self.first else first <= self.last < last


class FileChange(NamedTuple):
    """What a commit does to one file."""

    path: str
    old_path: str
    """Another path if the file was moved; empty if it is new."""
    hunks: tuple[Hunk, ...]


class Commit(NamedTuple):
    """A commit with one parent."""

    sha: str
    parent: str
    subject: str
    files: tuple[FileChange, ...]
    """The source files it leaves, with what it changes in them; tests among them."""

    @property
    def sources(self) -> tuple[FileChange, ...]:
        """The changed source files that are no tests."""
        return tuple(change for change in self.files if not is_test(change.path))


def is_source(path: str) -> bool:
    """True if a path looks like source code written in this repository."""
    return bool(path.endswith(_SUFFIXES) and _SIMPLE_PATH.fullmatch(path) and not _NOT_OURS.search(path))


def is_test(path: str) -> bool:
    """True if a path looks like that of a test, or of what tests share."""
    return bool(_TEST.search(path))


class History:
    """The commits of one repository, up to one of them."""

    def __init__(self, folder: Path, head: str = "HEAD") -> None:
        self.folder = folder
        self._head = head

    @cached_property
    def head(self) -> str:
        """The newest commit's id; empty if there is none, or no repository."""
        try:
            return git(self.folder, "rev-parse", "--verify", "--quiet", f"{self._head}^{{commit}}").strip()
        except subprocess.CalledProcessError:
            return ""

    def commits(self, *options: str, limit: int) -> Iterator[Commit]:
        """Yield the newest commits that have one parent, newest first; `options` are those of `git log`."""
        if not self.head:
            return
        ids = git(self.folder, "log", "--min-parents=1", "--max-parents=1", f"-n{limit}", "--format=%H %P %s", *options,
                  self.head, "--")  # fmt: skip
        for line in ids.splitlines():
            sha, parent, subject = [*line.split(" ", 2), ""][:3]
            if self._has(parent):  # not beyond the edge of a shallow clone
                yield Commit(sha, parent, subject, tuple(self._files(parent, sha)))

    def texts(self, commit: str, paths: Iterable[str] | None = None) -> dict[str, str]:
        """Return the text of the source files at a commit, or only of these paths."""
        rows = git(self.folder, "ls-tree", "-r", "-l", "-z", commit).split("\0")
        wanted = None if paths is None else set(paths)
        blobs: dict[str, str] = {}
        for row in filter(None, rows):
            about, _, path = row.partition("\t")
            mode, _, blob, size = about.split()
            small = mode.startswith("100") and size.isdigit() and int(size) < MAX_FILE_BYTES
            if small and is_source(path) and (wanted is None or path in wanted):
                blobs[path] = blob
        return dict(_read_blobs(self.folder, dict(list(blobs.items())[:MAX_FILES])))

    def patch(self, commit: Commit) -> str:
        """Return the patch of the changed source files without tests, as `git show` prints it."""
        paths = [path for change in commit.sources for path in {change.path, change.old_path} if path]
        options = [option for option in _DIFF if option != "-U0"]
        return git(self.folder, "diff", *options, commit.parent, commit.sha, "--", *paths)

    def _has(self, commit: str) -> bool:
        try:
            git(self.folder, "cat-file", "-e", f"{commit}^{{commit}}")
        except subprocess.CalledProcessError:
            return False
        return True

    def _files(self, parent: str, sha: str) -> Iterator[FileChange]:
        path = old_path = ""
        hunks: list[Hunk] = []
        for line in [*git(self.folder, "diff", *_DIFF, parent, sha, "--").splitlines(), "diff --git"]:
            if line.startswith("diff --git"):
                if is_source(path):
                    yield FileChange(path, old_path, tuple(hunks))
                path = old_path = ""
                hunks = []
            elif line.startswith(("rename from ", "--- a/")):
                old_path = line.partition("rename from ")[2] or line[6:].rstrip("\t")
            elif line.startswith(("rename to ", "+++ b/")):
                path = line.partition("rename to ")[2] or line[6:].rstrip("\t")
            elif match := _HUNK.match(line):
                first, count = int(match[3]), int(match[4] or "1")
                hunks.append(Hunk(first, first + count - 1) if count else Hunk(first + 1, first))


def git(folder: Path, *arguments: str) -> str:
    """Run git without the user's configuration, hooks and lazy fetching, and return its output."""
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True, env=_environment())
    return done.stdout.decode("utf-8", "replace")


def clone(repository: Path, commit: str, folder: Path) -> Path:
    """Check a commit out in a clone, so that the repository stays as it is."""
    source = git(repository, "rev-parse", "--path-format=absolute", "--git-common-dir").strip()
    git(folder, "clone", "--quiet", "--no-checkout", "--template=", source, "clone")
    git(folder / "clone", "checkout", "--quiet", "--detach", commit)
    return folder / "clone"


def _read_blobs(folder: Path, blobs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    names = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    done = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=folder, input=names, capture_output=True, check=True, env=_environment()
    )
    data, position = done.stdout, 0
    for path in blobs:
        line_end = data.index(b"\n", position)
        head = data[position:line_end].split()
        size = 0 if head[-1] == b"missing" else int(head[-1])
        position = line_end + 1
        if head[-1] == b"missing":
            continue
        body = data[position : position + size]
        position += size + 1
        if b"\0" not in body:
            try:
                yield path, body.decode()
            except UnicodeDecodeError:
                continue


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**inherited, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_NO_LAZY_FETCH": "1"}
