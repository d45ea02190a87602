"""One text looked for in one commit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from engrambus.errors import PointerRefusal
from engrambus.evidence.anchoring.index import Commit, Index
from engrambus.evidence.anchoring.pattern import Match, Pattern
from engrambus.evidence.anchoring.readings import readings
from engrambus.evidence.pointers import Pointer, RepoAddress, check_pointer, print_address

MAX_CANDIDATES = 8
SHORT = 12
"""Letters and digits below which one line alone must be unique."""
MAX_TRIED = 256
"""Files looked into for one reading of the text."""
MAX_GREPS = 4
GREP_WORDS = 3

_SPAN = re.compile(r":\d+(?:-\d+)?$")
_UNRELATED = 3


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """Where a text stands."""

    pointer: Pointer | None = None
    """The lines that hold it, when there is one place only."""
    candidates: tuple[Pointer, ...] = ()
    """The places, when there are several; the likeliest first."""
    matched_lines: int = 0
    """How many lines of the text were found."""


class _Place(NamedTuple):
    rank: int
    path: str
    match: Match


class Search:
    """Tries what the text may have been: whole lines before cut ones, elisions last, the plainest reading first."""

    def __init__(self, index: Index, commit: Commit, hint: str | None) -> None:
        self._index = index
        self._commit = commit
        self._hint = _as_path(hint)
        self._greps = 0

    def run(self, text: str) -> Anchor:
        """Where the text stands."""
        tried: list[tuple[str, ...]] = []
        for lines in readings(text):
            tried.append(lines)
            if found := self._try(Pattern(lines), cut=False):
                return found
        has_elisions = "..." in text or "…" in text
        for elided, cut in ((False, True), (True, False), (True, True)):
            for lines in tried if has_elisions or not elided else ():
                if found := self._try(Pattern(lines, elided=elided), cut=cut):
                    return found
        return Anchor()

    def _try(self, pattern: Pattern, *, cut: bool) -> Anchor | None:
        for paths in self._sources(pattern, cut) if pattern else ():
            ordered = sorted((self._rank(path), path) for path in paths)
            places = list(self._places(pattern, cut, ordered[:MAX_TRIED]))
            if places:
                nearest = min(place.rank for place in places)
                unseen = len(ordered) > MAX_TRIED and ordered[MAX_TRIED][0] == nearest
                return self._decide(pattern, [place for place in places if place.rank == nearest], unseen)
        return None

    def _sources(self, pattern: Pattern, cut: bool) -> Iterator[Iterable[str]]:
        """Where to look: the files that hold the rarest line; without one, those of the hint, then those git finds."""
        informative = pattern.informative(cut=cut)
        if informative:
            yield self._index.holders(self._commit, min(informative, key=self._index.count))
            return
        if self._hint is not None:
            yield self._commit.small(path for path in self._commit.files.blobs if self._rank(path) < _UNRELATED)
        words = {word for line in pattern.solid for word in line.split() if word.isprintable() and "\ufffd" not in word}
        if words and self._greps < MAX_GREPS:
            self._greps += 1
            longest = sorted(words, key=lambda word: (-len(word), word))[:GREP_WORDS]
            yield self._commit.small(self._commit.repository.grep(self._commit.id, longest))

    def _places(self, pattern: Pattern, cut: bool, ordered: list[tuple[int, str]]) -> Iterator[_Place]:
        whole, nearest = 0, _UNRELATED
        for rank, path in ordered:
            if whole and (rank > nearest or whole > MAX_CANDIDATES):
                return
            for match in pattern.find(self._index.text(self._commit, path), cut=cut):
                if match.whole:
                    whole, nearest = whole + 1, min(rank, nearest)
                yield _Place(rank, path, match)

    def _decide(self, pattern: Pattern, places: list[_Place], unseen: bool) -> Anchor:
        """One place is the answer; where the text is whole, it is not elsewhere."""
        places = [place for place in places if place.match.whole] or places
        places.sort(key=lambda place: (-place.match.matched, place.path, place.match.first))
        unique = len(places) == 1 and not unseen
        related = places[0].rank < _UNRELATED
        if not unique and not related and len(pattern.solid) == 1 and pattern.letters < SHORT:
            return Anchor()
        pointers = (point_at(self._commit, place.path, place.match.first, place.match.last) for place in places)
        found = tuple(islice((pointer for pointer in pointers if pointer is not None), MAX_CANDIDATES))
        if not found:
            return Anchor()
        matched = places[0].match.matched
        return (
            Anchor(pointer=found[0], matched_lines=matched)
            if unique
            else Anchor(candidates=found, matched_lines=matched)
        )

    def _rank(self, path: str) -> int:
        """How well a path answers the hint: it is it, one ends with the other, the file's name, not at all."""
        hint = self._hint
        if hint is None:
            return _UNRELATED
        if path == hint:
            return 0
        if path.endswith(f"/{hint}") or hint.endswith(f"/{path}"):
            return 1
        return 2 if path.rpartition("/")[2] == hint.rpartition("/")[2] else _UNRELATED


def point_at(commit: Commit, path: str, first: int, last: int) -> Pointer | None:
    """The pointer to lines; none for a path that no pointer can carry."""
    ref = print_address(RepoAddress(path=path, revision=commit.id, lines=(first, last)))
    try:
        return check_pointer(Pointer(type="repo", ref=ref))[0]
    except PointerRefusal:
        return None


def _as_path(hint: str | None) -> str | None:
    """A path hint as paths are written in a commit; `path:10-20` is taken as well."""
    if not hint:
        return None
    return _SPAN.sub("", hint.replace("\\", "/")).removeprefix("./").strip("/") or None
