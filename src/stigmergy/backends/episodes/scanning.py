"""One stretch of a store: read, taken apart or remembered, scored."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stigmergy.backends.episodes.cache import BlockCache
from stigmergy.errors import MemoryLineTooLong, MemoryStoreChanged
from stigmergy.knowledge.memory import Question, Scored, read_block, score_block

STRETCH = 4 * 1024 * 1024
"""A stretch ends with the first line that reaches this far."""
MAX_LINE = 64 * 1024 * 1024
WINDOW = 64 * 1024


class Job(msgspec.Struct, frozen=True):
    """A stretch to scan."""

    start: int
    end: int


def stretches(store: int, size: int) -> Iterator[Job]:
    """The stretches of an open file, whole lines each. They depend on nothing that comes after them.

    A byte order mark, which editors put before everything else, is no part of the first line.
    """
    start = len(BOM_UTF8) if os.pread(store, len(BOM_UTF8), 0) == BOM_UTF8 else 0
    while start < size:
        end = _line_end(store, min(start + STRETCH, size) - 1, size)
        if end - start > STRETCH + MAX_LINE:
            raise MemoryLineTooLong(
                f"A line that begins after byte {start} is longer than {MAX_LINE} bytes.",
                field="store_paths",
                limit=MAX_LINE,
            )
        yield Job(start, end)
        start = end


def _line_end(store: int, position: int, size: int) -> int:
    """Where the line that holds a position ends."""
    while position < size:
        window = os.pread(store, min(WINDOW, size - position), position)
        newline = window.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        if not window:
            break
        position += len(window)
        if position > size:
            break
    return size


def scan(store: int, job: Job, question: Question, cache: Path | None) -> Scored:
    """The scores of one stretch of an open file."""
    data = os.pread(store, job.end - job.start, job.start)
    if len(data) != job.end - job.start:
        raise MemoryStoreChanged(field="store_paths")
    whole = len(data) >= STRETCH and data.endswith(b"\n")
    blocks = BlockCache(cache) if cache is not None and whole else None
    block = blocks.find(data) if blocks else None
    if block is None:
        block = read_block(data)
        if blocks:
            blocks.keep(data, block)
    return score_block(block, data, question, job.start)
