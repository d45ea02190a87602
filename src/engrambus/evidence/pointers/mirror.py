"""The mirror of a team's server: a repository that takes pushed commits and gives them out, and nothing else.

decision 121: a push may only create refs named after the commits they lead to, below one prefix. Git checks every
object of it in a quarantine, in a process with limits; no hook runs, and settings of the command win over the folder's.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from engrambus.core import is_hex
from engrambus.errors import GitTrouble, MirrorFull, PushRefused, RepositoryRefused
from engrambus.evidence.pointers.git import RETAIN_REFS, find_repository
from engrambus.evidence.pointers.git_process import git_command, git_environment, run_git

MEBIBYTE = 1024 * 1024
MAX_COMMANDS = 256
"""Refs that one push may create."""
MAX_COMMAND_BYTES = 64 * 1024
GIT_SECONDS = 30.0
BUNDLE_SECONDS = 3600.0
PUSH_SECONDS = 300
"""Time in which git must have checked and stored a push."""
MEMORY_MB = 2048
CPU_SECONDS = 240
BIG_FILE = "4m"
"""Files from this size on are checked piece by piece: a small pack may hold a huge one."""
_CHUNK_BYTES = 64 * 1024
_LEGACY = (
    "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "missingNameBeforeEmail", "missingEmail", "badEmail",
    "badTimezone", "zeroPaddedDate", "zeroPaddedFilemode",
)  # fmt: skip
"""Faults that commits of older tools have, and that harm nobody."""
_LIMITED = 'ulimit -v "$1" && ulimit -t "$2" && ulimit -f "$3" && shift 3 && exec "$@"'


class MirrorLimits(NamedTuple):
    """The limits of a mirror."""

    push_bytes: int = 256 * MEBIBYTE
    total_bytes: int = 8192 * MEBIBYTE


def keep_ref(commit: str) -> str:
    """Return the ref that keeps a commit."""
    return f"{RETAIN_REFS}{commit}"


def check_commands(start: bytes) -> int:
    """Return where the pack of a push begins; refuse a push that does anything but keep commits."""
    position, commands = 0, 0
    while True:
        line, position = _packet(start, position)
        if line is None:
            break
        commands += 1
        if commands > MAX_COMMANDS:
            raise PushRefused("One push keeps a limited number of commits.", limit=MAX_COMMANDS, used=commands)
        _check_command(line.partition(b"\0")[0].rstrip(b"\n"))
    if not commands:
        raise PushRefused("The push names no commit.")
    return position


def _packet(data: bytes, position: int) -> tuple[bytes | None, int]:
    """Return the packet line that begins at a position, None for the flush, and where it ends."""
    size_text = data[position : position + 4]
    try:
        size = int(size_text, 16) if len(size_text) == 4 and b"_" not in size_text else -1
    except ValueError:
        size = -1
    if size == 0:
        return None, position + 4
    if size <= 4 or position + size > len(data):
        raise PushRefused("The request is not a push as git sends it.", limit=MAX_COMMAND_BYTES)
    return data[position + 4 : position + size], position + size


def _check_command(command: bytes) -> None:
    parts = command.decode("ascii", "replace").split(" ")
    old, new, ref = parts if len(parts) == 3 else ("", "", "")
    # A certificate of a push and the lines of a shallow clone have another form, too.
    if not (is_hex(old, 40, 64) and is_hex(new, 40, 64)) or len(old) != len(new):
        raise PushRefused(
            "A push keeps commits with all of their history; it has no certificate and is not of a shallow clone.",
            hint="In a shallow clone: git fetch --unshallow.",
        )
    if ref != keep_ref(new) or old.strip("0") or not new.strip("0"):
        raise PushRefused(
            "A push may only create refs for commits, each named after its commit.",
            field="ref",
            limit=f"{RETAIN_REFS}<commit>",
            used=ref[:120],
            hint="Nothing is overwritten or deleted on the mirror, and it has no branches of yours.",
        )


def make_mirror(folder: Path, *, ignored: Path | None = None) -> None:
    """Make a bare repository in a folder that has none; refuse a folder with a checkout or with other files.

    `ignored` is a file or a folder that may be there.
    """
    repository = find_repository(folder)
    if repository is not None:
        if repository[1] is not None:
            raise RepositoryRefused(
                "This folder is a checkout, and a mirror has none.",
                hint="Make one elsewhere: git clone --mirror URL, or an empty folder.",
            )
        return
    if any(path != ignored for path in folder.iterdir()):
        raise RepositoryRefused("A mirror is made in an empty folder.", hint="mkdir app.git; cd app.git")
    done = run_git(("init", "--quiet", "--bare", str(folder)), git_environment(), GIT_SECONDS)
    if done.returncode:
        raise GitTrouble("Git could not make a repository.", hint=done.stderr.decode("utf-8", "replace")[:200] or None)


def bundle_mirror(directory: Path, folder: Path) -> Path | None:
    """Write all commits of a bare repository to a file in a folder; None if there are none, or if it has a checkout."""
    environment = git_environment(directory)
    if run_git(("rev-parse", "--is-bare-repository"), environment, GIT_SECONDS).stdout.strip() != b"true":
        return None
    if not run_git(("for-each-ref", "--count=1"), environment, GIT_SECONDS).stdout.strip():
        return None
    path = folder / "bundle"
    done = run_git(("bundle", "create", "--quiet", str(path), "--all"), environment, BUNDLE_SECONDS)
    if done.returncode:
        raise GitTrouble("Git could not bundle the mirror.", hint=done.stderr.decode("utf-8", "replace")[:200] or None)
    return path


def fetch_bundle(directory: Path, bundle: Path) -> None:
    """Put the commits and refs of a bundle into a bare repository."""
    options = ("-c", "protocol.file.allow=always", "-c", "transfer.fsckObjects=true")
    environment = git_environment(directory) | {"GIT_ALLOW_PROTOCOL": "file"}
    done = run_git((*options, "fetch", "--quiet", str(bundle), "+refs/*:refs/*"), environment, BUNDLE_SECONDS)
    if done.returncode:
        raise GitTrouble("Git could not read the mirror.", hint=done.stderr.decode("utf-8", "replace")[:200] or None)


def committed_file(folder: Path, path: str) -> bytes | None:
    """Return a file of the commit that a repository's HEAD names; None if there is none."""
    done = run_git(("-C", str(folder), "cat-file", "blob", f"HEAD:{path}"), git_environment(), GIT_SECONDS)
    return None if done.returncode else done.stdout


