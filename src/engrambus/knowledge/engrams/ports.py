"""What engrams ask of a back end. Every read is as of one moment and inside named spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from engrambus.knowledge.engrams.values import Engram
from engrambus.policy import IdentityReads, TurnReads

EVERYTHING = "*"
"""The key every engram is posted under."""


def kind_key(kind: str) -> str:
    """The key every engram of a kind is posted under."""
    return f"kind={kind}"


class Traits(msgspec.Struct, frozen=True):
    """What decides between engrams of equal rank."""

    ordinal: int
    id: str
    scope: str
    created_at: int
    confidence: float
    names: str
    """The base names its pointers lead to, as keys, parted by spaces."""


class StoredEngram(msgspec.Struct, frozen=True, kw_only=True):
    """An engram as the store holds it."""

    ordinal: int
    engram: Engram
    space: str
    run: str
    expires_at: int
    more_keys: tuple[str, ...]


class EngramReads(Protocol):
    """The engrams of a store as of one moment; those whose time has passed are not there."""

    def postings(self, spaces: Sequence[str], key: str, *, kind: str | None, limit: int) -> Sequence[int]:
        """The ordinals of the newest live engrams in these spaces posted under a key, newest first."""
        ...

    def newest(self, spaces: Sequence[str], *, kind: str | None, limit: int, before: int | None) -> Sequence[int]:
        """The ordinals of the newest live engrams in these spaces, newest first, older than `before`."""
        ...

    def traits(self, ordinals: Sequence[int]) -> list[Traits]:
        """What decides between these, in any order."""
        ...

    def engrams(self, ordinals: Sequence[int]) -> list[Engram]:
        """These engrams, in the order asked for."""
        ...

    def find(self, spaces: Sequence[str], engram_id: str) -> StoredEngram | None:
        """The live engram of that id in these spaces, the first space that has it."""
        ...

    def twins(self, space: str, twin: str, *, limit: int) -> Sequence[int]:
        """The ordinals of the newest live engrams in a space with this twin key, newest first."""
        ...

    def pinned(self, spaces: Sequence[str]) -> Sequence[int]:
        """The ordinals of the live engrams in these spaces that somebody pinned, the last pinned first."""
        ...

    def votes(self, ordinal: int, *, besides: str) -> int:
        """How many roots of the hierarchy, besides one, have confirmed an engram."""
        ...

    def puts_in_minute(self, author: str, minute: int) -> int:
        """How many engrams an author put in a minute, counted from 1970."""
        ...

    def outbox(self) -> list[StoredEngram]:
        """Engrams on their way to a store that several projects share."""
        ...


class EngramView(EngramReads, IdentityReads, TurnReads, Protocol):
    """What the rules about engrams read of a store under the write lock."""

    @property
    def as_of(self) -> int:
        """The time of the commit in microseconds, by the project's clock."""
        ...


class VisibleStore(NamedTuple):
    """A store, and the spaces of it that a caller may see."""

    reads: EngramReads
    spaces: Sequence[str]
