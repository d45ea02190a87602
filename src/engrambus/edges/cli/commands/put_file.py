"""`engrambus put --file`: engrams by the thousand, in batches, stopping at the first that is refused."""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import click

from engrambus.core import read_json
from engrambus.edges.cli.progress import Bytes
from engrambus.edges.cli.session import Session
from engrambus.errors import BadText, BodyTooLarge, EngramBusError, InputNotAFile
from engrambus.gateway import to_request
from engrambus.operations import OPERATIONS
from engrambus.operations.engrams import MAX_PER_REQUEST, PutEngram, PutEngrams

if TYPE_CHECKING:
    from engrambus.edges.sdk import Bus

STDIN = "-"
MAX_LINE = 64 * 1024
MAX_BATCH = 2 * 1024 * 1024

_POSITION = re.compile(r"engrams\[(\d+)\]\.?")


def put_file(session: Session, name: str, from_line: int) -> None:
    """Put every engram of a file from a line on, and say how many there were."""
    began = time.monotonic()
    with _opened(name) as (file, size), session.bus() as bus, Bytes("Putting engrams") as bar:
        importing = Import(bus, name, from_line, lambda done: bar(done, size))
        try:
            importing.run(file)
        except KeyboardInterrupt:
            session.say(f"Stopped. {importing.so_far()} {importing.go_on(importing.next_line)}")
            raise
    seconds = time.monotonic() - began
    session.answer({"stored": importing.stored}, lambda _: [f"{importing.so_far()} It took {seconds:.1f} s."])


class Import:
    """A file on its way onto the bus."""

    def __init__(self, bus: Bus, name: str, from_line: int, tell: Callable[[int], None]) -> None:
        self.stored = 0
        self.next_line = from_line
        self._bus = bus
        self._name = name
        self._from_line = from_line
        self._tell = tell
        self._batch: list[tuple[int, PutEngram]] = []

    def run(self, file: BinaryIO) -> None:
        """Put everything, or stop at the first line that is refused with all before it stored."""
        done = size = 0
        for number, line in enumerate(_lines(file), 1):
            done += len(line)
            if number < self._from_line or not line.strip():
                continue
            try:
                engram = _read(line)
            except EngramBusError as refusal:
                self._flush()
                raise self._stopped(number, refusal) from None
            self._batch.append((number, engram))
            size += len(line)
            if len(self._batch) == MAX_PER_REQUEST or size >= MAX_BATCH:
                self._flush()
                self._tell(done)
                size = 0
        self._flush()

    def so_far(self) -> str:
        """How much is on the bus: put, or said again."""
        return f"{self.stored:,} engram{' is' if self.stored == 1 else 's are'} on the bus."

    def go_on(self, line: int) -> str:
        """How to go on from a line."""
        return f"Go on with: engrambus put --file {self._name} --from-line {line}"

    def _flush(self) -> None:
        if not self._batch:
            return
        try:
            self._put(self._batch)
        except EngramBusError as refusal:
            found = _POSITION.match(refusal.field or "")
            position = int(found.group(1)) if found else 0
            refusal.field = _POSITION.sub("", refusal.field or "", count=1) or None
            bad = self._batch[position][0]
            before, self._batch = self._batch[:position], []
            if before:
                self._put(before)
            raise self._stopped(bad, refusal) from None
        self._batch = []

    def _put(self, batch: list[tuple[int, PutEngram]]) -> None:
        self._bus.call(OPERATIONS["put_engrams"], PutEngrams(engrams=[engram for _, engram in batch]))
        self.stored += len(batch)
        self.next_line = batch[-1][0] + 1

    def _stopped(self, line: int, refusal: EngramBusError) -> EngramBusError:
        """The refusal, saying where in the file and what to do."""
        refusal.detail = f"line {line}: {refusal.detail}"
        said = f"{refusal.hint} " if refusal.hint else ""
        refusal.hint = f"{said}{self.so_far()} {self.go_on(line)}"
        return refusal


def _read(line: bytes) -> PutEngram:
    if len(line.rstrip(b"\r\n")) > MAX_LINE:
        raise BodyTooLarge("The line is too long.", limit=MAX_LINE)
    return to_request(read_json(line, max_bytes=MAX_LINE + 2), PutEngram)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Every line, without a byte order mark before the first; of one that is too long, no more than shows it."""
    yield file.readline(MAX_LINE + 3).removeprefix(BOM_UTF8)
    while line := file.readline(MAX_LINE + 3):
        yield line


@contextmanager
def _opened(name: str, called: str = "--file") -> Iterator[tuple[BinaryIO, int]]:
    """The input and its size; 0 when that is not known. Only a file will do: others may never end, or bite."""
    if name == STDIN:
        yield sys.stdin.buffer, 0
        return
    try:
        _check_file(os.stat(name), name)
        with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            _check_file(status, name)
            yield file, status.st_size
    except FileNotFoundError:
        raise click.BadParameter(f"There is no file '{name}'.", param_hint=f"'{called}'") from None


def _check_file(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InputNotAFile(f"'{name}' is not a regular file.", field="file", hint="To read standard input, give -.")


def read_text_file(name: str, called: str, limit: int = 1_048_576) -> str:
    """The text of a file, or of standard input for -; `called` is where the name was given."""
    with _opened(name, called) as (file, _):
        data = file.read(limit + 1)
    if len(data) > limit:
        raise BodyTooLarge(field="file", limit=limit)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadText(f"'{name}' is not UTF-8.", field="file") from None
