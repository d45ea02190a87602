"""Reading a git repository that may be hostile: every object on the way to a file is fetched by id and re-hashed.

A commit names its tree, a tree names its entries, and each is checked against the id that led to it, so a file found
at a path of a commit is proved to be there. Commits and trees are cached, so the usual read is one blob.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from engrambus.core import LruCache, is_hex, nfc
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
    RevisionNotFetched,
    RevisionNotFound,
    RevisionNotPushed,
)
from engrambus.evidence.pointers.git_links import LinkCheck
from engrambus.evidence.pointers.git_process import (
    MAX_IDS_PER_REQUEST,
    Completed,
    GitObject,
    ObjectReader,
    git_environment,
    run_git,
    stream_git,
)
from engrambus.evidence.pointers.git_trees import Tree, read_tree
from engrambus.evidence.pointers.snapshot import commit_index, take_snapshot

MAX_CONTENT_BYTES = 8 * 1024 * 1024
MAX_TREE_BYTES = 64 * 1024 * 1024
TIMEOUT_S = 10.0
MAX_RENAMES = 1000
"""Files added or deleted between two commits up to which git compares their content to find renames."""
RETAIN_REFS = "refs/engrambus/keep/"
"""Refs under this name keep commits from being pruned by git."""

_DIFF_OPTIONS = (
    "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--no-relative", "--text", "-U3",
    "--inter-hunk-context=0", "--diff-algorithm=myers", "--indent-heuristic", "--ws-error-highlight=none",
    "--full-index", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
_INDEX_LINE = re.compile(rb"^index ([0-9a-f]{40,64})\.\.([0-9a-f]{40,64})", re.MULTILINE)
_TREE, _LINK, _MODULE = b"40000", b"120000", b"160000"
_FILE = b"100"


class Blob(NamedTuple):
    """A file's content and its object id."""

    id: str
    data: bytes


class ChangedFile(NamedTuple):
    """A file that differs between two commits."""

    old_path: str | None
    """None if it was added."""
    new_path: str | None
    """None if it was deleted."""
    old_blob: str | None
    new_blob: str | None


