"""The resolvers of `repo:` pointers, lines of a file at a commit, and of `diff:` pointers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain

import msgspec

from engrambus.errors import (
    ContentTooLarge,
    EngramBusError,
    FileNotFound,
    SpanNotFound,
)
from engrambus.evidence.pointers.addresses import DiffAddress, RepoAddress
from engrambus.evidence.pointers.git import Blob, GitRepository
from engrambus.evidence.pointers.read_spans import FileLines
from engrambus.evidence.pointers.repositories import Repositories
from engrambus.evidence.pointers.resolve import Content

_FIRST_CHANGE = re.compile(rb"@@ -\S+ \+(\d+)(?:,\d+)? @@\n((?: .*\n)*)")
"""The first line of a hunk in the new file, and the lines before the change."""
_NO_NEWLINE = b"\n\\ No newline at end of file\n"


class RepoResolver:
    """Reads `repo:` addresses: exactly the pointed lines of a blob at a commit."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    def resolve(self, address: RepoAddress) -> Content:
        """Return the pointed lines with their line ends, or the whole file."""
        blob = self._repositories.select(address.repository).read(address.revision, address.path)
        return _cut(blob, address)

    def check_folder(self, address: RepoAddress) -> None:
        """Refuse an address whose path is no folder of its commit."""
        self._repositories.select(address.repository).check_folder(address.revision, address.path)

    def resolve_many(self, addresses: Iterable[RepoAddress], take: Callable[[RepoAddress, Content], None]) -> None:
        """Pass the content of several addresses to `take`, reading each file once; unreadable ones are left out."""
        by_repository: dict[str | None, dict[tuple[str, str], list[RepoAddress]]] = {}
        for address in addresses:
            files = by_repository.setdefault(address.repository, {})
            files.setdefault((address.revision, address.path), []).append(address)
        for name, files in by_repository.items():
            with suppress(EngramBusError):
                self._repositories.select(name).read_many(files, partial(_take_spans, files, take))

    def locate(self, address: RepoAddress) -> FileLines:
        """Return the blob and the lines of it that an address names."""
        blob = self._repositories.select(address.repository).blob_id(address.revision, address.path)
        return file_lines(blob, address.lines)


def _take_spans(
    addresses: Mapping[tuple[str, str], Iterable[RepoAddress]],
    take: Callable[[RepoAddress, Content], None],
    file: tuple[str, str],
    blob: Blob,
) -> None:
    for address in addresses[file]:
        with suppress(EngramBusError):
            take(address, _cut(blob, address))


def _cut(blob: Blob, address: RepoAddress) -> Content:
    if address.lines is None:
        return Content.of(blob.data, blob.id, file_lines(blob.id, None))
    data = cut_lines(blob.data, *address.lines)
    place = file_lines(blob.id, address.lines)
    ends_file = blob.data.count(b"\n") + (not blob.data.endswith(b"\n")) == place.last
    return Content.of(data, blob.id, msgspec.structs.replace(place, last=None) if ends_file else place)


def file_lines(blob: str, lines: tuple[int, int] | None) -> FileLines:
    """Return the place of lines in a blob."""
    first, last = lines or (1, None)
    return FileLines(file=f"git:{blob}", first=first, last=last)


def cut_lines(data: bytes, first: int, last: int) -> bytes:
    """Return lines `first` to `last` as they are in the file, or refuse lines beyond its end.

    Only a newline ends a line; the last line may lack its own.
    """
    lines = data.split(b"\n", last)
    if len(lines) > last:
        return b"\n".join(lines[first - 1 : last]) + b"\n"
    count = len(lines) if lines[-1] else len(lines) - 1
    if last > count:
        raise SpanNotFound(f"The file has {count} {'line' if count == 1 else 'lines'}.", limit=count, used=last)
    return b"\n".join(lines[first - 1 : last])


def diff_paths(repository: GitRepository, address: DiffAddress) -> tuple[str, str]:
    """Return the path of a file before and after a change; they differ if the file was renamed."""
    path = address.path
    in_base, in_head = (_has_file(repository, revision, path) for revision in (address.base, address.head))
    if in_base == in_head:
        return path, path
    renames = repository.renames(address.base, address.head)
    if in_head:
        return renames.get(path, path), path
    return path, next((new for new, old in renames.items() if old == path), path)


