"""`.catalog/receipts/<2 hex>/<62 hex>.json`: every receipt as a file, for people and tools.

A projection of the journal: workers write it afterwards and note how far they have come in a file. If the folder is
deleted it is written again. Nothing is read back from it; `verify` compares it with the journal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from engrambus.core import files
from engrambus.evidence.receipts.values import Receipt

RECEIPTS = "receipts"
"""Name of the folder in the folder of private state."""
RECEIPTS_POSITION = "receipts.written"
"""Name of the position file in the folder of derived files."""

ReadReceipts = Callable[[int, int], Iterable[tuple[int, Receipt]]]
"""Returns the receipts after a number, up to a limit, each with its number."""


def is_written_by(folder: Path, derived: str) -> bool:
    """True if receipts in a folder were written by the project with this folder of derived files (decision 97)."""
    return files.is_file(folder / _mark(derived))


def _mark(derived: str) -> str:
    # A hash, because receipts may be given to others, and nobody else may know the name itself (decision 67).
    return f".written-{hashlib.sha256(derived.encode()).hexdigest()[:16]}"


class ReceiptFolder:
    """The receipts of a project as files.

    `position_file` says how far they are written. A repository cannot bring it along (decision 67): without it every
    file is compared with the journal, and what the journal does not have is removed.
    """

    def __init__(self, folder: Path, position_file: Path) -> None:
        self._folder = folder
        self._position_file = position_file

    def path(self, receipt_id: str) -> Path:
        """Return the path of a receipt's file."""
        digits = receipt_id.removeprefix("sha256:")
        return self._folder / digits[:2] / f"{digits[2:]}.json"

    def catch_up(self, read_receipts: ReadReceipts, *, batch: int = 500) -> int:
        """Write every receipt that is not there yet; return how many were written."""
        files.make_folder(self._folder)
        (position, last_id), written = self._read_position(), 0
        # Listed before the journal is read: a file that another process writes from now on is not in the list.
        strange = set() if position else set(self._files())
        page = list(read_receipts(max(0, position - 1), batch + 1))
        if position and (not page or page[0][1].id != last_id):
            # Another receipt has that number now: the journal lost its end, or was restored from a copy.
            page = list(read_receipts(0, batch))
        elif position:
            del page[0]
        while page:
            for number, receipt in page:
                self._write(receipt)
                strange.discard(self.path(receipt.id))
                position, last_id = number, receipt.id
            written += len(page)
            self._write_position(f"{position} {last_id}")
            page = list(read_receipts(position, batch))
        for path in strange:
            files.remove(path)
        return written

    def differences(self, read_receipts: ReadReceipts, *, batch: int = 500) -> Iterator[tuple[Path, str]]:
        """Yield each file that the journal does not have or has otherwise, with what is wrong with it."""
        strange = set(self._files())
        position = 0
        while page := list(read_receipts(position, batch)):
            position = page[-1][0]
            for _, receipt in page:
                path = self.path(receipt.id)
                if path in strange and files.read_file(path) != _text(receipt):
                    yield path, "a receipt differs from the journal"
                strange.discard(path)
        yield from ((path, "a receipt is not in the journal") for path in sorted(strange))

    def _files(self) -> Iterator[Path]:
        """Yield the files that have a receipt's name."""
        with suppress(FileNotFoundError):
            for head in files.folder_names(self._folder):
                if len(head) == 2:
                    for name in files.folder_names(self._folder / head):
                        if name.endswith(".json") and not name.startswith("."):
                            yield self._folder / head / name

    def _write(self, receipt: Receipt) -> None:
        path = self.path(receipt.id)
        if files.is_file(path) and files.read_file(path) == _text(receipt):
            return
        files.make_folder(path.parent)
        files.replace_file(path, _text(receipt))

    def _read_position(self) -> tuple[int, str]:
        """Return number and id of the last receipt that was written; 0 if its file is gone."""
        try:
            number, _, last_id = files.read_file(self._position_file).decode("ascii").partition(" ")
        except (FileNotFoundError, UnicodeDecodeError):
            return 0, ""
        return (int(number), last_id) if number.isdigit() and files.is_file(self.path(last_id)) else (0, "")

    def _write_position(self, position: str) -> None:
        derived = self._position_file.parent
        if not is_written_by(self._folder, derived.name):
            files.replace_file(self._folder / _mark(derived.name), b"")
        files.make_folder(derived)
        files.replace_file(self._position_file, position.encode("ascii"))


def _text(receipt: Receipt) -> bytes:
    return msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n"
