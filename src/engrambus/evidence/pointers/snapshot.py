"""Committing the files of a worktree to a ref of ours, without touching anything of the user's.

We read the files and write them to git as they are: no filter, hook or attribute of the repository is applied. A file
that git's index knows to be unchanged is taken from the index, so a checkout made by a filter still counts as clean.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from engrambus.core import is_hex
from engrambus.errors import (
    FileNotFound,
    GitTrouble,
    LinkRefused,
    NoRepository,
    NotAFile,
    PointerPath,
    RepositoryRefused,
)
from engrambus.evidence.pointers.git_process import Completed, git_environment, run_git
from engrambus.evidence.pointers.grammar import check_path

SNAPSHOT_REFS = "refs/engrambus/snapshots/"
MESSAGE = "Uncommitted lines, kept by Engram Bus"

_MODULE, _LINK = "160000", "120000"
_IDENTITY = {"NAME": "Engram Bus", "EMAIL": "snapshot@engrambus.invalid"}
_COMMITTER_TIME = re.compile(rb"^committer .*> (\d+) ", re.MULTILINE)


@cache
def _index_row() -> re.Pattern[bytes]:
    """Return the pattern of a row of `ls-files --stage --debug -z`, with the file's times and size in the index."""
    return re.compile(
        rb"(?P<tag>\S) (?P<mode>\d{6}) (?P<id>[0-9a-f]+) (?P<stage>\d)\t(?P<path>[^\0]+)\0"
        rb"  ctime: \d+:\d+\n  mtime: (?P<s>\d+):(?P<ns>\d+)\n  dev: \d+\tino: \d+\n  uid: \d+\tgid: \d+\n"
        rb"  size: (?P<size>\d+)\tflags: [0-9a-f]+\n"
    )


class _Entry(NamedTuple):
    mode: str
    id: str


class _WorktreeGit:
    """Git commands in one worktree, with the user's index for reading and a scratch index for writing."""

    def __init__(self, directory: Path, worktree: Path, index: Path, timeout_s: float) -> None:
        """`index` is the scratch index."""
        self._timeout_s = timeout_s
        self._worktree = worktree
        self._user_environment = git_environment(directory) | {"GIT_WORK_TREE": str(worktree)}
        self._scratch_environment = self._user_environment | {"GIT_INDEX_FILE": str(index)}

    def query(self, *args: str) -> Completed:
        """Run a command that reads the user's index; it may fail."""
        return run_git(args, self._user_environment, self._timeout_s, folder=self._worktree)

    def write(self, *args: str, stdin: bytes = b"", extra: dict[str, str] | None = None) -> bytes:
        """Run a command with the scratch index and return its output; refuse if it fails."""
        environment = self._scratch_environment | (extra or {})
        done = run_git(args, environment, self._timeout_s, stdin=stdin, folder=self._worktree)
        if done.returncode:
            message = done.stderr.decode(errors="replace").strip()
            raise GitTrouble("Git could not take the snapshot.", hint=message[:200] or None)
        return done.stdout


def take_snapshot(common: Path, worktree: Path, also: tuple[str, ...], *, max_bytes: int, timeout_s: float) -> str:
    """Commit a worktree's files and return the commit; a file larger than `max_bytes` stays as it was staged."""
    directory, top = _find_worktree(common, worktree, timeout_s)
    import tempfile  # slow to import, and snapshots are rare

    with tempfile.TemporaryDirectory(prefix="engrambus-snapshot-") as folder:
        git = _WorktreeGit(directory, top, Path(folder) / "index", timeout_s)
        file_modes = git.query("config", "--type=bool", "core.fileMode").stdout.strip() != b"false"
        copies = _Copies(Path(folder), top, max_bytes, file_modes)
        entries = _unchanged_entries(git, top, directory, copies)
        for path in also:
            if path.encode() not in entries and path.encode() not in copies.modes:
                _copy_untracked(copies, top, path, timeout_s)
        entries |= copies.write_to(git)
        rows = (f"{entry.mode} {entry.id}\t".encode() + path + b"\0" for path, entry in sorted(entries.items()))
        git.write("update-index", "-z", "--index-info", stdin=b"".join(rows))
        return _commit(git, git.write("write-tree").decode().strip())


def commit_index(common: Path, worktree: Path, index: Path | None, *, timeout_s: float) -> str:
    """Commit what is staged in a worktree and return the commit, which no ref keeps.

    `index` is the index that git names to its hooks, in place of the worktree's own.
    """
    directory, top = _find_worktree(common, worktree, timeout_s)
    staged = top / index if index is not None else directory / "index"
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="engrambus-snapshot-") as folder:
        # A copy: git writes to an index when it makes a tree of it, and a commit may hold the lock.
        copy = Path(folder) / "index"
        if staged.exists():
            shutil.copyfile(staged, copy)
        git = _WorktreeGit(directory, top, copy, timeout_s)
        return _commit(git, git.write("write-tree").decode().strip(), keep=False)


