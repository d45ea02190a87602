"""Content-addressed storage of bodies: `<root>/<2 hex>/<62 hex>`, named by the SHA-256 of their content."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from engrambus.core import digest as digest_of_bytes
from engrambus.core import files, is_digest
from engrambus.core.disk_errors import naming_the_disk
from engrambus.errors import BodyNotFound, LinkRefused, NotAFile, ObjectDamaged
from engrambus.evidence.receipts.bodies import BodyFile, BodyStore, OpenBody, check_digest
from engrambus.evidence.receipts.values import EMPTY_DIGEST

_CHUNK_BYTES = 1 << 20
_NEW_SUFFIX, _OLD_SUFFIX = ".new", ".old"
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, so that a FIFO in the place of a body cannot block us.
_OPEN_BODY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRANSIENT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of the process or the machine, which say nothing about the file."""
_CREATE_BODY = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class BodyFolder(BodyStore):
    """A folder of bodies. `put` returns when a body and its folder entry are synced."""

    def __init__(self, root: Path | str, *, purged: Callable[[str], int | None] = lambda digest: None) -> None:
        super().__init__(purged=purged)
        self._root = Path(root)

    def put(self, body: bytes | BinaryIO) -> str:
        """Store a body and return its digest."""
        with naming_the_disk():
            return self._put_bytes(body) if isinstance(body, bytes) else self._put_stream(body)

    def touch(self, digest: str) -> None:
        """Protect a body from garbage collection for a while; raise if it is missing."""
        if digest != EMPTY_DIGEST:
            with self._body(digest):
                pass

    @contextmanager
    def _body(self, digest: str, *, renew: bool = True) -> Iterator[OpenBody]:
        check_digest(digest)
        try:
            with self._folder(digest) as folder:
                body = _open(folder, digest[9:])
        except FileNotFoundError:
            raise self._absent(digest) from None
        except NotADirectoryError:
            raise LinkRefused("A folder of the body store is a link or not a folder.") from None
        try:
            if renew:
                with suppress(OSError):  # a reader without write access cannot point at it here either
                    os.utime(body)
            yield OpenBody(os.fstat(body).st_size, _chunks(body))
        finally:
            os.close(body)

    def is_intact(self, digest: str) -> bool:
        """True if the body is stored and its content has its digest."""
        if digest == EMPTY_DIGEST:
            return True
        try:
            with self._folder(digest) as folder:
                return _digest_of_file(folder, digest[9:]) == digest
        except (LinkRefused, NotAFile):
            return False
        except OSError as problem:
            if problem.errno in _TRANSIENT:
                raise
            return False

    def place_of(self, digest: str) -> str:
        """Return the path of a body's file, from the folder that the body folder is in."""
        return f"{self._root.name}/{digest[7:9]}/{digest[9:]}"

    def _problem(self, digest: str) -> str | None:
        try:
            with self._folder(digest) as folder:
                intact = _digest_of_file(folder, digest[9:]) == digest
        except FileNotFoundError:  # deleted meanwhile by garbage collection
            return None
        except (LinkRefused, NotAFile) as problem:
            return problem.detail
        except OSError as problem:
            if problem.errno in _TRANSIENT:
                raise
            return f"the stored body cannot be read: {problem.strerror}"
        return None if intact else "the stored body does not have the digest it is stored under"

    def exists(self, digest: str) -> bool:
        """True if a body is stored under that digest, damaged or not."""
        try:
            with self._folder(digest) as folder:
                os.stat(digest[9:], dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    def stored(self) -> Iterator[BodyFile]:
        """Yield every body, with its size and the time it was last written or read."""
        for folder in _entries(self._root):
            if len(folder.name) == 2 and folder.is_dir(follow_symlinks=False):
                for body in _entries(self._root / folder.name):
                    if is_digest(digest := f"sha256:{folder.name}{body.name}"):
                        with suppress(FileNotFoundError):
                            status = body.stat(follow_symlinks=False)
                            yield BodyFile(digest, status.st_size, status.st_mtime_ns // 1000)

    def leftovers(self, *, untouched_since: float) -> Iterator[tuple[str, int]]:
        """Yield path and size of files left by a put or a removal that was interrupted before a time."""
        folders = [self._root / entry.name for entry in _entries(self._root) if entry.is_dir(follow_symlinks=False)]
        for folder in (self._root, *folders):
            for entry in _entries(folder):
                if entry.name.startswith(".") and entry.name.endswith((_NEW_SUFFIX, _OLD_SUFFIX)):
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_mtime <= untouched_since:
                            yield str(folder / entry.name), status.st_size

    def remove_leftover(self, name: str) -> None:
        """Delete a file that was left."""
        files.remove(Path(name))

    def remove(self, digest: str, *, untouched_since: float) -> int:
        """Delete a body unless it was written or read since a time; return the bytes freed.

        A body is written before a receipt names it, so a young one may be about to be named.
        """
        try:
            with self._folder(digest) as folder:
                # Renamed before its age is read: a put from now on creates a file of its own.
                aside = f".{os.urandom(8).hex()}{_OLD_SUFFIX}"
                os.rename(digest[9:], aside, src_dir_fd=folder, dst_dir_fd=folder)
                status = os.stat(aside, dir_fd=folder, follow_symlinks=False)
                if status.st_mtime > untouched_since:
                    with suppress(FileExistsError):
                        os.link(aside, digest[9:], src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                os.unlink(aside, dir_fd=folder)
                return 0 if status.st_mtime > untouched_since else status.st_size
        except FileNotFoundError:
            return 0

    def _put_bytes(self, body: bytes) -> str:
        digest = digest_of_bytes(body)
        with suppress(BodyNotFound, ObjectDamaged, NotAFile, LinkRefused, FileNotFoundError):
            if self.get(digest) == body:
                # The process that wrote it may not have synced it yet.
                self._sync_existing(digest)
                return digest
        self._make_folder(digest)
        with self._folder(digest) as folder:
            temporary = f".{os.urandom(8).hex()}{_NEW_SUFFIX}"
            with _temporary(folder, temporary) as target:
                _write(target, body)
                _sync(target)
                os.rename(temporary, digest[9:], src_dir_fd=folder, dst_dir_fd=folder)
            _sync(folder)
        return digest

    def _put_stream(self, body: BinaryIO) -> str:
        files.make_folder(self._root)
        running = hashlib.sha256()
        # Written into the root, because its folder follows from a digest that is known only at the end.
        root = files.open_folder(self._root)
        try:
            temporary = f".{os.urandom(8).hex()}{_NEW_SUFFIX}"
            with _temporary(root, temporary) as target:
                while chunk := body.read(_CHUNK_BYTES):
                    running.update(chunk)
                    _write(target, chunk)
                _sync(target)
                digest = f"sha256:{running.hexdigest()}"
                self._make_folder(digest)
                with self._folder(digest) as folder:
                    os.rename(temporary, digest[9:], src_dir_fd=root, dst_dir_fd=folder)
                    _sync(folder)
        finally:
            os.close(root)
        return digest

    def _sync_existing(self, digest: str) -> None:
        with self._folder(digest) as folder:
            body = os.open(digest[9:], _OPEN_BODY, dir_fd=folder)
            try:
                os.utime(body)
                _sync(body)
            finally:
                os.close(body)
            _sync(folder)

    def _make_folder(self, digest: str) -> None:
        files.make_folder(self._root)
        root = files.open_folder(self._root)
        try:
            os.mkdir(digest[7:9], files.PRIVATE_FOLDER, dir_fd=root)
            _sync(root)
        except FileExistsError:
            return
        finally:
            os.close(root)

    @contextmanager
    def _folder(self, digest: str) -> Iterator[int]:
        # Files are opened relative to descriptors: a folder that is replaced by a link cannot lead us elsewhere.
        root = files.open_folder(self._root)
        try:
            folder = os.open(digest[7:9], _OPEN_FOLDER, dir_fd=root)
        finally:
            os.close(root)
        try:
            yield folder
        finally:
            os.close(folder)


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder, open as long as they are examined."""
    try:
        folder = files.open_folder(path)
    except FileNotFoundError:
        return
    try:
        with os.scandir(folder) as entries:
            yield from entries
    finally:
        os.close(folder)


def _open(folder: int, name: str) -> int:
    try:
        body = os.open(name, _OPEN_BODY, dir_fd=folder)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.EMLINK):
            raise LinkRefused("The stored body is a link.") from None
        if problem.errno == errno.ENXIO:
            raise NotAFile("The stored body is not a regular file.") from None
        raise
    if not stat.S_ISREG(os.fstat(body).st_mode):
        os.close(body)
        raise NotAFile("The stored body is not a regular file.")
    return body


def _chunks(body: int) -> Iterator[bytes]:
    while chunk := os.read(body, _CHUNK_BYTES):
        yield chunk


def _digest_of_file(folder: int, name: str) -> str:
    body = _open(folder, name)
    try:
        running = hashlib.sha256()
        for chunk in _chunks(body):
            running.update(chunk)
        return f"sha256:{running.hexdigest()}"
    finally:
        os.close(body)


@contextmanager
def _temporary(folder: int, name: str) -> Iterator[int]:
    """Create a file; delete it at the end unless it was renamed."""
    target = os.open(name, _CREATE_BODY, 0o600, dir_fd=folder)
    try:
        yield target
    finally:
        os.close(target)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _write(target: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(target, remaining) :]


def _sync(target: int) -> None:
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)  # on macOS fsync stops short of the disk
    if full_sync is not None:
        fcntl.fcntl(target, full_sync)
    else:
        os.fsync(target)
