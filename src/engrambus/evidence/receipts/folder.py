"""`.catalog/receipts/<2 hex>/<62 hex>.json`: every receipt as a file, for people and tools.

A projection of the journal: workers write it afterwards and note how far they have come in a file. If the folder is
deleted it is written again. Nothing is read back from it: `verify` compares it with the journal; garbage collection,
and whoever looks at one receipt, also write again what differs. A collection reads only files that were changed since
the last one (decision 118). The folder is not synced at once: a power cut may leave a file torn, and then it is
written again (decision 94).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
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
COMPARED_SUFFIX = ".compared"
"""End of the name of the file that notes when the files were compared last; it begins as the position file's does."""
DIGITS = "0123456789abcdef"
BATCH = 500
CLOCK_TICK_NS = 2_000_000_000
"""How far the time of a change may be behind the clock: file systems use a coarser one."""

ReadReceipts = Callable[[int, int], Iterable[tuple[int, Receipt]]]
"""Returns the receipts after a number, up to a limit, each with its number."""


class ReceiptLookup(NamedTuple):
    """What is asked of the journal about receipts."""

    ids_starting: Callable[[str], Iterable[str]]
    """Returns the ids whose hash starts with these hex digits."""
    receipts: Callable[[list[str]], Iterable[Receipt]]
    """Returns the receipts with these ids."""
    after: ReadReceipts


class FileStatus(NamedTuple):
    """What the folder says about a file."""

    size: int
    changed_ns: int
    """When content or status changed last. A program can set the time of the content, but not this one."""


class ComparedFiles(NamedTuple):
    """Result of comparing the files that were changed."""

    differing: int
    """Files that were missing, changed or no receipt's."""
    bytes_before: int
    """Size of all files."""
    bytes_after: int
    """The same, after what differed was written again or removed."""


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

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self._folder

    def path(self, receipt_id: str) -> Path:
        """Return the path of a receipt's file."""
        return self._folder / relative_path(receipt_id)

    def catch_up(self, receipts: ReceiptLookup, *, batch: int = 500) -> int:
        """Write every receipt that is not there yet; return how many were written."""
        files.make_folder(self._folder)
        noted, written = self._read_position(), 0
        is_trusted, read_receipts = noted.on_disk() > 0, receipts.after
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
                self.write(receipt, synced=number <= on_disk)
            written += len(page)
            position, last = page[-1]
            self._write_position(_Position(position, last.id, boot_id(), min(position, on_disk)))
            page = list(read_receipts(position, batch))
        if not is_trusted:
            for path in self._strange(receipts):
                files.remove(path)
        return written

    def rewrite(self, receipts: ReceiptLookup) -> None:
        """Compare every file with the journal; write those that differ, and remove those it does not have."""
        files.remove(self._position_file)
        self.catch_up(receipts)

    def restore(self, receipt: Receipt, read_receipts: ReadReceipts, *, batch: int = 500) -> RestoredFile | None:
        """Write the file of one receipt if it is not as the journal has it; return what was wrong, None if nothing.

        A receipt that no worker has written as a file yet is no difference: the next worker writes it.
        """
        problem = self.problem(receipt)
        if problem is None:
            return None
        unwritten = list(read_receipts(self._noted_position().number, batch))
        if len(unwritten) == batch or receipt.id in (later.id for _, later in unwritten):
            return None
        try:
            self.write(receipt, synced=False)
        except (OSError, EngramBusError) as trouble:  # a reader may have no right to write here
            return RestoredFile(f"{problem}, and it could not be written again: {trouble}", is_written=False)
        return RestoredFile(f"{problem}; it was written again", is_written=True)

    def differences(self, receipts: ReceiptLookup, *, batch: int = 500) -> Iterator[tuple[Path, str]]:
        """Yield each file that is not as the journal has it, with what is wrong with it.

        A receipt that no worker has written as a file yet is no difference, nor is a file that a power cut may have
        torn: the next worker writes it.
        """
        on_disk, position = self._noted_position().on_disk(), 0
        while position < on_disk and (page := list(receipts.after(position, batch))):
            for position, receipt in page:
                problem = self.problem(receipt) if position <= on_disk else None
                if problem:
                    yield self.path(receipt.id), problem
        yield from ((path, "is no receipt of the journal") for path in self._strange(receipts))

    def rewrite_changed(self, receipts: ReceiptLookup, *, dry_run: bool = False) -> ComparedFiles:
        """Compare the files that were changed since they were compared last, and write those again that differ.

        Of the others only that they are there. With `dry_run` nothing is written. Where the disk has no room, what
        differs is found again the next time.
        """
        now_ns = time.time_ns()
        since_ns = self._compared_ns(now_ns)
        unwritten = self._unwritten(receipts.after)
        comparison = _Comparison(self, receipts, since_ns, unwritten, rewrites=not dry_run)
        for digit in DIGITS:
            comparison.compare(digit)
        if comparison.rewrites and unwritten is not None:
            files.replace_file(self._compared_file(), _checked(str(now_ns - CLOCK_TICK_NS)))
        return ComparedFiles(comparison.differing, comparison.bytes_before, comparison.bytes_after)

    def _unwritten(self, read_receipts: ReadReceipts, *, batch: int = 500) -> set[str] | None:
        """Return the ids of receipts that no worker has written yet, or whose file a power cut may have torn.

        None stands for all receipts.
        """
        position = self._noted_position().on_disk()
        if not position:
            return None
        ids: set[str] = set()
        while page := list(read_receipts(position, batch)):
            ids.update(receipt.id for _, receipt in page)
            position = page[-1][0]
        return ids

    def listed(self, digit: str) -> dict[str, FileStatus]:
        """Return the files whose hash begins with a hex digit, by their path in the folder."""
        listed: dict[str, FileStatus] = {}
        with suppress(FileNotFoundError):
            for head in files.folder_names(self._folder):
                if len(head) == 2 and head[0] == digit:
                    listed |= self._listed_in(head)
        return listed

    def _listed_in(self, head: str) -> dict[str, FileStatus]:
        listed: dict[str, FileStatus] = {}
        folder = files.open_folder(self._folder / head)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # a draft that its writer has renamed meanwhile
                        status = entry.stat(follow_symlinks=False)
                        listed[f"{head}/{entry.name}"] = FileStatus(status.st_size, status.st_ctime_ns)
        finally:
            os.close(folder)
        return listed

    def _compared_file(self) -> Path:
        return self._position_file.with_name(f"{self._position_file.stem}{COMPARED_SUFFIX}")

    def _compared_ns(self, now_ns: int) -> int:
        """Return when the files were compared last; 0 if never, or if the note is damaged or the clock was set back."""
        with suppress(FileNotFoundError, NotADirectoryError, UnicodeDecodeError, ValueError):
            note = files.read_file(self._compared_file())
            since_ns = int(note.decode("ascii").partition(" ")[0])
            if note == _checked(str(since_ns)) and 0 <= since_ns <= now_ns:
                return since_ns
        return 0

    def problem(self, receipt: Receipt) -> str | None:
        """Explain how the file of a receipt differs from the journal; None if it does not."""
        try:
            content = files.read_file(self.path(receipt.id))
        except (FileNotFoundError, NotADirectoryError):
            return "the file of a receipt is missing"
        except (OSError, EngramBusError) as problem:
            return f"the file of a receipt cannot be read: {problem}"
        return None if content == _text(receipt) else "a receipt differs from the journal"

    def _strange(self, receipts: ReceiptLookup) -> Iterator[Path]:
        """Yield the files that have a receipt's name and are none of the journal, in order."""
        for digit in DIGITS:
            # Listed before the journal is read: a file that another process writes from now on is not in the list.
            names = {name for name in self.listed(digit) if is_receipt_name(name)}
            if names:
                names.difference_update(map(relative_path, receipts.ids_starting(digit)))
                yield from (self._folder / name for name in sorted(names))

    def write(self, receipt: Receipt, *, synced: bool) -> None:
        """Write the file of a receipt unless it is there as the journal has it."""
        path = self.path(receipt.id)
        if self.problem(receipt) is not None:
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


