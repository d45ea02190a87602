"""Reading a git history: commits, files at a commit, changed lines. Only git itself is run, and nothing is written."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_FIELD_END = "\x1f"


class Commit(NamedTuple):
    """A commit with at most one parent."""

    sha: str
    parent: str
    """The parent's id, or the empty tree's."""
    subject: str


class ChangedLines(NamedTuple):
    """A change of a file, in line numbers of its old version."""

    path: str
    first: int
    last: int
    """Smaller than `first` if lines were only inserted, after the line `last`."""


class GitHistory:
    """One repository, bare or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str) -> str:
        """Return git's output; the user's configuration has no influence."""
        return run_git(self.folder, *arguments)

    def middle_commit(self, split: float, limit: int | None = None, head: str = "HEAD") -> str:
        """Return the commit of the main line that `split` of the newest `limit` commits are before or at."""
        main_line = self.run("rev-list", "--first-parent", "--reverse", head).split()
        total = self._count(head)
        wanted = total - (1 - split) * min(total, limit or total)
        first, last = 0, len(main_line) - 1
        while first < last:  # the count of ancestors grows along the main line
            middle = (first + last) // 2
            if self._count(main_line[middle]) < wanted:
                first = middle + 1
            else:
                last = middle
        return main_line[first]

    def commits(self, *revisions: str, limit: int | None = None) -> list[Commit]:
        """Return the commits that are no merges, oldest first; with a limit the newest of them."""
        newest = [f"--max-count={limit}"] if limit is not None else []
        form = f"--format=%H{_FIELD_END}%P{_FIELD_END}%s"
        lines = self.run("log", "--no-merges", "--topo-order", *newest, form, *revisions, "--").splitlines()
        commits = []
        for line in reversed(lines):
            sha, parent, subject = line.split(_FIELD_END)
            commits.append(Commit(sha, parent or EMPTY_TREE, subject))
        return commits

    def files(self, commit: str, suffixes: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield path and text of every regular file with one of these endings, in the order of the paths."""
        rows = self.run("ls-tree", "-r", "-z", commit).split("\0")
        entries = []
        for row in filter(None, rows):
            about, _, path = row.partition("\t")
            mode, _, blob = about.split(" ")
            if mode.startswith("100") and path.endswith(tuple(suffixes)):
                entries.append((path, blob))
        yield from zip((path for path, _ in entries), self._blobs([blob for _, blob in entries]), strict=True)

    def file(self, commit: str, path: str) -> str:
        """Return the text of one file; empty if it does not exist there."""
        return next(self._blobs([f"{commit}:{path}"]))

    def changed_lines(self, commit: Commit) -> list[ChangedLines]:
        """Return what a commit changed in files that existed before it."""
        changes: list[ChangedLines] = []
        path: str | None = None
        options = ("-U0", "-M", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/")
        for line in self.run("diff", *options, commit.parent, commit.sha, "--").splitlines():
            if line.startswith("--- "):
                path = line[6:].rstrip("\t") if line.startswith("--- a/") else None
            hunk = _HUNK.match(line)
            if hunk and path is not None:
                first, count = int(hunk[1]), int(hunk[2] or "1")
                # git names the line before an insertion
                changes.append(ChangedLines(path, first, first + count - 1) if count else
                               ChangedLines(path, first + 1, first))  # fmt: skip
        return changes

    def changed_paths(self, commit: Commit) -> list[str]:
        """Return the paths a commit changed, by the names they have after it."""
        return [
            path for path in self.run("diff", "--name-only", "-z", commit.parent, commit.sha, "--").split("\0") if path
        ]

    def renamed(self, old: str, new: str) -> dict[str, str]:
        """Return the old path of each file that has another path in the newer commit."""
        fields = self.run("diff", "-M", "--name-status", "--diff-filter=R", "-z", old, new, "--").split("\0")
        return {fields[at + 2]: fields[at + 1] for at in range(0, len(fields) - 2, 3)}

    def _count(self, revision: str) -> int:
        return int(self.run("rev-list", "--count", "--no-merges", revision))

    def _blobs(self, names: Sequence[str]) -> Iterator[str]:
        asked = "".join(f"{name}\n" for name in names).encode()
        done = subprocess.run(
            ["git", "cat-file", "--batch"],
            cwd=self.folder,
            input=asked,
            capture_output=True,
            check=True,
            env=_environment(),
        )
        data, at = done.stdout, 0
        for _ in names:
            line_end = data.index(b"\n", at)
            head = data[at:line_end]
            if head.endswith(b" missing"):
                at = line_end + 1
                yield ""
                continue
            size = int(head.rpartition(b" ")[2])
            yield data[line_end + 1 : line_end + 1 + size].decode("utf-8", "replace")
            at = line_end + size + 2


def run_git(folder: Path, *arguments: str) -> str:
    """Run git in a folder without the user's configuration and return its output."""
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=True, env=_environment())
    return done.stdout.decode("utf-8", "replace")


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    without_configuration = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    # A commit's id depends on its dates, and answers show the id: with fixed dates, tokens are the same in every run.
    dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00Z")
    return {**inherited, **without_configuration, **dates}
