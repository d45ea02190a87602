"""Filters of queries and of the feed: by author, role, path and time (decision 81).

They are applied before the best are chosen: an answer holds as many engrams as without a filter, if so many match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from typing import Any, cast

import msgspec

from engrambus.core import nfc, parse_duration, parse_time
from engrambus.errors import FieldValue, TtlInvalid
from engrambus.evidence.pointers import pointed_path
from engrambus.knowledge.engrams.facts import EngramsListed
from engrambus.knowledge.engrams.memories import engram_of_memory
from engrambus.knowledge.engrams.ports import EngramReads, ListingReads, VisibleStore, fill
from engrambus.knowledge.engrams.values import Engram, is_memory
from engrambus.policy import ADMIN, Caller, IdentityReads

Matches = Callable[[Engram], bool]


class EngramFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which engrams an answer may hold; a part that is left out excludes none."""

    agent: str | None = None
    """The author, by its name in any run or by its full name."""
    role: str | None = None
    """The author's role."""
    path: str | None = None
    """A file, a folder or a pattern, from the root of the repository; one pointer leads there."""
    since_us: int | None = None
    until_us: int | None = None
    """The first moment that is too late."""
    not_by: str | None = None
    """The full name of an author whose engrams are left out."""

    @property
    def excludes_nothing(self) -> bool:
        """True if every engram passes."""
        return self == EngramFilter()

    def matcher(self, roles: AuthorRoles) -> Matches:
        """Return the function that tells whether an engram passes."""
        leads_there = None if self.path is None else path_matcher(self.path)

        def matches(engram: Engram) -> bool:
            author = engram.provenance.created_by
            if self.not_by is not None and _is_same_author(author, self.not_by):
                return False
            if self.agent is not None and self.agent not in (author.rpartition("/")[2], author):
                return False
            if self.role is not None and roles.of(author) != self.role:
                return False
            if self.since_us is not None or self.until_us is not None:
                created_us = parse_time(engram.provenance.created_at)
                if created_us < (self.since_us or 0) or (self.until_us is not None and created_us >= self.until_us):
                    return False
            return leads_there is None or any(leads_there(pointer.ref) for pointer in engram.pointers)

        return matches


class AuthorRoles:
    """The roles of authors, each looked up once per request."""

    def __init__(self, view: IdentityReads) -> None:
        self._view = view
        self._by_author: dict[str, str | None] = {}

    def of(self, author: str) -> str | None:
        """Return the role of an agent by its full name; None if its run belongs to another project."""
        if author not in self._by_author:
            run, _, name = author.rpartition("/")
            agent = self._view.agent(run, name)
            self._by_author[author] = ADMIN if name == ADMIN else agent.role if agent else None
        return self._by_author[author]


class FilteredReads:
    """The reads of a store without the engrams that do not match; all other reads are unchanged."""

    def __init__(self, reads: EngramReads, matches: Matches, *, newer_than: int = 0) -> None:
        self._reads = reads
        self._matches = matches
        self._newer_than = newer_than
        self._known: dict[int, bool] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reads, name)

    def postings(self, spaces: Sequence[str], key: str, *, kind: str | None, limit: int) -> Sequence[int]:
        """Return the matching ones of `EngramReads.postings`."""
        return self._fill(limit, lambda size: self._reads.postings(spaces, key, kind=kind, limit=size))

    def newest(self, spaces: Sequence[str], *, kind: str | None, limit: int, older_than: int | None) -> Sequence[int]:
        """Return the matching ones of `EngramReads.newest`."""
        read = self._reads.newest
        return self._fill(limit, lambda size: read(spaces, kind=kind, limit=size, older_than=older_than))

    def visible(self, ordinals: Sequence[int]) -> list[int]:
        """Return the matching ones of `EngramReads.visible`."""
        return self._matching(self._reads.visible([ordinal for ordinal in ordinals if ordinal > self._newer_than]))

    def twins(self, space: str, twin: str, *, limit: int) -> Sequence[int]:
        """Return the matching ones of `EngramReads.twins`."""
        return self._fill(limit, lambda size: self._reads.twins(space, twin, limit=size))

    def _fill(self, limit: int, read: Callable[[int], Sequence[int]]) -> list[int]:
        # The newest come first, so that the reading ends at the first that is too old.
        def read_newer(size: int) -> list[int]:
            return [ordinal for ordinal in read(size) if ordinal > self._newer_than]

        return fill(limit, read_newer, self._matching)

    def _matching(self, ordinals: Sequence[int]) -> list[int]:
        unknown = [ordinal for ordinal in ordinals if ordinal not in self._known]
        for ordinal, engram in zip(unknown, self._reads.engrams(unknown), strict=True):
            self._known[ordinal] = self._matches(engram)
        return [ordinal for ordinal in ordinals if self._known[ordinal]]


