"""A commit's files by the lines they hold: read once, kept by blob."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from engrambus.core import Memo, is_hex
from engrambus.evidence.anchoring.cache import CacheLost, LineCache
from engrambus.evidence.anchoring.lines import Text, hash_line, hash_lines
from engrambus.evidence.pointers import GitRepository

MAX_BLOB = 1024 * 1024
"""Larger files are not looked into."""
RARE = 64
"""A line that more blobs hold is not rare, and it is not counted how many more."""
BATCH_LINES = 100_000
TRIES = 4

Progress = Callable[[int, int], None]
"""Told how many files of how many are read."""
T = TypeVar("T")


class Files(NamedTuple):
    """A commit's files."""

    blobs: dict[str, str]
    """By path."""
    paths: dict[str, list[str]]
    """By blob, sorted."""


class Commit:
    """A commit, whose files are listed when something is first asked of them: most texts stand in none."""

    def __init__(self, repository: GitRepository, commit: str, listed: Memo[str, Files]) -> None:
        self.id = commit
        self.repository = repository
        self._listed = listed

    @cached_property
    def files(self) -> Files:
        """Its files; refused when it is no commit of the repository."""
        files = self._listed.get(self.id)
        if files is None:
            files = Files(self.repository.files(self.id), {})
            for path in sorted(files.blobs):
                files.paths.setdefault(files.blobs[path], []).append(path)
            self._listed.put(self.id, files, weight=len(files.blobs) + 1)
        return files

    def small(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths whose files are not too large to be looked into."""
        blobs = self.files.blobs
        here = [path for path in paths if path in blobs]
        sizes = self.repository.sizes({blobs[path] for path in here}) if here else {}
        return [path for path in here if sizes.get(blobs[path], MAX_BLOB + 1) <= MAX_BLOB]


class Index:
    """Which files of a commit hold a line. Safe under threads; several processes share the cache."""

    def __init__(self, cache_path: Path | None, progress: Progress | None = None) -> None:
        self._cache = LineCache(cache_path)
        self._progress = progress
        self._building = threading.Lock()
        self._listed: Memo[str, Files] = Memo(200_000)
        self._complete: Memo[str, bool] = Memo(4096)
        self._texts: Memo[str, Text] = Memo(300_000)

    def commit(self, repository: GitRepository, revision: str | None) -> Commit:
        """The commit a revision names, HEAD unless said; a full id is not looked up before its files are."""
        revision = revision or "HEAD"
        full = revision if is_hex(revision, 40, 64) else repository.expand(revision)
        return Commit(repository, full, self._listed)

    def using(self, commit: Commit, work: Callable[[], T]) -> T:
        """What a function finds out once all of a commit is in the index; asked again when the index is lost."""
        for _ in range(TRIES):
            try:
                with self._building:
                    self._build(commit)
                return work()
            except CacheLost:
                self._complete = Memo(4096)
        self._cache.keep_in_memory()
        self._build(commit)
        return work()

    def count(self, line: str) -> int:
        """How many blobs of all that were ever read hold a line."""
        return self._cache.count(hash_line(line), RARE)

    def known(self, lines: Iterable[str]) -> set[str]:
        """Those of the lines that any blob holds of all that were ever read."""
        hashes = {hash_line(line): line for line in lines}
        return {hashes[found] for found in self._cache.known(list(hashes))}

    def holders(self, commit: Commit, line: str) -> list[str]:
        """The paths of a commit whose files hold a line, sorted."""
        found = (commit.files.paths.get(blob, ()) for blob in self._cache.blobs(hash_line(line)))
        return sorted(path for paths in found for path in paths)

    def text(self, commit: Commit, path: str) -> Text:
        """The file at a path of a commit, ready to be searched."""
        blob = commit.files.blobs[path]
        text = self._texts.get(blob)
        if text is None:
            text = Text.of(commit.repository.blob(blob))
            self._texts.put(blob, text, weight=len(text.lines))
        return text

    def close(self) -> None:
        """Let go of the cache."""
        self._cache.close()

    def _build(self, commit: Commit) -> None:
        """Read the blobs of a commit that were never read before."""
        if self._complete.get(commit.id):
            return
        if not self._cache.is_complete(commit.id):
            self._read(commit, self._cache.missing(commit.files.paths))
            self._cache.mark_complete(commit.id)
        self._complete.put(commit.id, True)

    def _read(self, commit: Commit, missing: list[str]) -> None:
        sizes = commit.repository.sizes(missing) if missing else {}
        batch: list[tuple[str, set[int]]] = []
        lines = 0
        for done, blob in enumerate(missing, 1):
            small = sizes.get(blob, MAX_BLOB + 1) <= MAX_BLOB
            batch.append((blob, hash_lines(commit.repository.blob(blob)) if small else set()))
            lines += len(batch[-1][1]) + 1
            if lines >= BATCH_LINES or done == len(missing):
                self._cache.add(batch)
                batch, lines = [], 0
                if self._progress is not None:
                    self._progress(done, len(missing))