class Mirror:
    """The repository of a server that takes commits."""

    def __init__(self, directory: Path, limits: MirrorLimits = MirrorLimits()) -> None:  # noqa: B008 - immutable
        self.limits = limits
        self._directory = directory
        self._objects = directory / "objects"

    def advertise(self, service: str) -> bytes:
        """Return the refs of the mirror as git announces them for `receive-pack` or `upload-pack`."""
        out = self._run([service, "--stateless-rpc", "--advertise-refs", str(self._directory)], None)
        line = f"# service=git-{service}\n".encode()
        return b"%04x%s0000%s" % (len(line) + 4, line, out)

    def receive(self, push: IO[bytes]) -> bytes:
        """Store the commits of a push that was checked, and return git's report."""
        self._check_room(os.fstat(push.fileno()).st_size)
        push.seek(0)
        return self._run(["receive-pack", "--stateless-rpc", str(self._directory)], push)

    def upload(self, request: IO[bytes], protocol: str | None) -> Iterator[bytes]:
        """Yield the commits that a fetch asks for; one that is not read to its end is stopped."""
        environment = git_environment(self._directory)
        if protocol is not None:
            environment["GIT_PROTOCOL"] = protocol
        command = ["upload-pack", "--stateless-rpc", str(self._directory)]
        process = self._start(command, request, environment, stderr=subprocess.DEVNULL)
        assert process.stdout  # noqa: S101 - it is a pipe
        try:
            while chunk := process.stdout.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]  # a buffered reader
                yield chunk
        finally:
            process.stdout.close()
            process.kill()
            process.wait()

    def stored_bytes(self) -> int:
        """Return the size of the mirror's objects."""
        total = 0
        for folder, _, names in os.walk(self._objects):
            for name in names:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_size
                except FileNotFoundError:  # git has just replaced it
                    continue
        return total

    def _check_room(self, push_bytes: int) -> None:
        used = self.stored_bytes()
        if used + push_bytes > self.limits.total_bytes:
            raise MirrorFull(
                "The server's mirror has reached its size.",
                limit=self.limits.total_bytes,
                used=used,
                hint="Its operator raises --mirror-mb, or repacks it: git -C MIRROR gc.",
            )

    def _start(
        self, command: list[str], stdin: IO[bytes] | None, environment: Mapping[str, str], *, stderr: int
    ) -> subprocess.Popen[bytes]:
        file_blocks = str(2 * self.limits.push_bytes // 512 + 8 * MEBIBYTE // 512)
        limits = [str(MEMORY_MB * 1024), str(CPU_SECONDS), file_blocks]
        try:
            return subprocess.Popen(
                ["/bin/sh", "-c", _LIMITED, "git", *limits, *git_command(), *_options(self.limits), *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                process_group=0,
            )
        except OSError as problem:
            raise GitTrouble(f"Git cannot be started: {problem.strerror}.") from None

    def _run(self, command: list[str], stdin: IO[bytes] | None) -> bytes:
        process = self._start(command, stdin, git_environment(self._directory), stderr=subprocess.PIPE)
        try:
            out, errors = process.communicate(timeout=PUSH_SECONDS)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            raise GitTrouble("Git did not finish in time.", limit=f"{PUSH_SECONDS} s") from None
        if process.returncode and not out:
            raise GitTrouble("Git refused the request.", hint=errors.decode("utf-8", "replace").strip()[:200] or None)
        return out


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _options(limits: MirrorLimits) -> list[str]:
    """Return git's settings for a mirror, which stand before those of the repository."""
    settings = {
        "receive.fsckObjects": "true",
        "receive.maxInputSize": str(limits.push_bytes),
        "receive.unpackLimit": "1",
        "receive.autogc": "false",
        "receive.denyDeletes": "true",
        "receive.denyNonFastForwards": "true",
        "receive.shallowUpdate": "false",
        "receive.advertisePushOptions": "false",
        "receive.advertiseAtomic": "false",
        "receive.certNonceSeed": "",
        "receive.procReceiveRefs": "",
        "core.bigFileThreshold": BIG_FILE,
        "core.alternateRefsCommand": "true",
        "core.deltaBaseCacheLimit": "32m",
        "pack.threads": "1",
        "uploadpack.allowFilter": "false",
        "uploadpack.allowAnySHA1InWant": "false",
        **{f"receive.fsck.{name}": "warn" for name in _LEGACY},
    }
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
