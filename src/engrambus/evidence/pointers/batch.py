"""One long-lived `git cat-file --batch` per repository: ask for an object id, get the object, checked.

Nothing but full object ids is ever written to git, and an answer counts only when it is about the id that was asked
for and its bytes hash to that id.
"""

from __future__ import annotations

import hashlib
import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from engrambus.core import is_hex
from engrambus.errors import ContentTooLarge, GitTrouble, ObjectDamaged

if TYPE_CHECKING:
    import subprocess

AT_ONCE = 256
"""Objects asked for in one breath: their ids fit into a pipe, so that neither side waits for the other."""
_CHUNK = 65_536


class GitObject(NamedTuple):
    """An object as git stores it."""

    kind: str
    """blob, tree, commit or tag."""
    data: bytes


class Batch:
    """The conversation with git. Threads take turns; a git that died is started again; a fork starts its own."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        before_start: Callable[[], None],
        timeout: float,
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._before_start = before_start
        self._timeout = timeout
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ending: weakref.finalize[..., Batch] | None = None
        self._poll = select.poll()
        _alive.add(self)

    def read(self, object_id: str, cap: int) -> GitObject | None:
        """The object, or None when the repository has none of that id; larger than `cap` is refused."""
        if not is_hex(object_id, 40, 64):
            return None
        with self._lock:
            found = self._ask(object_id, cap)
        return _checked(object_id, found)

    def read_each(self, object_ids: Sequence[str], cap: int, take: Callable[[str, GitObject], None]) -> None:
        """Hand over several objects, one after the other, asked for in one breath; those that are absent are left out.

        For looking ahead: at the first trouble it gives up.
        """
        wanted = [each for each in object_ids if is_hex(each, 40, 64)][:AT_ONCE]
        with self._lock:
            deadline = time.monotonic() + self._timeout
            process = self._process or self._start()
            try:
                source = self._write(process, wanted)
                rest = b""
                for object_id in wanted:
                    said, rest = self._answer(source, object_id, cap, deadline, rest)
                    found = _checked(object_id, said)
                    if found is not None:
                        take(object_id, found)
                _check_silent(rest)
            except BaseException as problem:
                self._stop()
                if isinstance(problem, OSError | ValueError):
                    raise GitTrouble("Git stopped while it was reading objects.") from None
                raise

    def close(self) -> None:
        """End git; a later read starts it again."""
        with self._lock:
            self._stop()

    @property
    def pid(self) -> int | None:
        """The process id of the running git."""
        return self._process.pid if self._process else None

    def _ask(self, object_id: str, cap: int) -> GitObject | None:
        deadline = time.monotonic() + self._timeout
        for last_try in (False, True):
            process = self._process or self._start()
            try:
                return self._converse(process, object_id, cap, deadline)
            except (OSError, ValueError):
                self._stop()
                if last_try:
                    raise GitTrouble("Git stopped while it was reading an object.") from None
            except BaseException:
                # What git still has to say belongs to this question: the next one starts with a fresh git.
                self._stop()
                raise
        raise GitTrouble

    def _converse(
        self, process: subprocess.Popen[bytes], object_id: str, cap: int, deadline: float
    ) -> GitObject | None:
        source = self._write(process, [object_id])
        found, rest = self._answer(source, object_id, cap, deadline)
        _check_silent(rest)
        return found

    @staticmethod
    def _write(process: subprocess.Popen[bytes], object_ids: Sequence[str]) -> int:
        """Ask for objects; where the answers will come from."""
        assert process.stdin and process.stdout  # noqa: S101, PT018 - both are pipes
        os.write(process.stdin.fileno(), "".join(f"{each}\n" for each in object_ids).encode())
        return process.stdout.fileno()

    def _answer(
        self, source: int, object_id: str, cap: int, deadline: float, seen: bytes = b""
    ) -> tuple[GitObject | None, bytes]:
        """What git has to say about one object, and what it has said beyond that."""
        while (end := seen.find(b"\n")) < 0:
            seen += self._more(source, deadline)
        header = seen[:end].split(b" ")
        if len(header) != 3:
            if header[-1] in (b"missing", b"ambiguous"):
                return None, seen[end + 1 :]
            raise OSError("git speaks out of turn")
        size = int(header[2])
        if size > cap:
            raise ContentTooLarge(limit=cap, used=size)
        want = end + 1 + size + 1
        if len(seen) < want:
            parts, have = [seen], len(seen)
            while have < want:
                parts.append(self._more(source, deadline))
                have += len(parts[-1])
            seen = b"".join(parts)
        # A short id or a name that looks like one can lead git elsewhere; then it is not what was asked for.
        found = GitObject(header[1].decode(), seen[end + 1 : want - 1]) if header[0] == object_id.encode() else None
        return found, seen[want:]

    def _more(self, source: int, deadline: float) -> bytes:
        if not self._poll.poll(max(0.0, (deadline - time.monotonic()) * 1000)):
            raise GitTrouble("Git did not answer in time.", limit=f"{self._timeout:g} s")
        chunk = os.read(source, _CHUNK)
        if not chunk:
            raise BrokenPipeError
        return chunk

    def _start(self) -> subprocess.Popen[bytes]:
        import subprocess  # many calls need no git, and it takes long to load

        self._before_start()
        try:
            process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                process_group=0,  # a Ctrl-C for us is not one for git
            )
        except OSError as problem:
            raise GitTrouble(f"Git cannot be started: {problem.strerror}.") from None
        assert process.stdout  # noqa: S101 - it is a pipe
        self._poll = select.poll()
        self._poll.register(process.stdout.fileno(), select.POLLIN)
        self._process = process
        self._ending = weakref.finalize(self, _end, process)
        return process

    def _stop(self) -> None:
        self._process = None
        if self._ending is not None:
            self._ending()

    def _forget(self) -> None:
        """In a forked child: the running git belongs to the parent, and the lock may have been held."""
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None and self._ending is not None:
            self._ending.detach()
            process.returncode = 0
            _close_pipes(process)


def _checked(object_id: str, found: GitObject | None) -> GitObject | None:
    """The object, if its bytes hash to its id."""
    if found is None:
        return None
    framed = hashlib.new("sha1" if len(object_id) == 40 else "sha256", usedforsecurity=False)
    framed.update(b"%s %d\0" % (found.kind.encode(), len(found.data)))
    framed.update(found.data)
    if framed.hexdigest() != object_id:
        raise ObjectDamaged(f"Object {object_id} of the repository does not have the hash it is stored under.")
    return found


def _check_silent(rest: bytes) -> None:
    if rest:
        raise OSError("git speaks out of turn")


def _end(process: subprocess.Popen[bytes]) -> None:
    _close_pipes(process)
    if process.returncode is None:
        process.kill()
        process.wait()


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


_alive: weakref.WeakSet[Batch] = weakref.WeakSet()


def _after_fork() -> None:
    for batch in list(_alive):
        batch._forget()


os.register_at_fork(after_in_child=_after_fork)
