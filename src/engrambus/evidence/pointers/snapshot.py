"""Committing what lies in a worktree to a ref of ours, without touching anything that is the user's.

The files are read by us and written to git as they are: no filter, hook or attribute of the repository has a say. What
git's index knows to be unchanged is taken from the index, so a checkout that a filter has made still counts as clean.
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
from engrambus.evidence.pointers.grammar import check_path
from engrambus.evidence.pointers.process import Done, git_environment, run_git

SNAPSHOTS = "refs/engrambus/snapshots/"
MESSAGE = "Uncommitted lines, kept by Engram Bus"

_MODULE, _LINK = "160000", "120000"
_WHO = {"NAME": "Engram Bus", "EMAIL": "snapshot@engrambus.invalid"}
_COMMITTED = re.compile(rb"^committer .*> (\d+) ", re.MULTILINE)


@cache
def _entry() -> re.Pattern[bytes]:
    """An entry of `ls-files --stage --debug -z`, with what the index remembers of the file's times and size."""
    return re.compile(
        rb"(?P<tag>\S) (?P<mode>\d{6}) (?P<id>[0-9a-f]+) (?P<stage>\d)\t(?P<path>[^\0]+)\0"
        rb"  ctime: \d+:\d+\n  mtime: (?P<s>\d+):(?P<ns>\d+)\n  dev: \d+\tino: \d+\n  uid: \d+\tgid: \d+\n"
        rb"  size: (?P<size>\d+)\tflags: [0-9a-f]+\n"
    )


class _Entry(NamedTuple):
    mode: str
    id: str


class _Git:
    """Git, pointed at one worktree and at an index file of our own."""

    def __init__(self, directory: Path, worktree: Path, scratch: Path, timeout: float) -> None:
        self._timeout = timeout
        self._worktree = worktree
        self._own = git_environment(directory) | {"GIT_WORK_TREE": str(worktree)}
        self._ours = self._own | {"GIT_INDEX_FILE": str(scratch / "index")}

    def ask(self, *args: str) -> Done:
        """What git says, with the user's index."""
        return run_git(args, self._own, self._timeout, folder=self._worktree)

    def do(self, *args: str, given: bytes = b"", more: dict[str, str] | None = None) -> bytes:
        """What git says, with the index of our own; it must succeed."""
        done = run_git(args, self._ours | (more or {}), self._timeout, given=given, folder=self._worktree)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise GitTrouble("Git could not take the snapshot.", hint=said[:200] or None)
        return done.stdout


def take_snapshot(common: Path, worktree: Path, also: tuple[str, ...], *, cap: int, timeout: float) -> str:
    """The commit that holds a worktree's files; one larger than `cap` stays as it was staged."""
    directory, top = _find_worktree(common, worktree, timeout)
    import tempfile  # slow to load, and needed by few

    with tempfile.TemporaryDirectory(prefix="engrambus-snapshot-") as folder:
        git = _Git(directory, top, Path(folder), timeout)
        modes_count = git.ask("config", "--type=bool", "core.fileMode").stdout.strip() != b"false"
        copies = _Copies(Path(folder), top, cap, modes_count)
        entries = _look(git, top, directory, copies)
        for path in also:
            if path.encode() not in entries and path.encode() not in copies.modes:
                _take_named(copies, top, path, timeout)
        entries |= copies.written(git)
        rows = (f"{entry.mode} {entry.id}\t".encode() + path + b"\0" for path, entry in sorted(entries.items()))
        git.do("update-index", "-z", "--index-info", given=b"".join(rows))
        return _commit(git, git.do("write-tree").decode().strip())


