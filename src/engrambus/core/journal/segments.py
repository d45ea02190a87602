"""The finished segments of a journal: `<name>.<base>.jsonl`, later `….jsonl.gz`, in the journal's folder."""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

from engrambus.core import files
from engrambus.errors import JournalDamaged

if TYPE_CHECKING:
    from gzip import GzipFile

CHUNK = 1 << 20
DIGITS = 15
DAMAGED_HINT = "Restore the file from a copy, or run `engrambus recover` to set the damaged part aside."


def sync(descriptor: int) -> None:
    """Force a file's data to the disk."""
    # On macOS fsync leaves the data in the drive's own cache; only F_FULLFSYNC empties that too.
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(descriptor, full)
    else:
        os.fdatasync(descriptor)


def split_lines(pieces: Iterable[bytes], offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield each line in consecutive pieces of a file with its offset; the last line may lack its newline."""
    partial = b""
    for piece in pieces:
        lines = (partial + piece).split(b"\n")
        partial = lines.pop()
        for line in lines:
            yield line + b"\n", offset
            offset += len(line) + 1
    if partial:
        yield partial, offset


def first_bytes(pieces: Iterator[bytes], length: int) -> Iterator[bytes]:
    """Yield the first `length` bytes of consecutive pieces of a file."""
    while length > 0:
        piece = next(pieces)[:length]
        length -= len(piece)
        yield piece


class Segments:
    """The segments of one journal that are complete: nothing is appended to them."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal

    def path(self, base: int) -> Path:
        """Return the uncompressed path of the segment that begins at offset `base`."""
        return self._journal.with_name(f"{self._journal.stem}.{base:0{DIGITS}d}{self._journal.suffix}")

    def bases(self) -> list[int]:
        """Return the offset at which each segment begins, in order."""
        bases = set()
        beginning, suffix = f"{self._journal.stem}.", self._journal.suffix
        for name in files.folder_names(self._journal.parent):
            segment = name.removesuffix(".gz")
            digits = segment.removeprefix(beginning).removesuffix(suffix)
            if len(digits) == DIGITS and digits.isdigit() and segment == f"{beginning}{digits}{suffix}":
                bases.add(int(digits))
        return sorted(bases)

    def file(self, base: int) -> Path:
        """Return the existing file of the segment that begins at offset `base`, compressed or not."""
        plain = self.path(base)
        return plain if files.is_file(plain) else self._packed(base)

    def raw_lines(self, offset: int, end: int) -> Iterator[tuple[bytes, int]]:
        """Yield every line from `offset` on with its offset; `end` is where the open segment begins."""
        for base, next_base in self._spans(offset, end):
            start = max(offset, base)
            yield from split_lines(self.pieces(base, next_base, start), start)
            offset = next_base

    def read(self, offset: int, length: int, end: int) -> bytes:
        """Return up to `length` bytes from `offset` on; `end` is where the open segment begins."""
        data = b""
        for base, next_base in self._spans(offset, end):
            for piece in self.pieces(base, next_base, offset):
                data += piece[: length - len(data)]
                if len(data) == length:
                    return data
            offset = next_base
        return data

    def compress(self) -> int:
        """Compress the segments that are not compressed yet; return the number of bytes freed."""
        import gzip  # needed rarely; importing it would slow every start
        import shutil

        freed = 0
        for base in self.bases():
            plain = self.path(base)
            if not files.is_file(plain):
                continue
            if plain.samefile(self._journal):
                continue  # a process died between naming this segment and beginning the next one
            packed = self._packed(base)
            draft = packed.with_name(packed.name + ".new")
            with files.open_reader(plain) as source, files.open_writer(draft, "wb") as target:
                with gzip.GzipFile(fileobj=target, mode="wb", mtime=0) as file:
                    shutil.copyfileobj(source, file, CHUNK)
                target.flush()
                os.fsync(target.fileno())
            freed += plain.stat().st_size - draft.stat().st_size
            files.rename(draft, packed)
            files.sync_folder(packed.parent)  # before the original goes, or a power cut might leave neither
            files.remove(plain)
        return freed

    def _spans(self, offset: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the segments with bytes from `offset` on, each as the offsets where it and its successor begin."""
        bases = [base for base in self.bases() if base < end]
        if not bases or bases[0] != 0:
            raise JournalDamaged(
                f"A segment of {self._journal.name} is missing: its first {bases[0] if bases else end} bytes.",
                field=str(self._journal),
                hint="Restore it from a copy.",
            )
        spans = list(zip(bases, [*bases[1:], end], strict=True))
        return ((base, next_base) for base, next_base in spans if next_base > offset)

    def pieces(self, base: int, next_base: int, offset: int) -> Iterator[bytes]:
        """Yield the bytes from `offset` on of the segment at `base`; the segment after it begins at `next_base`."""
        from gzip import BadGzipFile

        missing = next_base - offset
        try:
            with self._stream(base) as file:
                file.seek(offset - base)
                # read1: everything before a damaged place is still returned
                while piece := file.read1(CHUNK):
                    missing -= len(piece)
                    yield piece
        except (EOFError, BadGzipFile, zlib.error) as problem:
            raise self._damaged(base, str(problem)) from None
        if missing > 0:
            raise self._damaged(base, f"{missing} of its bytes are missing")

    def _damaged(self, base: int, why: str) -> JournalDamaged:
        file = self.file(base)
        return JournalDamaged(
            f"The segment {file.name} of {self._journal.name} is damaged: {why.rstrip('.')}.",
            field=str(file),
            hint=DAMAGED_HINT,
        )

    @contextmanager
    def _stream(self, base: int) -> Iterator[BufferedReader | GzipFile]:
        plain: BufferedReader | None = None
        with suppress(FileNotFoundError):  # another process may compress it at this moment
            plain = files.open_reader(self.path(base))
        if plain is not None:
            with plain:
                yield plain
            return
        from gzip import GzipFile

        with files.open_reader(self._packed(base)) as packed, GzipFile(fileobj=packed, mode="rb") as file:
            yield file

    def _packed(self, base: int) -> Path:
        plain = self.path(base)
        return plain.with_name(plain.name + ".gz")
