"""`.catalog/receipts/<2 hex>/<62 hex>.json`: every receipt as a file, for people and tools.

A projection of the journal: workers write it afterwards and note how far they have come in a file. If the folder is
deleted it is written again. Nothing is read back from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from engrambus.core import files
from engrambus.evidence.receipts.values import Receipt

POSITION_FILE = ".written"

ReadReceipts = Callable[[int, int], Iterable[tuple[int, Receipt]]]
"""Returns the receipts after a number, up to a limit, each with its number."""


class ReceiptFolder:
    """The receipts of a project as files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, receipt_id: str) -> Path:
        """Return the path of a receipt's file."""
        digits = receipt_id.removeprefix("sha256:")
        return self._folder / digits[:2] / f"{digits[2:]}.json"

    def catch_up(self, read_receipts: ReadReceipts, *, batch: int = 500) -> int:
        """Write every receipt that is not there yet; return how many were written."""
        files.make_folder(self._folder)
        (position, last_id), written = self._read_position(), 0
        page = list(read_receipts(max(0, position - 1), batch + 1))
        if position and (not page or page[0][1].id != last_id):
            # Another receipt has that number now: the journal lost its end, or was restored from a copy.
            page = list(read_receipts(0, batch))
        elif position:
            del page[0]
        while page:
            for number, receipt in page:
                self._write(receipt)
                position, last_id = number, receipt.id
            written += len(page)
            self._write_position(f"{position} {last_id}")
            page = list(read_receipts(position, batch))
        return written

    def _write(self, receipt: Receipt) -> None:
        path = self.path(receipt.id)
        if files.is_file(path):
            return
        files.make_folder(path.parent)
        files.replace_file(path, msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n")

    def _read_position(self) -> tuple[int, str]:
        """Return number and id of the last receipt that was written."""
        try:
            number, _, last_id = files.read_file(self._folder / POSITION_FILE).decode("ascii").partition(" ")
        except (FileNotFoundError, UnicodeDecodeError):
            return 0, ""
        return (int(number), last_id) if number.isdigit() else (0, "")

    def _write_position(self, position: str) -> None:
        files.replace_file(self._folder / POSITION_FILE, position.encode("ascii"))