def _find_worktree(common: Path, worktree: Path, timeout: float) -> tuple[Path, Path]:
    """The git directory and the top of a worktree of this repository."""
    done = run_git(
        ("-C", str(worktree), "rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir",
         "--show-toplevel"),
        git_environment(),
        timeout,
    )  # fmt: skip
    said = [Path(os.path.realpath(line)) for line in os.fsdecode(done.stdout).splitlines()]
    if done.returncode or len(said) != 3 or said[0] != common:
        raise NoRepository(f"{worktree} is not a worktree of the repository.", hint="A bare repository has none.")
    _, directory, top = said
    # The repository's configuration can claim any folder as its worktree; only a checkout says so itself.
    if not (top / ".git").exists() or not Path(os.path.realpath(worktree)).is_relative_to(top):
        raise RepositoryRefused("The repository claims a worktree that is not its own.")
    return directory, top


def _look(git: _Git, top: Path, directory: Path, copies: _Copies) -> dict[bytes, _Entry]:
    """What can be taken from the index; of what cannot, copies are made."""
    listed = git.ask("ls-files", "-z", "-t", "--stage", "--debug")
    if listed.returncode:
        raise GitTrouble("Git could not list the worktree's files.")
    try:
        staged_at = os.stat(directory / "index").st_mtime_ns
    except FileNotFoundError:
        staged_at = 0
    entries: dict[bytes, _Entry] = {}
    for found in _parsed(listed.stdout):
        path, entry = found["path"], _Entry(found["mode"].decode(), found["id"].decode())
        if found["tag"] == b"S" or entry.mode == _MODULE:  # left out of this checkout, or a repository of its own
            entries[path] = entry
            continue
        status = _status(top, path)
        if status is None or not _is_file(status) or path in copies.modes:
            continue
        vouched = found["stage"] == b"0" and _is_unchanged(found, status, staged_at)
        if vouched or not copies.take(path, status, entry):
            entries[path] = entry
    return entries


def _parsed(listing: bytes) -> Iterator[re.Match[bytes]]:
    at = 0
    while at < len(listing):
        found = _entry().match(listing, at)
        if found is None:
            raise GitTrouble("Git lists the worktree's files in a way that is not understood.")
        yield found
        at = found.end()


def _status(top: Path, path: bytes) -> os.stat_result | None:
    """What is at a path, if the way there leads through folders only."""
    place = os.fsencode(top)
    *folders, last = path.split(b"/")
    try:
        for folder in folders:
            place = os.path.join(place, folder)
            if not stat.S_ISDIR(os.lstat(place).st_mode):
                return None
        return os.lstat(os.path.join(place, last))
    except OSError:
        return None


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)


def _is_unchanged(found: re.Match[bytes], status: os.stat_result, staged_at: int) -> bool:
    """Whether the index vouches for the file. One written in the same moment as the index is looked at."""
    seconds, nanoseconds = int(found["s"]), int(found["ns"])
    grain = 1 if nanoseconds else 10**9
    mode = int(found["mode"], 8)
    return (
        status.st_mtime_ns // grain == (seconds * 10**9 + nanoseconds) // grain < staged_at // grain
        and int(found["size"]) == status.st_size & 0xFFFF_FFFF
        and stat.S_IFMT(mode) == stat.S_IFMT(status.st_mode)
        and (stat.S_ISLNK(mode) or bool(mode & 0o100) == bool(status.st_mode & 0o100))
    )


