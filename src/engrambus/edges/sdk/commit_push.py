"""Pushing commits to a server's mirror, in git's own protocol, over the connections that calls go through.

decision 121: not with `git push`, which would send the token to whatever answers at the address: it knows neither the
proof of a listener nor the certificates of the login, and follows redirects and proxies of its own configuration.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec

from engrambus.core import LruCache, files, is_hex
from engrambus.errors import EngramBusError, GitTrouble, PushRefused, TooManyCalls
from engrambus.evidence.pointers.git import RETAIN_REFS
from engrambus.evidence.pointers.git_process import git_command, git_environment
from engrambus.gateway import Operation, find_pointer_fields

GIT_SECONDS = 300.0
MAX_NOTED = 4096
"""Commits that are remembered as pushed."""
SHOWING_EVIDENCE = ("create_memory", "search_memory")
"""Spans of the operations whose answers show the state of evidence."""
MAX_TRIES = 3
PAUSE_SECONDS = 1.0
RETRY_SECONDS = 600
"""Time after which commits that could not be pushed are tried again."""
_ZERO = "0"
_COMMIT = re.compile(r"(?<=[@.])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")


class PushTransport(Protocol):
    """Sends the two requests of a push."""

    def mirror_refs(self, token: str) -> bytes:
        """Return the refs that the mirror announces."""
        ...

    def mirror_push(self, token: str, body: IO[bytes], size_bytes: int) -> bytes:
        """Send a push and return the mirror's report."""
        ...


class CommitPusher:
    """Pushes commits of one repository to one mirror, each once. Safe to share between threads."""

    def __init__(self, repository: Path, notes: Path | None) -> None:
        """`repository` is a folder of the clone; `notes` is a file that remembers what was pushed."""
        self._repository = repository
        self._notes = notes
        self._pushed: LruCache[str, bool] = LruCache(MAX_NOTED)
        self._lock = threading.Lock()
        self._has_read = False
        self._failed: dict[str, float] = {}
        """When commits could not be pushed."""

    def push(self, transport: PushTransport, token: str, commits: Iterable[str], *, again: bool = False) -> list[str]:
        """Push those of these commits that are in the clone and were not pushed yet; return them.

        With `again`, those that failed a short time ago are tried, too.
        """
        with self._lock:
            self._read_notes()
            if again:
                self._failed.clear()
            wanted = [commit for commit in dict.fromkeys(commits) if self._is_due(commit)]
            here = self._present(wanted)
            if not here:
                return []
            missing = self._send_missing(transport, token, here)
            for commit in here:
                self._pushed.put(commit, True)
            self._append(f"{commit}\n" for commit in here)
            return missing

    def _send_missing(self, transport: PushTransport, token: str, commits: list[str]) -> list[str]:
        """Push the commits that the mirror lacks; return those."""
        tries_left, refused, failed = MAX_TRIES, list[str](), None
        while True:
            tries_left -= 1
            known = self._refs(transport.mirror_refs(token))
            missing = [commit for commit in commits if f"{RETAIN_REFS}{commit}" not in known]
            if not missing:
                return []
            if failed is not None and missing == refused:
                raise failed
            try:
                self._send(transport, token, missing, set(known.values()))
            except (PushRefused, TooManyCalls) as problem:
                # Another process of this clone may be pushing the same commit, or several others.
                if not tries_left:
                    raise
                if isinstance(problem, TooManyCalls):
                    time.sleep(PAUSE_SECONDS)
                else:
                    refused, failed = missing, problem
            else:
                return missing

    def note_failure(self, commits: Iterable[str]) -> None:
        """Remember that commits could not be pushed, so that not every call tries it again."""
        with self._lock:
            now = time.time()
            self._failed |= dict.fromkeys(commits, now)
            self._append(f"-{commit} {now:.0f}\n" for commit in commits)

    def _is_due(self, commit: str) -> bool:
        if self._pushed.get(commit):
            return False
        return not 0 <= time.time() - self._failed.get(commit, 0.0) < RETRY_SECONDS

    def _present(self, commits: list[str]) -> list[str]:
        """Return those of these ids that are commits of the clone."""
        asked = [commit for commit in commits if is_hex(commit, 40, 64)]
        if not asked:
            return []
        done = _git(
            self._repository, ["cat-file", "--batch-check"], "".join(f"{commit}\n" for commit in asked).encode()
        )
        rows = (line.split(" ") for line in done.decode().splitlines())
        return [row[0] for row in rows if len(row) == 3 and row[1] == "commit"]

    @staticmethod
    def _refs(announced: bytes) -> dict[str, str]:
        """Return the commits of the mirror by their refs."""
        refs: dict[str, str] = {}
        position = 0
        while position + 4 <= len(announced):
            size = int(announced[position : position + 4], 16)
            line = announced[position + 4 : position + size].partition(b"\0")[0].rstrip(b"\n")
            position += max(size, 4)
            commit, _, ref = line.decode("utf-8", "replace").partition(" ")
            if is_hex(commit, 40, 64) and commit.strip(_ZERO):
                refs[ref] = commit
        return refs

    def _send(self, transport: PushTransport, token: str, commits: list[str], known: set[str]) -> None:
        haves = self._present(sorted(known))
        lines = [
            b"%s %s %s%s%s" % (
                _ZERO.encode() * len(commit), commit.encode(), RETAIN_REFS.encode(), commit.encode(),
                b"\0report-status ofs-delta agent=engrambus" if number == 0 else b"",
            )
            for number, commit in enumerate(commits)
        ]  # fmt: skip
        revisions = "".join([*(f"{commit}\n" for commit in commits), *(f"^{commit}\n" for commit in haves)])
        with tempfile.TemporaryFile() as body:
            body.write(b"".join(b"%04x%s" % (len(line) + 4, line) for line in lines) + b"0000")
            body.flush()
            options = ["--revs", "--stdout", "--thin", "--delta-base-offset", "-q"]
            _git(self._repository, ["pack-objects", *options], revisions.encode(), out=body)
            size_bytes = body.seek(0, 2)
            body.seek(0)
            report = transport.mirror_push(token, body, size_bytes)
        _check_report(report)

    def _read_notes(self) -> None:
        if self._has_read or self._notes is None:
            return
        self._has_read = True
        with suppress(OSError, EngramBusError, UnicodeDecodeError):
            for line in files.read_file(self._notes).decode("ascii").splitlines()[-MAX_NOTED:]:
                commit, _, moment = line.lstrip("-").partition(" ")
                if line.startswith("-") and moment.isdigit():
                    self._failed[commit] = float(moment)
                else:
                    self._pushed.put(commit, True)

    def _append(self, lines: Iterable[str]) -> None:
        if self._notes is not None:
            with suppress(OSError, EngramBusError), files.open_writer(self._notes, "ab") as file:
                file.write("".join(lines).encode())