def _find_worktree(common: Path, worktree: Path, timeout_s: float) -> tuple[Path, Path]:
    """Return the git directory and the top folder of a worktree of this repository."""
    done = run_git(
        ("-C", str(worktree), "rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir",
         "--show-toplevel"),
        git_environment(),
        timeout_s,
    )  # fmt: skip
    folders = [Path(os.path.realpath(line)) for line in os.fsdecode(done.stdout).splitlines()]
    if done.returncode or len(folders) != 3 or folders[0] != common:
        raise NoRepository(f"{worktree} is not a worktree of the repository.", hint="A bare repository has none.")
    _, directory, top = folders
    # The repository's configuration can claim any folder as its worktree; only a real checkout has a `.git`.
    if not (top / ".git").exists() or not Path(os.path.realpath(worktree)).is_relative_to(top):
        raise RepositoryRefused("The repository claims a worktree that is not its own.")
    return directory, top


def _unchanged_entries(git: _WorktreeGit, top: Path, directory: Path, copies: _Copies) -> dict[bytes, _Entry]:
    """Return the entries that can be taken from the index; copy the files that cannot."""
    listing = git.query("ls-files", "-z", "-t", "--stage", "--debug")
    if listing.returncode:
        raise GitTrouble("Git could not list the worktree's files.")
    try:
        staged_ns = os.stat(directory / "index").st_mtime_ns
    except FileNotFoundError:
        staged_ns = 0
    entries: dict[bytes, _Entry] = {}
    for row in index_rows(listing.stdout):
        path, entry = row["path"], _Entry(row["mode"].decode(), row["id"].decode())
        if row["tag"] == b"S" or entry.mode == _MODULE:  # not in a sparse checkout, or a submodule
            entries[path] = entry
            continue
        status = file_status(top, path)
        if status is None or not _is_file(status) or path in copies.modes:
            continue
        unchanged = row["stage"] == b"0" and is_unchanged(row, status, staged_ns)
        if unchanged or not copies.take(path, status, entry):
            entries[path] = entry
    return entries


def index_rows(listing: bytes) -> Iterator[re.Match[bytes]]:
    """Read what `ls-files -z -t --stage --debug` prints."""
    position = 0
    while position < len(listing):
        row = _index_row().match(listing, position)
        if row is None:
            raise GitTrouble("Git lists the worktree's files in an unknown format.")
        yield row
        position = row.end()


def file_status(top: Path, path: bytes) -> os.stat_result | None:
    """Return the status of a path, or None if it is absent or reached through a symbolic link."""
    folder_path = os.fsencode(top)
    *folders, name = path.split(b"/")
    try:
        for folder in folders:
            folder_path = os.path.join(folder_path, folder)
            if not stat.S_ISDIR(os.lstat(folder_path).st_mode):
                return None
        return os.lstat(os.path.join(folder_path, name))
    except OSError:
        return None


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)


def is_unchanged(row: re.Match[bytes], status: os.stat_result, staged_ns: int) -> bool:
    """True if the index proves that the file is unchanged.

    A file written in the same instant as the index may have changed after it was staged, so it is not.
    """
    seconds, nanoseconds = int(row["s"]), int(row["ns"])
    grain_ns = 1 if nanoseconds else 10**9
    mode = int(row["mode"], 8)
    return (
        status.st_mtime_ns // grain_ns == (seconds * 10**9 + nanoseconds) // grain_ns < staged_ns // grain_ns
        and int(row["size"]) == status.st_size & 0xFFFF_FFFF
        and stat.S_IFMT(mode) == stat.S_IFMT(status.st_mode)
        and (stat.S_ISLNK(mode) or bool(mode & 0o100) == bool(status.st_mode & 0o100))
    )


