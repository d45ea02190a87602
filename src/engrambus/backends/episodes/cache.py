"""What was worked out about a stretch of a store, kept under the digest of the stretch.

An entry is used only for the very bytes it was made from, and carries a checksum of itself: one that is damaged is
made again. The folder may be deleted at any time. Both are BLAKE3: whoever writes to a store must not be able to write
two stretches that pass for one another, and it is hashed whole each time it is read.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from blake3 import blake3

from engrambus.knowledge.memory import Block

FORMAT = b"engrambus block 3\n"
MAX_BYTES = 1024**3
"""Entries used least lately are removed beyond this."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Block).decode


def digest_of(data: bytes) -> str:
    """What an entry for these bytes is kept under."""
    return blake3(data).hexdigest()


class BlockCache:
    """A folder of blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, digest: str) -> Block | None:
        """The block made before from the bytes that have this digest."""
        place = self._place(digest)
        try:
            held = place.read_bytes()
            os.utime(place)
        except OSError:
            return None
        checksum = len(FORMAT) + blake3.digest_size
        payload = memoryview(held)[checksum:]
        if held[:checksum] != FORMAT + blake3(payload).digest():
            return None
        return _decode(payload)

    def keep(self, digest: str, block: Block) -> None:
        """Remember a block. A full disk is no reason to fail a read."""
        place = self._place(digest)
        payload = _encode(block)
        written = place.with_name(f"{place.name}.{os.getpid()}")
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                written.write_bytes(FORMAT + blake3(payload).digest() + payload)
                written.replace(place)
            except OSError:
                written.unlink(missing_ok=True)
                raise

    def trim(self, limit: int = MAX_BYTES) -> None:
        """Remove what was used least lately until the rest fits."""
        entries = []
        for place in self._folder.glob("*/*"):
            with suppress(OSError):
                found = place.stat()
                entries.append((found.st_mtime_ns, found.st_size, place))
        left = sum(size for _, size, _ in entries)
        for _, size, place in sorted(entries):
            if left <= limit:
                return
            with suppress(OSError):
                place.unlink()
                left -= size

    def _place(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]