def _check_report(report: bytes) -> None:
    """Raise what the mirror's git says went wrong."""
    lines: list[str] = []
    position = 0
    while position + 4 <= len(report):
        size = int(report[position : position + 4], 16)
        if size == 0:
            break
        lines.append(report[position + 4 : position + size].decode("utf-8", "replace").strip())
        position += size
    bad = [line for line in lines if not (line == "unpack ok" or line.startswith("ok "))]
    if bad or not lines:
        raise PushRefused(
            f"The server did not take the commits: {'; '.join(bad)[:200] or 'no report'}.", field="commits"
        )


def _git(repository: Path, command: list[str], stdin: bytes, out: IO[bytes] | None = None) -> bytes:
    import subprocess  # slow to import

    try:
        done = subprocess.run(
            [*git_command(), "-C", str(repository), *command],
            env=git_environment(),
            input=stdin,
            stdout=subprocess.PIPE if out is None else out,
            stderr=subprocess.PIPE,
            timeout=GIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitTrouble("Git did not finish in time.", limit=f"{GIT_SECONDS:g} s") from None
    except OSError as problem:
        raise GitTrouble(f"Git cannot be started: {problem.strerror}.") from None
    if done.returncode:
        raise GitTrouble(
            "Git could not prepare the commits.", hint=done.stderr.decode("utf-8", "replace")[:200] or None
        )
    return done.stdout or b""


def pointed_commits(operation: Operation[Any, Any], request: msgspec.Struct, head: str | None) -> list[str]:
    """Return the commits that a call needs on the server: those its pointers name, and the one checked out.

    The last is where a path without a commit points, and what the state of evidence is worked out for.
    """
    fields = find_pointer_fields(operation.request)
    if not fields and operation.span not in SHOWING_EVIDENCE:
        return []
    values = msgspec.to_builtins({name: getattr(request, name) for name in fields})
    named = _COMMIT.findall(msgspec.json.encode(values).decode())
    return list(dict.fromkeys([*named, *([head] if head is not None else [])]))
