"""The files of a worktree as they are on disk, compared with the commit that is checked out there.

Nothing is run for files that are as they were committed: they are read and hashed, and after that only their status
is looked at. If a file of interest differs, everything that differs is put into a scratch commit on top of HEAD, with
untracked files, so that git can follow lines into it. The repository, its index and its filters are left alone.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engrambus.core import LruCache
from engrambus.errors import EngramBusError, GitTrouble
from engrambus.evidence.pointers.file_statuses import FileStatuses
from engrambus.evidence.pointers.git import GitRepository
from engrambus.evidence.pointers.git_process import git_environment, run_git
from engrambus.evidence.pointers.line_alignment import Deadline, OutOfTime
from engrambus.evidence.pointers.scratch_objects import ScratchObjects
from engrambus.evidence.pointers.snapshot import file_status, hash_blob, index_rows, is_unchanged
from engrambus.evidence.pointers.worktrees import Worktree

MAX_UNTRACKED = 500
"""Untracked files in which lines are looked for."""
MAX_UNTRACKED_BYTES = 1024 * 1024
_OWN_FOLDER = b".catalog/"
_RACY_NS = 100_000_000
"""A file written so shortly ago may be written again without another status."""

_TREE, _MODULE, _LINK = b"40000", b"160000", b"120000"

_Signature = tuple[int, int, int, int]


class DiskEntry(NamedTuple):
    """A file as a tree would have it."""

    mode: bytes
    id: str


class DiskChanges(NamedTuple):
    """The differences between a commit and the files on disk."""

    commit: str
    """A scratch commit on top of it."""
    tree: str
    """The tree of that commit."""
    blobs: dict[str, str | None]
    """Files that differ or were added, and None for those that were deleted, by path."""


class DiskFiles:
    """The files of one worktree. Safe to share between threads."""

    def __init__(self, repository: GitRepository, worktree: Worktree, scratch: ScratchObjects) -> None:
        self._repository = repository
        self._top = worktree.top
        self._scratch = scratch
        self._environment = git_environment(worktree.directory) | {"GIT_WORK_TREE": str(worktree.top)}
        self._index = worktree.directory / "index"
        self._hashes: LruCache[tuple[bytes, _Signature], tuple[str, str]] = LruCache(20_000)
        self._written: LruCache[tuple[bytes, _Signature, str], DiskEntry] = LruCache(20_000)
        self._listings: LruCache[str, dict[bytes, DiskEntry]] = LruCache(200_000)

    def changes(self, head: str, paths: Iterable[str], deadline: Deadline) -> DiskChanges | None:
        """Return how the disk differs from the commit; None if the files at these paths do not."""
        if all(self._is_as_committed(head, path) for path in paths):
            return None
        committed = self._committed(head, deadline)
        on_disk = self._on_disk(head, deadline)
        changed = {
            path: on_disk.get(path)
            for path in committed.keys() | on_disk.keys()
            if committed.get(path) != on_disk.get(path)
        }
        if not changed:
            return None
        tree = self._write_tree(self._repository.tree_of(head), changed, len(head))
        tree = tree or self._scratch.write("tree", b"", len(head))
        commit = self._scratch.commit(tree, head)
        return DiskChanges(commit, tree, {os.fsdecode(path): entry and entry.id for path, entry in changed.items()})

    def _is_as_committed(self, head: str, path: str) -> bool:
        name = os.fsencode(path)
        status = file_status(self._top, name)
        if status is None or not stat.S_ISREG(status.st_mode):
            return False
        try:
            committed = self._repository.blob_id(head, path)
        except EngramBusError:
            return False
        signature = _signature(status)
        hashes = self._hashes.get((name, signature))
        if hashes is None:
            data = self._read(name, self._repository.max_bytes)
            if data is None:
                return False
            # A checkout may have written the file with other line ends than it was committed with.
            hashes = (hash_blob(data, len(head)), hash_blob(data.replace(b"\r\n", b"\n"), len(head)))
            if _is_settled(status):
                self._hashes.put((name, signature), hashes)
        return committed in hashes

    def _committed(self, head: str, deadline: Deadline) -> dict[bytes, DiskEntry]:
        """Return the entries of every file of a commit."""
        listing = self._listings.get(head)
        if listing is None:
            done = self._repository.query("ls-tree", "-r", "-z", "--full-tree", head, timeout_s=deadline.remaining_s())
            if done is None:
                raise OutOfTime
            if done.returncode:
                raise GitTrouble("Git could not list the commit's files.")
            listing = {}
            for row in done.stdout.split(b"\0"):
                entry, _, path = row.partition(b"\t")
                if path:
                    mode, _, object_id = entry.split(b" ")
                    listing[path] = DiskEntry(mode, object_id.decode())
            self._listings.put(head, listing, weight=len(listing) + 1)
        return listing

    def _on_disk(self, head: str, deadline: Deadline) -> dict[bytes, DiskEntry]:
        """Return the entries that a commit of every file on disk would have."""
        status_of = FileStatuses(self._top).get
        staged_ns = self._index.stat().st_mtime_ns if self._index.exists() else 0
        entries: dict[bytes, DiskEntry] = {}
        for row in index_rows(self._list("-t", "--stage", "--debug", deadline=deadline)):
            path, staged = row["path"], DiskEntry(row["mode"], row["id"].decode())
            # Not in a sparse checkout, or a submodule, which has files of its own.
            if row["tag"] == b"S" or staged.mode == _MODULE:
                entries[path] = staged
                continue
            status = status_of(path)
            if status is None or path in entries:
                continue
            if row["stage"] == b"0" and is_unchanged(row, status, staged_ns):
                entries[path] = staged
            elif (entry := self._entry(path, status, staged, self._repository.max_bytes)) is not None:
                entries[path] = entry
        untracked = self._list("--others", "--exclude-standard", deadline=deadline).split(b"\0")
        names = [name for name in untracked if name and not name.endswith(b"/") and not name.startswith(_OWN_FOLDER)]
        for name in names[:MAX_UNTRACKED]:
            status = status_of(name)
            if status is not None and status.st_size <= MAX_UNTRACKED_BYTES and name not in entries:
                entry = self._entry(name, status, DiskEntry(b"", "0" * len(head)), MAX_UNTRACKED_BYTES)
                if entry is not None and entry.mode:
                    entries[name] = entry
        return entries

    def _list(self, *options: str, deadline: Deadline) -> bytes:
        started, seconds = time.monotonic(), deadline.remaining_s()
        try:
            done = run_git(("ls-files", "-z", *options), self._environment, seconds, folder=self._top)
        except GitTrouble:
            if time.monotonic() - started >= seconds:
                raise OutOfTime from None
            raise
        if done.returncode:
            raise GitTrouble("Git could not list the worktree's files.")
        return done.stdout

    def _entry(self, path: bytes, status: os.stat_result, staged: DiskEntry, max_bytes: int) -> DiskEntry | None:
        """Return the entry of a file that may differ from the staged one; None if it is neither a file nor a link."""
        if stat.S_ISLNK(status.st_mode):
            try:
                target = os.readlink(os.path.join(os.fsencode(self._top), path))
            except OSError:
                return None
            return DiskEntry(_LINK, self._scratch.write("blob", target, len(staged.id)))
        if not stat.S_ISREG(status.st_mode):
            return None
        key = (path, _signature(status), staged.id)
        entry = self._written.get(key)
        if entry is None:
            data = self._read(path, max_bytes)
            if data is None:  # too large, or not readable: as it was staged
                return staged
            entry = self._write_blob(data, staged, executable=bool(status.st_mode & 0o100))
            if _is_settled(status):
                self._written.put(key, entry)
        return entry

    def _write_blob(self, data: bytes, staged: DiskEntry, *, executable: bool) -> DiskEntry:
        mode = b"100755" if executable else b"100644"
        if b"\r\n" in data and staged.mode and not self._has_returns(staged.id):
            data = data.replace(b"\r\n", b"\n")
        if hash_blob(data, len(staged.id)) == staged.id:
            return staged
        return DiskEntry(mode, self._scratch.write("blob", data, len(staged.id)))

    def _has_returns(self, blob: str) -> bool:
        try:
            return b"\r\n" in self._repository.blob(blob)
        except EngramBusError:
            return True

    def _read(self, path: bytes, max_bytes: int) -> bytes | None:
        """Return the content of a file; None if it is larger or cannot be read."""
        try:
            # Since the status was read, it may have become a link, or a pipe that blocks forever.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(os.path.join(os.fsencode(self._top), path), flags)
        except OSError:
            return None
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(max_bytes + 1)
        return data if len(data) <= max_bytes else None

    def _write_tree(self, tree: str | None, changed: Mapping[bytes, DiskEntry | None], width: int) -> str | None:
        """Write a tree with changes, given by path, and return its id; None if nothing is left in it."""
        entries = self._repository.tree(tree).entries() if tree is not None else {}
        inner: dict[bytes, dict[bytes, DiskEntry | None]] = {}
        for path, entry in changed.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                inner.setdefault(name, {})[rest] = entry
            elif entry is None and name in entries and entries[name][0] != _TREE:
                del entries[name]
        for name, below in inner.items():
            mode, object_id = entries.pop(name, (b"", b""))
            written = self._write_tree(object_id.hex() if mode == _TREE else None, below, width)
            if written is not None:
                entries[name] = (_TREE, bytes.fromhex(written))
        for path, entry in changed.items():
            if b"/" not in path and entry is not None:
                entries[path] = (entry.mode, bytes.fromhex(entry.id))
        if not entries:
            return None
        # Git sorts folders as if their names ended with a slash.
        rows = sorted(entries.items(), key=lambda row: row[0] + b"/" if row[1][0] == _TREE else row[0])
        data = b"".join(b"%s %s\0%s" % (mode, name, object_id) for name, (mode, object_id) in rows)
        return self._scratch.write("tree", data, width)


def _signature(status: os.stat_result) -> _Signature:
    # The time of the last change, because unlike that of the last writing it cannot be set back.
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _is_settled(status: os.stat_result) -> bool:
    return status.st_ctime_ns < time.time_ns() - _RACY_NS
