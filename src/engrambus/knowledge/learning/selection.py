"""Which drafts are learned: the best, at most 500, and at most 40 % of these from one source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from engrambus.knowledge.learning.quoting import quote
from engrambus.knowledge.learning.values import MAX_LEARNED, SOURCE_SHARE, SOURCES, Draft

YEAR_S = 31_557_600
_RECENT = ((1, 12), (3, 7), (6, 3))
"""Years before the newest commit, and what a commit of that time gains."""
GONE_POINTS = 12
"""What a commit loses if the file it changed is no longer there."""


class Chosen(NamedTuple):
    """A draft that is learned, with its claim."""

    draft: Draft
    claim: str


class ClaimSelection(NamedTuple):
    """What is learned, best first, and what was passed over."""

    chosen: list[Chosen]
    skipped: Counter[str]
    """Drafts that may not be quoted, by reason."""
    no_room: Counter[str]
    """Good drafts for which there was no room, by source."""


def select(
    drafts: Iterable[Draft],
    *,
    paths: Callable[[str], bool],
    newest_s: int,
    limit: int = MAX_LEARNED,
    share: float = SOURCE_SHARE,
) -> ClaimSelection:
    """Choose the best drafts; `paths` tells whether a file is still there, `newest_s` when the last commit was made."""
    room = max(1, int(limit * share))
    by_source: Counter[str] = Counter()
    result = ClaimSelection([], Counter(), Counter())
    claims: set[str] = set()
    for draft in best_first(drafts, paths, newest_s):
        if len(result.chosen) == limit or by_source[draft.source] == room:
            result.no_room[draft.source] += 1
            continue
        quoted = quote(draft)
        if not quoted.claim:
            result.skipped[quoted.reason] += 1
            continue
        # A commit and its backport have the same subject.
        said = {quoted.claim.casefold(), *(draft.sentences[0].casefold() for _ in draft.commit[:1])}
        if said & claims:
            result.skipped["repeated"] += 1
            continue
        claims |= said
        by_source[draft.source] += 1
        result.chosen.append(Chosen(draft, quoted.claim))
    return result


def best_first(drafts: Iterable[Draft], paths: Callable[[str], bool], newest_s: int) -> Iterator[Draft]:
    """Yield drafts by quality; of equal ones the newer first, then by source and place. A repeated one comes once."""
    seen: set[str] = set()
    for draft in sorted(drafts, key=lambda draft: _order(draft, paths, newest_s)):
        if draft.key not in seen:
            seen.add(draft.key)
            yield draft


def _order(draft: Draft, paths: Callable[[str], bool], newest_s: int) -> tuple[int | str | tuple[str, ...], ...]:
    points = draft.points
    if draft.commit:
        years = (newest_s - draft.time_s) / YEAR_S
        points += next((gain for limit, gain in _RECENT if years <= limit), 0)
        points -= 0 if paths(draft.path) else GONE_POINTS
    return (-points, -draft.time_s, SOURCES.index(draft.source), draft.path, draft.first, draft.commit, draft.sentences)


def best_of_each(chosen: Sequence[Chosen], count: int) -> dict[str, list[Chosen]]:
    """Return the best few of each source, in the order of the sources."""
    by_source: dict[str, list[Chosen]] = {}
    for item in chosen:
        by_source.setdefault(item.draft.source, []).append(item)
    return {name: by_source[name][:count] for name in SOURCES if name in by_source}
