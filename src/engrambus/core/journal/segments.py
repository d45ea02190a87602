"""The segments a journal has left behind: `<name>.<base>.jsonl`, later `….jsonl.gz`, beside the one it appends to."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BufferedIOBase
from pathlib import Path

from engrambus.core.journal.disk import sync_folder
from engrambus.errors import JournalDamaged

CHUNK = 1 << 20
DIGITS = 15
DAMAGED_HINT = "Restore the file from a copy, or run `engrambus recover` to set the damaged part aside."


def split_lines(pieces: Iterable[bytes], offset: int) -> Iterator[tuple[bytes, int]]:
    """Every line in pieces of a file, its newline included where it has one, with its own offset."""
    rest = b""
    for piece in pieces:
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield line + b"\n", offset
            offset += len(line) + 1
    if rest:
        yield rest, offset


class Segments:
    """The segments of one journal that are not appended to any more."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal

    def path(self, base: int) -> Path:
        """Where the segment that begins at an offset lies, as long as it is not compressed."""
        return self._journal.with_name(f"{self._journal.stem}.{base:0{DIGITS}d}{self._journal.suffix}")

    def bases(self) -> list[int]:
        """Where each of them begins."""
        found = set()
        for each in self._journal.parent.glob(f"{self._journal.stem}.*{self._journal.suffix}*"):
            digits = each.name.removesuffix(".gz").removesuffix(self._journal.suffix)[len(self._journal.stem) + 1 :]
            if len(digits) == DIGITS and digits.isdigit():
                found.add(int(digits))
        return sorted(found)

    def file(self, base: int) -> Path:
        """Where the segment that begins at an offset lies now."""
        plain = self.path(base)
        return plain if plain.exists() else self._packed(base)

    def raw_lines(self, offset: int, end: int) -> Iterator[tuple[bytes, int]]:
        """Every line from an offset on, as far as the segment that is appended to begins."""
        for base, behind in self._spans(offset, end):
            begin = max(offset, base)
            yield from split_lines(self.pieces(base, behind, begin), begin)
            offset = behind

    def read(self, offset: int, length: int, end: int) -> bytes:
        """Some bytes of them."""
        found = b""
        for base, behind in self._spans(offset, end):
            for piece in self.pieces(base, behind, offset):
                found += piece[: length - len(found)]
                if len(found) == length:
                    return found
            offset = behind
        return found

    def compress(self) -> int:
        """Compress what is not yet; tells how many bytes that freed."""
        import gzip  # seldom needed, and every start would wait for it
        import shutil

        freed = 0
        for base in self.bases():
            plain = self.path(base)
            if not plain.exists():
                continue
            if plain.samefile(self._journal):
                continue  # whoever began the next segment died over it
            packed = self._packed(base)
            draft = packed.with_name(packed.name + ".new")
            with plain.open("rb") as source, draft.open("wb") as target:
                with gzip.GzipFile(fileobj=target, mode="wb", mtime=0) as file:
                    shutil.copyfileobj(source, file, CHUNK)
                target.flush()
                os.fsync(target.fileno())
            freed += plain.stat().st_size - draft.stat().st_size
            draft.rename(packed)
            sync_folder(packed.parent)  # or a power cut might leave neither
            plain.unlink()
        return freed

    def _spans(self, offset: int, end: int) -> Iterator[tuple[int, int]]:
        """The segments that hold bytes from an offset on: where each begins, and where the next one does."""
        bases = [base for base in self.bases() if base < end]
        if not bases or bases[0] != 0:
            raise JournalDamaged(
                f"A segment of {self._journal.name} is missing: its first {bases[0] if bases else end} bytes.",
                field=str(self._journal),
                hint="Restore it from a copy.",
            )
        spans = list(zip(bases, [*bases[1:], end], strict=True))
        return ((base, behind) for base, behind in spans if behind > offset)

    def pieces(self, base: int, behind: int, offset: int) -> Iterator[bytes]:
        """What the segment that begins at `base` holds from an offset on; the next one begins `behind` it."""
        from gzip import BadGzipFile

        left = behind - offset
        try:
            with self._stream(base) as file:
                file.seek(offset - base)
                while piece := file.read1(CHUNK):  # as far as it can be read, before what is damaged is met
                    left -= len(piece)
                    yield piece
        except (EOFError, BadGzipFile, zlib.error) as problem:
            raise self._damaged(base, str(problem)) from None
        if left > 0:
            raise self._damaged(base, f"{left} of its bytes are missing")

    def _damaged(self, base: int, why: str) -> JournalDamaged:
        file = self.file(base)
        return JournalDamaged(
            f"The segment {file.name} of {self._journal.name} is damaged: {why.rstrip('.')}.",
            field=str(file),
            hint=DAMAGED_HINT,
        )

    def _stream(self, base: int) -> BufferedIOBase:
        with suppress(FileNotFoundError):  # it was compressed in this very moment
            return self.path(base).open("rb")
        import gzip

        return gzip.open(self._packed(base), "rb")

    def _packed(self, base: int) -> Path:
        plain = self.path(base)
        return plain.with_name(plain.name + ".gz")
