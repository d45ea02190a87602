"""Refs as agents read them, and the files they lead to; loads less than links do, because every brief needs it."""

from __future__ import annotations

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers.addresses import DiffAddress, RepoAddress
from engrambus.evidence.pointers.grammar import parse_ref
from engrambus.visible_text import find_invisible

SHORT_REVISION_CHARS = 7
"""Digits of a commit that people and agents read."""
_MARKS = frozenset(" :#@%,()")
"""Characters in a path that make a short ref hard to tell from the text around it."""


def compact_ref(ref: str, revision_chars: int = SHORT_REVISION_CHARS) -> str:
    """Return a ref as agents read and send it: `src/x.py:10-20@3a4c4fe` for this repository, else unchanged.

    A change of a file is `src/x.py@3a4c4fe..9b1d2e0`.
    """
    try:
        address = parse_ref(ref)
    except EngramBusError:  # a ref of an older version that is no longer valid
        return ref
    if not isinstance(address, RepoAddress | DiffAddress):
        return ref
    if address.repository is not None or _MARKS.intersection(address.path):
        return ref
    if find_invisible(address.path):  # only the ref has them encoded
        return ref
    return short_address(address, revision_chars)


def short_address(address: RepoAddress | DiffAddress, revision_chars: int = SHORT_REVISION_CHARS) -> str:
    """Return lines of a file, or its change between two commits, as people write them."""
    if isinstance(address, DiffAddress):
        return f"{address.path}@{address.base[:revision_chars]}..{address.head[:revision_chars]}"
    first, last = address.lines or (0, 0)
    lines = f":{first}" + (f"-{last}" if last != first else "") if first else ""
    return f"{address.path}{lines}@{address.revision[:revision_chars]}"


def pointed_path(ref: str) -> str | None:
    """Return the path of the file that a valid ref leads to, as refs write it; None if it leads to no file.

    It only looks at the text: back ends call it for every pointer that is stored.
    """
    scheme, _, address = ref.partition(":")
    unpinned = address.rpartition("@")[0]
    if scheme == "test":
        return unpinned.partition("::")[0] or None
    return (unpinned.partition("#")[0] or None) if scheme in ("repo", "artifact", "diff") else None
