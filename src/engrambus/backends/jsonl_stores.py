"""Memory stores as JSONL files, and the cache of the lines that were read from them."""

from __future__ import annotations

import hashlib
import os
import stat
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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
from engrambus.knowledge.memory import MAX_SNAPSHOT_BYTES, SNAPSHOT_FIELD, Segment, StoreLine, read_lines

SEGMENT_BYTES = 1024 * 1024
"""A segment ends with the first line that reaches this size."""
MAX_LINE_BYTES = 64 * 1024 * 1024
CACHE_FORMAT = b"engrambus lines 1\n"
MAX_CACHE_BYTES = 1024**3
STORE_FIELD = "store_paths"

_encode_lines = msgspec.msgpack.Encoder().encode
_decode_lines = msgspec.msgpack.Decoder(list[StoreLine]).decode


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

    def __enter__(self) -> FileStores:
        return self

    def __exit__(self, *_: object) -> None:
        while self._files:
            os.close(self._files.popitem()[1])
        if self._cache is not None:
            self._cache.trim()

    def segments(self, path: str) -> Iterator[Segment]:
        """Open a store at once, then yield its content in file order."""
        file = self._files[path] = self._open(path, STORE_FIELD)
        return self._read_segments(file, os.fstat(file).st_size)

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

    def _read_segments(self, file: int, size: int) -> Iterator[Segment]:
        # Editors put a byte order mark before the first line; it is not part of the record.
        offset = len(BOM_UTF8) if os.pread(file, len(BOM_UTF8), 0) == BOM_UTF8 else 0
        while offset < size:
            data = _read_whole_lines(file, offset, size)
            yield Segment(offset, data, self._lines(data))
            offset += len(data)

    def _lines(self, data: bytes) -> list[StoreLine]:
        # decision 40: segments are cached under the hash of their bytes. Their ends depend only on the bytes before
        # them, so a store that grew has the same segments as before, and only the last one is read again.
        if self._cache is None or len(data) < SEGMENT_BYTES or not data.endswith(b"\n"):
            return read_lines(data)
        key = hashlib.sha256(data).hexdigest()
        lines = self._cache.get(key)
        if lines is None:
            lines = read_lines(data)
            self._cache.put(key, lines)
        return lines

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


def _payload(entry: bytes) -> memoryview | None:
    """Return what an entry of the cache holds behind its checksum; None if that is wrong."""
    header_bytes = len(CACHE_FORMAT) + hashlib.sha256().digest_size
    payload = memoryview(entry)[header_bytes:]
    return payload if entry[:header_bytes] == CACHE_FORMAT + hashlib.sha256(payload).digest() else None


def _read_whole_lines(file: int, offset: int, size: int) -> bytes:
    """Read `SEGMENT_BYTES` and the rest of the line they end in."""
    pieces: list[bytes] = []
    end = offset
    while end < size and not (pieces and pieces[-1].endswith(b"\n")):
        piece = os.pread(file, min(SEGMENT_BYTES, size - end), end)
        if not piece:
            raise MemoryStoreChanged("A memory store was cut short while it was read. Try again.", field=STORE_FIELD)
        if pieces and (newline := piece.find(b"\n")) >= 0:
            piece = piece[: newline + 1]
        pieces.append(piece)
        end += len(piece)
        if end - offset > SEGMENT_BYTES + MAX_LINE_BYTES:
            # decision 40: skipping the line instead would change the meaning of "every record".
            raise MemoryLineTooLong(
                f"A line that begins after byte {offset} is longer than {MAX_LINE_BYTES} bytes.",
                field=STORE_FIELD,
                limit=MAX_LINE_BYTES,
            )
    return b"".join(pieces)


class SegmentCache:
    """A folder with one file per segment, named by the SHA-256 of the segment. It may be deleted at any time.

    An entry holds no text, and carries a checksum: a damaged one is ignored and written again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._grown = False

    def get(self, key: str) -> list[StoreLine] | None:
        """Return the lines stored under a key; None when there are none."""
        path = self._path(key)
        try:
            file = files.open_file(path, os.O_RDONLY)
            with os.fdopen(file, "rb") as stream:
                os.utime(file)  # `trim` removes the entries that were used least recently
                entry = stream.read()
        except OSError:
            return None
        payload = _payload(entry)
        return None if payload is None else _decode_lines(payload)

    def find_damaged(self) -> Iterator[Path]:
        """Yield the entries whose checksum is wrong."""
        with suppress(FileNotFoundError):
            for path in self._entries():
                if not path.name.startswith("."):
                    with suppress(FileNotFoundError):  # removed meanwhile
                        if _payload(files.read_file(path)) is None:
                            yield path

    def put(self, key: str, lines: list[StoreLine]) -> None:
        """Store the lines of a segment. A full disk is no reason to fail a read."""
        path = self._path(key)
        payload = _encode_lines(lines)
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
