"""How the sections of a brief share its lines (decision 61).

Every section that has something to say gets lines in proportion to its weight, and what one does not need goes to the
others. What a section cannot show is counted in its last line: `+4 more constraints`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice

import msgspec

from engrambus.evidence.pointers import Staleness, compact_ref
from engrambus.knowledge.engrams import Engram

MAX_LINES = 30
MAX_SEE_ALSO = 4
"""Pointers of items that are not shown."""
SEE_ALSO = "See also: "

_PLURALS = {"policy": "policies", "perf": "perf results", "memory": "memories"}
_COUNT = re.compile(r"\+\d+ (?:or )?more .*")


class BriefItem(msgspec.Struct, frozen=True, kw_only=True):
    """Something a brief may show in one line."""

    text: str
    """The whole line."""
    label: str
    """The kind it is counted as if it is not shown, in the singular."""
    ref: str = ""
    """Its first pointer in full."""
    id: str = ""
    """The engram's id, if it is one."""
    author: str = ""
    created_at: str = ""
    is_pinned: bool = False
    state: Staleness | None = None
    """`changed` or `gone`, if the lines behind a pinned engram are."""
    engram: Engram | None = None
    """The engram that the line shows."""


class BriefSection(msgspec.Struct, frozen=True, kw_only=True):
    """Items of a brief that share lines, the most important first."""

    items: Sequence[BriefItem]
    """At most as many as a brief has lines."""
    weight: int
    """Its share of the lines, compared with the other sections."""
    further: Mapping[str, int] = {}
    """Number of further items by label."""
    open_labels: frozenset[str] = frozenset()
    """Labels of which the store has more items than were counted."""
    max_lines: int = MAX_LINES
    """Lines that it gets at most, the one that counts what is missing included."""

    @property
    def lines_wanted(self) -> int:
        """The number of lines that would show all of it, as far as it may."""
        return min(self.max_lines, len(self.items) + sum(self.further.values()) + bool(self.open_labels))

    def lines(self, count: int) -> list[BriefItem]:
        """Return the section in `count` lines; the last one counts what is missing."""
        if not self.further and not self.open_labels and count >= len(self.items):
            return list(self.items)
        if not count:
            return []
        hidden = Counter(item.label for item in self.items[count - 1 :])
        return [*self.items[: count - 1], BriefItem(text=self._count_line(hidden), label="")]

    def _count_line(self, hidden: Counter[str]) -> str:
        """Return how many items of each label are not shown: `+4 more constraints, 2 more policies`."""
        hidden.update(self.further)
        hidden.update(sorted(self.open_labels))  # at least one more of each exists
        return "+" + ", ".join(
            f"{count} {'or more' if label in self.open_labels else 'more'} {plural(label) if count > 1 else label}"
            for label, count in hidden.items()
        )


def plural(label: str) -> str:
    """Return the plural of a kind, with its mark: `pinned policies`."""
    mark, _, kind = label.rpartition(" ")
    return f"{mark} {_PLURALS.get(kind, kind + 's')}".strip()


def is_count(line: str) -> bool:
    """True if a line only counts what is not shown."""
    return _COUNT.fullmatch(line) is not None


def is_remainder(line: str) -> bool:
    """True if a line is about what is not shown."""
    return is_count(line) or line.startswith(SEE_ALSO)


def share_lines(wanted: Sequence[int], weights: Sequence[int], max_lines: int) -> list[int]:
    """Return how many lines each section gets: line by line to the one that has least for its weight and wants more."""
    shares = [0] * len(wanted)
    for _ in range(min(max_lines, sum(wanted))):
        unfilled = [index for index, share in enumerate(shares) if share < wanted[index]]
        neediest = min(unfilled, key=lambda index: shares[index] / weights[index])  # of equals, the earlier section
        shares[neediest] += 1
    return shares


class BriefText(msgspec.Struct, frozen=True, kw_only=True):
    """A brief that can be laid out in any number of lines."""

    opening: tuple[str, ...]
    sections: Sequence[BriefSection]
    """Pins, engrams and pointer bundles."""
    if_empty: str = ""
    """The line that stands in place of sections that have nothing to say."""
    adds_pointers: bool = False
    """True if one line has pointers of what is not shown."""
    closing: tuple[str, ...] = ()
    """Lines about the reader: what it was sent, what waits, what is left of its turn."""
    grants: BriefSection = BriefSection(items=(), weight=1)
    """What others have reserved and grants that the reader can use, the last lines."""

    @property
    def min_lines(self) -> int:
        """The fewest lines in which every section is shown or counted."""
        sections = (*self.sections, self.grants)
        counted = sum(1 for section in sections if section.lines_wanted)
        return len(self.opening) + len(self.closing) + counted + self.adds_pointers

    def parts(self, max_lines: int = MAX_LINES) -> tuple[list[BriefItem], list[BriefItem]]:
        """Return the lines for everybody, and those about the reader, with what each is about."""
        free_lines = max_lines - len(self.opening) - len(self.closing)
        body, grants = self._shared(free_lines)
        if self.adds_pointers and any(is_count(item.text) for item in body):
            fewer, grants_then = self._shared(free_lines - 1)
            pointers = self._pointers_line(fewer)
            if pointers:
                body, grants = [*fewer, *_plain(pointers)], grants_then
        if not body and self.if_empty:
            body = _plain([self.if_empty])
        return [*_plain(self.opening), *body], [*_plain(self.closing), *grants]

    def _shared(self, max_lines: int) -> tuple[list[BriefItem], list[BriefItem]]:
        """Return the lines of the sections, and those of grants."""
        sections = [*self.sections, self.grants]
        wanted, weights = [section.lines_wanted for section in sections], [section.weight for section in sections]
        shares = share_lines(wanted, weights, max_lines)
        *shown, grants = (section.lines(share) for section, share in zip(sections, shares, strict=True))
        return list(chain.from_iterable(shown)), grants

    def _pointers_line(self, shown: Sequence[BriefItem]) -> list[str]:
        """Return a line with the first pointers of items that are not shown."""
        shown_refs = {item.ref for item in shown}
        refs = dict.fromkeys(item.ref for section in self.sections for item in section.items)
        hidden = islice((ref for ref in refs if ref and ref not in shown_refs), MAX_SEE_ALSO)
        places = ", ".join(map(compact_ref, hidden))
        return [f"{SEE_ALSO}{places}"] if places else []

    def lines(self, max_lines: int = MAX_LINES) -> tuple[str, ...]:
        """Return the lines as text."""
        return tuple(item.text for item in chain(*self.parts(max_lines)))


def _plain(lines: Iterable[str]) -> list[BriefItem]:
    return [BriefItem(text=line, label="") for line in lines]
