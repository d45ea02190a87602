"""Several processes scanning large stores together, each of them a run of rows."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from engrambus.backends.episodes.scanning import Job
from engrambus.backends.episodes.worker import JOB, Answer, Setup, receive, send
from engrambus.errors import EngramBusError, Internal
from engrambus.knowledge.memory import Question, Store

PIPE = 1024 * 1024
"""What a worker has to say beyond this has to wait. With less room it waits more often."""
WORK = "from engrambus.backends.episodes.worker import work; work()"

_decode = msgspec.msgpack.Decoder(Answer).decode


@contextmanager
def scanned_together(
    jobs: Iterable[Job], stores: list[Store], files: list[int], question: Question, cache: Path | None, workers: int
) -> Iterator[list[Iterator[list[str]]]]:
    """The runs of a crew that has taken all jobs. It is sent home at the end."""
    taking, giving = os.pipe()
    crew = [_hire((*files, taking)) for _ in range(workers)]
    os.close(taking)
    setup = Setup(stores, files, taking, question, None if cache is None else str(cache))
    try:
        try:
            with open(giving, "wb", buffering=0) as pipe:
                for worker in crew:
                    send(_pipe(worker.stdin), setup)
                for job in jobs:
                    pipe.write(JOB.pack(*job))
        except BrokenPipeError:
            raise _died() from None
        yield [_run(_pipe(worker.stdout)) for worker in crew]
    finally:
        for worker in crew:
            worker.kill()
            worker.communicate()


def _hire(files: tuple[int, ...]) -> subprocess.Popen[bytes]:
    worker = subprocess.Popen(
        [sys.executable, "-P", "-c", WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=files
    )
    with suppress(AttributeError, OSError):  # only Linux has larger pipes, and not any number of them
        fcntl.fcntl(_pipe(worker.stdout), fcntl.F_SETPIPE_SZ, PIPE)
    return worker


def _run(answers: IO[bytes]) -> Iterator[list[str]]:
    """What a worker answers, piece by piece."""
    while (body := receive(answers)) is not None:
        answer = _decode(body)
        if answer.problem is not None:
            raise EngramBusError.from_problem(answer.problem)
        if not answer.rows:
            return
        yield answer.rows.split("\n")
    raise _died()


def _died() -> Internal:
    return Internal("A process that was scanning a memory store has died.")


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("a worker without pipes")
    return stream
