"""A warm process that runs callables: it imports the code once and takes one step after another.

One JSON object to a line, both ways. While a step runs, what it prints goes to the step's own files.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from engrambus.errors import FieldValue
from engrambus.space.catalog import REGISTRY
from engrambus.space.work import here
from engrambus.space.work.guard.memory import OwnPeak
from engrambus.space.work.refused import told_of
from engrambus.space.work.script import Script, load

_STREAMS = (
    (0, "r", "stdin", "surrogateescape"),
    (1, "w", "stdout", "surrogateescape"),
    (2, "w", "stderr", "backslashreplace"),
)


def main() -> None:
    """Take steps until there are no more."""
    own, pipes = os.getpid(), [os.dup(0), os.dup(1)]
    questions, answers = os.fdopen(pipes[0], encoding="utf-8"), os.fdopen(pipes[1], "w", encoding="utf-8")
    # What a step forks must not hold them open: nobody would learn that the process itself is gone.
    os.register_at_fork(after_in_child=lambda: _close(pipes))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    _open_streams()
    for line in questions:
        job, memory = json.loads(line), OwnPeak()
        code, error = _run(job, own)
        if os.getpid() != own:  # what a step forked came back from it: it ends, and answers for nobody
            os._exit(code)
        answer = {"exit": code, "error": error, "peak": memory.read(), "held": memory.held()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _close(descriptors: list[int]) -> None:
    while descriptors:  # once: in what a child forks in its turn, the numbers are those of other files
        os.close(descriptors.pop())


def _run(job: dict[str, Any], own: int) -> tuple[int, str | None]:
    """Run a step; its exit, and the code of what is wrong with what it gave back."""
    with _redirected(job["stdout"], 1), _redirected(job["stderr"], 2):
        here.enter(job["artifacts"], job["cost"], job["tuple_id"])
        tempfile.tempdir = job["temporary"]
        try:
            for module in job["modules"]:
                importlib.import_module(module)
            if job["script"] is not None:
                load(Script(**job["script"]))
            value = REGISTRY.lookup(job["yool"]).run
            if isinstance(value, tuple):
                raise TypeError(f"{job['yool']} is a command")
            with _put_back():
                answer = value(**job["args"])
                if inspect.isawaitable(answer):
                    answer = asyncio.run(_awaited(answer))
            return _print(answer) if answer is not None and os.getpid() == own else (0, None)
        except SystemExit as asked:
            return _exit_of(asked.code), None
        except BaseException:
            traceback.print_exc()
            return 1, None


def _print(answer: Any) -> tuple[int, str | None]:
    """Print what a step gave back. What is not JSON is refused: another attempt would give back the same."""
    try:
        printed = json.dumps(answer, sort_keys=True, ensure_ascii=False)
        printed.encode()
    except (TypeError, ValueError, RecursionError) as problem:
        refusal = FieldValue(
            f"What the step gave back is not JSON: {problem}.",
            field="return",
            hint="Files are left in here.artifacts().",
        )
        print(f"refused: {told_of(refusal)}", file=sys.stderr)
        return 1, refusal.code
    print(printed)
    return 0, None


def _open_streams() -> None:
    """Streams that nobody has wrapped, detached or closed. To the line, as what is printed to one that a step has kept
    belongs to the step that runs."""
    for descriptor, mode, name, errors in _STREAMS:
        stream = open(descriptor, mode, 1, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _exit_of(said: Any) -> int:
    """The exit a process would have that ends like this; what is not a number is said, as Python says it."""
    if said is None or isinstance(said, int):
        return (said or 0) % 256 or int(bool(said))
    print(said, file=sys.stderr)
    return 1


async def _awaited(answer: Any) -> Any:
    return await answer


@contextmanager
def _put_back() -> Iterator[None]:
    """The next step finds the process as this one did: its folder, environment, umask, and where it prints.

    What the code itself keeps in memory stays: that is what a warm process is for.
    """
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    environment, path = dict(os.environ), list(sys.path)
    mask = os.umask(0)
    os.umask(mask)
    try:
        yield
    finally:
        printed: tuple[Any, ...] = sys.__stdout__, sys.stdout, sys.__stderr__, sys.stderr
        _open_streams()
        sys.path[:] = path
        os.umask(mask)
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        os.fchdir(folder)
        os.close(folder)
        for each in printed:
            with suppress(AttributeError, ValueError):  # it may be closed, or nothing that one prints to
                each.flush()


class _redirected:
    """What goes to a descriptor goes to a file for a while."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor

    def __enter__(self) -> None:
        self._before = os.dup(self._descriptor)
        target = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(target, self._descriptor)
        os.close(target)

    def __exit__(self, *problem: object) -> None:
        os.dup2(self._before, self._descriptor)
        os.close(self._before)