class _Copies:
    """Copies of what differs from the index. Git reads these, so nobody can swap a file under it."""

    def __init__(self, scratch: Path, top: Path, cap: int, modes_count: bool) -> None:
        self._modes_count = modes_count
        self.modes: dict[bytes, str] = {}
        self._scratch = scratch
        self._top = top
        self._cap = cap

    def take(self, path: bytes, status: os.stat_result, staged: _Entry | None = None) -> bool:
        """Copy a file or a link; False for one that is too large or cannot be read."""
        place = os.path.join(os.fsencode(self._top), path)
        if stat.S_ISLNK(status.st_mode):
            self._keep(path, _LINK, self._link(path, place, staged))
            return True
        try:
            # Between the look and the opening it may have become something that never ends, or leads elsewhere.
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return False
            data = file.read(self._cap + 1)
        if len(data) > self._cap:
            return False
        mode = "100755" if status.st_mode & 0o100 else "100644"
        known = staged is not None and staged.mode != _LINK and not self._modes_count
        self._keep(path, staged.mode if staged and known else mode, data)
        return True

    def written(self, git: _Git) -> dict[bytes, _Entry]:
        """Every copy's entry, once git holds it."""
        if not self.modes:
            return {}
        names = "".join(f"{self._scratch / str(number)}\n" for number in range(len(self.modes)))
        ids = git.do("hash-object", "-w", "--no-filters", "--stdin-paths", given=os.fsencode(names)).decode().split()
        if len(ids) != len(self.modes) or not all(is_hex(each, 40, 64) for each in ids):
            raise GitTrouble("Git could not take the snapshot.")
        return {path: _Entry(mode, each) for (path, mode), each in zip(self.modes.items(), ids, strict=True)}

    def _link(self, path: bytes, place: bytes, staged: _Entry | None) -> bytes:
        """Where a link leads, as it is written; only one that was not changed may lead out of the worktree."""
        link = os.readlink(place)
        full = Path(os.fsdecode(os.path.realpath(os.path.join(os.path.dirname(place), link))))
        as_staged = staged is not None and staged.mode == _LINK and _blob_id(link, len(staged.id)) == staged.id
        if not full.is_relative_to(self._top) and not as_staged:
            raise LinkRefused(f"'{os.fsdecode(path)}' is a link that leads out of the worktree.")
        return link

    def _keep(self, path: bytes, mode: str, data: bytes) -> None:
        (self._scratch / str(len(self.modes))).write_bytes(data)
        self.modes[path] = mode


def _take_named(copies: _Copies, top: Path, path: str, timeout: float) -> None:
    """Copy an untracked file that was named."""
    check_path(path)
    if any(part.lower() == ".git" for part in path.split("/")):
        raise PointerPath("What git keeps for itself is no file of the worktree.", field="path")
    status = _status(top, path.encode())
    if status is None:
        raise FileNotFound("There is no such file in the worktree.", field="path")
    # What to ignore is also the user's to say, so here git is asked with the user's configuration.
    said = run_git(("-C", str(top), "check-ignore", "--quiet", "--", f"./{path}"), git_environment(), timeout)
    if said.returncode > 1:
        raise GitTrouble("Git could not say whether the file is ignored.")
    if said.returncode == 0:
        raise NotAFile("Git is told to ignore that file.", field="path", hint="Snapshots respect .gitignore.")
    if stat.S_ISLNK(status.st_mode):
        raise LinkRefused(field="path")
    if not stat.S_ISREG(status.st_mode) or not copies.take(path.encode(), status):
        raise NotAFile("That is not a file that can be read.", field="path")


def _blob_id(data: bytes, width: int) -> str:
    hashed = hashlib.new("sha256" if width == 64 else "sha1", b"blob %d\0" % len(data), usedforsecurity=False)
    hashed.update(data)
    return hashed.hexdigest()


def _commit(git: _Git, tree: str) -> str:
    """The commit of a tree on top of HEAD: of the same tree on the same HEAD always the same one."""
    head = git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}").stdout.decode().strip()
    at, parent = b"0", ("-p", head) if head else ()
    if head:
        before = git.do("cat-file", "commit", head)
        if before.startswith(b"tree %s\n" % tree.encode()):
            return head
        found = _COMMITTED.search(before)
        at = found[1] if found else at
    who = {f"GIT_{role}_{part}": text for role in ("AUTHOR", "COMMITTER") for part, text in _WHO.items()}
    when = {f"GIT_{role}_DATE": f"@{at.decode()} +0000" for role in ("AUTHOR", "COMMITTER")}
    commit = git.do("commit-tree", tree, *parent, "-m", MESSAGE, more=who | when).decode().strip()
    git.do("update-ref", SNAPSHOTS + commit, commit)
    return commit
