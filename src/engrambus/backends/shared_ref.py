"""A ref that a team shares engrams through: fetched, merged as sets of lines, committed and pushed with git's plumbing.

The worktree and its index are never touched. A merge has the remote's tree as it is, with lines added to the files of
engrams, so it cannot conflict; a push that came too late is made again from what arrived first.
"""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from engrambus.backends.shared_folder import LinesOf
from engrambus.core import is_hex
from engrambus.errors import (
    EngramBusError,
    ExportNotFound,
    ExportTooLarge,
    FileNotOurs,
    GitTrouble,
    LinkRefused,
    ObjectDamaged,
    RemoteNotFound,
    RemoteRefused,
    RemoteUnreachable,
    SyncRaced,
    SyncRefInUse,
    SyncRefInvalid,
)
from engrambus.evidence.pointers import GitRepository, git_environment, run_git
from engrambus.knowledge.sharing import (
    ATTRIBUTES,
    ATTRIBUTES_FILE,
    MAX_FILE_BYTES,
    MAX_FILES,
    SHARED_FOLDER,
    ExportedFiles,
    added_lines,
    engram_of_file,
    file_name,
)

LOCAL_S = 120.0
NETWORK_S = 300.0
_FILE_MODES = ("100644", "100755")
_RACES = re.compile(r"fetch first|non-fast-forward|stale info|cannot lock ref|failed to update ref|incorrect old value")
_LOCK = re.compile(r"cannot lock ref|index\.lock|shallow\.lock|Unable to create .*\.lock")
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Engram Bus",
    "GIT_AUTHOR_EMAIL": "sync@engrambus.invalid",
    "GIT_COMMITTER_NAME": "Engram Bus",
    "GIT_COMMITTER_EMAIL": "sync@engrambus.invalid",
}
_MESSAGE_CHARS = 400


MAX_ATTEMPTS = 12
PAUSE_S = 0.2
"""Longest pause after the first push that came too late; after the second, twice that."""


class _Entry(NamedTuple):
    mode: str
    kind: str
    id: str