class GitRepository:
    """One repository, read through one long-lived git process. Safe to share between threads."""

    def __init__(self, path: Path | str, *, max_bytes: int = MAX_CONTENT_BYTES, timeout_s: float = TIMEOUT_S) -> None:
        self.directory = _git_directory(Path(path))
        self.max_bytes = max_bytes
        self.takes_commits = False
        """True if commits are pushed to it: one that is absent may come yet (decision 121)."""
        self._timeout_s = timeout_s
        self._environment = git_environment(self.directory)
        self._objects = self.directory / "objects"
        self._alternates = str(self._objects / "info" / "alternates")
        self._links = LinkCheck(self.directory)
        self._reader = ObjectReader(self._environment, before_start=self.check_own_objects, timeout_s=timeout_s)
        self._commits: LruCache[str, str] = LruCache(4096)
        # Weights and limits count entries: a tree of a large repository has thousands.
        self._trees: LruCache[str, Tree] = LruCache(50_000)
        self._blob_ids: LruCache[tuple[str, str], str] = LruCache(8192)
        self._listings: LruCache[tuple[str, str], tuple[str, ...]] = LruCache(1024)
        self._renames: LruCache[tuple[str, str], dict[str, str]] = LruCache(50_000)
        self._retained: LruCache[str, bool] = LruCache(4096)

    def read(self, revision: str, path: str) -> Blob:
        """Return the file at a path of a commit."""
        blob_id = self.blob_id(revision, path)
        return Blob(blob_id, self.blob(blob_id))

    def read_many(self, files: Iterable[tuple[str, str]], take: Callable[[tuple[str, str], Blob], None]) -> None:
        """Pass several files, each given by revision and path, to `take`; unreadable ones are left out."""
        files_by_blob: dict[str, list[tuple[str, str]]] = {}
        for file in files:
            with suppress(EngramBusError):
                files_by_blob.setdefault(self.blob_id(*file), []).append(file)

        def take_blob(blob_id: str, git_object: GitObject) -> None:
            for file in files_by_blob[blob_id] if git_object.kind == "blob" else ():
                take(file, Blob(blob_id, git_object.data))

        with suppress(EngramBusError):
            for blob_id in files_by_blob:
                self._check_borrowing(blob_id)
            self._reader.read_many(list(files_by_blob), self.max_bytes, take_blob)

    def check_commit(self, revision: str) -> None:
        """Refuse a revision that is not a commit of this repository."""
        self.tree_of(revision)

    def head(self, worktree: Path | None = None) -> str:
        """Return the commit HEAD names, in the main worktree or in a linked one."""
        return self.expand("HEAD", worktree)

    def expand(self, revision: str, worktree: Path | None = None) -> str:
        """Return the full commit id of a branch, tag, shortened id or other revision, as a person writes it."""
        # A leading dash would be an option of git.
        if not revision or revision.startswith("-") or not revision.isprintable():
            raise PointerRevision("That is not a revision.", field="revision")
        # A linked worktree has its own HEAD, which git finds only when it runs there.
        folder = ["-C", str(worktree)] if worktree else []
        environment = git_environment() if worktree else self._environment
        done = self._run(*folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", environment=environment)
        commit = done.stdout.decode(errors="replace").strip()
        if done.returncode or not is_hex(commit, 40, 64):
            hint = "Commit something first: pointers lead to committed lines." if revision == "HEAD" else None
            raise RevisionNotFound(f"The repository has no commit {revision[:80]!r}.", field="revision", hint=hint)
        self.check_commit(commit)
        return commit

    def tag_commit(self, version: str) -> str:
        """Return the commit that a tag of exactly this name leads to."""
        # For an annotated tag the last line is the commit, after the tag object itself.
        done = self._run("show-ref", "--verify", "--dereference", f"refs/tags/{version}")
        if done.returncode or not done.stdout:
            self._refuse_unfetched()
            raise RevisionNotFound(
                f"The repository has no tag {version!r}.", hint="Tag the commit, or use its full id."
            )
        commit = done.stdout.splitlines()[-1].split(b" ")[0].decode()
        self.check_commit(commit)
        return commit

    def is_empty(self) -> bool:
        """True if it has no commit: no ref leads to one."""
        return not self._run("for-each-ref", "--count=1", "--format=%(objectname)").stdout.strip()

    def origin_url(self) -> str | None:
        """Return the URL the repository was cloned from, if it is configured."""
        done = self._run("config", "--get", "remote.origin.url")
        return done.stdout.decode(errors="replace").strip() or None

    def find_file(self, revision: str, name: str) -> tuple[str, ...]:
        """Return the paths in a commit whose last part is this name."""
        listing = self._listings.get((revision, name))
        if listing is None:
            self.check_commit(revision)
            done = self._run("ls-tree", "-r", "-z", "--name-only", "--full-tree", revision)
            if done.returncode:
                raise GitTrouble("Git could not list the commit's files.")
            paths = (os.fsdecode(path) for path in done.stdout.split(b"\0"))
            composed = nfc(name)
            listing = tuple(sorted(path for path in paths if nfc(path.rpartition("/")[2]) == composed))
            self._listings.put((revision, name), listing)
        return listing

    def files(self, revision: str) -> dict[str, str]:
        """Return the blob id of every file of a commit by its path, without links and submodules."""
        self.check_commit(revision)
        done = self._run("ls-tree", "-r", "-z", "--full-tree", revision)
        if done.returncode:
            raise GitTrouble("Git could not list the commit's files.")
        blob_ids = {}
        for row in done.stdout.split(b"\0"):
            entry, _, path = row.partition(b"\t")
            if entry.startswith(_FILE):
                blob_ids[os.fsdecode(path)] = entry.rpartition(b" ")[2].decode()
        return blob_ids

    def sizes(self, blob_ids: Iterable[str]) -> dict[str, int]:
        """Return the sizes of blobs in bytes; absent ones are left out."""
        stdin = "".join(f"{blob_id}\n" for blob_id in blob_ids).encode()
        done = self._run("cat-file", "--batch-check", "--buffer", stdin=stdin)
        if done.returncode:
            raise GitTrouble("Git could not look at the commit's files.")
        rows = (line.split(b" ") for line in done.stdout.splitlines())
        return {row[0].decode(): int(row[2]) for row in rows if len(row) == 3 and row[1] == b"blob"}

    def blob(self, blob_id: str) -> bytes:
        """Return the content of a blob."""
        return self._object(blob_id, "blob", self.max_bytes)

    def grep(self, revision: str, words: Iterable[str]) -> tuple[str, ...]:
        """Return the paths of the text files of a commit that contain all of these words."""
        patterns = [part for word in words for part in ("-e", word)]
        done = self._run("grep", "-I", "-l", "-z", "-F", "--all-match", "--full-name", *patterns, revision, "--")
        if done.returncode > 1:
            raise GitTrouble("Git could not search the commit.")
        start = len(revision) + 1
        return tuple(os.fsdecode(name[start:]) for name in done.stdout.split(b"\0") if name)

    def snapshot(self, worktree: Path, also: Iterable[str] = ()) -> str:
        """Commit a worktree's tracked files as they are on disk, and the untracked files in `also`.

        A ref of ours keeps the commit; index, HEAD, stash and worktree are not touched. If nothing differs from HEAD,
        the commit is HEAD itself.
        """
        self.check_own_objects()
        commit = take_snapshot(
            self.directory, worktree, tuple(also), max_bytes=self.max_bytes, timeout_s=self._timeout_s
        )
        self.check_commit(commit)
        return commit

    def commit_index(self, worktree: Path, index: Path | None = None) -> str:
        """Commit what is staged in a worktree, or in the index that git names to its hooks; no ref keeps the commit."""
        self.check_own_objects()
        return commit_index(self.directory, worktree, index, timeout_s=self._timeout_s)

    def retain(self, revision: str) -> None:
        """Keep a commit from being pruned, with a ref of ours; a read-only repository is left as it is."""
        if self._retained.get(revision):
            return
        self.check_commit(revision)
        ref_file = self.directory / RETAIN_REFS / revision
        if not ref_file.exists():
            done = self._run("update-ref", RETAIN_REFS + revision, revision)
            message = done.stderr.decode(errors="replace")
            made_elsewhere = ref_file.exists()  # another process held git's lock and made the same ref
            read_only = any(word in message for word in ("Read-only", "Permission denied"))
            # decision 66: of another account; git does not always say why it cannot create a ref
            read_only = read_only or not os.access(self.directory / "refs", os.W_OK)
            if done.returncode and not made_elsewhere and not read_only:
                raise GitTrouble(
                    "Git could not create the ref that keeps the commit.", hint=message.strip()[:200] or None
                )
        self._retained.put(revision, True)

    def retain_history(self, head: str, revisions: Iterable[str]) -> None:
        """Keep a commit from being pruned, and with it `revisions`, which the caller knows to be its ancestors."""
        self.retain(head)
        for revision in revisions:
            self._retained.put(revision, True)

    def stream(self, *args: str, timeout_s: float) -> Iterator[bytes]:
        """Run a git command of this repository and yield its output in chunks."""
        self.check_own_objects()
        return stream_git(args, self._environment, timeout_s)

    def blobs(self, blob_ids: Sequence[str], take: Callable[[str, bytes], None]) -> None:
        """Pass the content of blobs to `take`; those that are absent, damaged or too large are left out."""
        for start in range(0, len(blob_ids), MAX_IDS_PER_REQUEST):
            part = blob_ids[start : start + MAX_IDS_PER_REQUEST]
            delivered: set[str] = set()

            def take_one(blob_id: str, git_object: GitObject, delivered: set[str] = delivered) -> None:
                delivered.add(blob_id)
                if git_object.kind == "blob":
                    take(blob_id, git_object.data)

            try:
                self.check_own_objects()
                self._reader.read_many(part, self.max_bytes, take_one)
            except EngramBusError:
                # A request for many gives up at the first problem; the others are read one by one.
                for blob_id in part:
                    if blob_id not in delivered:
                        with suppress(EngramBusError):
                            take(blob_id, self.blob(blob_id))

    def diff(self, old: str, new: str) -> bytes:
        """Return the hunks between two blobs, the same under every git configuration."""
        done = self._run("diff", *_DIFF_OPTIONS, old, new)
        if done.returncode:
            raise GitTrouble("Git could not compare the two files.")
        start = done.stdout.find(b"\n@@ ")
        return done.stdout[start + 1 :] if start >= 0 else b""

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the newest commit that both commits descend from; None if there is none here."""
        self.check_commit(one)
        self.check_commit(other)
        done = self._run("merge-base", one, other)
        commit = done.stdout.decode(errors="replace").strip()
        return commit if is_hex(commit, 40, 64) else None

    def changed_files(self, base: str, head: str) -> list[ChangedFile]:
        """Return the files that differ between two commits; a renamed file has two paths, as git finds renames."""
        return [_changed_file(*entry) for entry in self._compare_trees(base, head)]

    def diff_many(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """Return the hunks of every changed file between pairs of commits, older first, by the ids of its two blobs.

        They are the bytes that `diff` returns for these blobs, at the cost of one git for all of them.
        """
        for commit in {commit for pair in pairs for commit in pair}:
            self.check_commit(commit)
        stdin = "".join(f"{head} {base}\n" for base, head in pairs).encode()
        done = self._run("diff-tree", "--stdin", "-r", "-p", *_DIFF_OPTIONS, "--no-commit-id", stdin=stdin)
        return {} if done.returncode else dict(_split_diffs(done.stdout))

    def renames(self, base: str, head: str) -> dict[str, str]:
        """Return the files that were renamed between two commits, the old path by the new one, as git finds them."""
        renames = self._renames.get((base, head))
        if renames is None:
            entries = self._compare_trees(base, head, "--diff-filter=R")
            renames = {paths[1]: paths[0] for _, paths in entries}
            self._renames.put((base, head), renames, weight=len(renames) + 1)
        return renames

    def _compare_trees(self, base: str, head: str, *options: str) -> list[tuple[list[str], list[str]]]:
        """Return modes, ids and status, and the one or two paths, of every file that differs between two commits."""
        self.check_commit(base)
        self.check_commit(head)
        done = self._run(
            "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--find-renames=50%", f"-l{MAX_RENAMES}",
            "--no-ext-diff", "--no-textconv", "--no-relative", "--ignore-submodules=all", *options, base, head,
        )  # fmt: skip
        if done.returncode:
            raise GitTrouble("Git could not compare the two commits.")
        fields = iter(os.fsdecode(field) for field in done.stdout.split(b"\0"))
        entries = []
        for header in fields:
            if not header:
                break
            about = header.removeprefix(":").split(" ")
            # A rename or a copy has two paths.
            entries.append((about, [next(fields) for _ in range(2 if about[-1][0] in "RC" else 1)]))
        return entries

    def query(self, *args: str, timeout_s: float, more_objects: Path | None = None) -> Completed | None:
        """Run a git command that only reads; None if it does not end in time. It finds `more_objects`, too."""
        self.check_own_objects()
        environment = self._environment | {"GIT_GRAFT_FILE": os.devnull}
        if more_objects is not None:
            quoted = str(more_objects).replace("\\", r"\\").replace('"', r"\"")
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{quoted}"'
        started = time.monotonic()
        try:
            return run_git(args, environment, timeout_s)
        except GitTrouble:
            if time.monotonic() - started >= timeout_s:
                return None
            raise

    def close(self) -> None:
        """Stop the running git; a later read starts it again."""
        self._reader.close()

    @property
    def git_pid(self) -> int | None:
        """The process id of the running git."""
        return self._reader.pid

    def blob_id(self, revision: str, path: str) -> str:
        """Return the id of the blob at a path of a commit."""
        blob_id = self._blob_ids.get((revision, path))
        if blob_id is None:
            blob_id = self._locate(revision, path)
            self._blob_ids.put((revision, path), blob_id)
        return blob_id

    def spelling(self, revision: str, path: str) -> str:
        """Return the path as the tree of a commit spells it; names that are not in the tree stay as they are."""
        if path.isascii():
            return path
        names = path.encode().split(b"/")
        tree: str | None = self.tree_of(revision)
        for position, name in enumerate(names):
            found = self.tree(tree).find(name) if tree is not None else None
            if found is None:
                break
            names[position], (mode, object_id) = found
            tree = object_id.hex() if mode == _TREE else None
        return os.fsdecode(b"/".join(names))

    def check_folder(self, revision: str, path: str) -> None:
        """Refuse a path that is no folder of a commit; an empty path is the top of its tree."""
        self._folder(revision, path.encode().split(b"/") if path else [])

    def _folder(self, revision: str, folders: Iterable[bytes]) -> str:
        """Return the tree of a folder, given by the names on the way to it."""
        # decision 9: each tree on the way is read by id and hashed again, so the path is proved, not delivered from git
        tree = self.tree_of(revision)
        for folder in folders:
            mode, object_id = self._entry(tree, folder, revision)
            if mode != _TREE:
                self._refuse_special(mode)
                raise FileNotFound(hint=f"Looked at commit {revision[:12]}.")
            tree = object_id
        return tree

    def _locate(self, revision: str, path: str) -> str:
        *folders, name = os.fsencode(path).split(b"/")
        mode, object_id = self._entry(self._folder(revision, folders), name, revision)
        if mode == _TREE:
            raise NotAFile("The path is a directory.")
        self._refuse_special(mode)
        return object_id

    def _entry(self, tree: str, name: bytes, revision: str) -> tuple[bytes, str]:
        found = self.tree(tree).find(name)
        if found is None:
            raise FileNotFound(hint=f"Looked at commit {revision[:12]}.")
        mode, object_id = found[1]
        return mode, object_id.hex()

    @staticmethod
    def _refuse_special(mode: bytes) -> None:
        if mode == _LINK:
            raise LinkRefused
        if mode == _MODULE:
            raise NotAFile("The path is a submodule.", hint="Point into the submodule's own repository instead.")

    def tree_of(self, revision: str) -> str:
        """Return the tree of a commit."""
        tree = self._commits.get(revision)
        if tree is not None:
            return tree
        self._check_borrowing(revision)
        commit = self._reader.read(revision, self.max_bytes)
        if commit is None:
            self._refuse_unfetched()
            raise RevisionNotFound(hint="Check the commit id; a commit of another clone is fetched first.")
        if commit.kind != "commit":
            raise RevisionNotFound("The object is not a commit.")
        tree = commit.data[5 : commit.data.find(b"\n")].decode(errors="replace")
        if not commit.data.startswith(b"tree ") or not is_hex(tree, len(revision)):
            raise ObjectDamaged("The commit names no tree.")
        self._commits.put(revision, tree)
        return tree

    def _refuse_unfetched(self) -> None:
        """Say of something absent that it may only not be here yet, if commits are pushed or the clone is shallow."""
        if self.takes_commits:
            raise RevisionNotPushed(
                hint="Its author's commands push it: `engrambus push`, in a clone that has the commit."
            )
        if (self.directory / "shallow").exists():
            raise RevisionNotFetched(hint="Fetch the rest of its history: git fetch --unshallow.")

    def tree(self, tree_id: str) -> Tree:
        """Return the entries of a tree."""
        tree = self._trees.get(tree_id)
        if tree is None:
            tree = read_tree(self._object(tree_id, "tree", MAX_TREE_BYTES), len(tree_id) // 2)
            self._trees.put(tree_id, tree, weight=len(tree) + 1)
        return tree

    def _object(self, object_id: str, kind: str, max_bytes: int) -> bytes:
        self._check_borrowing(object_id)
        git_object = self._reader.read(object_id, max_bytes)
        if git_object is None:
            raise GitTrouble(
                "Objects of the commit are missing from the repository.",
                hint="If it is a partial clone, fetch it in full and try again.",
            )
        if git_object.kind != kind:
            raise ObjectDamaged(f"Object {object_id} is a {git_object.kind}, but a {kind} was expected.")
        return git_object.data

    def check_own_objects(self) -> None:
        """Refuse the repository if an object may come from outside it."""
        if not self._objects.is_dir():
            raise NoRepository(f"There is no git repository at {self.directory}.")
        self._links.check_all()
        self._check_alternates()

    def _check_borrowing(self, object_id: str) -> None:
        """Refuse a repository if an object may come from outside it."""
        # An alternate or a link could lead to objects of another user's repository.
        # Checked at every read, for the price of four stats: they can appear at any time.
        if self._links.check_object(object_id):
            self._reader.close()  # a git that runs may still have a pack open that was linked for a moment
        self._check_alternates()

    def _check_alternates(self) -> None:
        try:
            os.stat(self._alternates)
        except FileNotFoundError:
            return
        for objects in _alternates(self._objects, self.directory, set()):
            self._links.check_tree(str(objects))

    def _run(self, *args: str, environment: dict[str, str] | None = None, stdin: bytes | None = None) -> Completed:
        self.check_own_objects()
        return run_git(args, environment or self._environment, self._timeout_s, stdin=stdin)


def _changed_file(about: list[str], paths: list[str]) -> ChangedFile:
    _, _, old_blob, new_blob, status = about
    is_added, is_deleted = status.startswith("A"), status.startswith("D")
    return ChangedFile(
        old_path=None if is_added else paths[0],
        new_path=None if is_deleted else paths[-1],
        old_blob=None if is_added else old_blob,
        new_blob=None if is_deleted else new_blob,
    )


def find_repository(start: Path | str) -> tuple[Path, Path | None] | None:
    """Return the common git directory and the main worktree of the repository around `start`, if there is one.

    A linked worktree leads to the main one. Bare repositories and submodules have no main worktree.
    """
    folder = Path(start)
    if not folder.is_dir():
        folder = folder.parent
    try:
        done = run_git(
            ("-C", str(folder), "rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir",
             "--is-bare-repository"),
            git_environment(),
            TIMEOUT_S,
        )  # fmt: skip
    except GitTrouble:
        return None
    if done.returncode:
        if b"dubious ownership" in done.stderr:
            raise RepositoryRefused(
                "The repository belongs to another user.", hint=f"git config --global --add safe.directory {folder}"
            )
        return None
    common_text, git_dir_text, bare = os.fsdecode(done.stdout).splitlines()[:3]
    common = Path(os.path.realpath(common_text))
    git_dir = Path(os.path.realpath(git_dir_text))
    if git_dir != common and git_dir.parent != common / "worktrees":  # decision 73: only linked worktrees have another
        raise RepositoryRefused("Its file commondir leads to another repository.", hint="Remove the file.")
    if common.name != ".git" or bare == "true":
        return common, None
    if common != git_dir:
        # Seen from a linked worktree, a bare repository does not look bare.
        is_bare = run_git(("config", "--type=bool", "core.bare"), git_environment(common), TIMEOUT_S).stdout
        if is_bare.strip() == b"true":
            return common, None
    return common, common.parent


def _split_diffs(output: bytes) -> Iterator[tuple[tuple[str, str], bytes]]:
    """Yield the hunks of each file of a patch by the ids of its blobs before and after."""
    # Lines of a hunk begin with a space, a sign or a backslash, so no content can pass for the head of a file.
    for part in output.split(b"\ndiff --git "):
        match = _INDEX_LINE.search(part)
        start = part.find(b"\n@@ ")
        if match is not None and match.start() < start:
            hunks = part[start + 1 :]
            yield (match[1].decode(), match[2].decode()), hunks if hunks.endswith(b"\n") else hunks + b"\n"


def _git_directory(path: Path) -> Path:
    if (path / "HEAD").exists() and (path / "objects").is_dir():
        return Path(os.path.realpath(path))
    repository = find_repository(path)
    if repository is None:
        raise NoRepository(f"There is no git repository at {path}.")
    return repository[0]


def _alternates(objects: Path, directory: Path, visited: set[Path]) -> set[Path]:
    """Return a folder of objects with its alternates and theirs; refuse one outside the repository's directory."""
    if objects in visited:
        return visited
    visited.add(objects)
    try:
        lines = (objects / "info" / "alternates").read_bytes().splitlines()
    except FileNotFoundError:
        return visited
    except OSError:
        raise RepositoryRefused from None
    for line in lines:
        if not line or line.startswith(b"#"):
            continue
        alternate = Path(os.path.realpath(objects / os.fsdecode(line)))
        if line.startswith(b'"') or not alternate.is_relative_to(directory):
            raise RepositoryRefused(hint="Repack it (git repack -a -d) and remove objects/info/alternates.")
        _alternates(alternate, directory, visited)
    return visited
