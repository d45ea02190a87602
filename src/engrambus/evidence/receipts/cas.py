"""Bodies kept under the digest of their content: `<root>/<2 hex>/<62 hex>`."""

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
from engrambus.core import is_digest, print_time
from engrambus.errors import (
    BodyNotFound,
    ContentTooLarge,
    DiskPressure,
    LinkRefused,
    NotAFile,
    ObjectDamaged,
    PointerSyntax,
    SpanNotFound,
)

_CHUNK = 1 << 20
_HALF_PUT, _HALF_GONE = ".new", ".old"
_NOTHING = digest_of_bytes(b"")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, so that a FIFO in the place of a body cannot hold us.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What says nothing about a file that could not be opened."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class BodyStore:
    """A folder of bodies. A body is on the disk, with its folder, before `put` answers; `get` checks every byte."""

    def __init__(self, root: Path | str, *, purged: Callable[[str], int | None] = lambda digest: None) -> None:
        """`purged` knows when a body was taken away to make room: whoever asks for it is told."""
        self._root = Path(root)
        self._purged = purged

    def put(self, body: bytes | BinaryIO) -> str:
        """Keep a body and give its digest."""
        try:
            return self._put_bytes(body) if isinstance(body, bytes) else self._put_stream(body)
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskPressure from None
            raise

    def get(self, digest: str, limit: int | None = None) -> bytes:
        """The body of that digest, if it is here, whole and no larger than the limit; nothing at all needs no file."""
        if digest == _NOTHING:
            return b""
        with self._body(digest) as body:
            size = os.fstat(body).st_size
            if limit is not None and size > limit:
                raise ContentTooLarge(limit=limit, used=size)
            data = b"".join(_chunks(body))
        if digest_of_bytes(data) != digest:
            raise _damaged()
        return data

    def get_lines(self, digest: str, first: int, last: int, limit: int) -> bytes:
        """Some lines of a body, however large it is: every byte is checked, and only these lines are held."""
        kept: list[bytes] = []
        held = 0
        line = 1  # the one that the next byte belongs to
        ends = True  # whether the last byte seen ended a line
        for chunk in self._checked(digest):
            at = 0
            while at < len(chunk) and line <= last:
                after = _after_lines(chunk, at, first - line if line < first else last + 1 - line)
                part = chunk[at:after]
                if line >= first:
                    held += len(part)
                    if held > limit:
                        raise ContentTooLarge("The lines are more than a pointer may lead to.", limit=limit, used=held)
                    kept.append(part)
                line += part.count(b"\n")
                at = after
            line += chunk.count(b"\n", at)
            ends = chunk.endswith(b"\n")
        count = line - 1 if ends else line
        if last > count:
            raise SpanNotFound(f"The body has {count} {'line' if count == 1 else 'lines'}.", limit=count, used=last)
        return b"".join(kept)

    def get_ends(self, digest: str, size: int) -> tuple[bytes, bytes]:
        """The first and the last bytes of a body, so many at the most; every byte between is checked."""
        first = last = b""
        for chunk in self._checked(digest):
            first += chunk[: size - len(first)]
            last = (last + chunk)[-size:]
        return first, last

    def _checked(self, digest: str) -> Iterator[bytes]:
        """A body piece by piece; refused at its end if it is not whole."""
        running = hashlib.sha256()
        if digest != _NOTHING:
            with self._body(digest) as body:
                for chunk in _chunks(body):
                    running.update(chunk)
                    yield chunk
            if f"sha256:{running.hexdigest()}" != digest:
                raise _damaged()

    def touch(self, digest: str) -> None:
        """Have a body left where it is for a while; refused when it is gone."""
        if digest != _NOTHING:
            with self._body(digest):
                pass

    @contextmanager
    def _body(self, digest: str) -> Iterator[int]:
        """The file of a body, open, and as young as one just put: whoever reads it may be about to point at it."""
        if not is_digest(digest):
            raise PointerSyntax("A digest is sha256: and 64 lower-case hex digits.", field="digest")
        try:
            with self._folder(digest) as folder:
                body = _open(folder, digest[9:])
        except FileNotFoundError:
            raise self._absent(digest) from None
        except NotADirectoryError:
            raise LinkRefused("A folder of the body store is a link or not a folder.") from None
        try:
            with suppress(OSError):  # whoever may only read here points at nothing here either
                os.utime(body)
            yield body
        finally:
            os.close(body)

    def _absent(self, digest: str) -> BodyNotFound:
        at = self._purged(digest)
        if at is None:
            return BodyNotFound()
        return BodyNotFound(
            f"The stored body was taken away to make room, at {print_time(at)}.",
            hint="A step whose result went is executed anew the next time it is asked for.",
        )

    def holds(self, digest: str) -> bool:
        """Whether the body of that digest is here and whole; nothing at all needs no file."""
        if digest == _NOTHING:
            return True
        try:
            with self._folder(digest) as folder:
                return _digest_of_file(folder, digest[9:]) == digest
        except (LinkRefused, NotAFile):
            return False
        except OSError as problem:
            if problem.errno in _PASSING:
                raise
            return False

    def has(self, digest: str) -> bool:
        """Whether a body lies under that digest, whole or not."""
        try:
            with self._folder(digest) as folder:
                os.stat(digest[9:], dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    def sizes(self, *, untouched_since: float) -> Iterator[tuple[str, int]]:
        """The digest and the bytes of every body here that was not put after a moment."""
        for folder in _entries(self._root):
            if len(folder.name) == 2 and folder.is_dir(follow_symlinks=False):
                for body in _entries(folder.path):
                    if is_digest(digest := f"sha256:{folder.name}{body.name}"):
                        with suppress(FileNotFoundError):
                            found = body.stat(follow_symlinks=False)
                            if found.st_mtime <= untouched_since:
                                yield digest, found.st_size

    def leftovers(self, *, untouched_since: float) -> Iterator[tuple[Path, int]]:
        """What is left of bodies whose putting or taking away was cut short before a moment, and its bytes."""
        folders = [Path(each.path) for each in _entries(self._root) if each.is_dir(follow_symlinks=False)]
        for folder in (self._root, *folders):
            for each in _entries(folder):
                if each.name.startswith(".") and each.name.endswith((_HALF_PUT, _HALF_GONE)):
                    with suppress(FileNotFoundError):
                        found = each.stat(follow_symlinks=False)
                        if found.st_mtime <= untouched_since:
                            yield Path(each.path), found.st_size

    def remove(self, digest: str, *, untouched_since: float) -> int:
        """Take a body away unless it was put, once more perhaps, after a moment; tells how many bytes that freed.

        Whoever puts a body touches it first and names it in a receipt later: what is young may be about to be named.
        """
        try:
            with self._folder(digest) as folder:
                # Out of the way before its age is looked at: what is put from now on is a file of its own.
                aside = f".{os.urandom(8).hex()}{_HALF_GONE}"
                os.rename(digest[9:], aside, src_dir_fd=folder, dst_dir_fd=folder)
                found = os.stat(aside, dir_fd=folder, follow_symlinks=False)
                if found.st_mtime > untouched_since:
                    with suppress(FileExistsError):
                        os.link(aside, digest[9:], src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                os.unlink(aside, dir_fd=folder)
                return 0 if found.st_mtime > untouched_since else found.st_size
        except FileNotFoundError:
            return 0

    def _put_bytes(self, body: bytes) -> str:
        digest = digest_of_bytes(body)
        with suppress(BodyNotFound, ObjectDamaged, NotAFile, LinkRefused, FileNotFoundError):
            if self.get(digest) == body:
                # Whoever wrote it may not have come to the sync yet.
                self._sync_existing(digest)
                return digest
        self._make_folder(digest)
        with self._folder(digest) as folder:
            temporary = f".{os.urandom(8).hex()}{_HALF_PUT}"
            with _temporary(folder, temporary) as target:
                _write(target, body)
                _sync(target)
                os.rename(temporary, digest[9:], src_dir_fd=folder, dst_dir_fd=folder)
            _sync(folder)
        return digest

    def _put_stream(self, body: BinaryIO) -> str:
        self._root.mkdir(parents=True, exist_ok=True)
        running = hashlib.sha256()
        root = os.open(self._root, _FOLDER)
        try:
            temporary = f".{os.urandom(8).hex()}{_HALF_PUT}"
            with _temporary(root, temporary) as target:
                while chunk := body.read(_CHUNK):
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
            body = os.open(digest[9:], _FILE, dir_fd=folder)
            try:
                os.utime(body)
                _sync(body)
            finally:
                os.close(body)
            _sync(folder)

    def _make_folder(self, digest: str) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        try:
            os.mkdir(self._root / digest[7:9])
        except FileExistsError:
            return
        root = os.open(self._root, _FOLDER)
        try:
            _sync(root)
        finally:
            os.close(root)

    @contextmanager
    def _folder(self, digest: str) -> Iterator[int]:
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            folder = os.open(digest[7:9], _FOLDER, dir_fd=root)
        finally:
            os.close(root)
        try:
            yield folder
        finally:
            os.close(folder)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:
        return []


def _open(folder: int, name: str) -> int:
    try:
        body = os.open(name, _FILE, dir_fd=folder)
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
    while chunk := os.read(body, _CHUNK):
        yield chunk


def _after_lines(chunk: bytes, at: int, count: int) -> int:
    """Where so many lines from a place on have ended; the end when there are fewer."""
    for _ in range(count):
        at = chunk.find(b"\n", at) + 1
        if not at:
            return len(chunk)
    return at


def _damaged() -> ObjectDamaged:
    return ObjectDamaged("The stored body does not have the digest it is stored under.")


def _digest_of_file(folder: int, name: str) -> str:
    """The digest of a file's content, read piece by piece."""
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
    """A new file, gone again unless it was renamed."""
    target = os.open(name, _NEW, 0o600, dir_fd=folder)
    try:
        yield target
    finally:
        os.close(target)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _write(target: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(target, left) :]


def _sync(target: int) -> None:
    full = getattr(fcntl, "F_FULLFSYNC", None)  # on macOS fsync stops short of the disk
    if full is not None:
        fcntl.fcntl(target, full)
    else:
        os.fsync(target)
