"""JSONL stores as files, opened for reading only."""

from __future__ import annotations

import os
import stat
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from engrambus.backends.episodes.cache import BlockCache
from engrambus.backends.episodes.crew import scanned_together
from engrambus.backends.episodes.scanning import scan, stretches
from engrambus.errors import (
    MemoryStoreNotAFile,
    MemoryStoreNotFound,
    MemoryStoreOutside,
    TrustSnapshotInvalid,
)
from engrambus.knowledge.memory import MAX_SNAPSHOT, Question, Store

WORTH_A_CREW = 32 * 1024 * 1024
"""Stores from this size on are scanned by several processes."""
STORE_FIELD = "store_paths"
SNAPSHOT_FIELD = "trust_filter.trust_snapshot_path"


class FileStores:
    """The files of one read. Close it to let go of them."""

    def __init__(
        self, folder: Path, *, fences: tuple[Path, ...] | None = None, cache: Path | None = None, workers: int = 1
    ) -> None:
        """Relative paths begin at `folder`. With fences, what does not lie beneath one of them is refused."""
        self._folder = folder
        self._fences = None if fences is None else tuple(fence.resolve() for fence in fences)
        self._cache = cache
        self._workers = workers
        self._open: dict[str, int] = {}
        self._closing = ExitStack()

    def __enter__(self) -> FileStores:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._closing.close()
        finally:
            while self._open:
                os.close(self._open.popitem()[1])

    def scan(self, stores: list[Store], question: Question) -> list[Iterator[list[str]]]:
        """The rows of all stores in a few runs, each in its order."""
        for store in stores:
            self._open[store.path] = self._opened(store.path, STORE_FIELD)
        files = [self._open[store.path] for store in stores]
        sizes = [os.fstat(file).st_size for file in files]
        jobs = chain.from_iterable(map(stretches, files, stores, sizes))
        if self._cache is not None:
            self._closing.callback(BlockCache(self._cache).trim)
        if sum(sizes) >= WORTH_A_CREW:
            crew = scanned_together(jobs, stores, files, question, self._cache, self._workers)
            return self._closing.enter_context(crew)
        rows: list[str] = []
        for job in jobs:
            rows += scan(files[job.store], stores[job.store], job, question, self._cache)
        return [iter([sorted(rows)])]

    def line(self, path: str, start: int, end: int) -> bytes:
        """A line of a store that was scanned."""
        return os.pread(self._open[path], end - start, start)

    def snapshot(self, path: str) -> bytes:
        """The content of a trust snapshot."""
        store = self._opened(path, SNAPSHOT_FIELD)
        try:
            size = os.fstat(store).st_size
            if size > MAX_SNAPSHOT:
                raise TrustSnapshotInvalid(
                    "The trust snapshot is too large.", field=SNAPSHOT_FIELD, limit=MAX_SNAPSHOT, used=size
                )
            return os.pread(store, size, 0).removeprefix(BOM_UTF8)
        finally:
            os.close(store)

    def _opened(self, path: str, field: str) -> int:
        place = self._folder / path
        try:
            if self._fences is not None:
                place = place.resolve()
                if not any(place.is_relative_to(fence) for fence in self._fences):
                    raise MemoryStoreOutside(field=field, used=path)
            # A pipe would wait for its writer for ever; it is opened without waiting and refused.
            store = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except (FileNotFoundError, NotADirectoryError):
            raise MemoryStoreNotFound(f"There is no memory store {path}.", field=field) from None
        except (OSError, ValueError, RuntimeError):
            raise MemoryStoreNotAFile(f"{path} cannot be opened.", field=field) from None
        if not stat.S_ISREG(os.fstat(store).st_mode):
            os.close(store)
            raise MemoryStoreNotAFile(f"{path} is not a regular file.", field=field)
        return store
