"""Reading a git repository that may be hostile: every object on the way to a file is fetched by id and re-hashed.

A commit names its tree, a tree names its entries, and each is checked against the id that led to it, so a file found
at a path of a commit is proved to be there. Commits and trees are remembered, so the usual read is one blob.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from engrambus.core import Memo, is_hex
from engrambus.errors import (
    EngramBusError,
    FileNotFound,
    GitTrouble,
    LinkRefused,
    NoRepository,
    NotAFile,
    ObjectDamaged,
    PointerRevision,
    RepositoryRefused,
    RevisionNotFound,
)
from engrambus.evidence.pointers.batch import Batch, GitObject
from engrambus.evidence.pointers.process import Done, git_command, git_environment, run_git
from engrambus.evidence.pointers.snapshot import take_snapshot

MAX_CONTENT = 8 * 1024 * 1024
MAX_TREE = 64 * 1024 * 1024
TIMEOUT = 10.0
KEEP = "refs/engrambus/keep/"

_TREE, _LINK, _MODULE = b"40000", b"120000", b"160000"
_FILE = b"100"
_Entries = dict[bytes, tuple[bytes, bytes]]


class Blob(NamedTuple):
    """A file's content and the id git keeps it under."""

    id: str
    data: bytes


class GitRepository:
    """One repository, read through one long-lived git. Safe under threads."""

    def __init__(self, path: Path | str, *, cap: int = MAX_CONTENT, timeout: float = TIMEOUT) -> None:
        self.directory = _git_directory(Path(path))
        self.cap = cap
        self._timeout = timeout
        self._environment = git_environment(self.directory)
        self._objects = self.directory / "objects"
        self._alternates = str(self._objects / "info" / "alternates")
        self._batch = Batch(
            [*git_command(), "cat-file", "--batch"],
            self._environment,
            before_start=self._check_own_objects,
            timeout=timeout,
        )
        self._commits: Memo[str, str] = Memo(4096)
        self._trees: Memo[str, _Entries] = Memo(50_000)
        self._places: Memo[tuple[str, str], str] = Memo(8192)
        self._listings: Memo[tuple[str, str], tuple[str, ...]] = Memo(1024)
        self._kept: Memo[str, bool] = Memo(4096)

    def read(self, revision: str, path: str) -> Blob:
        """The file at a path of a commit."""
        blob_id = self.blob_id(revision, path)
        return Blob(blob_id, self.blob(blob_id))

    def read_each(self, places: Iterable[tuple[str, str]], take: Callable[[tuple[str, str], Blob], None]) -> None:
        """Hand over the files at several places, each revision and path; what cannot be read is left out."""
        wanted: dict[str, list[tuple[str, str]]] = {}
        for place in places:
            with suppress(EngramBusError):
                wanted.setdefault(self.blob_id(*place), []).append(place)

        def found(blob_id: str, data: GitObject) -> None:
            for place in wanted[blob_id] if data.kind == "blob" else ():
                take(place, Blob(blob_id, data.data))

        with suppress(EngramBusError):
            self._check_borrowing()
            self._batch.read_each(list(wanted), self.cap, found)

    def check_commit(self, revision: str) -> None:
        """Refuse a revision that is not a commit of this repository."""
        self._tree_of(revision)

    def head(self, worktree: Path | None = None) -> str:
        """The commit HEAD names, in the main worktree or in a linked one."""
        return self.expand("HEAD", worktree)

    def expand(self, revision: str, worktree: Path | None = None) -> str:
        """The full commit id of a branch, tag, shortened id or other revision, as a person writes it."""
        if not revision or revision.startswith("-") or not revision.isprintable():
            raise PointerRevision("That is not a revision.", field="revision")
        # A linked worktree has its own HEAD, which git finds from the place.
        place = ["-C", str(worktree)] if worktree else []
        environment = git_environment() if worktree else self._environment
        done = self._run(*place, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", environment=environment)
        found = done.stdout.decode(errors="replace").strip()
        if done.returncode or not is_hex(found, 40, 64):
            hint = "Commit something first. Pointers lead to committed lines." if revision == "HEAD" else None
            raise RevisionNotFound(f"The repository has no commit {revision[:80]!r}.", field="revision", hint=hint)
        self.check_commit(found)
        return found

    def tag_commit(self, version: str) -> str:
        """The commit a tag of that exact name leads to."""
        # Of an annotated tag the last line is what it leads to in the end.
        done = self._run("show-ref", "--verify", "--dereference", f"refs/tags/{version}")
        if done.returncode or not done.stdout:
            raise RevisionNotFound(
                f"The repository has no tag {version!r}.", hint="Tag the commit, or use its full id."
            )
        commit = done.stdout.splitlines()[-1].split(b" ")[0].decode()
        self.check_commit(commit)
        return commit

    def origin_url(self) -> str | None:
        """Where the repository was cloned from, if it says so."""
        done = self._run("config", "--get", "remote.origin.url")
        return done.stdout.decode(errors="replace").strip() or None

    def find_file(self, revision: str, name: str) -> tuple[str, ...]:
        """The paths in a commit whose last part is this name."""
        known = self._listings.get((revision, name))
        if known is None:
            self.check_commit(revision)
            done = self._run("ls-tree", "-r", "-z", "--name-only", "--full-tree", revision)
            if done.returncode:
                raise GitTrouble("Git could not list the commit's files.")
            wanted = name.encode()
            tail = b"/" + wanted
            paths = (path for path in done.stdout.split(b"\0") if path == wanted or path.endswith(tail))
            known = tuple(sorted(os.fsdecode(path) for path in paths))
            self._listings.put((revision, name), known)
        return known

    def files(self, revision: str) -> dict[str, str]:
        """The blob of every file of a commit by its path, links and submodules left out."""
        self.check_commit(revision)
        done = self._run("ls-tree", "-r", "-z", "--full-tree", revision)
        if done.returncode:
            raise GitTrouble("Git could not list the commit's files.")
        found = {}
        for row in done.stdout.split(b"\0"):
            about, _, path = row.partition(b"\t")
            if about.startswith(_FILE):
                found[os.fsdecode(path)] = about.rpartition(b" ")[2].decode()
        return found

    def sizes(self, blob_ids: Iterable[str]) -> dict[str, int]:
        """How large blobs are, those left out that are not here."""
        done = self._run(
            "cat-file", "--batch-check", "--buffer", given="".join(f"{each}\n" for each in blob_ids).encode()
        )
        if done.returncode:
            raise GitTrouble("Git could not look at the commit's files.")
        rows = (line.split(b" ") for line in done.stdout.splitlines())
        return {row[0].decode(): int(row[2]) for row in rows if len(row) == 3 and row[1] == b"blob"}

    def blob(self, blob_id: str) -> bytes:
        """The content of a file by the id git keeps it under."""
        return self._object(blob_id, "blob", self.cap)

    def grep(self, revision: str, words: Iterable[str]) -> tuple[str, ...]:
        """The paths of the text files of a commit that hold every one of these words."""
        patterns = [part for word in words for part in ("-e", word)]
        done = self._run("grep", "-I", "-l", "-z", "-F", "--all-match", "--full-name", *patterns, revision, "--")
        if done.returncode > 1:
            raise GitTrouble("Git could not search the commit.")
        start = len(revision) + 1
        return tuple(os.fsdecode(name[start:]) for name in done.stdout.split(b"\0") if name)

    def snapshot(self, worktree: Path, also: Iterable[str] = ()) -> str:
        """A commit of a worktree's tracked files as they lie on disk, and of untracked ones that are named.

        It is kept by a ref of ours; index, HEAD, stash and worktree stay as they are. When nothing differs from HEAD,
        the commit is HEAD itself.
        """
        self._check_own_objects()
        commit = take_snapshot(self.directory, worktree, tuple(also), cap=self.cap, timeout=self._timeout)
        self.check_commit(commit)
        return commit

    def keep(self, revision: str) -> None:
        """Hold a commit with a ref of ours, so that git never prunes it; a read-only repository is left as it is."""
        if self._kept.get(revision):
            return
        self.check_commit(revision)
        if not (self.directory / KEEP / revision).exists():
            done = self._run("update-ref", KEEP + revision, revision)
            said = done.stderr.decode(errors="replace")
            locked = (self.directory / KEEP / revision).exists()  # another process was making it
            if done.returncode and not locked and not any(word in said for word in ("Read-only", "Permission denied")):
                raise GitTrouble("Git could not keep the commit.", hint=said.strip()[:200] or None)
        self._kept.put(revision, True)

    def diff(self, old: str, new: str) -> bytes:
        """The hunks between two blobs, whatever the repository's configuration prefers."""
        done = self._run(
            "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--no-relative", "--text", "-U3",
            "--inter-hunk-context=0", "--diff-algorithm=myers", "--indent-heuristic", "--ws-error-highlight=none",
            "--full-index", "--src-prefix=a/", "--dst-prefix=b/", old, new,
        )  # fmt: skip
        if done.returncode:
            raise GitTrouble("Git could not compare the two files.")
        start = done.stdout.find(b"\n@@ ")
        return done.stdout[start + 1 :] if start >= 0 else b""

    def close(self) -> None:
        """End the running git; a later read starts another."""
        self._batch.close()

    @property
    def git_pid(self) -> int | None:
        """The process id of the running git, for those who watch it."""
        return self._batch.pid

    def blob_id(self, revision: str, path: str) -> str:
        """The id of the blob at a path, looked up once."""
        blob_id = self._places.get((revision, path))
        if blob_id is None:
            blob_id = self._locate(revision, path)
            self._places.put((revision, path), blob_id)
        return blob_id

    def _locate(self, revision: str, path: str) -> str:
        """The id of the blob at a path, each tree on the way checked."""
        tree = self._tree_of(revision)
        *folders, last = path.encode().split(b"/")
        for folder in folders:
            mode, object_id = self._entry(tree, folder, revision)
            if mode != _TREE:
                self._refuse_special(mode)
                raise FileNotFound(hint=f"Looked at commit {revision[:12]}.")
            tree = object_id
        mode, object_id = self._entry(tree, last, revision)
        if mode == _TREE:
            raise NotAFile("The path is a directory.")
        self._refuse_special(mode)
        return object_id

    def _entry(self, tree: str, name: bytes, revision: str) -> tuple[bytes, str]:
        entry = self._entries(tree).get(name)
        if entry is None:
            raise FileNotFound(hint=f"Looked at commit {revision[:12]}.")
        return entry[0], entry[1].hex()

    @staticmethod
    def _refuse_special(mode: bytes) -> None:
        if mode == _LINK:
            raise LinkRefused
        if mode == _MODULE:
            raise NotAFile("The path is a submodule.", hint="It is a repository, and a project, of its own.")

    def _tree_of(self, revision: str) -> str:
        known = self._commits.get(revision)
        if known is not None:
            return known
        self._check_borrowing()
        found = self._batch.read(revision, self.cap)
        if found is None or found.kind != "commit":
            raise RevisionNotFound(
                "The object is not a commit." if found else None,
                hint="The commit may not have been fetched here." if found is None else None,
            )
        tree = found.data[5 : found.data.find(b"\n")].decode(errors="replace")
        if not found.data.startswith(b"tree ") or not is_hex(tree, len(revision)):
            raise ObjectDamaged("The commit names no tree.")
        self._commits.put(revision, tree)
        return tree

    def _entries(self, tree: str) -> _Entries:
        known = self._trees.get(tree)
        if known is None:
            known = _read_tree(self._object(tree, "tree", MAX_TREE), len(tree) // 2)
            self._trees.put(tree, known, weight=len(known) + 1)
        return known

    def _object(self, object_id: str, kind: str, cap: int) -> bytes:
        self._check_borrowing()
        found = self._batch.read(object_id, cap)
        if found is None:
            raise GitTrouble(
                "The repository does not hold all of the commit.",
                hint="A partial clone? Fetch it in full and try again.",
            )
        if found.kind != kind:
            raise ObjectDamaged(f"Object {object_id} is a {found.kind} where a {kind} was named.")
        return found.data

    def _check_own_objects(self) -> None:
        if not self._objects.is_dir():
            raise NoRepository(f"There is no git repository at {self.directory}.")
        if not Path(os.path.realpath(self._objects)).is_relative_to(self.directory):
            raise RepositoryRefused(hint="Its objects folder leads outside.")
        self._check_borrowing()

    def _check_borrowing(self) -> None:
        """Refuse a repository whose objects may come from outside it. Asked at every read: one stat."""
        try:
            os.stat(self._alternates)
        except FileNotFoundError:
            return
        _check_alternates(self._objects, self.directory, set())

    def _run(self, *args: str, environment: dict[str, str] | None = None, given: bytes | None = None) -> Done:
        self._check_own_objects()
        return run_git(args, environment or self._environment, self._timeout, given=given)


def find_repository(start: Path | str) -> tuple[Path, Path | None] | None:
    """The common git directory and the main worktree around a place, if there is a repository.

    Linked worktrees lead to the main one. Bare repositories and submodules have no main worktree of their own.
    """
    place = Path(start)
    if not place.is_dir():
        place = place.parent
    try:
        done = run_git(
            ("-C", str(place), "rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir",
             "--is-bare-repository"),
            git_environment(),
            TIMEOUT,
        )  # fmt: skip
    except GitTrouble:
        return None
    if done.returncode:
        if b"dubious ownership" in done.stderr:
            raise RepositoryRefused(
                "The repository belongs to another user.", hint=f"git config --global --add safe.directory {place}"
            )
        return None
    common_text, own_text, bare = os.fsdecode(done.stdout).splitlines()[:3]
    common = Path(os.path.realpath(common_text))
    if common.name != ".git" or bare == "true":
        return common, None
    if common != Path(os.path.realpath(own_text)):
        # Seen from a linked worktree, a bare repository does not look bare.
        said = run_git(("config", "--type=bool", "core.bare"), git_environment(common), TIMEOUT).stdout
        if said.strip() == b"true":
            return common, None
    return common, common.parent


def _git_directory(path: Path) -> Path:
    if (path / "HEAD").exists() and (path / "objects").is_dir():
        return Path(os.path.realpath(path))
    found = find_repository(path)
    if found is None:
        raise NoRepository(f"There is no git repository at {path}.")
    return found[0]


def _read_tree(data: bytes, width: int) -> _Entries:
    entries: _Entries = {}
    at = 0
    try:
        while at < len(data):
            space = data.index(b" ", at)
            end = data.index(b"\0", space)
            entries[data[space + 1 : end]] = (data[at:space], data[end + 1 : end + 1 + width])
            at = end + 1 + width
    except ValueError:
        raise ObjectDamaged("A tree of the commit cannot be read.") from None
    return entries


def _check_alternates(objects: Path, inside: Path, seen: set[Path]) -> None:
    if objects in seen:
        return
    seen.add(objects)
    try:
        lines = (objects / "info" / "alternates").read_bytes().splitlines()
    except FileNotFoundError:
        return
    except OSError:
        raise RepositoryRefused from None
    for line in lines:
        if not line or line.startswith(b"#"):
            continue
        place = Path(os.path.realpath(objects / os.fsdecode(line)))
        if line.startswith(b'"') or not place.is_relative_to(inside):
            raise RepositoryRefused(hint="Repack it (git repack -a -d) and remove objects/info/alternates.")
        _check_alternates(place, inside, seen)
