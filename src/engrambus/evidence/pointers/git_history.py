"""The history of a repository as git tells it: commits with their messages and files, and how old a line is.

Commit messages and names are data of strangers. They are read with NUL as the only separator, which neither can hold,
and cut to a bounded size. What is read here is not proved by hashes, as the content of a pointer is; pointers that are
made from it are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers.git import GitRepository

MAX_COMMITS = 20_000
"""Commits that are read at most, the newest."""
MAX_MESSAGE_BYTES = 16_384
MAX_PATHS = 64
"""Files of one commit that are named."""
MAX_BLAMED_LINES = 400
TIMEOUT_S = 600.0

_COMMIT_ID = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BLAMED = re.compile(rb"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")


class HistoryCommit(NamedTuple):
    """A commit with one parent or none: its message and the files it changed."""

    id: str
    parent: str
    """Empty for a first commit, and where a shallow clone ends."""
    time_s: int
    """When it was committed."""
    author: str
    message: str
    """Cut at `MAX_MESSAGE_BYTES`; what is not UTF-8 is replaced."""
    paths: tuple[str, ...]
    """Changed files, at most `MAX_PATHS`; not those it deleted."""


def read_history(
    repository: GitRepository, head: str, since: str | None = None, limit: int = MAX_COMMITS
) -> Iterator[HistoryCommit]:
    """Yield the commits that lead to `head`, newest first, without merges and without those that lead to `since`."""
    revisions = [head, *([f"^{since}"] if since else [])]
    chunks = repository.stream(
        "log", "-z", "--raw", "--no-renames", "--no-merges", "--no-show-signature", "--no-notes", "--no-ext-diff",
        "--no-textconv", "--no-color", "--no-mailmap", "--encoding=UTF-8", "--ignore-submodules=all", "--no-relative",
        "--diff-filter=d", f"--max-count={limit}", "--format=tformat:%H%x00%P%x00%ct%x00%an%x00%B%x00", *revisions,
        "--",
        timeout_s=TIMEOUT_S,
    )  # fmt: skip
    yield from _commits(_fields(chunks))


def is_ancestor(repository: GitRepository, old: str, new: str) -> bool:
    """True if a commit leads to another one, as far as the history is here."""
    try:
        repository.check_commit(old)
        # Commits that lead to the old one and not to the new one: none if it is an ancestor.
        listed = b"".join(
            repository.stream("rev-list", "--max-count=1", "--count", old, f"^{new}", "--", timeout_s=TIMEOUT_S)
        )
    except EngramBusError:
        return False
    return listed.strip() == b"0"


def commit_time_s(repository: GitRepository, commit: str) -> int:
    """Return when a commit was made."""
    chunks = repository.stream(
        "log", "-1", "--no-show-signature", "--no-notes", "--format=tformat:%ct", commit, "--", timeout_s=TIMEOUT_S
    )
    text = b"".join(chunks).strip()
    return int(text) if text.isdigit() else 0


def line_times(repository: GitRepository, revision: str, path: str, lines: Sequence[int]) -> Mapping[int, int]:
    """Return when each of these lines of a file got its present text, by line; git's blame decides.

    Lines whose history is not here are left out.
    """
    spans = [f"-L{line},{line}" for line in sorted(set(lines))[:MAX_BLAMED_LINES]]
    times: dict[bytes, int] = {}
    places: list[tuple[int, bytes]] = []
    commit = b""
    try:
        chunks = repository.stream(
            "blame", "--porcelain", "-s", "--no-progress", *spans, revision, "--", path, timeout_s=TIMEOUT_S
        )
        for row in b"".join(chunks).split(b"\n"):
            if row.startswith(b"\t"):  # the line itself
                continue
            if blamed := _BLAMED.fullmatch(row):
                commit = blamed[1]
                places.append((int(blamed[2]), commit))
            elif row.startswith(b"author-time ") and row[12:].isdigit():
                times[commit] = int(row[12:])
    except EngramBusError:
        return {}
    return {line: times[commit] for line, commit in places if commit in times}


def _fields(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what is between NUL bytes; of a longer field its beginning."""
    beginning = b""
    for chunk in chunks:
        *whole, last = chunk.split(b"\0")
        for field in whole:
            yield beginning + field if len(beginning) < MAX_MESSAGE_BYTES else beginning
            beginning = b""
        if len(beginning) < MAX_MESSAGE_BYTES:
            beginning += last
    if beginning:
        yield beginning


def _commits(fields: Iterator[bytes]) -> Iterator[HistoryCommit]:
    header: bytes | None = next(fields, None)
    while header is not None:
        commit_id = header.strip()
        if not _COMMIT_ID.fullmatch(commit_id):  # a separator between two records
            header = next(fields, None)
            continue
        parents, time_s, author, message = (next(fields, b"") for _ in range(4))
        paths: list[str] = []
        header = next(fields, None)
        # An entry is two fields: modes, ids and status after a colon, and the path. A message cannot pass for one,
        # because it has its place.
        while header is not None and (not header.strip() or header.lstrip(b"\n").startswith(b":")):
            if header.strip():
                path = next(fields, b"")
                if len(paths) < MAX_PATHS and not _is_module(header):
                    paths.append(os.fsdecode(path))
            header = next(fields, None)
        yield HistoryCommit(
            id=commit_id.decode(),
            parent=parents.split(b" ")[0].decode(errors="replace"),
            time_s=int(time_s) if time_s.isdigit() else 0,
            author=author[:200].decode(errors="replace"),
            message=message[:MAX_MESSAGE_BYTES].decode(errors="replace"),
            paths=tuple(paths),
        )


def _is_module(entry: bytes) -> bool:
    """True for a submodule or a link, whose path holds no file."""
    return entry.split(b" ")[1:2] in ([b"160000"], [b"120000"])
