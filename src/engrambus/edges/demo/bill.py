"""What the exchange moved, beside the same exchange by copying. Everything is counted while it happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engrambus.core import estimate_tokens
from engrambus.edges.demo.survey import Place


class Row(NamedTuple):
    """One way tokens moved."""

    what: str
    moved: int
    """As it was."""
    lines: int = 0
    """Had the lines been pasted that were pointed at, for each reader who had not had them."""
    files: int = 0
    """Had their files been."""


class Bill:
    """Counts tokens, by what moved them."""

    def __init__(self, files: Mapping[str, str], places: Iterable[Place], sha: str) -> None:
        """What can be pointed at, and what stands there."""
        self._files = files
        self._refs = {place.ref(sha): place for place in places}
        self._rows: dict[str, Row] = {}
        self._had: set[tuple[str, object]] = set()

    def said(self, what: str, text: str, readers: Iterable[str]) -> int:
        """A text went to these readers; gives what it cost each. What it points at, copying would have pasted."""
        cost = estimate_tokens(text)
        pointed = [place for ref, place in self._refs.items() if ref in text]
        for reader in readers:
            lines = sum(self._once(reader, place, self._lines(place)) for place in pointed)
            files = sum(self._once(reader, place.path, self._files[place.path]) for place in pointed)
            self._add(Row(what, cost, cost + lines, cost + files))
        return cost

    def pulled(self, what: str, text: str) -> int:
        """A text moved that copying has no need of; gives what it cost."""
        cost = estimate_tokens(text)
        self._add(Row(what, cost))
        return cost

    @property
    def rows(self) -> list[Row]:
        """Every way, in the order it was first used."""
        return list(self._rows.values())

    @property
    def total(self) -> Row:
        """All of it."""
        return Row(
            "in all",
            sum(row.moved for row in self.rows),
            sum(row.lines for row in self.rows),
            sum(row.files for row in self.rows),
        )

    def _add(self, more: Row) -> None:
        before = self._rows.get(more.what, Row(more.what, 0))
        self._rows[more.what] = Row(
            more.what, before.moved + more.moved, before.lines + more.lines, before.files + more.files
        )

    def _once(self, reader: str, what: object, text: str) -> int:
        """What a text costs a reader who has not had it yet."""
        if (reader, what) in self._had:
            return 0
        self._had.add((reader, what))
        return estimate_tokens(text)

    def _lines(self, place: Place) -> str:
        return "".join(self._files[place.path].splitlines(keepends=True)[place.first - 1 : place.last])
