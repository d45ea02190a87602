"""Pointing the way people do: paths from where they stand, short revisions, links copied from elsewhere."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from engrambus.core import is_hex
from engrambus.errors import PointerPath
from engrambus.evidence.pointers import (
    GitRepository,
    Pointer,
    Repositories,
    parse_github_link,
    parse_swhid,
    print_address,
)
from engrambus.gateway import FileSpan, ProjectFiles, is_ref, parse_file_span

_HEX = frozenset("0123456789abcdef")


def full_ref(text: str, folder: Path, field: str) -> str:
    """The ref a person means: a pointer with its revisions made full, a link, or a path from a folder."""
    linked = from_link(text, field)
    if linked is not None:
        return linked.ref
    top = find_worktree(folder)
    if is_ref(text):
        return text if top is None else _full_revisions(text, text.partition(":")[0], top)
    if top is None:
        return text  # the gateway says what is wrong with it
    with closing(_repository(top)) as repository:
        place = from_top(parse_file_span(text), folder, top, field)
        return ProjectFiles(top, Repositories(repository)).point_at(print_place(place), field).ref


def from_link(text: str, field: str) -> Pointer | None:
    """The pointer a GitHub permalink or a SWHID names; none when the text is neither."""
    if text.startswith("https://github.com/"):
        return Pointer(type="repo", ref=print_address(parse_github_link(text, field)))
    if text.startswith("swh:"):
        return Pointer(type="repo", ref=print_address(parse_swhid(text, field)))
    return None


def find_worktree(folder: Path) -> Path | None:
    """The top of the checkout around a folder."""
    folder = folder.resolve()
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def from_top(place: FileSpan, folder: Path, top: Path, field: str) -> FileSpan:
    """A place given from a folder, as it is called from the top of the checkout."""
    given = folder.resolve() / place.path
    # The last part may be a link, which the gateway judges; the way to it leads where it leads.
    full = Path(os.path.realpath(given.parent)) / given.name if given.name not in ("", "..") else given.resolve()
    if not full.is_relative_to(top):
        raise PointerPath(f"'{place.path}' is outside the repository at {top}.", field=field)
    return place._replace(path=full.relative_to(top).as_posix())


def print_place(place: FileSpan) -> str:
    """A place in one word."""
    lines = f":{place.lines}" if place.lines else ""
    return f"{place.path}{lines}@{place.revision}"


def head_of_linked(top: Path) -> str | None:
    """The commit a linked checkout stands on; none for the main one, whose HEAD is the gateway's."""
    if (top / ".git").is_dir():
        return None
    with closing(_repository(top)) as repository:
        return repository.head(top)


def _repository(top: Path) -> GitRepository:
    inside = top / ".git"
    return GitRepository(inside if inside.is_dir() else top)


def _full_revisions(ref: str, scheme: str, top: Path) -> str:
    rest, mark, pin = ref.rpartition("@")
    if not mark or scheme not in ("repo", "artifact", "diff"):
        return ref
    if scheme == "artifact" and not _HEX.issuperset(pin):
        return ref  # a tag
    pins = pin.split("..") if scheme == "diff" else [pin]
    if all(is_hex(each, 40, 64) for each in pins) or not all(pins):
        return ref
    with closing(_repository(top)) as repository:
        return f"{rest}@{'..'.join(repository.expand(each, top) for each in pins)}"
