"""Several processes scanning one store, their answers in the order of its lines."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from stigmergy.backends.episodes.scanning import Job
from stigmergy.backends.episodes.worker import Answer, Setup, receive, send
from stigmergy.errors import Internal, StigmergyError
from stigmergy.knowledge.memory import Question, Scored

WORK = "from stigmergy.backends.episodes.worker import work; work()"
AHEAD = 2
"""Stretches a worker is told about before its answers are read: never so many that both sides wait."""


def scan_together(
    store: int, jobs: Iterator[Job], question: Question, cache: Path | None, workers: int
) -> Iterator[Scored]:
    """Scan stretches in worker processes."""
    crew = [_hire(store) for _ in range(workers)]
    try:
        for worker in crew:
            send(_pipe(worker.stdin), Setup(store, question, None if cache is None else str(cache)))
        waiting: deque[subprocess.Popen[bytes]] = deque()
        for number, job in enumerate(jobs):
            if len(waiting) == AHEAD * workers:
                yield _answer(waiting.popleft())
            worker = crew[number % workers]
            send(_pipe(worker.stdin), job)
            waiting.append(worker)
        while waiting:
            yield _answer(waiting.popleft())
    finally:
        for worker in crew:
            worker.kill()
            worker.communicate()


def _hire(store: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", WORK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(store,),
    )


def _answer(worker: subprocess.Popen[bytes]) -> Scored:
    body = receive(_pipe(worker.stdout))
    if body is None:
        raise Internal("A process that was scanning a memory store has died.")
    answer = msgspec.msgpack.decode(body, type=Answer)
    if answer.scored is None:
        raise StigmergyError.from_problem(answer.problem or {})
    return answer.scored


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("a worker without pipes")
    return stream
