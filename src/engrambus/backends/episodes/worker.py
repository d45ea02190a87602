"""A process that scans stretches of large stores, and hands out their rows when there are no more.

The stores are inherited as open files, and so is the list of stretches: a pipe that all workers of a crew take jobs
from. What a worker is told and what it answers is msgpack, after its length in four bytes.
"""

from __future__ import annotations

import gc
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from engrambus.backends.episodes.scanning import Job, scan
from engrambus.errors import EngramBusError
from engrambus.knowledge.memory import Question, Store, merge_runs

JOB = struct.Struct(">QQQ")
"""A job in the pipe: small enough to be written and read in one piece."""
CHUNK = 16
"""So many rows are one text until they are handed out: as values of their own they would take more time and memory."""
PIECE = 2048
"""About twice as many rows as are handed out at once."""
TRIM_THRESHOLD, KEPT = -1, 256 * 1024 * 1024
MMAP_THRESHOLD, LARGEST_IN_HEAP = -3, 32 * 1024 * 1024
"""Options of glibc's mallopt(3), and their values."""


class Setup(msgspec.Struct, frozen=True):
    """What all stretches of one scan have in common."""

    stores: list[Store]
    files: list[int]
    """Their descriptors."""
    jobs: int
    """Where the stretches are taken from."""
    question: Question
    cache: str | None


class Answer(msgspec.Struct, frozen=True):
    """Rows in their order, or why there are none."""

    rows: str = ""
    """One a line."""
    problem: dict[str, object] | None = None


def send(stream: IO[bytes], value: object) -> None:
    """Write one message."""
    body = msgspec.msgpack.encode(value)
    stream.write(len(body).to_bytes(4))
    stream.write(body)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one message; None when the other side has gone."""
    head = stream.read(4)
    return stream.read(int.from_bytes(head)) if len(head) == 4 else None


def serve(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Scan until there are no more jobs, then answer. An answer without rows is the last."""
    first = receive(incoming)
    if first is None:
        return
    setup = msgspec.msgpack.decode(first, type=Setup)
    cache = None if setup.cache is None else Path(setup.cache)
    runs: list[list[str]] = []
    try:
        while body := os.read(setup.jobs, JOB.size):
            job = Job(*JOB.unpack(body))
            rows = scan(setup.files[job.store], setup.stores[job.store], job, setup.question, cache)
            runs.append(["\n".join(rows[start : start + CHUNK]) for start in range(0, len(rows), CHUNK)])
    except EngramBusError as problem:
        send(outgoing, Answer(problem=problem.problem()))
        return
    chunks = 1 + PIECE // CHUNK // (len(runs) or 1)
    for rows in merge_runs([_handed_out(run, chunks) for run in runs]):
        send(outgoing, Answer(rows="\n".join(rows)))
    send(outgoing, Answer())


def _handed_out(run: list[str], chunks: int) -> Iterator[list[str]]:
    """A run, some chunks at a time."""
    for start in range(0, len(run), chunks):
        yield "\n".join(run[start : start + chunks]).split("\n")


def work() -> None:
    """Serve the process that started this one."""
    gc.disable()  # nothing here refers to itself, and there is much of it
    _keep_memory()
    serve(sys.stdin.buffer, sys.stdout.buffer)


def _keep_memory() -> None:
    """Have the allocator keep what the last stretch needed: asking the system for it again would take longer."""
    import ctypes  # not by those who only start workers

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(TRIM_THRESHOLD, KEPT)
        set_option(MMAP_THRESHOLD, LARGEST_IN_HEAP)
