"""One stretch of a store: read, taken apart or remembered, scored."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engrambus.backends.episodes.cache import BlockCache, digest_of
from engrambus.errors import MemoryLineTooLong, MemoryStoreChanged
from engrambus.knowledge.memory import Block, Question, Store, Texts, rank_block, read_block, read_texts

STRETCH = 4 * 1024 * 1024
"""A stretch ends with the first line that reaches this far."""
MAX_LINE = 64 * 1024 * 1024
WINDOW = 64 * 1024


class Job(NamedTuple):
    """A stretch to scan."""

    store: int
    """The number of its store."""
    start: int
    end: int


def stretches(file: int, store: Store, size: int) -> Iterator[Job]:
    """The stretches of an open file, whole lines each. They depend on nothing that comes after them.

    A byte order mark, which editors put before everything else, is no part of the first line.
    """
    start = len(BOM_UTF8) if os.pread(file, len(BOM_UTF8), 0) == BOM_UTF8 else 0
    while start < size:
        end = _line_end(file, min(start + STRETCH, size) - 1, size)
        if end - start > STRETCH + MAX_LINE:
            raise MemoryLineTooLong(
                f"A line that begins after byte {start} is longer than {MAX_LINE} bytes.",
                field="store_paths",
                limit=MAX_LINE,
            )
        yield Job(store.number, start, end)
        start = end


def _line_end(file: int, position: int, size: int) -> int:
    """Where the line that holds a position ends."""
    while position < size:
        window = os.pread(file, min(WINDOW, size - position), position)
        newline = window.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        if not window:
            break
        position += len(window)
        if position > size:
            break
    return size


def scan(file: int, store: Store, job: Job, question: Question, cache: Path | None) -> list[str]:
    """The rows of one stretch of an open store, in their order."""
    data = os.pread(file, job.end - job.start, job.start)
    if len(data) != job.end - job.start:
        raise MemoryStoreChanged(field="store_paths")
    block, texts = _taken_apart(data, cache)
    return rank_block(block, texts, question, store, job.start)


def _taken_apart(data: bytes, cache: Path | None) -> tuple[Block, Texts]:
    """What is to be known of a stretch, and its texts. A stretch that will end elsewhere is not remembered."""
    if cache is None or len(data) < STRETCH or not data.endswith(b"\n"):
        return read_block(data)
    blocks, digest = BlockCache(cache), digest_of(data)
    block = blocks.find(digest)
    if block is not None:
        return block, read_texts(block, data)
    block, texts = read_block(data)
    blocks.keep(digest, block)
    return block, texts