def filter_store(store: VisibleStore, matches: Matches, *, newer_than: int = 0) -> VisibleStore:
    """Return a store without the engrams that do not match; weights are counted over all of them."""
    # decision 81: a filter hides rows and changes no weight, as a role rule does
    filtered = cast("EngramReads", FilteredReads(store.reads, matches, newer_than=newer_than))
    return store._replace(reads=filtered)


def list_once(store: VisibleStore, kind: str | None) -> VisibleStore:
    """Return a store without the memories whose engram is listed, too."""

    def is_listed(engram: Engram) -> bool:
        twin = engram_of_memory(store.reads, engram) if is_memory(engram.id) else None
        return twin is None or (kind is not None and store.reads.engrams((twin,))[0].kind != kind)

    return filter_store(store, is_listed)


def path_matcher(path: str) -> Callable[[str], bool]:
    """Return a function that tells whether a ref leads to a file, into a folder or to what a pattern matches."""
    prefix = nfc(path).removeprefix("./").rstrip("/")
    has_wildcard = any(character in prefix for character in "*?[")
    pattern = re.compile(f"{translate(prefix)}|{translate(prefix + '/*')}") if has_wildcard else None

    def leads_there(ref: str) -> bool:
        pointed = pointed_path(ref)
        if pointed is None:
            return False
        if "%" in pointed:
            from urllib.parse import unquote  # few refs are encoded

            pointed = unquote(pointed)
        if pattern is not None:
            return pattern.match(pointed) is not None
        return not prefix or pointed == prefix or pointed.startswith(f"{prefix}/")

    return leads_there


def read_moment(text: str | None, now_us: int, field: str) -> int | None:
    """Return the moment that a text names: a time in RFC 3339, or a duration before now such as `PT2H`."""
    if text is None:
        return None
    try:
        return now_us - parse_duration(text, field) if text.startswith("P") else parse_time(text)
    except (ValueError, OverflowError, TtlInvalid):
        raise FieldValue(
            "This is neither a time nor a duration.",
            field=field,
            used=text[:40],
            hint="Write 2026-01-31T12:00:00Z, or how long ago: PT2H, P7D.",
        ) from None


def listed_up_to(reads: ListingReads, caller: Caller) -> int:
    """Return the position up to which a caller was shown everything by queries with `since_last`."""
    return reads.listed_position(*listing_reader(caller.run.run_id, caller.name))


def mark_listed(reads: ListingReads, caller: Caller, position: int) -> list[EngramsListed]:
    """Return the fact that a caller was shown everything up to a position; none if it was before."""
    if listed_up_to(reads, caller) >= position:
        return []
    return [EngramsListed(run=caller.run.run_id, agent=caller.name, position=position)]


def listing_reader(run_id: str, agent: str) -> tuple[str, str]:
    """Return the run and the name that a position is stored under: a person has one for all runs."""
    return ("" if agent == ADMIN else run_id, agent)


def own_name(caller: Caller) -> str:
    """Return the name by which `EngramFilter.not_by` leaves out what a caller put itself."""
    return ADMIN if caller.name == ADMIN else caller.full_name


def _is_same_author(author: str, name: str) -> bool:
    # The admin is one person in every run; an agent belongs to one.
    return author == name or (name == ADMIN and author.rpartition("/")[2] == ADMIN)
