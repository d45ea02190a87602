"""Bodies, content-addressed: what every store of them can do, and what is the same in each."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, NamedTuple

from engrambus.core import digest as digest_of_bytes
from engrambus.core import is_digest, print_time
from engrambus.errors import BodyNotFound, ContentTooLarge, ObjectDamaged, PointerSyntax, SpanNotFound
from engrambus.evidence.receipts.values import EMPTY_DIGEST


class BodyFile(NamedTuple):
    """A body as it is stored."""

    sha: str
    size: int
    touched_us: int
    """When it was last written or read."""


class OpenBody(NamedTuple):
    """A stored body that is being read."""

    size: int
    chunks: Iterator[bytes]


class BodyStore(ABC):
    """Bodies by the SHA-256 of their content. `put` returns when a body is safe; reading one checks every byte."""

    def __init__(self, *, purged: Callable[[str], int | None] = lambda digest: None) -> None:
        """`purged` returns when garbage collection deleted a body; the error for a missing body says so."""
        self._purged = purged

    @abstractmethod
    def put(self, body: bytes | BinaryIO) -> str:
        """Store a body and return its digest."""

    @abstractmethod
    def touch(self, digest: str) -> None:
        """Protect a body from garbage collection for a while; raise if it is missing."""

    @abstractmethod
    def is_intact(self, digest: str) -> bool:
        """True if the body is stored and its content has its digest."""

    @abstractmethod
    def exists(self, digest: str) -> bool:
        """True if a body is stored under that digest, damaged or not."""

    @abstractmethod
    def stored(self) -> Iterator[BodyFile]:
        """Yield every body, with its size and the time it was last written or read."""

    @abstractmethod
    def remove(self, digest: str, *, untouched_since: float) -> int:
        """Delete a body unless it was written or read since a time; return the bytes freed.

        A body is written before a receipt names it, so a young one may be about to be named.
        """

    @abstractmethod
    def leftovers(self, *, untouched_since: float) -> Iterator[tuple[str, int]]:
        """Yield name and size of what a put or a removal that was interrupted before a time has left."""

    @abstractmethod
    def remove_leftover(self, name: str) -> None:
        """Delete what was left."""

    @abstractmethod
    def place_of(self, digest: str) -> str:
        """Return where a body is or would be, for a person to look at."""

    @abstractmethod
    def _problem(self, digest: str) -> str | None:
        """Return what is wrong with a stored body; None if nothing is, or if it has been deleted."""

    @abstractmethod
    def _body(self, digest: str, *, renew: bool = True) -> AbstractContextManager[OpenBody]:
        """Open a body and renew its age: its reader may be about to point at it (decision 28)."""

    def get(self, digest: str, limit: int | None = None, *, renew: bool = True) -> bytes:
        """Return a body; raise if it is missing, damaged or larger than `limit`. The empty body has no file.

        Without `renew`, the read does not protect it from garbage collection.
        """
        if digest == EMPTY_DIGEST:
            return b""
        with self._body(digest, renew=renew) as body:
            if limit is not None and body.size > limit:
                raise ContentTooLarge(limit=limit, used=body.size)
            data = b"".join(body.chunks)
        if digest_of_bytes(data) != digest:
            raise damaged()
        return data

    def get_lines(self, digest: str, first: int, last: int, limit: int) -> bytes:
        """Return some lines of a body of any size: every byte is checked, only these lines are held in RAM."""
        parts: list[bytes] = []
        size = 0
        line = 1  # number of the line that the next byte belongs to
        ends_line = True  # True if the previous byte ended a line
        for chunk in self.chunks(digest):
            start = 0
            while start < len(chunk) and line <= last:
                end = _end_of_lines(chunk, start, first - line if line < first else last + 1 - line)
                part = chunk[start:end]
                if line >= first:
                    size += len(part)
                    if size > limit:
                        raise ContentTooLarge("The lines are more than a pointer may lead to.", limit=limit, used=size)
                    parts.append(part)
                line += part.count(b"\n")
                start = end
            line += chunk.count(b"\n", start)
            ends_line = chunk.endswith(b"\n")
        count = line - 1 if ends_line else line
        if last > count:
            raise SpanNotFound(f"The body has {count} {'line' if count == 1 else 'lines'}.", limit=count, used=last)
        return b"".join(parts)

    def get_ends(self, digest: str, size: int) -> tuple[bytes, bytes, int]:
        """Return the first and the last `size` bytes of a body, and how many lines it has; every byte is checked."""
        first = last = b""
        lines = 0
        for chunk in self.chunks(digest):
            first += chunk[: size - len(first)]
            last = (last + chunk)[-size:]
            lines += chunk.count(b"\n")
        return first, last, lines + (last != b"" and not last.endswith(b"\n"))

    def chunks(self, digest: str) -> Iterator[bytes]:
        """Yield a body in chunks; raise at its end if it is damaged."""
        running = hashlib.sha256()
        if digest != EMPTY_DIGEST:
            with self._body(digest) as body:
                for chunk in body.chunks:
                    running.update(chunk)
                    yield chunk
            if f"sha256:{running.hexdigest()}" != digest:
                raise damaged()

    def find_damaged(self, on_progress: Callable[[int, int], None]) -> Iterator[tuple[str, str]]:
        """Recompute the digest of every body; yield the digest of each that is not intact, and what is wrong."""
        total = sum(body.size for body in self.stored())
        done = 0
        for digest, size, _ in self.stored():
            problem = self._problem(digest)
            if problem is not None:
                yield digest, problem
            done += size
            on_progress(min(done, total), total)

    def _absent(self, digest: str) -> BodyNotFound:
        purged_us = self._purged(digest)
        if purged_us is None:
            return BodyNotFound()
        return BodyNotFound(
            f"The stored body was deleted to free disk space, at {print_time(purged_us)}.",
            hint="Put the tuple again: a step whose result was deleted is executed again.",
        )


def check_digest(digest: str) -> None:
    """Refuse what is not a digest."""
    if not is_digest(digest):
        raise PointerSyntax("A digest is sha256: and 64 lower-case hex digits.", field="digest")


def damaged() -> ObjectDamaged:
    """Return the refusal of a body whose content is not what it is named by."""
    return ObjectDamaged("The stored body does not have the digest it is stored under.")


def _end_of_lines(chunk: bytes, start: int, count: int) -> int:
    """Return the offset behind `count` lines from `start` on, or the chunk's end if it has fewer."""
    for _ in range(count):
        start = chunk.find(b"\n", start) + 1
        if not start:
            return len(chunk)
    return start
