"""A warm process that runs callables: it imports their code once and takes one step after another.

It reads and writes one JSON object per line. While a step runs, what it prints goes to the step's own files.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from engrambus.core.files import open_file
from engrambus.errors import EngramBusError, FieldValue, YoolArguments, error_line
from engrambus.space.catalog import REGISTRY, load_entry_points
from engrambus.space.work import step_context
from engrambus.space.work.guard.processes import PeakRam, pid_namespace
from engrambus.space.work.guard.step_supervisor import SHARED_MEMORY, used_bytes
from engrambus.space.work.main_script import MainScript, load

_STREAMS = (
    (0, "r", "stdin", "surrogateescape"),
    (1, "w", "stdout", "surrogateescape"),
    (2, "w", "stderr", "backslashreplace"),
)


def main() -> None:
    """Run steps until the worker closes the pipe."""
    pid, pipes = os.getpid(), [os.dup(0), os.dup(1)]
    jobs, answers = os.fdopen(pipes[0], encoding="utf-8"), os.fdopen(pipes[1], "w", encoding="utf-8")
    # A process that a step forks must not keep the pipes open: the worker would not notice that this one is gone.
    os.register_at_fork(after_in_child=lambda: _close(pipes))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    _open_streams()
    for line in jobs:
        job, ram = json.loads(line), PeakRam()
        exit, error = _run(job, pid)
        if os.getpid() != pid:  # a fork of the step returned from its code: only the original process answers
            os._exit(exit)
        shared_memory_bytes = _end_leftovers(job["worker_namespace"])
        answer: dict[str, Any] = {"exit": exit, "error": error, "peak_bytes": ram.peak(), "ram_bytes": ram.current()}
        answer["shared_memory_bytes"] = shared_memory_bytes
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _end_leftovers(worker_namespace: str) -> int:
    """Kill what the step left running in this process's own PID namespace; return the bytes it left in its /dev/shm.

    One signal to all of them: processes that keep starting others cannot be found one by one (decision 95).
    """
    namespace = pid_namespace()
    if not namespace or not worker_namespace or namespace == worker_namespace:
        return 0  # all processes of the account would be meant
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    left_bytes = used_bytes(SHARED_MEMORY)
    for entry in os.scandir(SHARED_MEMORY) if os.path.isdir(SHARED_MEMORY) else ():
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            with suppress(OSError):
                os.unlink(entry.path)
    return left_bytes


def _close(descriptors: list[int]) -> None:
    while descriptors:  # emptied: in a fork of the fork these numbers belong to other files
        os.close(descriptors.pop())


def _run(job: dict[str, Any], pid: int) -> tuple[int, str | None]:
    """Run a step; return its exit status and the error code of its return value, if that is invalid."""
    with _redirected(job["stdout"], 1), _redirected(job["stderr"], 2):
        step_context.enter(job["artifacts"], job["cost"], job["tuple_id"])
        tempfile.tempdir = job["temporary"]
        try:
            for module in job["modules"]:
                importlib.import_module(module)
            if job["script"] is not None:
                load(MainScript(**job["script"]))
            if REGISTRY.get(job["yool"]) is None:  # a function registers it, which an entry point names
                load_entry_points(lambda warning: None)
            function = REGISTRY.lookup(job["yool"]).run
            if isinstance(function, tuple):
                raise TypeError(f"{job['yool']} is a command")
            refusal = _refusal_of_arguments(function, job["args"])
            if refusal is not None:
                return _refuse(refusal)
            with _restored_process():
                value = function(**job["args"])
                if inspect.isawaitable(value):
                    value = asyncio.run(_await(value))
            return _print(value) if value is not None and os.getpid() == pid else (0, None)
        except SystemExit as ending:
            return _exit_status(ending.code), None
        except BaseException:
            traceback.print_exc()
            return 1, None


def _print(value: Any) -> tuple[int, str | None]:
    """Print a step's return value as JSON; one that is not JSON is refused, since a retry would return the same."""
    try:
        printed = json.dumps(value, sort_keys=True, ensure_ascii=False)
        printed.encode()
    except (TypeError, ValueError, RecursionError) as problem:
        refusal = FieldValue(
            f"The step's return value is not JSON: {problem}.",
            field="return",
            hint="Return JSON, and write files into step_context.artifacts().",
        )
        return _refuse(refusal)
    print(printed)
    return 0, None


def _refusal_of_arguments(function: Callable[..., Any], args: dict[str, Any]) -> YoolArguments | None:
    """Return why a function cannot be called with these arguments; a retry would call it with the same."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # some functions of C have none
        return None
    try:
        signature.bind(**args)
    except TypeError as problem:
        accepted = ", ".join(signature.parameters) or "none"
        return YoolArguments(f"The step cannot be called: {problem}.", field="args", limit=accepted)
    return None


def _refuse(refusal: EngramBusError) -> tuple[int, str]:
    print(f"refused: {error_line(refusal)}", file=sys.stderr)
    return 1, refusal.code


def _open_streams() -> None:
    """Open new standard streams, in case a step wrapped, detached or closed them.

    They are line-buffered: a step may keep an old stream, and its output belongs to the step that runs then.
    """
    for descriptor, mode, name, errors in _STREAMS:
        stream = open(descriptor, mode, 1, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _exit_status(code: Any) -> int:
    """Return the status of a process that raises SystemExit(code); as in Python, a message is printed and gives 1."""
    if code is None or isinstance(code, int):
        return (code or 0) % 256 or int(bool(code))
    print(code, file=sys.stderr)
    return 1


async def _await(value: Any) -> Any:
    return await value


@contextmanager
def _restored_process() -> Iterator[None]:
    """Restore folder, environment, umask, import path and streams after a step.

    What the code keeps in memory stays: that is the purpose of a warm process.
    """
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    environment, path = dict(os.environ), list(sys.path)
    mask = os.umask(0)
    os.umask(mask)
    try:
        yield
    finally:
        streams: tuple[Any, ...] = sys.__stdout__, sys.stdout, sys.__stderr__, sys.stderr
        _open_streams()
        sys.path[:] = path
        os.umask(mask)
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        os.fchdir(folder)
        os.close(folder)
        for stream in streams:
            with suppress(AttributeError, ValueError):  # a step may have closed it or put another object there
                stream.flush()


class _redirected:
    """Context in which a descriptor writes to a file."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor

    def __enter__(self) -> None:
        self._saved = os.dup(self._descriptor)
        target = open_file(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(target, self._descriptor)
        os.close(target)

    def __exit__(self, *problem: object) -> None:
        os.dup2(self._saved, self._descriptor)
        os.close(self._saved)