class DiffResolver:
    """Reads `diff:` addresses: a unified diff with three lines of context, the same bytes on every machine.

    A renamed file can be named by its old path or by its new one.
    """

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    def resolve(self, address: DiffAddress) -> Content:
        """Return the diff; it is empty if the file is the same in both commits."""
        repository = self._repositories.select(address.repository)
        old_path, new_path = diff_paths(repository, address)
        old = _read_if_present(repository, address.base, old_path)
        new = _read_if_present(repository, address.head, new_path)
        if old is None and new is None:
            raise FileNotFound("The file is in neither of the two commits.")
        renamed = f"rename from {old_path}\nrename to {new_path}\n".encode() if old_path != new_path else b""
        source = RepoAddress(path=new_path, revision=address.head)
        if old and new and old.id == new.id:
            return Content.of(renamed, source=source)
        if old is None or new is None:
            hunks = _one_sided_hunk(b"+", new.data) if new else _one_sided_hunk(b"-", old.data if old else b"")
        else:
            hunks = _strip_function_names(repository.diff(old.id, new.id))
        present = (old is not None, new is not None)
        return _patch(repository, address.head, (old_path, new_path), present, hunks, renamed)

    def resolve_many(self, addresses: Iterable[DiffAddress], take: Callable[[DiffAddress, Content], None]) -> None:
        """Pass the diffs of files that both commits have to `take`, with one git for all; others are left out."""
        by_repository: dict[str | None, list[DiffAddress]] = {}
        for address in addresses:
            by_repository.setdefault(address.repository, []).append(address)
        for name, group in by_repository.items():
            with suppress(EngramBusError):
                _take_diffs(self._repositories.select(name), group, take)


def _take_diffs(
    repository: GitRepository, addresses: Iterable[DiffAddress], take: Callable[[DiffAddress, Content], None]
) -> None:
    blobs: dict[DiffAddress, tuple[str, str]] = {}
    for address in addresses:
        with suppress(EngramBusError):
            old, new = (repository.blob_id(side, address.path) for side in (address.base, address.head))
            blobs[address] = (old, new)
    readable: set[str] = set()
    # Read for their hashes: what git compares must be what the commits name.
    repository.blobs(list(dict.fromkeys(chain(*blobs.values()))), lambda blob_id, _: readable.add(blob_id))
    hunks = repository.diff_many(dict.fromkeys((address.base, address.head) for address in blobs))
    for address, pair in blobs.items():
        if pair in hunks and readable.issuperset(pair):
            path = address.path
            body = _strip_function_names(hunks[pair])
            with suppress(EngramBusError):
                take(address, _patch(repository, address.head, (path, path), (True, True), body, b""))


def _patch(
    repository: GitRepository,
    head: str,
    paths: tuple[str, str],
    present: tuple[bool, bool],
    hunks: bytes,
    renamed: bytes,
) -> Content:
    """Return a change as content: its headers and hunks, and the first line of it in the new file."""
    old_path, new_path = paths
    old, new = present
    source = RepoAddress(path=new_path, revision=head)
    old_header = b"--- a/" + old_path.encode() if old else b"--- /dev/null"
    new_header = b"+++ b/" + new_path.encode() if new else b"+++ /dev/null"
    data = b"%s%s\n%s\n%s" % (renamed, old_header, new_header, hunks)
    if len(data) > repository.max_bytes:
        raise ContentTooLarge(limit=repository.max_bytes, used=len(data))
    if old and (first := _FIRST_CHANGE.search(hunks)):
        line = max(1, int(first[1]) + first[2].count(b"\n"))
        source = RepoAddress(path=new_path, revision=head, lines=(line, line))
    return Content.of(data, source=source)


def _read_if_present(repository: GitRepository, revision: str, path: str) -> Blob | None:
    try:
        return repository.read(revision, path)
    except FileNotFound:
        return None


def _has_file(repository: GitRepository, revision: str, path: str) -> bool:
    try:
        repository.blob_id(revision, path)
    except FileNotFound:
        return False
    return True


def _one_sided_hunk(sign: bytes, data: bytes) -> bytes:
    """Return the one hunk of a file that was added (`+`) or deleted (`-`)."""
    if not data:
        return b""
    lines = data.split(b"\n")
    ends_with_newline = lines[-1] == b""
    if ends_with_newline:
        lines.pop()
    size = b"1" if len(lines) == 1 else b"1,%d" % len(lines)
    header = b"@@ -0,0 +%s @@\n" % size if sign == b"+" else b"@@ -%s +0,0 @@\n" % size
    return header + sign + (b"\n" + sign).join(lines) + (b"\n" if ends_with_newline else _NO_NEWLINE)


def _strip_function_names(hunks: bytes) -> bytes:
    """Return the hunks without the function names git prints after `@@`, which depend on its configuration."""
    lines = hunks.split(b"\n")
    for position, line in enumerate(lines):
        if line.startswith(b"@@ "):
            lines[position] = line[: line.index(b" @@", 3) + 3]
    return b"\n".join(lines)
