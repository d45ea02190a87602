"""`.catalog/receipts/<2 hex>/<62 hex>.json`: every receipt as a file, for people and tools.

A projection of the journal: workers write it afterwards and note how far they have come in a file. If the folder is
deleted it is written again. Nothing is read back from it: `verify` compares it with the journal; garbage collection,
and whoever looks at one receipt, also write again what differs. It is not synced at once: a power cut may leave a file
torn, and then it is written again (decision 94).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from engrambus.core import boot_id, files, is_digest
from engrambus.errors import EngramBusError
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


class RestoredFile(NamedTuple):
    """A file that was not as the journal has its receipt."""

    problem: str
    is_written: bool


class _Position(NamedTuple):
    """How far the receipts are written as files."""

    number: int = 0
    """Number of the last receipt that was written."""
    last_id: str = ""
    boot: str = ""
    """The machine's boot in which it was written."""
    synced: int = 0
    """Number of the last receipt that was written before that boot; the system has flushed those."""

    def on_disk(self) -> int:
        """Return the number of the last receipt whose file no power cut can have torn."""
        return self.number if self.boot == boot_id() else self.synced


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
        noted, written = self._read_position(), 0
        # Listed before the journal is read: a file that another process writes from now on is not in the list.
        strange = set() if noted.on_disk() else set(self._files())
        page = list(read_receipts(max(0, noted.number - 1), batch + 1))
        if noted.number and (not page or page[0][1].id != noted.last_id):
            # Another receipt has that number now: the journal lost its end, or was restored from a copy.
            noted = _Position()
            page = list(read_receipts(0, batch))
        elif noted.on_disk() < noted.number:
            page = list(read_receipts(noted.on_disk(), batch))
        elif noted.number:
            del page[0]
        on_disk = noted.number if noted.boot != boot_id() else noted.synced
        while page:
            for number, receipt in page:
                # What was written before a restart of the machine may be torn; what is compared after it is on disk.
                self._write(receipt, synced=number <= on_disk)
                strange.discard(self.path(receipt.id))
            written += len(page)
            position, last = page[-1]
            self._write_position(_Position(position, last.id, boot_id(), min(position, on_disk)))
            page = list(read_receipts(position, batch))
        for path in strange:
            files.remove(path)
        return written

    def rewrite(self, read_receipts: ReadReceipts) -> None:
        """Compare every file with the journal; write those that differ, and remove those it does not have."""
        files.remove(self._position_file)
        self.catch_up(read_receipts)

    def restore(self, receipt: Receipt, read_receipts: ReadReceipts, *, batch: int = 500) -> RestoredFile | None:
        """Write the file of one receipt if it is not as the journal has it; return what was wrong, None if nothing.

        A receipt that no worker has written as a file yet is no difference: the next worker writes it.
        """
        problem = self._problem(receipt)
        if problem is None:
            return None
        unwritten = list(read_receipts(self._noted_position().number, batch))
        if len(unwritten) == batch or receipt.id in (later.id for _, later in unwritten):
            return None
        try:
            self._write(receipt, synced=False)
        except (OSError, EngramBusError) as trouble:  # a reader may have no right to write here
            return RestoredFile(f"{problem}, and it could not be written again: {trouble}", is_written=False)
        return RestoredFile(f"{problem}; it was written again", is_written=True)

    def differences(self, read_receipts: ReadReceipts, *, batch: int = 500) -> Iterator[tuple[Path, str]]:
        """Yield each file that is not as the journal has it, with what is wrong with it.

        A receipt that no worker has written as a file yet is no difference, nor is a file that a power cut may have
        torn: the next worker writes it.
        """
        strange, on_disk = set(self._files()), self._noted_position().on_disk()
        position = 0
        while page := list(read_receipts(position, batch)):
            for position, receipt in page:
                problem = self._problem(receipt) if position <= on_disk else None
                if problem:
                    yield self.path(receipt.id), problem
                strange.discard(self.path(receipt.id))
        yield from ((path, "is no receipt of the journal") for path in sorted(strange))

    def _problem(self, receipt: Receipt) -> str | None:
        """Explain how the file of a receipt differs from the journal; None if it does not."""
        try:
            content = files.read_file(self.path(receipt.id))
        except (FileNotFoundError, NotADirectoryError):
            return "the file of a receipt is missing"
        except (OSError, EngramBusError) as problem:
            return f"the file of a receipt cannot be read: {problem}"
        return None if content == _text(receipt) else "a receipt differs from the journal"

    def _files(self) -> Iterator[Path]:
        """Yield the files that have a receipt's name."""
        with suppress(FileNotFoundError):
            for head in files.folder_names(self._folder):
                if len(head) == 2:
                    for name in files.folder_names(self._folder / head):
                        if name.endswith(".json") and not name.startswith("."):
                            yield self._folder / head / name

    def _write(self, receipt: Receipt, *, synced: bool) -> None:
        path = self.path(receipt.id)
        if self._problem(receipt) is not None:
            files.make_folder(path.parent)
            files.replace_file(path, _text(receipt), synced=synced)

    def _read_position(self) -> _Position:
        """Return how far the files are written; zero if the note, or the last file, is gone or damaged."""
        noted = self._noted_position()
        return noted if noted.number and files.is_file(self.path(noted.last_id)) else _Position()

    def _noted_position(self) -> _Position:
        """Return how far the files are written by the note on it; zero if that is gone or damaged."""
        with suppress(FileNotFoundError, UnicodeDecodeError, ValueError):
            number, last_id, boot, synced = files.read_file(self._position_file).decode("ascii").split()
            position = _Position(int(number), last_id, boot, int(synced))
            if is_digest(last_id) and 0 <= position.synced <= position.number:
                return position
        return _Position()

    def _write_position(self, position: _Position) -> None:
        derived = self._position_file.parent
        if not is_written_by(self._folder, derived.name):
            files.replace_file(self._folder / _mark(derived.name), b"")
        files.make_folder(derived)
        text = f"{position.number} {position.last_id} {position.boot} {position.synced}"
        files.replace_file(self._position_file, text.encode("ascii"))


def _text(receipt: Receipt) -> bytes:
    return msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n"
