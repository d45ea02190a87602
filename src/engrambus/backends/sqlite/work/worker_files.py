"""Running workers as files: one for each, beside the index, written again while it runs (decision 100)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from engrambus.core import files
from engrambus.errors import Trouble
from engrambus.space.tuples import RunningWorker

_decode = msgspec.json.Decoder(RunningWorker).decode
_encode = msgspec.json.Encoder().encode


class WorkerFiles:
    """The files of the running workers of one work store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def announce(self, worker: RunningWorker) -> None:
        """Write a worker's file, or replace it."""
        files.make_folder(self._folder)
        files.replace_file(self._path(worker.id), _encode(worker))

    def withdraw(self, worker_id: str) -> None:
        """Delete a worker's file."""
        files.remove(self._path(worker_id))

    def announced(self) -> list[RunningWorker]:
        """Return every worker that has a file; a file that is none of ours is left alone."""
        try:
            names = sorted(name for name in files.folder_names(self._folder) if name.endswith(".json"))
        except FileNotFoundError:
            return []
        workers = []
        for name in names:
            with suppress(OSError, Trouble, msgspec.MsgspecError):
                workers.append(_decode(files.read_file(self._folder / name)))
        return workers

    def _path(self, worker_id: str) -> Path:
        return self._folder / f"{worker_id}.json"
