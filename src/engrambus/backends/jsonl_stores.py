"""Memory stores as JSONL files, and the cache of the lines that were read from them."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from engrambus.core import files
from engrambus.errors import (
    MemoryLineTooLong,
    MemoryStoreChanged,
    MemoryStoreNotAFile,
    MemoryStoreNotFound,
    MemoryStoreOutside,
    TrustSnapshotInvalid,
)
from engrambus.knowledge.memory import MAX_SNAPSHOT_BYTES, SNAPSHOT_FIELD, RankedRecords, Segment, StoreLine, read_lines

SEGMENT_BYTES = 1024 * 1024
"""A segment ends with the first line that reaches this size."""
PIECE_BYTES = 64 * 1024
"""A line that is not complete at the end of a segment is read on in pieces of this size."""
MAX_LINE_BYTES = 64 * 1024 * 1024
CACHE_FORMAT = b"engrambus lines 2 %b\n" % sys.byteorder.encode()
"""Columns are stored as this machine keeps numbers."""
MAX_CACHE_BYTES = 1024**3
STORE_FIELD = "store_paths"
_LINE_FEED = ord("\n")

Value = TypeVar("Value")


class SavedRanks(msgspec.Struct, frozen=True, array_like=True):
    """The ranked lines of the first segments of a store."""

    segments: int
    """Number of segments."""
    chain: str
    """Hash chain over them: sha256 of the chain so far and the hash of the next segment."""
    ranked: RankedRecords


_encode = msgspec.msgpack.Encoder().encode
_decode_lines = msgspec.msgpack.Decoder(list[StoreLine]).decode
_decode_ranks = msgspec.msgpack.Decoder(SavedRanks).decode


class FileStores:
    """The open files of one read. Closing it closes them."""

    def __init__(
        self, folder: Path, *, allowed_folders: tuple[Path, ...] | None = None, cache: Path | None = None
    ) -> None:
        """Resolve relative paths from `folder`; refuse files outside the allowed folders, if any are given."""
        self._folder = folder
        self._allowed = None if allowed_folders is None else tuple(path.resolve() for path in allowed_folders)
        self._cache = None if cache is None else SegmentCache(cache)
        self._files: dict[str, int] = {}
        self._opened: set[tuple[int, int]] = set()
        """Device and inode of every open store."""

    def __enter__(self) -> FileStores:
        return self

    def __exit__(self, *_: object) -> None:
        while self._files:
            os.close(self._files.popitem()[1])
        if self._cache is not None:
            self._cache.trim()

    def open_store(self, path: str) -> FileStore | None:
        """Open a store; None if the same file is open under another path."""
        file = self._files[path] = self._open(path, STORE_FIELD)
        status = os.fstat(file)
        identity = (status.st_dev, status.st_ino)
        if identity in self._opened:
            return None
        self._opened.add(identity)
        return FileStore(file, status.st_size, self._cache)

    def line(self, path: str, start: int, end: int) -> bytes:
        """Read a line of an open store again."""
        return os.pread(self._files[path], end - start, start)

    def snapshot(self, path: str) -> bytes:
        """Read a trust snapshot."""
        file = self._open(path, SNAPSHOT_FIELD)
        try:
            size = os.fstat(file).st_size
            if size > MAX_SNAPSHOT_BYTES:
                raise TrustSnapshotInvalid(
                    "The trust snapshot is too large.", field=SNAPSHOT_FIELD, limit=MAX_SNAPSHOT_BYTES, used=size
                )
            return os.pread(file, size, 0).removeprefix(BOM_UTF8)
        finally:
            os.close(file)

    def _open(self, path: str, field: str) -> int:
        file_path = self._folder / path
        try:
            # Links are followed first, so that a link inside an allowed folder cannot lead outside.
            if self._allowed is not None:
                file_path = file_path.resolve()
                if not any(file_path.is_relative_to(folder) for folder in self._allowed):
                    raise MemoryStoreOutside(field=field, used=path)
            # O_NONBLOCK: opening a pipe would otherwise wait for its writer for ever.
            file = os.open(file_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except (FileNotFoundError, NotADirectoryError):
            raise MemoryStoreNotFound(f"There is no memory store {path}.", field=field) from None
        except (OSError, ValueError, RuntimeError):
            raise MemoryStoreNotAFile(f"{path} cannot be opened.", field=field) from None
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise MemoryStoreNotAFile(f"{path} is not a regular file.", field=field)
        return file


class FileStore:
    """One open store. What follows its full segments, which are those that are cached, is read anew each time."""

    def __init__(self, file: int, size: int, cache: SegmentCache | None) -> None:
        self._size = size
        self._cache = cache
        self._reader = _LineReader(file, size)
        # Editors put a byte order mark before the first line; it is not part of the record.
        self._begin = len(BOM_UTF8) if os.pread(file, len(BOM_UTF8), 0) == BOM_UTF8 else 0
        self._offset, self._count, self._chain = self._begin, 0, ""

    def segments(self) -> Iterator[Segment]:
        """Yield the content in file order, without the segments that loaded rows stand for."""
        while self._offset < self._size:
            offset, data = self._offset, self._reader.read(self._offset)
            self._offset += len(data)
            if self._cache is None or not _is_full(data):
                yield Segment(offset, data, read_lines(bytes(data)), is_full=False)
            else:
                key = self._add_to_chain(data)
                lines = self._cache.get(key, _decode_lines)
                if lines is None:
                    lines = read_lines(bytes(data))
                    self._cache.put(key, lines)
                yield Segment(offset, data, lines, is_full=True)

    def load_ranked(self, question: bytes) -> RankedRecords | None:
        """Return what was saved for a question, if the store still begins with the segments that it stands for."""
        saved = None if self._cache is None else self._cache.get(self._name(question), _decode_ranks)
        if saved is None:
            return None
        # decision 108: every byte is read, because a file that was changed in place may have the size and times of
        # one that grew.
        while self._count < saved.segments and self._offset < self._size:
            data = self._reader.read(self._offset)
            if not _is_full(data):
                break
            self._add_to_chain(data)
            self._offset += len(data)
        if (self._count, self._chain) == (saved.segments, saved.chain):
            return saved.ranked
        self._offset, self._count, self._chain = self._begin, 0, ""
        return None

    def save_ranked(self, question: bytes, ranked: RankedRecords) -> None:
        """Save the ranked lines of all full segments."""
        if self._cache is not None:
            self._cache.put(self._name(question), SavedRanks(self._count, self._chain, ranked))

    def _add_to_chain(self, data: memoryview) -> str:
        """Count a full segment; return the key of its lines."""
        key = hashlib.sha256(data).hexdigest()
        self._count += 1
        self._chain = hashlib.sha256(f"{self._chain}{key}".encode()).hexdigest()
        return key

    def _name(self, question: bytes) -> str:
        """Return the key of the ranked lines: of the question, and of the file by its beginning."""
        first = b"" if self._size < SEGMENT_BYTES else bytes(self._reader.read(self._begin))
        return hashlib.sha256(b"ranked %d %d %b%b" % (self._begin, len(question), question, first)).hexdigest()


def _is_full(data: memoryview) -> bool:
    # decision 40: a segment's end depends only on the bytes before it, so a store that grew has the same full segments.
    return len(data) >= SEGMENT_BYTES and data[-1] == _LINE_FEED


def _payload(entry: bytes) -> memoryview | None:
    """Return what an entry of the cache holds behind its checksum; None if that is wrong."""
    header_bytes = len(CACHE_FORMAT) + hashlib.sha256().digest_size
    payload = memoryview(entry)[header_bytes:]
    return payload if entry[:header_bytes] == CACHE_FORMAT + hashlib.sha256(payload).digest() else None


class _LineReader:
    """Reads whole lines of a file into one piece of memory: fresh memory would cost more than the reading."""

    def __init__(self, file: int, size: int) -> None:
        self._file = file
        self._size = size
        self._buffer = bytearray(min(SEGMENT_BYTES, size) + PIECE_BYTES)

    def read(self, offset: int) -> memoryview:
        """Return `SEGMENT_BYTES` and the rest of the line they end in, until the next call."""
        length = self._fill(offset, 0, SEGMENT_BYTES)
        while offset + length < self._size and self._buffer[length - 1] != _LINE_FEED:
            added = self._fill(offset, length, PIECE_BYTES)
            line_feed = self._buffer.find(b"\n", length, length + added)
            length = length + added if line_feed < 0 else line_feed + 1
            if length > SEGMENT_BYTES + MAX_LINE_BYTES:
                # decision 40: skipping the line instead would change the meaning of "every record".
                raise MemoryLineTooLong(
                    f"A line that begins after byte {offset} is longer than {MAX_LINE_BYTES} bytes.",
                    field=STORE_FIELD,
                    limit=MAX_LINE_BYTES,
                )
        return memoryview(self._buffer)[:length]

    def _fill(self, offset: int, length: int, count_bytes: int) -> int:
        """Read bytes behind the `length` bytes that were read from `offset` on; return how many."""
        count_bytes = min(count_bytes, self._size - offset - length)
        if length + count_bytes > len(self._buffer):
            self._buffer = self._buffer + bytes(length + count_bytes)  # a new one: the last segment may still be in use
        added = 0
        with memoryview(self._buffer) as view:
            while added < count_bytes:
                count = os.preadv(self._file, [view[length + added : length + count_bytes]], offset + length + added)
                if not count:
                    raise MemoryStoreChanged(
                        "A memory store was cut short while it was read. Try again.", field=STORE_FIELD
                    )
                added += count
        return added


class SegmentCache:
    """A folder of entries, each named by a SHA-256: of a segment, or of a question and a store's beginning.

    An entry holds no text, and carries a checksum: a damaged one is ignored and written again. It may be deleted at any
    time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._grown = False

    def get(self, key: str, decode: Callable[[memoryview], Value]) -> Value | None:
        """Return the value stored under a key; None when there is none."""
        path = self._path(key)
        try:
            file = files.open_file(path, os.O_RDONLY)
            with os.fdopen(file, "rb") as stream:
                os.utime(file)  # `trim` removes the entries that were used least recently
                entry = stream.read()
        except OSError:
            return None
        payload = _payload(entry)
        return None if payload is None else decode(payload)

    def find_damaged(self) -> Iterator[Path]:
        """Yield the entries whose checksum is wrong."""
        with suppress(FileNotFoundError):
            for path in self._entries():
                if not path.name.startswith("."):
                    with suppress(FileNotFoundError):  # removed meanwhile
                        if _payload(files.read_file(path)) is None:
                            yield path

    def put(self, key: str, value: list[StoreLine] | SavedRanks) -> None:
        """Store a value. A full disk is no reason to fail a read."""
        path = self._path(key)
        payload = _encode(value)
        with suppress(OSError):
            files.make_folder(path.parent)
            files.replace_file(path, CACHE_FORMAT + hashlib.sha256(payload).digest() + payload)
            self._grown = True

    def trim(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        """Remove the entries used least recently until the others fit, if anything was added."""
        if not self._grown:
            return
        entries: list[tuple[int, int, Path]] = []
        for path in self._entries():
            with suppress(OSError):
                entry = files.status_of(path)
                entries.append((entry.st_mtime_ns, entry.st_size, path))
        total_bytes = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total_bytes <= max_bytes:
                return
            with suppress(OSError):
                files.remove(path)
                total_bytes -= size

    def _entries(self) -> Iterator[Path]:
        for folder in files.folder_names(self._folder):
            with suppress(OSError):
                for name in files.folder_names(self._folder / folder):
                    yield self._folder / folder / name

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]
