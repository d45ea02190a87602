"""Anchors: from pasted text to the pointer that leads to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from itertools import chain
from pathlib import Path

from engrambus.errors import NoRepository, RevisionNotFound
from engrambus.evidence.anchoring.line_index import LineIndex, Progress
from engrambus.evidence.anchoring.pasted_text import is_informative, line_forms
from engrambus.evidence.anchoring.recognition import Recognised, informative_forms, recognise
from engrambus.evidence.anchoring.search import Anchor, Search
from engrambus.evidence.pointers import Repositories


class Anchors:
    """Finds text in a commit of the project's repository.

    Safe to share between threads; several processes can share the cache.
    """

    def __init__(self, repositories: Repositories, cache_path: Path | None, progress: Progress | None = None) -> None:
        """Without a path, the cache is in memory."""
        self._repositories = repositories
        self._index = LineIndex(cache_path, progress)
        self._sees: Callable[[str], bool] | None = None

    def seen_by(self, sees: Callable[[str], bool]) -> Anchors:
        """Return a finder over the same index that knows only the paths for which `sees` is true."""
        restricted = copy(self)
        restricted._sees = sees
        return restricted

    def find(self, text: str, *, path: str | None = None, revision: str | None = None) -> Anchor:
        """Return the lines of a commit that hold a text, apart from white space and marks of quoting.

        `path` is where the text is believed to come from: a path, the end of one, or a file name. `revision` is HEAD
        by default.
        """
        commit = self._index.commit(self._repositories.select(), revision, self._sees)
        return self._index.using(commit, lambda: Search(self._index, commit, path).run(text))

    def recognise(self, text: str, *, revision: str | None = None) -> list[Recognised]:
        """Return every part of a message that is text of a file, in order; without a commit, none."""
        try:
            commit = self._index.commit(self._repositories.select(), revision, self._sees)
            return self._index.using(commit, lambda: recognise(text, self._index, commit))
        except (NoRepository, RevisionNotFound):
            return []

    def absent_texts(self, texts: Iterable[str], *, revision: str | None = None) -> set[str]:
        """Return the texts in which `recognise` would find nothing, with one query for all of them."""
        # decision 14: most texts of a message are not pasted, and one look at the index tells which
        forms_by_text = {text: informative_forms(text) for text in texts}
        try:
            commit = self._index.commit(self._repositories.select(), revision, self._sees)
            indexed = self._index.using(
                commit, lambda: self._index.indexed_lines(chain.from_iterable(forms_by_text.values()))
            )
        except (NoRepository, RevisionNotFound):
            return set(forms_by_text)
        return {text for text, forms in forms_by_text.items() if forms.isdisjoint(indexed)}

    def paths_with(self, line: str, *, revision: str) -> list[str]:
        """Return the paths of a commit's files that have a line, apart from white space and marks of quoting."""
        forms = [form for form in line_forms(line) if is_informative(form)]
        try:
            commit = self._index.commit(self._repositories.select(), revision)
            paths = self._index.using(commit, lambda: [self._index.paths_with(commit, form) for form in forms])
        except (NoRepository, RevisionNotFound):
            return []
        return sorted(set(chain.from_iterable(paths)))

    def close(self) -> None:
        self._index.close()
