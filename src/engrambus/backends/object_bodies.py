"""Bodies in an object store that speaks S3, shared by workers and gateways on several hosts (decision 124)."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

from engrambus.core import digest as digest_of_bytes
from engrambus.core import is_digest
from engrambus.errors import BodiesUnavailable, BodyNotFound, FieldValue, ObjectDamaged
from engrambus.evidence.receipts import EMPTY_DIGEST, BodyFile, BodyStore, OpenBody, check_digest

if TYPE_CHECKING:
    from obstore.store import S3Store

VARIABLE = "ENGRAMBUS_BODIES"
PACKAGE_HINT = 'Install what speaks to it: pip install "engrambus[s3]".'
_SCHEME = "s3://"
_BODIES, _READ, _REMOVING = "bodies", "read", "removing"
"""Bodies; empty objects that say when one was last read; bodies whose removal is not finished."""
_CHUNK_BYTES = 1 << 20
_IN_MEMORY_BYTES = 8 << 20
"""A stream that is longer is kept in a temporary file until its digest is known."""
_RENEWED_AGAIN_SECONDS = 60
"""A body that this process has read so lately is not marked as read again."""
_CONNECT_SECONDS, _READ_SECONDS, _RETRY_SECONDS, _RETRIES = 5, 60, 15, 3


class ObjectBodies(BodyStore):
    """The bodies of one project in a bucket. Times are the store's own, moved by how far its clock is from ours."""

    def __init__(
        self,
        url: str,
        project: str,
        environment: Mapping[str, str],
        *,
        purged: Callable[[str], int | None] = lambda digest: None,
    ) -> None:
        """`environment` has AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for another store than Amazon's,
        AWS_ENDPOINT_URL. Nothing is asked before the first use.
        """
        super().__init__(purged=purged)
        if not url.startswith(_SCHEME) or not url.removeprefix(_SCHEME).split("/")[0]:
            raise FieldValue(
                f"{VARIABLE} is s3://bucket/prefix or the path of a folder.", field=VARIABLE, used=url[:100]
            )
        self._url = f"{url.rstrip('/')}/{project}"
        self._config = {name.lower(): value for name, value in environment.items() if name.startswith("AWS_")}
        self._opened: S3Store | None = None
        self._renewed: dict[str, float] = {}

    def put(self, body: bytes | BinaryIO) -> str:
        """Store a body and return its digest. One that is there is written again, which heals and renews it."""
        if isinstance(body, bytes):
            digest = digest_of_bytes(body)
            if digest != EMPTY_DIGEST:
                self._ask("put", _key(digest), body)
            return digest
        running = hashlib.sha256()
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as kept:
            while chunk := body.read(_CHUNK_BYTES):
                running.update(chunk)
                kept.write(chunk)
            kept.seek(0)
            digest = f"sha256:{running.hexdigest()}"
            if digest != EMPTY_DIGEST:
                self._ask("put", _key(digest), kept)
        return digest

    def touch(self, digest: str) -> None:
        """Protect a body from garbage collection for a while; raise if it is missing."""
        if digest != EMPTY_DIGEST:
            check_digest(digest)
            self._renew(digest)
            if not self.exists(digest):
                raise self._absent(digest)

    def is_intact(self, digest: str) -> bool:
        """True if the body is stored and its content has its digest."""
        try:
            self.get(digest, renew=False)
        except (BodyNotFound, ObjectDamaged):
            return False
        return True

    def exists(self, digest: str) -> bool:
        """True if a body is stored under that digest, damaged or not."""
        return self._head(_key(digest)) is not None

    def stored(self) -> Iterator[BodyFile]:
        """Yield every body, with its size and the time it was last written or read."""
        offset_us = self._clock_offset_us()
        read = {entry["path"].rpartition("/")[2]: _time_us(entry) for entry in self._list(_READ)}
        for entry in self._list(_BODIES):
            name = "".join(entry["path"].split("/")[1:])
            if is_digest(digest := f"sha256:{name}"):
                touched_us = max(_time_us(entry), read.get(name, 0))
                yield BodyFile(digest, entry["size"], touched_us + offset_us)

    def remove(self, digest: str, *, untouched_since: float) -> int:
        """Delete a body unless it was written or read since a time; return the bytes freed.

        It is copied aside first and brought back if somebody has read it meanwhile.
        """
        body, mark = self._head(_key(digest)), self._head(_mark(digest))
        if body is None:
            return 0
        touched_us = max(_time_us(body), _time_us(mark)) + self._clock_offset_us()
        if touched_us > untouched_since * 1_000_000:
            return 0
        aside = f"{_REMOVING}/{digest[7:]}"
        self._ask("copy", _key(digest), aside)
        self._ask("delete", _key(digest))
        read_meanwhile = self._head(_mark(digest))
        if _time_us(read_meanwhile) > _time_us(mark):
            if not self.exists(digest):
                self._ask("copy", aside, _key(digest))
            self._ask("delete", aside)
            return 0
        self._ask("delete", [aside, _mark(digest)] if mark is not None else aside)
        size: int = body["size"]
        return size

    def leftovers(self, *, untouched_since: float) -> Iterator[tuple[str, int]]:
        """Yield name and size of bodies whose removal was interrupted before a time."""
        offset_us = self._clock_offset_us()
        for entry in self._list(_REMOVING):
            if _time_us(entry) + offset_us <= untouched_since * 1_000_000:
                yield entry["path"], entry["size"]

    def remove_leftover(self, name: str) -> None:
        """Finish a removal; a body that was read after it was copied aside comes back first."""
        digest = f"sha256:{name.rpartition('/')[2]}"
        aside, mark = self._head(name), self._head(_mark(digest))
        if aside is None:
            return
        if _time_us(mark) >= _time_us(aside) and not self.exists(digest):
            self._ask("copy", name, _key(digest))
        self._ask("delete", name)

    def place_of(self, digest: str) -> str:
        """Return the URL of a body."""
        return f"{self._url}/{_key(digest)}"

    def _problem(self, digest: str) -> str | None:
        try:
            self.get(digest, renew=False)
        except BodyNotFound:  # deleted meanwhile by garbage collection
            return None
        except ObjectDamaged:
            return "the stored body does not have the digest it is stored under"
        return None

    @contextmanager
    def _body(self, digest: str, *, renew: bool = True) -> Iterator[OpenBody]:
        check_digest(digest)
        if renew:  # before it is read: a removal that has begun sees the mark and brings the body back
            self._renew(digest)
        try:
            answer = self._ask("get", _key(digest))
        except FileNotFoundError:
            raise self._absent(digest) from None
        yield OpenBody(answer.meta["size"], self._chunks(answer))

    def _chunks(self, answer: Any) -> Iterator[bytes]:
        with self._naming_the_store():
            for chunk in answer.stream(min_chunk_size=_CHUNK_BYTES):
                yield bytes(chunk)

    def _renew(self, digest: str) -> None:
        now = time.monotonic()
        if now - self._renewed.get(digest, -_RENEWED_AGAIN_SECONDS) >= _RENEWED_AGAIN_SECONDS:
            self._ask("put", _mark(digest), b"")
            if len(self._renewed) >= 10_000:
                self._renewed.clear()
            self._renewed[digest] = now

    def _head(self, key: str) -> Any:
        try:
            return self._ask("head", key)
        except FileNotFoundError:
            return None

    def _list(self, folder: str) -> Iterator[Any]:
        with self._naming_the_store():
            import obstore

            for page in obstore.list(self._store(), folder):
                yield from page

    def _clock_offset_us(self) -> int:
        """Return by how much our clock is ahead of the store's."""
        before = time.time_ns() // 1000
        self._ask("put", "clock", b"")
        return before - _time_us(self._head("clock"))

    def _ask(self, request: str, *arguments: Any) -> Any:
        with self._naming_the_store():
            import obstore

            return getattr(obstore, request)(self._store(), *arguments)

    def _store(self) -> S3Store:
        if self._opened is None:
            from obstore.store import S3Store

            endpoint = self._config.get("aws_endpoint_url", "")
            self._opened = S3Store.from_url(
                self._url,
                config=self._config,  # type: ignore[arg-type]
                client_options={
                    "allow_http": endpoint.startswith("http://"),
                    "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
                    "timeout": timedelta(seconds=_READ_SECONDS),
                },
                retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
            )
        return self._opened

    @contextmanager
    def _naming_the_store(self) -> Iterator[None]:
        """Turn a failure of the store into a refusal that names it, without the keys."""
        try:
            from obstore.exceptions import BaseError
        except ImportError:
            raise BodiesUnavailable(
                f"{VARIABLE} names an object store, but the package obstore is not installed.", hint=PACKAGE_HINT
            ) from None
        try:
            yield
        except (BaseError, OSError) as problem:
            if isinstance(problem, FileNotFoundError) and "NoSuchBucket" not in str(problem):
                raise
            first = str(problem).split("\n", 1)[0].split(" - Server returned", 1)[0]
            raise BodiesUnavailable(
                f"The object store does not answer as it should: {first[:300]}",
                field=VARIABLE,
                used=self._url,
                hint="Check AWS_ENDPOINT_URL, the keys, and that the bucket exists. What was stored is not lost.",
            ) from problem


def _key(digest: str) -> str:
    return f"{_BODIES}/{digest[7:9]}/{digest[9:]}"


def _mark(digest: str) -> str:
    return f"{_READ}/{digest[7:]}"


def _time_us(entry: Any) -> int:
    """Return the time of an object by the store's clock; 0 if there is none."""
    return 0 if entry is None else round(entry["last_modified"].timestamp() * 1_000_000)