class _Copies:
    """Copies of the files that differ from the index. Git reads the copies, so no file can be swapped under it."""

    def __init__(self, scratch: Path, top: Path, max_bytes: int, file_modes: bool) -> None:
        self.modes: dict[bytes, str] = {}
        self._file_modes = file_modes
        self._scratch = scratch
        self._top = top
        self._max_bytes = max_bytes

    def take(self, path: bytes, status: os.stat_result, staged: _Entry | None = None) -> bool:
        """Copy a file or a link; return False for a file that is too large or cannot be read."""
        source = os.path.join(os.fsencode(self._top), path)
        if stat.S_ISLNK(status.st_mode):
            self._add(path, _LINK, self._link_target(path, source, staged))
            return True
        try:
            # Since the status was read, it may have become a link, or a pipe that blocks forever.
            descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return False
            data = file.read(self._max_bytes + 1)
        if len(data) > self._max_bytes:
            return False
        mode = "100755" if status.st_mode & 0o100 else "100644"
        # With core.fileMode=false the file system has no executable bit; git then trusts the staged one.
        use_staged = staged is not None and staged.mode != _LINK and not self._file_modes
        self._add(path, staged.mode if staged and use_staged else mode, data)
        return True

    def write_to(self, git: _WorktreeGit) -> dict[bytes, _Entry]:
        """Write every copy into git's object store and return the entries."""
        if not self.modes:
            return {}
        names = "".join(f"{self._scratch / str(number)}\n" for number in range(len(self.modes)))
        output = git.write("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=os.fsencode(names))
        ids = output.decode().split()
        if len(ids) != len(self.modes) or not all(is_hex(blob_id, 40, 64) for blob_id in ids):
            raise GitTrouble("Git could not take the snapshot.")
        return {path: _Entry(mode, blob_id) for (path, mode), blob_id in zip(self.modes.items(), ids, strict=True)}

    def _link_target(self, path: bytes, source: bytes, staged: _Entry | None) -> bytes:
        """Return a link's target as it is written; only an unchanged link may lead out of the worktree."""
        target = os.readlink(source)
        resolved = Path(os.fsdecode(os.path.realpath(os.path.join(os.path.dirname(source), target))))
        unchanged = staged is not None and staged.mode == _LINK and hash_blob(target, len(staged.id)) == staged.id
        if not resolved.is_relative_to(self._top) and not unchanged:
            raise LinkRefused(f"'{os.fsdecode(path)}' is a link that leads out of the worktree.")
        return target

    def _add(self, path: bytes, mode: str, data: bytes) -> None:
        (self._scratch / str(len(self.modes))).write_bytes(data)
        self.modes[path] = mode


def _copy_untracked(copies: _Copies, top: Path, path: str, timeout_s: float) -> None:
    """Copy an untracked file that the caller named, unless git ignores it."""
    check_path(path)
    if any(part.lower() == ".git" for part in path.split("/")):
        raise PointerPath("The .git folder is not part of the worktree.", field="path")
    status = file_status(top, path.encode())
    if status is None:
        raise FileNotFound("There is no such file in the worktree.", field="path")
    # The user's configuration may name files to ignore too, so here git runs with it.
    ignored = run_git(("-C", str(top), "check-ignore", "--quiet", "--", f"./{path}"), git_environment(), timeout_s)
    if ignored.returncode > 1:
        raise GitTrouble("Git could not tell whether the file is ignored.")
    if ignored.returncode == 0:
        raise NotAFile("Git ignores that file.", field="path", hint="Snapshots respect .gitignore.")
    if stat.S_ISLNK(status.st_mode):
        raise LinkRefused(field="path")
    if not stat.S_ISREG(status.st_mode) or not copies.take(path.encode(), status):
        raise NotAFile("That is not a file that can be read.", field="path")


def hash_blob(data: bytes, width: int) -> str:
    """Return the id of a blob, of as many digits as the ids of its repository have."""
    hashed = hashlib.new("sha256" if width == 64 else "sha1", b"blob %d\0" % len(data), usedforsecurity=False)
    hashed.update(data)
    return hashed.hexdigest()


def _commit(git: _WorktreeGit, tree: str, *, keep: bool = True) -> str:
    """Commit a tree on top of HEAD and return the commit; the same tree on the same HEAD gives the same commit.

    With `keep`, a ref of ours keeps it from being pruned.
    """
    head = git.query("rev-parse", "--verify", "--quiet", "HEAD^{commit}").stdout.decode().strip()
    time_s, parent = b"0", ("-p", head) if head else ()
    if head:
        head_commit = git.write("cat-file", "commit", head)
        if head_commit.startswith(b"tree %s\n" % tree.encode()):
            return head
        # The parent's time instead of the clock's makes the commit's id depend on the files alone.
        match = _COMMITTER_TIME.search(head_commit)
        time_s = match[1] if match else time_s
    identity = {f"GIT_{role}_{part}": text for role in ("AUTHOR", "COMMITTER") for part, text in _IDENTITY.items()}
    dates = {f"GIT_{role}_DATE": f"@{time_s.decode()} +0000" for role in ("AUTHOR", "COMMITTER")}
    commit = git.write("commit-tree", tree, *parent, "-m", MESSAGE, extra=identity | dates).decode().strip()
    if keep:
        git.write("update-ref", SNAPSHOT_REFS + commit, commit)
    return commit
