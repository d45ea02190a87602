"""The lines that a branch changes, file by file, since it left its base, as git compares them.

Git finds renames, as in `git diff -M`. A file that was renamed and not changed has no changed line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from engrambus.core import digest
from engrambus.errors import EngramBusError, MergeBaseNotFound
from engrambus.evidence.pointers.git import ChangedFile, GitRepository

END = 2**31 - 1
"""The last line of a file whose lines are not counted."""
_HUNK = re.compile(rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class LineChange(NamedTuple):
    """Lines of the old file that were replaced by lines of the new one; either may be none."""

    old_first: int
    old_count: int
    """0 if lines were only added, before `old_first`."""
    new_first: int
    new_count: int
    """0 if lines were only deleted; they stood before `new_first`."""
    text: bytes
    """The deleted and added lines as a diff shows them."""

    def touches_old(self, first: int, last: int) -> bool:
        """True if it deletes one of these lines of the old file, or adds lines between them."""
        if self.old_count:
            return self.old_first <= last and first < self.old_first + self.old_count
        return first < self.old_first <= last

    def touches_new(self, first: int, last: int) -> bool:
        """True if it wrote one of these lines of the new file."""
        return self.new_count > 0 and self.new_first <= last and first < self.new_first + self.new_count


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """The place where a branch changes given lines."""

    path: str
    """The file at the branch's head; the deleted file's own path."""
    first: int
    last: int
    """The lines at the branch's head; where lines were only deleted, the line that follows them."""
    deleted: bool
    """True if the branch deletes the file."""
    digest: str
    """The digest of the changes: another change of the same lines has another one."""


class BranchChanges:
    """The changes of a branch: from the commit where it left its base to its head."""

    def __init__(self, repository: GitRepository, base: str, head: str) -> None:
        self._repository = repository
        self.head = head
        merge_base = repository.merge_base(base, head)
        if merge_base is None:
            raise MergeBaseNotFound(
                field="base",
                used=base,
                hint="A shallow clone may lack it: fetch the whole history (git fetch --unshallow; fetch-depth: 0).",
            )
        self.merge_base = merge_base
        files = repository.changed_files(merge_base, head)
        self.files = len(files)
        self._by_old = {file.old_path: file for file in files if file.old_path is not None}
        self._by_new = {file.new_path: file for file in files if file.new_path is not None}
        self._changes: dict[ChangedFile, tuple[LineChange, ...]] = {}

    def touch_before(self, path: str, ranges: Sequence[tuple[int, int]] | None) -> Touch | None:
        """Return where the branch changes these lines of a file as it was before; of all lines if `ranges` is None."""
        file = self._by_old.get(path)
        if file is None:
            return None
        changes = self._changes_of(file)
        return _touch(file, [change for change in changes if ranges is None or _any_old(change, ranges)])

    def touch_after(self, path: str, ranges: Sequence[tuple[int, int]] | None) -> Touch | None:
        """Return where the branch wrote these lines of a file as it is at its head; all lines if `ranges` is None."""
        file = self._by_new.get(path)
        if file is None:
            return None
        changes = self._changes_of(file)
        return _touch(file, [change for change in changes if ranges is None or _any_new(change, ranges)])

    def _changes_of(self, file: ChangedFile) -> tuple[LineChange, ...]:
        if file not in self._changes:
            self._changes[file] = tuple(self._compare(file))
        return self._changes[file]

    def _compare(self, file: ChangedFile) -> Iterable[LineChange]:
        if file.old_blob == file.new_blob:
            return ()
        if file.new_blob is None:
            return (LineChange(1, END, 1, 0, f"deleted {file.old_blob}".encode()),)
        whole = LineChange(1, 0 if file.old_blob is None else END, 1, END, file.new_blob.encode())
        if file.old_blob is None:
            return (whole,)
        try:
            return line_changes(self._repository.diff(file.old_blob, file.new_blob))
        except EngramBusError:  # a submodule, or an object that is not here: some line of it has changed
            return (whole,)


def line_changes(hunks: bytes) -> Iterator[LineChange]:
    """Yield the changes in the hunks of a unified diff, without the lines of context."""
    old = new = 0
    deleted: list[bytes] = []
    added: list[bytes] = []

    def change() -> LineChange:
        return LineChange(
            old - len(deleted), len(deleted), new - len(added), len(added), b"\n".join([*deleted, *added])
        )

    for line in hunks.split(b"\n"):
        sign = line[:1]
        if sign == b"-":
            if added:  # git prints deleted lines before added ones
                yield change()
                deleted, added = [], []
            deleted.append(line)
            old += 1
        elif sign == b"+":
            added.append(line)
            new += 1
        elif sign == b"\\":  # "No newline at end of file"
            continue
        else:
            if deleted or added:
                yield change()
                deleted, added = [], []
            if (header := _HUNK.match(line)) is not None:
                old, new = int(header[1]), int(header[2])
                # A hunk without lines on one side names the line before it.
                old += b"-%d,0 " % old in line
                new += b"+%d,0 " % new in line
            else:
                old, new = old + 1, new + 1
    if deleted or added:
        yield change()


def _any_old(change: LineChange, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(change.touches_old(first, last) for first, last in ranges)


def _any_new(change: LineChange, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(change.touches_new(first, last) for first, last in ranges)


def _touch(file: ChangedFile, changes: Sequence[LineChange]) -> Touch | None:
    if not changes:
        return None
    path = file.new_path or file.old_path or ""
    first = max(1, min(change.new_first for change in changes))
    last = max(change.new_first + max(change.new_count, 1) - 1 for change in changes)
    is_counted = all(change.new_count != END for change in changes)
    return Touch(
        path=path,
        first=first,
        last=last if is_counted and file.new_path is not None else first,
        deleted=file.new_path is None,
        digest=digest(b"\0".join(change.text for change in changes)),
    )