class SharedRef:
    """One ref of a repository and of one of its remotes."""

    def __init__(self, git_folder: Path, worktree: Path, remote: str, ref: str, environment: Mapping[str, str]) -> None:
        """`environment` is the person's own, with which git reaches the remote as `git fetch` does."""
        self._repository = GitRepository(git_folder)
        self._environment = git_environment(git_folder)
        self._own_environment = _person_environment(environment)
        self._worktree = worktree
        self._remote = remote
        self.ref = ref if ref.startswith("refs/") else f"refs/heads/{ref}"

    def exported_ids(self, *commits: str | None) -> set[str]:
        """Return the engrams that have a file in one of these commits."""
        names = (name for commit in commits for name in self._entries(commit))
        return {engram_id for name in names if (engram_id := engram_of_file(name)) is not None}

    def check(self) -> None:
        """Refuse a ref that is none of ours to write, and a remote that the repository does not have."""
        self._repository.check_own_objects()
        is_ours = self.ref.startswith(("refs/heads/", "refs/engrambus/")) and "/-" not in self.ref
        if not is_ours or self._run("check-ref-format", self.ref):
            raise SyncRefInvalid(
                f"'{self.ref[:100]}' is no branch and no ref below refs/engrambus/.", field="ref", used=self.ref[:100]
            )
        remotes = self._read("remote").decode(errors="replace").splitlines()
        if self._remote not in remotes:
            raise RemoteNotFound(
                f"The repository has no remote '{self._remote[:100]}'.",
                field="remote",
                limit=", ".join(remotes) or None,
                hint="Name one with --remote, or share files instead: engrambus export, and commit them.",
            )
        rows = self._read("worktree", "list", "--porcelain").decode(errors="replace").splitlines()
        if f"branch {self.ref}" in rows:
            raise SyncRefInUse(
                f"{self.ref} is checked out; a sync would change it below the worktree.",
                field="ref",
                used=self.ref,
                hint="Check out another branch, or share through another one: --ref.",
            )

    def local(self) -> str | None:
        """Return the commit of the ref here."""
        return self._commit_of(self.ref)

    def fetch(self) -> str | None:
        """Return the commit of the ref at the remote, with its objects here; None if the remote does not have it."""
        listed = self._reach("ls-remote", "--", self._remote, self.ref)
        if listed.returncode:
            raise RemoteUnreachable(
                f"The remote '{self._remote}' did not answer: {_last_words(listed.stderr)}",
                hint="Nothing is lost: what is shared waits here. Run engrambus sync again later.",
            )
        rows = (line.split("\t") for line in listed.stdout.decode(errors="replace").splitlines())
        commit = next((row[0] for row in rows if row[1:] == [self.ref]), None)
        if commit is None or not is_hex(commit, 40, 64):
            return None
        if self._commit_of(commit) is None:
            # By its name: not every server hands out commits by id. What it is now has `commit` among its ancestors.
            done = self._reach(
                "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
                "--no-auto-maintenance", "--refmap=", "--", self._remote, self.ref,
            )  # fmt: skip
            if done.returncode and not _LOCK.search(done.stderr.decode(errors="replace")):
                raise RemoteUnreachable(
                    f"The remote '{self._remote}' did not send {self.ref}: {_last_words(done.stderr)}",
                    hint="Nothing is lost: run engrambus sync again.",
                )
            if self._commit_of(commit) is None:
                raise RefMoved
        return commit

    def merge(self, remote: str | None, local: str | None, lines_by_engram: Mapping[str, list[bytes]]) -> Merged:
        """Return the commit that has everything: the files of both commits, and these lines."""
        base, diverged = self._order(remote, local)
        entries = self._entries(base)
        wanted = {engram_id: list(lines) for engram_id, lines in lines_by_engram.items()}
        if diverged is not None and base is not None:
            self._check_only_engrams(base, diverged)
            for engram_id, content in self._unshared(diverged, entries):
                wanted.setdefault(engram_id, []).extend(content)
        changed = self._with_lines(entries, wanted)
        if not changed:
            return Merged(base, 0, 0)
        names = [name for name in changed if name != ATTRIBUTES_FILE]
        new = sum(name not in entries for name in names)
        parents = [commit for commit in (base, diverged) if commit is not None]
        commit = self._commit(base, {**entries, **changed}, parents, new, len(names) - new)
        return Merged(commit, new, len(names) - new)

    def _order(self, remote: str | None, local: str | None) -> tuple[str | None, str | None]:
        """Return the commit to add to, and another one that has lines which that one may lack."""
        if remote is None or local is None or self._is_ancestor(local, remote):
            return remote or local, None
        return (local, None) if self._is_ancestor(remote, local) else (remote, local)

    def _check_only_engrams(self, remote: str, local: str) -> None:
        """Refuse to merge commits here that change anything but engrams: that is for a person."""
        base = run_git(("merge-base", remote, local), self._environment, LOCAL_S).stdout.decode().strip()
        base_tree, local_tree = (self._tree(commit, "") for commit in (base, local))
        changed = sorted(
            name for name in {*base_tree, *local_tree} - {SHARED_FOLDER} if base_tree.get(name) != local_tree.get(name)
        )
        remote_tree = self._tree(remote, "")
        if any(local_tree.get(name) != remote_tree.get(name) for name in changed):
            raise SyncRefInvalid(
                f"{self.ref} here has commits that change {changed[0]!r}, and so has the remote's.",
                field="ref",
                used=self.ref,
                hint="Merge the two with git first, or share through another ref: --ref.",
            )

    def set_local(self, commit: str, old_commit: str | None) -> bool:
        """Move the ref here to a commit; return False if another process has moved it since."""
        zero = "0" * len(commit)
        done = run_git(("update-ref", self.ref, commit, old_commit or zero), self._environment, LOCAL_S)
        if done.returncode and self.local() == old_commit:
            raise GitTrouble(f"Git could not set {self.ref}.", hint=_last_words(done.stderr))
        return not done.returncode

    def push(self, commit: str) -> bool:
        """Send a commit to the remote's ref; return False if another arrived first."""
        done = self._reach(
            "push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no", "--", self._remote,
            f"{commit}:{self.ref}",
        )  # fmt: skip
        if not done.returncode:
            return True
        output = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
        rejected = [line for line in output.splitlines() if line.startswith("!")]
        if any(_RACES.search(line) for line in rejected):
            return False
        if rejected or "failed to push some refs" in output:  # the latter alone: a hook here said no
            raise RemoteRefused(
                f"The push to '{self._remote}' was refused: {_last_words(done.stderr)}",
                hint=f"What is shared is committed to {self.ref} here and is sent by the next engrambus sync. "
                "If that branch may not be pushed to, choose another one: --ref.",
            )
        raise RemoteUnreachable(
            f"The remote '{self._remote}' did not answer: {_last_words(done.stderr)}",
            hint=f"What is shared is committed to {self.ref} here. Run engrambus sync again later.",
        )

    def _unshared(self, commit: str, entries: Mapping[str, _Entry]) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the lines of files here that differ from those of the remote: they were never pushed."""
        blobs = {
            name: entry.id
            for name, entry in self._entries(commit).items()
            if entry.mode in _FILE_MODES and entries.get(name) != entry and engram_of_file(name) is not None
        }
        for name, content in self._contents(blobs):
            engram_id = engram_of_file(name)
            if engram_id is not None:
                yield engram_id, [line for line in content.split(b"\n") if line]

    def _with_lines(self, entries: Mapping[str, _Entry], wanted: Mapping[str, list[bytes]]) -> dict[str, _Entry]:
        """Return the entries of the files that get lines; a link or a folder in the place of one is left alone."""
        blobs = {
            file_name(engram_id): entry.id
            for engram_id in wanted
            if (entry := entries.get(file_name(engram_id))) is not None and entry.mode in _FILE_MODES
        }
        contents = dict(self._contents(blobs))
        changed: dict[str, bytes] = {}
        for engram_id, lines in wanted.items():
            name = file_name(engram_id)
            if name in entries and name not in contents:
                continue
            content = added_lines(contents.get(name, b""), lines)
            if content != contents.get(name, b""):
                changed[name] = content
        if changed and ATTRIBUTES_FILE not in entries:
            changed[ATTRIBUTES_FILE] = ATTRIBUTES
        return {name: _Entry("100644", "blob", blob) for name, blob in self._store(changed).items()}

    def _store(self, contents: Mapping[str, bytes]) -> dict[str, str]:
        """Write blobs and return their ids by name."""
        if not contents:
            return {}
        with tempfile.TemporaryDirectory(prefix="engrambus-sync-") as folder:
            paths = []
            for number, content in enumerate(contents.values()):
                path = Path(folder) / str(number)
                path.write_bytes(content)
                paths.append(str(path))
            stdin = "".join(f"{path}\n" for path in paths).encode()
            ids = self._read("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=stdin).decode().split()
        return dict(zip(contents, ids, strict=True))

    def _commit(
        self, base: str | None, entries: Mapping[str, _Entry], parents: list[str], new: int, longer: int
    ) -> str:
        folder = self._make_tree(entries)
        top = {name: entry for name, entry in self._tree(base or "", "").items() if name != SHARED_FOLDER}
        tree = self._make_tree({**top, SHARED_FOLDER: _Entry("040000", "tree", folder)})
        message = f"engrams: {new} new, {longer} with more events\n".encode()
        words = [word for parent in parents for word in ("-p", parent)]
        done = run_git(("commit-tree", tree, *words), self._identity(), LOCAL_S, stdin=message)
        commit = done.stdout.decode().strip()
        if done.returncode or not is_hex(commit, 40, 64):
            raise GitTrouble("Git could not make the commit.", hint=_last_words(done.stderr))
        return commit

    def _identity(self) -> dict[str, str]:
        """Return the environment of a commit: the person's name as git is configured, or else ours."""
        asked = self._reach("var", "GIT_COMMITTER_IDENT")
        match = re.fullmatch(r"(.*) <(.*)> \d+ [+-]\d+", asked.stdout.decode(errors="replace").strip())
        if asked.returncode or match is None or not match[1] or not match[2]:
            return self._environment | _IDENTITY
        names = {"GIT_AUTHOR_NAME": match[1], "GIT_COMMITTER_NAME": match[1]}
        return self._environment | names | {"GIT_AUTHOR_EMAIL": match[2], "GIT_COMMITTER_EMAIL": match[2]}

    def _make_tree(self, entries: Mapping[str, _Entry]) -> str:
        rows = b"".join(
            f"{entry.mode} {entry.kind} {entry.id}\t".encode() + name.encode(errors="surrogateescape") + b"\0"
            for name, entry in entries.items()
        )
        return self._read("mktree", "-z", stdin=rows).decode().strip()

    def _entries(self, commit: str | None) -> dict[str, _Entry]:
        return self._tree(commit, f"{SHARED_FOLDER}/") if commit is not None else {}

    def _tree(self, commit: str, path: str) -> dict[str, _Entry]:
        return tree_entries(self._repository, self._environment, commit, path)

    def _contents(self, blobs: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """Yield the content of blobs by name; one that cannot be read whole is left out."""
        by_id: dict[str, bytes] = {}
        self._repository.blobs(list(dict.fromkeys(blobs.values())), by_id.__setitem__)
        for name, blob in blobs.items():
            if blob in by_id:
                yield name, by_id[blob]

    def _commit_of(self, revision: str) -> str | None:
        done = run_git(("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"), self._environment, LOCAL_S)
        commit = done.stdout.decode(errors="replace").strip()
        return commit if not done.returncode and is_hex(commit, 40, 64) else None

    def _is_ancestor(self, older: str, newer: str) -> bool:
        return not self._run("merge-base", "--is-ancestor", older, newer)

    def _run(self, *args: str) -> int:
        return run_git(args, self._environment, LOCAL_S).returncode

    def _read(self, *args: str, stdin: bytes | None = None) -> bytes:
        done = run_git(args, self._environment, LOCAL_S, stdin=stdin)
        if done.returncode:
            raise GitTrouble(f"git {args[0]} failed: {_last_words(done.stderr)}")
        return done.stdout

    def _reach(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        """Run git as the person would: with its configuration, its hooks and its credentials."""
        try:
            return subprocess.run(
                ["git", *args],
                cwd=self._worktree,
                env=self._own_environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=NETWORK_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RemoteUnreachable(
                f"The remote '{self._remote}' did not answer in time.", limit=f"{NETWORK_S:g} s"
            ) from None
        except OSError as problem:
            raise GitTrouble(f"Git cannot be started: {problem.strerror}.") from None


class RefMoved(Exception):
    """The remote's ref moved while it was fetched; it is to be fetched again."""


class SyncedRef(NamedTuple):
    """State of a ref after a sync."""

    ref: str
    commit: str | None
    """The commit that it is here; None if there is nothing to share."""
    new: int
    """Files of engrams that were added."""
    longer: int
    """Files that got more lines."""
    is_pushed: bool
    """True if the remote has the commit."""
    problem: EngramBusError | None
    """Reason why the remote does not have the commit; None if it has."""


class Merged(NamedTuple):
    """Outcome of a merge."""

    commit: str | None
    """The commit with everything; None if there is nothing to share."""
    new: int
    """Files of engrams that it adds to the commit before."""
    longer: int
    """Files that have more lines than before."""


def sync(shared: SharedRef, lines: LinesOf) -> SyncedRef:
    """Merge lines into the ref here and at the remote; a push that came too late is made again from what arrived.

    Without the remote, everything is done but the push, and `problem` says what is missing.
    """
    shared.check()
    new = longer = 0
    for attempt in range(MAX_ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0, PAUSE_S * attempt))  # noqa: S311 - others retry, too
        problem: EngramBusError | None = None
        remote = None
        try:
            remote = shared.fetch()
        except RefMoved:
            continue
        except RemoteUnreachable as trouble:
            problem = trouble
        local = shared.local()
        merged = shared.merge(remote, local, lines(shared.exported_ids(remote, local)))
        if merged.commit is None:
            return SyncedRef(shared.ref, None, new, longer, False, problem)
        if merged.commit != local and not shared.set_local(merged.commit, local):
            continue  # another sync of this repository was faster
        new, longer = new + merged.new, longer + merged.longer
        if problem is not None or merged.commit == remote:
            return SyncedRef(shared.ref, merged.commit, new, longer, problem is None, problem)
        try:
            if shared.push(merged.commit):
                return SyncedRef(shared.ref, merged.commit, new, longer, True, None)
        except (RemoteRefused, RemoteUnreachable) as trouble:
            return SyncedRef(shared.ref, merged.commit, new, longer, False, trouble)
    raise SyncRaced(
        f"{shared.ref} was changed by others {MAX_ATTEMPTS} times before the push arrived.",
        limit=MAX_ATTEMPTS,
        hint="Nothing is lost: run engrambus sync again.",
    )


def read_commit(git_folder: Path, revision: str, now_us: int) -> ExportedFiles:
    """Read the exported files in a commit of a repository."""
    repository = GitRepository(git_folder)
    commit = repository.expand(revision)
    entries = tree_entries(repository, git_environment(git_folder), commit, f"{SHARED_FOLDER}/")
    if not entries:
        raise ExportNotFound(f"{revision[:80]} has no folder '{SHARED_FOLDER}' with exported engrams.", field="from")
    if len(entries) > MAX_FILES + 1:
        raise ExportTooLarge("There are too many files.", field="from", limit=MAX_FILES, used=len(entries))
    read = ExportedFiles(now_us)
    wanted: dict[str, list[str]] = {}
    for name, entry in entries.items():
        if entry.mode in _FILE_MODES:
            if name.endswith(".jsonl"):
                wanted.setdefault(entry.id, []).append(name)
        elif name.endswith(".jsonl") or entry.kind != "blob":
            read.refuse(name, _why_not(entry))
    sizes = repository.sizes(wanted)
    for blob in [blob for blob in wanted if sizes.get(blob, 0) > MAX_FILE_BYTES]:
        for name in wanted.pop(blob):
            read.refuse(name, ExportTooLarge("The file is too large.", limit=MAX_FILE_BYTES, used=sizes[blob]))
    unread = set(wanted)

    def take(blob: str, content: bytes) -> None:
        unread.discard(blob)
        for name in wanted[blob]:
            read.take(name, content)

    repository.blobs(list(wanted), take)
    for blob in unread:
        for name in wanted[blob]:
            read.refuse(name, ObjectDamaged("Git could not read the file."))
    return read


def tree_entries(
    repository: GitRepository, environment: Mapping[str, str], commit: str, path: str
) -> dict[str, _Entry]:
    """Return the entries of a folder of a commit by name; none if there is no such folder."""
    if not commit:
        return {}
    repository.check_own_objects()
    done = run_git(("ls-tree", "-z", "--full-tree", commit, *([path] if path else [])), environment, LOCAL_S)
    if done.returncode:
        raise GitTrouble("Git could not list the commit's files.", hint=_last_words(done.stderr))
    entries = {}
    for row in done.stdout.split(b"\0"):
        about, _, name = row.partition(b"\t")
        if name:
            mode, kind, blob = about.decode().split(" ")
            entries[name.decode(errors="surrogateescape").removeprefix(path)] = _Entry(mode, kind, blob)
    return entries


def _why_not(entry: _Entry) -> EngramBusError:
    if entry.mode == "120000":
        return LinkRefused("The file is a symbolic link.")
    return FileNotOurs("It is not a file.")


def _person_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a person's environment without what would point git at another repository or index."""
    redirecting = {
        "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_QUARANTINE_PATH",
    }  # fmt: skip
    own = {name: value for name, value in environment.items() if name not in redirecting}
    return {**own, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}


def _last_words(text: bytes) -> str:
    """Return what git said last, on one line."""
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return " ".join(lines[-4:])[:_MESSAGE_CHARS] or "git said nothing."
