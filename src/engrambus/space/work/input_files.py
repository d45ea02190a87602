"""The files a step depends on: what its yool's patterns name in the project, with a digest of each.

A folder stands for the files in it that git would track, and so do the matches of a pattern with wildcards. A file that
is named is read even if git ignores it. Links inside a folder count as their target's text and are not followed.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engrambus.core import LruCache, digest_of
from engrambus.errors import LinkRefused, YoolArguments
from engrambus.evidence.pointers import FileStatuses, TrackableFiles

EXCLUDED = frozenset({".git", ".catalog"})
"""Folders that are no step's input unless its pattern names them: both change with every step."""
MAX_HASHES = 100_000
"""Files whose hashes a worker remembers."""
SETTLED_NS = 2_000_000_000
"""A file changed so shortly ago may change again within the same tick of its file system's clock."""
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ESCAPED = re.compile(r"\[([*?[])\]")
_CHUNK_BYTES = 1 << 20
_ANY_DEPTH = "**"


class InputFiles:
    """Reads the files that steps depend on; unchanged ones are hashed once. Safe to share between threads."""

    def __init__(self) -> None:
        self._trackable = TrackableFiles()
        self._hashes: LruCache[tuple[str, tuple[int, ...]], str] = LruCache(MAX_HASHES)

    def digests(self, root: Path, patterns: Iterable[str], args: Mapping[str, Any]) -> dict[str, str]:
        """Map each file that the patterns name to a digest over its path and content.

        A name that leads through a link counts as the link, and as what it leads to, which must be in the project.
        """
        real_root = os.path.realpath(root)
        listings: dict[str, list[str]] = {}
        digests: dict[str, str] = {}
        for pattern in patterns:
            parts = [part for part in _fill_in(pattern, args).split("/") if part not in ("", ".")]
            named, wild = _split(parts)
            path = os.path.normpath("/".join(named) or ".")
            target = _resolve(real_root, path)
            if target != path:
                digests[_path_text(path)] = digest_of([_path_text(path), "link", _path_text(target)])
            folder = os.path.join(real_root, target)
            if os.path.isdir(folder):
                if target not in listings:
                    listings[target] = [os.fsdecode(name) for name in self._trackable.below(Path(folder))]
                below = _select(listings[target], target, wild, EXCLUDED.difference(parts))
                digests.update(self._digests_below(real_root, below))
            elif not wild:
                digests.update(self._digests_below(real_root, [target]))
        return digests

    def _digests_below(self, root: str, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield each of these paths that is a file or a link, and is not behind a link, with its digest."""
        status_of = FileStatuses(Path(root)).get
        for path in paths:
            status = status_of(os.fsencode(path))
            if status is None:
                continue
            name = _path_text(path)
            with suppress(FileNotFoundError):  # deleted while we looked
                if stat.S_ISLNK(status.st_mode):
                    yield name, digest_of([name, "link", _path_text(os.readlink(os.path.join(root, path)))])
                elif stat.S_ISREG(status.st_mode):
                    # decision 24: with the path, because two files that swap their contents are another input.
                    yield name, digest_of([name, self._hash(os.path.join(root, path), status)])

    def _hash(self, path: str, status: os.stat_result) -> str:
        # With the time of the last change of status, because unlike that of the last writing it cannot be set back.
        signature = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        known = self._hashes.get((path, signature))
        if known is not None:
            return known
        is_settled = status.st_ctime_ns < time.time_ns() - SETTLED_NS
        running = hashlib.sha256()
        # It may have become a link, or a pipe that blocks forever, since its status was read.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                running.update(chunk)
        if is_settled:
            self._hashes.put((path, signature), running.hexdigest())
        return running.hexdigest()


def _split(parts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names that a pattern begins with, unescaped, and the parts from its first wildcard on."""
    named: list[str] = []
    for position, part in enumerate(parts):
        name = _ESCAPED.sub(r"\1", part)
        if glob.escape(name) != part:
            return named, list(parts[position:])
        named.append(name)
    return named, []


def _resolve(root: str, path: str) -> str:
    """Return where a path leads, relative to the root; refuse one that leads out of it."""
    real_path = os.path.realpath(os.path.join(root, path))
    if os.path.commonpath([root, real_path]) != root:
        raise LinkRefused("A file a step reads lies outside the project.", field="inputs", used=ascii(path)[:200])
    return os.path.relpath(real_path, root)


def _select(names: Iterable[str], folder: str, wild: Sequence[str], excluded: frozenset[str]) -> Iterator[str]:
    """Yield the paths of files below a folder that match a pattern, or lie in a folder that does."""
    matches = [None if part == _ANY_DEPTH else re.compile(fnmatch.translate(part)).match for part in wild]
    for name in names:
        path = name if folder == "." else f"{folder}/{name}"
        if excluded.isdisjoint(path.split("/")) and _is_match(matches, name.split("/")):
            yield path


def _is_match(matches: Sequence[Callable[[str], object] | None], names: Sequence[str]) -> bool:
    """True if a path, or one of the folders it lies in, matches the parts of a pattern; None stands for any depth."""
    positions = _with_skipped(matches, {0})
    for name in names:
        if len(matches) in positions:
            return True
        following = set()
        for position in positions:
            match = matches[position]
            if match is None:
                following.add(position)
            elif match(name):
                following.add(position + 1)
        positions = _with_skipped(matches, following)
    return len(matches) in positions


def _with_skipped(matches: Sequence[Callable[[str], object] | None], positions: set[int]) -> set[int]:
    """Add the positions that are reached because `**` may stand for no folder at all."""
    reached = set(positions)
    for position, match in enumerate(matches):
        if position in reached and match is None:
            reached.add(position + 1)
    return reached


def _path_text(path: str) -> str:
    """Return a path as text; one that is not UTF-8 as hex after a NUL, which no path contains."""
    raw = os.fsencode(path)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"\0{raw.hex()}"


def _fill_in(pattern: str, args: Mapping[str, Any]) -> str:
    def replace(placeholder: re.Match[str]) -> str:
        value = args.get(placeholder[1])
        if not isinstance(value, str) or value.startswith("/") or ".." in value.split("/"):
            raise YoolArguments("The argument is not a path inside the project.", field=f"args.{placeholder[1]}")
        return glob.escape(value)

    return _PLACEHOLDER.sub(replace, pattern)
