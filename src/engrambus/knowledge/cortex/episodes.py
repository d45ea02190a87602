"""What the team remembers: decisions, preferences, how work stands. Kept for ever, each change a new version.

An episode is addressed `sam:<kind>:<slug>@<version or date>` and stored as the record the memory controller reads:
everything beside its text and tags stands in `refs`, so that the record's hash covers it.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from engrambus.core import print_time
from engrambus.evidence.pointers import Pointer

MAX_TEXT = 8_000
MAX_SLUG = 64
MAX_CATEGORIES = 16
_NOT_IN_SLUGS = re.compile(r"[^a-z0-9]+")


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """How a contribution became memory."""

    contribution_id: str
    accepted_by: str
    accepted_at: str


class Episode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of one thing remembered."""

    kind: str
    slug: str
    version: int
    text: str
    categories: tuple[str, ...] = ()
    importance: float
    confidence: float | None = None
    pinned: bool = False
    """Whether it is working memory: always handed on, never silently contradicted."""
    at: int
    """When it was remembered, in microseconds."""
    expires_at: int | None = None
    by: str
    """Who remembered it: `<run>/<agent>`."""
    pointers: tuple[Pointer, ...] = ()
    accepted: Accepted | None = None

    @property
    def memory_id(self) -> str:
        """What the memory controller knows it by."""
        return f"{self.kind}:{self.slug}@{self.version}"

    @property
    def ref(self) -> str:
        """The pointer to this version."""
        return f"sam:{self.memory_id}"

    def is_about(self, categories: frozenset[str]) -> bool:
        """Whether it is filed under one of these, given in lower case; anything is, if there are none."""
        return not categories or not categories.isdisjoint(each.lower() for each in self.categories)

    def record(self) -> dict[str, Any]:
        """The line of the store: a record as the memory controller reads it."""
        about: dict[str, Any] = {
            "type": "episode",
            "kind": self.kind,
            "slug": self.slug,
            "version": self.version,
            "importance": self.importance,
            "pinned": self.pinned,
            "by": self.by,
        }
        if self.confidence is not None:
            about["confidence"] = self.confidence
        if self.expires_at is not None:
            about["expires_at"] = print_time(self.expires_at)
        refs = [about, *({"type": "pointer", "ref": each.ref, "digest": each.digest} for each in self.pointers)]
        if self.accepted is not None:
            refs.append({"type": "contribution", **msgspec.to_builtins(self.accepted)})
        return {
            "memory_id": self.memory_id,
            "ts_utc": print_time(self.at),
            "text": self.text,
            "tags": sorted({each.lower() for each in self.categories}),
            "refs": refs,
        }


def slug_of(text: str) -> str:
    """A short name made of a text's first words."""
    words = _NOT_IN_SLUGS.sub("-", text.lower()).strip("-")
    return words[:MAX_SLUG].rstrip("-") or "entry"


def is_slug(text: str) -> bool:
    """Whether a text can name an episode."""
    return 0 < len(text) <= MAX_SLUG and slug_of(text) == text
