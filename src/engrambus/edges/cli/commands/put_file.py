"""`engrambus put --file`: a JSONL file of engrams, sent in batches; the first line that is refused stops it.

A claim that is too long for one engram becomes several, which are put in one commit (decision 90).
"""

from __future__ import annotations

import re
import time
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from engrambus.core import read_json
from engrambus.edges.cli.inputs import open_input
from engrambus.edges.cli.progress import ProgressBar
from engrambus.edges.cli.session import Session
from engrambus.errors import BodyTooLarge, EngramBusError
from engrambus.gateway import to_request
from engrambus.operations import OPERATIONS
from engrambus.operations.engrams import MAX_PER_REQUEST, PutEngram, PutEngrams
from engrambus.operations.long_texts import split_engram

if TYPE_CHECKING:
    from engrambus.edges.sdk import Bus

MAX_LINE_BYTES = 64 * 1024
MAX_BATCH_BYTES = 2 * 1024 * 1024

_POSITION = re.compile(r"engrams\[(\d+)\]\.?")


def put_file(session: Session, name: str, from_line: int) -> None:
    """Put every engram of a file from a line on, and print how many are stored."""
    session.option_names.clear()  # errors are about fields in the file, not about options
    began = time.monotonic()
    with open_input(name, "--file") as (file, size), session.bus() as bus, ProgressBar("Putting engrams") as bar:
        loader = FileLoader(bus, name, from_line, lambda done: bar(done, size))
        try:
            loader.run(file)
        except KeyboardInterrupt:
            session.note(f"Stopped. {loader.stored_so_far()} {loader.continue_from(loader.next_line)}")
            raise
    seconds = time.monotonic() - began
    answer = {"stored": loader.stored} | ({"split": loader.split} if loader.split else {})
    session.print(answer, lambda _: [f"{loader.stored_so_far()}{loader.split_so_far()} It took {seconds:.1f} s."])


class FileLoader:
    """Puts the engrams of one file; a repeated line confirms the engram it repeats, so a file may be put twice."""

    def __init__(self, bus: Bus, name: str, from_line: int, on_progress: Callable[[int], None]) -> None:
        self.stored = 0
        self.split = 0
        """Stored lines whose claim was too long for one engram."""
        self.next_line = from_line
        self._bus = bus
        self._name = name
        self._from_line = from_line
        self._on_progress = on_progress
        self._batch: list[tuple[int, PutEngram]] = []

    def run(self, file: BinaryIO) -> None:
        """Put everything; at the first line that is refused, store what precedes it and raise."""
        done = batch_size = 0
        for number, line in enumerate(_lines(file), 1):
            done += len(line)
            if number < self._from_line or not line.strip():
                continue  # a blank line is counted, so that line numbers are those of an editor
            try:
                engrams = split_engram(_read_engram(line, number))
            except EngramBusError as refusal:
                self._flush()
                raise self._placed(number, refusal) from None
            # A server limits the number of engrams and the bytes of one request; a line is never in two of them.
            if len(self._batch) + len(engrams) > MAX_PER_REQUEST or batch_size >= MAX_BATCH_BYTES:
                self._flush()
                self._on_progress(done)
                batch_size = 0
            self._batch += [(number, engram) for engram in engrams]
            batch_size += sum(len(msgspec.json.encode(engram)) for engram in engrams) if len(engrams) > 1 else len(line)
        self._flush()

    def stored_so_far(self) -> str:
        """Return a sentence that counts the engrams stored, new or confirmed."""
        return f"{self.stored:,} engram{' is' if self.stored == 1 else 's are'} on the bus."

    def split_so_far(self) -> str:
        """Return a sentence that counts the stored lines that were split; empty if there are none."""
        if not self.split:
            return ""
        return (
            f" {self.split:,} claim{' was' if self.split == 1 else 's were'} too long for one and split into several."
        )

    def continue_from(self, line: int) -> str:
        """Return a sentence with the command that continues from a line."""
        return f"Go on with: engrambus put --file {self._name} --from-line {line}"

    def _flush(self) -> None:
        if not self._batch:
            return
        try:
            self._put(self._batch)
        except EngramBusError as refusal:
            # A batch is stored whole or not at all: put again what precedes the engram that was refused.
            match = _POSITION.match(refusal.field or "")
            position = int(match[1]) if match else 0
            refusal.field = _POSITION.sub("", refusal.field or "", count=1) or None
            refused_line = self._batch[position][0]
            # The pieces of one line are stored together or not at all.
            preceding = [(line, engram) for line, engram in self._batch if line < refused_line]
            self._batch = []
            if preceding:
                self._put(preceding)
            raise self._placed(refused_line, refusal) from None
        self._batch = []

    def _put(self, batch: list[tuple[int, PutEngram]]) -> None:
        self._bus.call(OPERATIONS["put_engrams"], PutEngrams(engrams=[engram for _, engram in batch]))
        self.stored += len(batch)
        self.split += sum(pieces > 1 for pieces in Counter(line for line, _ in batch).values())
        self.next_line = batch[-1][0] + 1

    def _placed(self, line: int, refusal: EngramBusError) -> EngramBusError:
        """Return the refusal with its line in the file and how to continue."""
        refusal.line = line
        advice = f"{refusal.hint} " if refusal.hint else ""
        refusal.hint = f"{advice}{self.stored_so_far()} {self.continue_from(line)}"
        return refusal


def _read_engram(line: bytes, number: int) -> PutEngram:
    if len(line.rstrip(b"\r\n")) > MAX_LINE_BYTES:
        raise BodyTooLarge("The line is too long.", limit=MAX_LINE_BYTES)
    return to_request(read_json(line, max_bytes=MAX_LINE_BYTES + 2, first_line=number), PutEngram)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield every line, without a byte order mark before the first; a line that is too long is cut."""
    yield file.readline(MAX_LINE_BYTES + 3).removeprefix(BOM_UTF8)
    while line := file.readline(MAX_LINE_BYTES + 3):
        yield line
