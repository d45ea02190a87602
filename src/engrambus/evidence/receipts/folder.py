"""`.catalog/receipts/<2 hex>/<62 hex>.json`: every receipt as a file, for people and tools.

A projection of the journal: workers write it afterwards and note how far they have come in a file. If the folder is
deleted it is written again. Nothing is read back from it; `verify` compares it with the journal and writes it again on
request. It is not synced: a power cut may leave a file torn (decision 94).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from engrambus.core import files
from engrambus.errors import EngramBusError
from engrambus.evidence.receipts.values import Receipt

ReadReceipts = Callable[[int, int], Iterable[tuple[int, Receipt]]]
"""Returns the receipts after a number, up to a limit, each with its number."""


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
        return self._folder / _name(receipt_id)

    def catch_up(self, read_receipts: ReadReceipts, *, batch: int = 500) -> int:
        """Write every receipt that is not there yet; return how many were written."""
        files.make_folder(self._folder)
        (position, last_id), written = self._read_position(), 0
        # Listed before the journal is read: a file that another process writes from now on is not in the list.
        strange = set() if position else set(self._names())
        page = list(read_receipts(max(0, position - 1), batch + 1))
        if position and (not page or page[0][1].id != last_id):
            # Another receipt has that number now: the journal lost its end, or was restored from a copy.
            page = list(read_receipts(0, batch))
        elif position:
            del page[0]
        while page:
            for number, receipt in page:
                self._write(receipt)
                strange.discard(_name(receipt.id))
                position, last_id = number, receipt.id
            written += len(page)
            self._write_position(f"{position} {last_id}")
            page = list(read_receipts(position, batch))
        for name in strange:
            files.remove(self._folder / name)
        return written

    def rewrite(self, read_receipts: ReadReceipts) -> None:
        """Compare every file with the journal; write those that differ, and remove those it does not have."""
        files.remove(self._position_file)
        self.catch_up(read_receipts)

    def differences(self, read_receipts: ReadReceipts, *, batch: int = 500) -> Iterator[tuple[Path, str]]:
        """Yield each file that is not as the journal has it, with what is wrong with it.

        A receipt that no worker has written as a file yet is no difference.
        """
        written, _ = self._noted_position()
        strange = set(self._names())
        position = 0
        while page := list(read_receipts(position, batch)):
            position = page[-1][0]
            for number, receipt in page:
                problem = self._problem(receipt, is_written=number <= written)
                if problem:
                    yield self.path(receipt.id), problem
                strange.discard(_name(receipt.id))
        yield from ((self._folder / name, "is no receipt of the journal") for name in sorted(strange))

    def _problem(self, receipt: Receipt, *, is_written: bool) -> str | None:
        try:
            content = files.read_file(self.path(receipt.id))
        except (FileNotFoundError, NotADirectoryError):
            return "the file of a receipt is missing" if is_written else None
        except (OSError, EngramBusError) as problem:
            return f"the file of a receipt cannot be read: {problem}"
        return None if content == _text(receipt) else "a receipt differs from the journal"

    def _names(self) -> Iterator[str]:
        """Yield the files that have a receipt's name, below the folder."""
        with suppress(FileNotFoundError):
            for head in files.folder_names(self._folder):
                if len(head) == 2:
                    for name in files.folder_names(self._folder / head):
                        if name.endswith(".json") and not name.startswith("."):
                            yield f"{head}/{name}"

    def _write(self, receipt: Receipt) -> None:
        path = self.path(receipt.id)
        if self._problem(receipt, is_written=True) is not None:
            files.make_folder(path.parent)
            files.replace_file(path, _text(receipt))

    def _read_position(self) -> tuple[int, str]:
        """Return number and id of the last receipt that was written; 0 if its file is gone."""
        number, last_id = self._noted_position()
        return (number, last_id) if number and files.is_file(self.path(last_id)) else (0, "")

    def _noted_position(self) -> tuple[int, str]:
        """Return number and id of the last receipt that was written, by the note on it; 0 if there is none."""
        try:
            number, _, last_id = files.read_file(self._position_file).decode("ascii").partition(" ")
        except (FileNotFoundError, UnicodeDecodeError):
            return 0, ""
        return (int(number), last_id) if number.isdigit() else (0, "")

    def _write_position(self, position: str) -> None:
        files.make_folder(self._position_file.parent)
        files.replace_file(self._position_file, position.encode("ascii"))


def _name(receipt_id: str) -> str:
    digits = receipt_id.removeprefix("sha256:")
    return f"{digits[:2]}/{digits[2:]}.json"


def _text(receipt: Receipt) -> bytes:
    return msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n"
