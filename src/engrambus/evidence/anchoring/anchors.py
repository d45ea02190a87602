"""From text to the pointer that leads to it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from engrambus.errors import NoRepository, RevisionNotFound
from engrambus.evidence.anchoring.index import Commit, Index, Progress
from engrambus.evidence.anchoring.lines import is_informative
from engrambus.evidence.anchoring.recognise import Spot, best_window, has_escapes, is_telling, split_spots, with_fences
from engrambus.evidence.anchoring.search import Anchor, Search, point_at
from engrambus.evidence.pointers import Pointer, Repositories

MAX_HOLDERS = 32
"""Files looked into for one line of a message."""


class Recognised(NamedTuple):
    """Part of a message that stands in a file."""

    start: int
    end: int
    pointer: Pointer


class Anchors:
    """Finds text in a commit of the project's repository. Safe under threads; several processes share the cache."""

    def __init__(self, repositories: Repositories, cache_path: Path | None, progress: Progress | None = None) -> None:
        """Without a path for the cache, it is kept in memory."""
        self._repositories = repositories
        self._index = Index(cache_path, progress)

    def find(self, text: str, *, path: str | None = None, revision: str | None = None) -> Anchor:
        """The lines of a commit that hold a text, white space and the marks of quoting forgiven.

        `path` is where the text is thought to come from: a path, the end of one, or a file's name. `revision` is HEAD
        unless said.
        """
        commit = self._index.commit(self._repositories.select(), revision)
        return self._index.using(commit, lambda: Search(self._index, commit, path).run(text))

    def recognise(self, text: str, *, revision: str | None = None) -> list[Recognised]:
        """Every part of a message that is text of a file, in order. Without a commit to look in, nothing."""
        try:
            commit = self._index.commit(self._repositories.select(), revision)
            return self._index.using(commit, lambda: self._recognise(text, commit))
        except (NoRepository, RevisionNotFound):
            return []

    def strangers(self, texts: Iterable[str], *, revision: str | None = None) -> set[str]:
        """Those of the texts in which there is nothing to recognise, told for all of them at once."""
        lines = {text: _informative(text) for text in texts}
        try:
            commit = self._index.commit(self._repositories.select(), revision)
            known = self._index.using(commit, lambda: self._index.known(chain.from_iterable(lines.values())))
        except (NoRepository, RevisionNotFound):
            return set(lines)
        return {text for text, forms in lines.items() if forms.isdisjoint(known)}

    def close(self) -> None:
        """Let go of the cache."""
        self._index.close()

    def _recognise(self, text: str, commit: Commit) -> list[Recognised]:
        found = self._windows(text, split_spots(text), commit, [])
        if has_escapes(text):  # a line of code may hold an escape of its own, so lines are taken as they are first
            found += self._windows(text, split_spots(text, escaped=True), commit, found)
        return sorted(found, key=lambda each: each.start)

    def _windows(self, text: str, spots: list[Spot], commit: Commit, before: list[Recognised]) -> list[Recognised]:
        taken = {
            number
            for number, spot in enumerate(spots)
            if any(spot.start < known.end and known.start < spot.end for known in before)
        }
        known = [
            (count, number, form)
            for number, spot in enumerate(spots)
            for form in spot.forms
            if is_informative(form) and (count := self._index.count(form))
        ]
        found: list[Recognised] = []
        for _, number, form in sorted(known):  # from the rarest line, so that what is common goes with its neighbours
            if number in taken:
                continue
            paths = self._index.holders(commit, form)
            texts = ((path, self._index.text(commit, path)) for path in paths[:MAX_HOLDERS])
            windows = [
                (window, path) for path, held in texts if (window := best_window(spots, number, form, held, taken))
            ]
            if not windows:
                continue
            window, path = max(windows, key=lambda each: (each[0].informative, each[0].solid))
            pointer = point_at(commit, path, *window.lines)
            if pointer is not None and is_telling(window, form, len(paths)):
                taken.update(range(window.first, window.last + 1))
                found.append(Recognised(*with_fences(text, spots, window), pointer))
        return found


def _informative(text: str) -> set[str]:
    """Every form of every line of a text that could be looked up."""
    spots = split_spots(text) + (split_spots(text, escaped=True) if has_escapes(text) else [])
    return {form for spot in spots for form in spot.forms if is_informative(form)}
