"""A process that scans the stretches of a large store it is told about.

Both ways, a message is its length in four bytes and then msgpack. The store is inherited as an open file.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import IO

import msgspec

from stigmergy.backends.episodes.scanning import Job, scan
from stigmergy.errors import StigmergyError
from stigmergy.knowledge.memory import Question, Scored


class Setup(msgspec.Struct, frozen=True):
    """What all stretches of one scan have in common."""

    store: int
    """The file's descriptor."""
    question: Question
    cache: str | None


class Answer(msgspec.Struct, frozen=True):
    """A scanned stretch, or why it could not be scanned."""

    scored: Scored | None = None
    problem: dict[str, object] | None = None


def send(stream: IO[bytes], value: object) -> None:
    """Write one message."""
    body = msgspec.msgpack.encode(value)
    stream.write(len(body).to_bytes(4) + body)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one message; None when the other side has gone."""
    head = stream.read(4)
    return stream.read(int.from_bytes(head)) if len(head) == 4 else None


def serve(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Answer jobs until there are no more."""
    first = receive(incoming)
    if first is None:
        return
    setup = msgspec.msgpack.decode(first, type=Setup)
    cache = None if setup.cache is None else Path(setup.cache)
    while (body := receive(incoming)) is not None:
        try:
            answer = Answer(scored=scan(setup.store, msgspec.msgpack.decode(body, type=Job), setup.question, cache))
        except StigmergyError as problem:
            answer = Answer(problem=problem.problem())
        send(outgoing, answer)


def work() -> None:
    """Serve the process that started this one."""
    gc.disable()  # nothing here refers to itself, and there is much of it
    serve(sys.stdin.buffer, sys.stdout.buffer)
