"""Running git so that nothing in the repository can make it run something else, and a long-lived reader of objects."""

from __future__ import annotations

import hashlib
import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from engrambus.core import is_hex
from engrambus.errors import ContentTooLarge, GitTrouble, ObjectDamaged

if TYPE_CHECKING:
    import subprocess

Completed: TypeAlias = "subprocess.CompletedProcess[bytes]"

# These override the repository's configuration: no hooks, no helpers, no network, no attributes from elsewhere.
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    # The file names packs by their paths, and could name one of another repository.
    "core.multiPackIndex": "false",
    "protocol.allow": "never",
    "diff.suppressBlankEmpty": "false",
    "gc.auto": "0",
}

MAX_IDS_PER_REQUEST = 256
"""Objects asked for in one write. Their ids fit into a pipe's buffer, so neither side blocks the other."""
_CHUNK_BYTES = 65_536


def git_command() -> list[str]:
    """Return the command every git process is started with."""
    return ["git", *(word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}"))]


def git_environment(git_directory: Path | None = None) -> dict[str, str]:
    """Return the environment of a git process, for one repository or, without a directory, to search for one.

    The process's environment is read only to be passed on: PATH and the like stay, and every variable that could
    redirect git is removed. A search keeps the user's configuration, because git accepts `safe.directory` only there.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    if git_directory is not None:
        environment |= {
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_DIR": str(git_directory),
        }
    return environment


def run_git(
    args: tuple[str, ...],
    environment: Mapping[str, str],
    timeout_s: float,
    *,
    stdin: bytes | None = None,
    folder: Path | None = None,
) -> Completed:
    """Run one git command to its end; its standard input is `stdin` or empty."""
    import subprocess  # slow to import, and many calls need no git

    try:
        return subprocess.run(
            [*git_command(), *args],
            env=environment,
            cwd=folder,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitTrouble("Git did not answer in time.", limit=f"{timeout_s:g} s") from None
    except OSError as problem:
        raise GitTrouble(f"Git cannot be started: {problem.strerror}.") from None


def stream_git(args: tuple[str, ...], environment: Mapping[str, str], timeout_s: float) -> Iterator[bytes]:
    """Run one git command and yield its output in chunks; a reader that stops early ends it.

    Nothing is raised if git fails after it has written something: what it has written is complete as far as it goes.
    """
    import subprocess  # slow to import, and many calls need no git

    try:
        process = subprocess.Popen(
            [*git_command(), *args],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as problem:
        raise GitTrouble(f"Git cannot be started: {problem.strerror}.") from None
    assert process.stdout  # noqa: S101 - it is a pipe
    deadline = time.monotonic() + timeout_s
    wrote = False
    try:
        while chunk := os.read(process.stdout.fileno(), _CHUNK_BYTES):
            wrote = True
            yield chunk
            if time.monotonic() > deadline:
                raise GitTrouble("Git did not finish in time.", limit=f"{timeout_s:g} s")
        if process.wait() and not wrote:
            raise GitTrouble("Git could not read the repository's history.")
    finally:
        _end(process)


class GitObject(NamedTuple):
    """An object as git stores it."""

    kind: str
    """blob, tree, commit or tag."""
    data: bytes


class ObjectReader:
    """A running `git cat-file --batch`: takes an object id, returns the object with its hash checked.

    Threads take turns; a git that died is started again; a forked child starts its own.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        before_start: Callable[[], None],
        timeout_s: float,
    ) -> None:
        self._environment = dict(environment)
        self._before_start = before_start
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[..., ObjectReader] | None = None
        self._poll = select.poll()
        _readers.add(self)

    def read(self, object_id: str, max_bytes: int) -> GitObject | None:
        """Return the object, or None if the repository has none of that id; a larger one is refused."""
        # decision 9: only full ids are ever written to git, so no name syntax can lead it elsewhere
        if not is_hex(object_id, 40, 64):
            return None
        with self._lock:
            git_object = self._request_with_retry(object_id, max_bytes)
        return _checked(object_id, git_object)

    def read_many(self, object_ids: Sequence[str], max_bytes: int, take: Callable[[str, GitObject], None]) -> None:
        """Pass several objects to `take`, requested with one write; absent ones are left out.

        It is meant for prefetching, so it gives up at the first problem.
        """
        ids = [object_id for object_id in object_ids if is_hex(object_id, 40, 64)][:MAX_IDS_PER_REQUEST]
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            process = self._process or self._start()
            try:
                source = self._write(process, ids)
                buffer = b""
                for object_id in ids:
                    reply, buffer = self._read_reply(source, object_id, max_bytes, deadline, buffer)
                    git_object = _checked(object_id, reply)
                    if git_object is not None:
                        take(object_id, git_object)
                _check_no_extra(buffer)
            except BaseException as problem:
                self._stop()
                if isinstance(problem, OSError | ValueError):
                    raise GitTrouble("Git stopped while it was reading objects.") from None
                raise

    def close(self) -> None:
        """Stop git; a later read starts it again."""
        with self._lock:
            self._stop()

    @property
    def pid(self) -> int | None:
        """The process id of the running git."""
        return self._process.pid if self._process else None

    def _request_with_retry(self, object_id: str, max_bytes: int) -> GitObject | None:
        deadline = time.monotonic() + self._timeout_s
        for last_try in (False, True):
            process = self._process or self._start()
            try:
                return self._request(process, object_id, max_bytes, deadline)
            except (OSError, ValueError):
                self._stop()
                if last_try:
                    raise GitTrouble("Git stopped while it was reading an object.") from None
            except BaseException:
                # The rest of the reply is still in the pipe; the next request must not read it as its own.
                self._stop()
                raise
        raise GitTrouble

    def _request(
        self, process: subprocess.Popen[bytes], object_id: str, max_bytes: int, deadline: float
    ) -> GitObject | None:
        source = self._write(process, [object_id])
        git_object, extra = self._read_reply(source, object_id, max_bytes, deadline)
        _check_no_extra(extra)
        return git_object

    @staticmethod
    def _write(process: subprocess.Popen[bytes], object_ids: Sequence[str]) -> int:
        """Request objects; return the descriptor the replies come from."""
        assert process.stdin and process.stdout  # noqa: S101, PT018 - both are pipes
        os.write(process.stdin.fileno(), "".join(f"{object_id}\n" for object_id in object_ids).encode())
        return process.stdout.fileno()

    def _read_reply(
        self, source: int, object_id: str, max_bytes: int, deadline: float, buffer: bytes = b""
    ) -> tuple[GitObject | None, bytes]:
        """Return the reply to one request, and the bytes that were read beyond it."""
        while (end := buffer.find(b"\n")) < 0:
            buffer += self._read_chunk(source, deadline)
        header = buffer[:end].split(b" ")
        if len(header) != 3:
            if header[-1] in (b"missing", b"ambiguous"):
                return None, buffer[end + 1 :]
            raise OSError("unexpected reply of git")
        size_bytes = int(header[2])
        if size_bytes > max_bytes:
            raise ContentTooLarge(limit=max_bytes, used=size_bytes)
        reply_end = end + 1 + size_bytes + 1
        if len(buffer) < reply_end:
            chunks, read_bytes = [buffer], len(buffer)
            while read_bytes < reply_end:
                chunks.append(self._read_chunk(source, deadline))
                read_bytes += len(chunks[-1])
            buffer = b"".join(chunks)
        # A ref whose name looks like an object id can lead git to another object; that one was not asked for.
        is_answer = header[0] == object_id.encode()
        git_object = GitObject(header[1].decode(), buffer[end + 1 : reply_end - 1]) if is_answer else None
        return git_object, buffer[reply_end:]

    def _read_chunk(self, source: int, deadline: float) -> bytes:
        if not self._poll.poll(max(0.0, (deadline - time.monotonic()) * 1000)):
            raise GitTrouble("Git did not answer in time.", limit=f"{self._timeout_s:g} s")
        chunk = os.read(source, _CHUNK_BYTES)
        if not chunk:
            raise BrokenPipeError
        return chunk

    def _start(self) -> subprocess.Popen[bytes]:
        import subprocess  # slow to import, and many calls need no git

        self._before_start()
        try:
            process = subprocess.Popen(
                [*git_command(), "cat-file", "--batch"],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                process_group=0,  # Ctrl-C in the terminal must not stop git under a running read
            )
        except OSError as problem:
            raise GitTrouble(f"Git cannot be started: {problem.strerror}.") from None
        assert process.stdout  # noqa: S101 - it is a pipe
        self._poll = select.poll()
        self._poll.register(process.stdout.fileno(), select.POLLIN)
        self._process = process
        self._finalizer = weakref.finalize(self, _end, process)
        return process

    def _stop(self) -> None:
        self._process = None
        if self._finalizer is not None:
            self._finalizer()

    def _forget(self) -> None:
        """Drop the parent's git in a forked child, without ending it."""
        self._lock = threading.Lock()  # another thread may have held the old one during the fork
        process, self._process = self._process, None
        if process is not None and self._finalizer is not None:
            self._finalizer.detach()
            process.returncode = 0
            _close_pipes(process)


def _checked(object_id: str, git_object: GitObject | None) -> GitObject | None:
    """Return the object if its bytes hash to its id; refuse it otherwise."""
    if git_object is None:
        return None
    framed = hashlib.new("sha1" if len(object_id) == 40 else "sha256", usedforsecurity=False)
    framed.update(b"%s %d\0" % (git_object.kind.encode(), len(git_object.data)))
    framed.update(git_object.data)
    if framed.hexdigest() != object_id:
        raise ObjectDamaged(f"Object {object_id} of the repository does not have the hash it is stored under.")
    return git_object


def _check_no_extra(buffer: bytes) -> None:
    if buffer:
        raise OSError("unexpected reply of git")


def _end(process: subprocess.Popen[bytes]) -> None:
    _close_pipes(process)
    if process.returncode is None:
        process.kill()
        process.wait()


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


_readers: weakref.WeakSet[ObjectReader] = weakref.WeakSet()


def _after_fork() -> None:
    for reader in list(_readers):
        reader._forget()


os.register_at_fork(after_in_child=_after_fork)
