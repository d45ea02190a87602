"""`.catalog/receipts/<2 hex>/<62 hex>.json`: every receipt as a file, for people and tools.

A projection of the journal: written after it, by whoever comes by, as far as a mark says; delete the folder and it is
written again. Nothing is read back from here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from engrambus.evidence.receipts.values import Receipt

MARK = ".written"

Numbered = Callable[[int, int], Iterable[tuple[int, Receipt]]]
"""Gives the receipts behind a number, so many at the most, each with its number."""


class ReceiptFolder:
    """The receipts of a project as files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, receipt_id: str) -> Path:
        """Where a receipt lies."""
        digits = receipt_id.removeprefix("sha256:")
        return self._folder / digits[:2] / f"{digits[2:]}.json"

    def catch_up(self, numbered: Numbered, *, at_once: int = 500) -> int:
        """Write every receipt that is not there yet; tells how many."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (mark, last), written = self._read_mark(), 0
        some = list(numbered(max(0, mark - 1), at_once + 1))
        if mark and (not some or some[0][1].id != last):
            # Another receipt has that number now: the journal lost its end, or was put back from a copy.
            some = list(numbered(0, at_once))
        elif mark:
            del some[0]
        while some:
            for number, receipt in some:
                self._write(receipt)
                mark, last = number, receipt.id
            written += len(some)
            self._write_mark(f"{mark} {last}")
            some = list(numbered(mark, at_once))
        return written

    def _write(self, receipt: Receipt) -> None:
        path = self.path(receipt.id)
        if path.exists():
            return
        path.parent.mkdir(exist_ok=True)
        _put(path, msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n")

    def _read_mark(self) -> tuple[int, str]:
        """The number and the id of the last receipt that was written."""
        try:
            number, _, last = (self._folder / MARK).read_text("ascii").partition(" ")
        except (FileNotFoundError, UnicodeDecodeError):
            return 0, ""
        return (int(number), last) if number.isdigit() else (0, "")

    def _write_mark(self, mark: str) -> None:
        _put(self._folder / MARK, mark.encode("ascii"))


def _put(path: Path, content: bytes) -> None:
    """Have a file lie there whole, though others write the same one at once, in this process too."""
    draft = path.with_name(f".{os.urandom(8).hex()}.new")
    try:
        draft.write_bytes(content)
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
