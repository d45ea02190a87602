"""Trees of git objects: their entries, and the names in them that are one name in two spellings.

decision 73: git compares names byte for byte, people do not see whether an accent is composed. A name outside of ASCII
means the entry with the same composed form; if a tree has two of these, neither is read.
"""

from __future__ import annotations

import os

from engrambus.core import nfc
from engrambus.errors import ObjectDamaged, PathTwins

Entry = tuple[bytes, bytes]
"""Mode and object id, as a tree has them."""


class Tree:
    """The entries of a tree by name."""

    def __init__(self, entries: dict[bytes, Entry]) -> None:
        self._entries = entries
        self._spellings: dict[bytes, list[bytes]] = {}
        """Names outside of ASCII, and those they could be mistaken for, by their composed form."""
        for name in entries:
            if not name.isascii():
                self._spellings.setdefault(_composed(name), []).append(name)
        for form, names in self._spellings.items():
            if form.isascii() and form in entries:  # U+212A KELVIN SIGN is composed to a K
                names.append(form)

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> dict[bytes, Entry]:
        """Return a copy of the entries by name."""
        return dict(self._entries)

    def find(self, name: bytes) -> tuple[bytes, Entry] | None:
        """Return the name as the tree spells it, and its entry; refuse a name that the tree has in two spellings."""
        spellings = self._spellings.get(name if name.isascii() else _composed(name), []) if self._spellings else []
        if len(spellings) > 1:
            raise PathTwins(
                f"The tree has {' and '.join(map(_percent_encoded, spellings))}, which people read as one name.",
                hint="Rename one of them, and point at the commit that does.",
            )
        if spellings and not name.isascii():
            name = spellings[0]
        entry = self._entries.get(name)
        if entry is None and not name.isascii():
            name = _composed(name)  # the tree has it in ASCII
            entry = self._entries.get(name)
        return (name, entry) if entry is not None else None


def read_tree(data: bytes, hash_bytes: int) -> Tree:
    """Return the tree that an object holds."""
    entries: dict[bytes, Entry] = {}
    position = 0
    try:
        while position < len(data):
            space = data.index(b" ", position)
            end = data.index(b"\0", space)
            next_position = end + 1 + hash_bytes
            entries[data[space + 1 : end]] = (data[position:space], data[end + 1 : next_position])
            position = next_position
    except ValueError:
        raise ObjectDamaged("A tree of the commit cannot be read.") from None
    return Tree(entries)


def _composed(name: bytes) -> bytes:
    return os.fsencode(nfc(os.fsdecode(name)))


def _percent_encoded(name: bytes) -> str:
    return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in name)