class _Comparison:
    """One pass over the files in sixteen parts: neither all their names nor all ids are held at once."""

    def __init__(
        self,
        folder: ReceiptFolder,
        receipts: ReceiptLookup,
        since_ns: int,
        unwritten: set[str] | None,
        *,
        rewrites: bool,
    ) -> None:
        self._folder = folder
        self._receipts = receipts
        self._since_ns = since_ns
        self._unwritten = unwritten
        self.rewrites = rewrites
        """False for a dry run, and once the disk has refused a file."""
        self.differing = 0
        self.bytes_before = 0
        self.bytes_after = 0

    def compare(self, digit: str) -> None:
        """Compare the files whose hash begins with a hex digit."""
        # Listed before the journal is read: a file that another process writes from now on is not in the list.
        statuses = self._folder.listed(digit)
        size = sum(status.size for status in statuses.values())
        self.bytes_before += size
        self.bytes_after += size
        doubtful: dict[str, int] = {}
        for receipt_id in self._receipts.ids_starting(digit):
            status = statuses.pop(relative_path(receipt_id), None)
            if self._unwritten is None or receipt_id in self._unwritten:
                continue
            # decision 118: a collection over a million receipts does not read a million files
            if status is None or status.changed_ns >= self._since_ns:
                doubtful[receipt_id] = 0 if status is None else status.size
            if len(doubtful) == BATCH:
                self._compare_files(doubtful)
                doubtful.clear()
        self._compare_files(doubtful)
        for name, status in statuses.items():
            if is_receipt_name(name):
                self._remove(self._folder.folder / name, status.size)

    def _compare_files(self, sizes: dict[str, int]) -> None:
        """Compare the files of these receipts, of this size now, and write again what differs."""
        for receipt in self._receipts.receipts(list(sizes)):
            if self._folder.problem(receipt) is None:
                continue
            self.differing += 1
            with self._refused_by_the_disk():
                if self.rewrites:
                    self._folder.write(receipt, synced=True)
                    self.bytes_after += len(_text(receipt)) - sizes[receipt.id]

    def _remove(self, path: Path, size: int) -> None:
        self.differing += 1
        with self._refused_by_the_disk():
            if self.rewrites:
                files.remove(path)
                self.bytes_after -= size

    @contextmanager
    def _refused_by_the_disk(self) -> Iterator[None]:
        """Write nothing more after the disk has refused it: a collection goes on to free room."""
        try:
            yield
        except (OSError, EngramBusError):
            self.rewrites = False


def relative_path(receipt_id: str) -> str:
    """Return the path of a receipt's file in the folder."""
    digits = receipt_id.removeprefix("sha256:")
    return f"{digits[:2]}/{digits[2:]}.json"


def is_receipt_name(path: str) -> bool:
    """True if a file in an inner folder is named as a receipt's; others are drafts, or not ours."""
    return path.endswith(".json") and path[3:4] != "."


def _checked(text: str) -> bytes:
    """Return the line of a note, with a checksum."""
    return f"{text} {hashlib.sha256(text.encode()).hexdigest()[:16]}\n".encode("ascii")


def _text(receipt: Receipt) -> bytes:
    return msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n"
