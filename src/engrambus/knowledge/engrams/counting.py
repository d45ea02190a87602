"""Counting: the score of every engram of one space that is found by a question, and the best of them.

A score is the sum of the weights of the lists that an engram is on. Each list has one integer weight, so the order of
addition does not matter and the same question has the same scores everywhere. Short lists are added up in a dictionary;
long ones with numpy, block by block, in an array that fits the processor's cache (decision 87).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from engrambus.knowledge.engrams.postings import BLOCK_BITS, BLOCK_ROWS, PostingChunk, count_postings

if TYPE_CHECKING:
    import numpy as np

FEW_POSTINGS = 2_000
"""Up to so many postings, a dictionary is as fast as arrays."""
ASKED_OFTEN = 3
"""Questions with more postings after which a process imports numpy, because it will ask again."""
MANY_POSTINGS = 1_000_000
"""From so many postings on, arrays pay for importing numpy even if the process asks only once."""

_ORDINAL_BITS = 40
_FIRST = 1 << _ORDINAL_BITS
_NONE: frozenset[int] = frozenset()


class WeightedList(NamedTuple):
    """A posting list of a key of the question, and what being on it is worth."""

    key: str
    weight: int
    chunks: Sequence[PostingChunk]


class Candidate(NamedTuple):
    """An engram and its score."""

    score: int
    ordinal: int


class Scores:
    """The scores of the engrams of one space for one question."""

    def best(self, count: int, last: frozenset[int]) -> list[Candidate]:
        """Return the best, highest score first; of equal ones those in `last` come last, and newer ones first."""
        raise NotImplementedError

    def by_key(self, ordinals: Iterable[int]) -> dict[int, dict[str, int]]:
        """Return the weights of the keys of these engrams, not halved; one that was not found is left out."""
        raise NotImplementedError


class _Usage:
    """What this process has been asked so far."""

    long_questions = 0


def count_scores(
    lists: Sequence[WeightedList],
    allowed: Sequence[PostingChunk] | None = None,
    *,
    halved: Sequence[PostingChunk] = (),
) -> Scores:
    """Add up the weights of some lists; with `allowed`, only of those engrams. Those that are `halved` count half."""
    postings = sum(count_postings(weighted.chunks) for weighted in lists)
    if postings <= FEW_POSTINGS or not _arrays_pay(postings):
        return DictScores(lists, allowed, halved)
    return ArrayScores(lists, allowed, halved)


def _arrays_pay(postings: int) -> bool:
    """True if numpy is loaded, or worth loading: the lists are very long, or this process asks often."""
    _Usage.long_questions += 1
    return "numpy" in sys.modules or postings >= MANY_POSTINGS or _Usage.long_questions > ASKED_OFTEN


def _offsets_by_block(ordinals: Iterable[int]) -> dict[int, set[int]]:
    by_block: dict[int, set[int]] = {}
    for ordinal in ordinals:
        by_block.setdefault(ordinal >> BLOCK_BITS, set()).add(ordinal & (BLOCK_ROWS - 1))
    return by_block


def _by_block(chunks: Iterable[PostingChunk]) -> dict[int, list[PostingChunk]]:
    by_block: dict[int, list[PostingChunk]] = {}
    for chunk in chunks:
        by_block.setdefault(chunk.block, []).append(chunk)
    return by_block


class DictScores(Scores):
    """Scores in a dictionary: the plain form of the rule, and the fast one for short lists."""

    def __init__(
        self,
        lists: Sequence[WeightedList],
        allowed: Sequence[PostingChunk] | None = None,
        halved: Sequence[PostingChunk] = (),
    ) -> None:
        scores: dict[int, int] = {}
        for _, weight, chunks in lists:
            for block, offsets in chunks:
                first = block << BLOCK_BITS
                for offset in offsets:
                    ordinal = first + offset
                    scores[ordinal] = scores.get(ordinal, 0) + weight
        if allowed is not None:
            allowed_ordinals = {(block << BLOCK_BITS) + offset for block, offsets in allowed for offset in offsets}
            scores = {ordinal: score for ordinal, score in scores.items() if ordinal in allowed_ordinals}
        for block, offsets in halved:
            for ordinal in scores.keys() & {(block << BLOCK_BITS) + offset for offset in offsets}:
                scores[ordinal] = scores[ordinal] + 1 >> 1
        self._scores = scores
        self._lists = lists

    def best(self, count: int, last: frozenset[int]) -> list[Candidate]:
        scores = self._scores
        if len(scores) > count:
            lowest = sorted(scores.values(), reverse=True)[count - 1]
            scores = {ordinal: score for ordinal, score in scores.items() if score >= lowest}
        ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0] in last, -item[0]))
        return [Candidate(score, ordinal) for ordinal, score in ordered[:count]]

    def by_key(self, ordinals: Iterable[int]) -> dict[int, dict[str, int]]:
        added: dict[int, dict[str, int]] = {ordinal: {} for ordinal in ordinals if ordinal in self._scores}
        by_block = _offsets_by_block(added)
        for key, weight, chunks in self._lists:
            for block, offsets in chunks:
                for offset in by_block.get(block, _NONE).intersection(offsets):
                    added[(block << BLOCK_BITS) + offset][key] = weight
        return added


class ArrayScores(Scores):
    """Scores in one array of 65,536 integers for each block of ordinals, made when it is needed."""

    def __init__(
        self,
        lists: Sequence[WeightedList],
        allowed: Sequence[PostingChunk] | None = None,
        halved: Sequence[PostingChunk] = (),
    ) -> None:
        self._lists: dict[int, list[tuple[str, int, PostingChunk]]] = {}
        for key, weight, chunks in lists:
            for chunk in chunks:
                self._lists.setdefault(chunk.block, []).append((key, weight, chunk))
        self._allowed = None if allowed is None else _by_block(allowed)
        self._halved = _by_block(halved)
        self._blocks: dict[int, np.ndarray[Any, Any]] = {}

    def best(self, count: int, last: frozenset[int]) -> list[Candidate]:
        import numpy as np

        lasting = np.fromiter(sorted(last), np.int64, len(last))
        best = np.zeros(0, np.int64)
        lowest = 0
        # The newest first: of equal scores the newer one stays, so later blocks only enter with a higher one.
        for block in sorted(self._lists, reverse=True):
            if len(best) >= count and self._most(block) < lowest + (not last):
                continue
            scores = self._block(block)
            rows = np.flatnonzero(scores >= max(1, lowest))
            if len(rows) > 4 * count:
                rows = self._highest(scores, rows, count, lasting, block)
            ordinals = rows.astype(np.int64) + (block << BLOCK_BITS)
            codes = self._codes(scores[rows].astype(np.int64), ordinals, lasting)
            best = np.concatenate((best, codes))
            if len(best) > count:
                best = np.sort(best)[::-1][:count]
            if len(best) >= count:
                lowest = int(best.min() >> (_ORDINAL_BITS + 1))
        return [Candidate(int(code) >> (_ORDINAL_BITS + 1), int(code) & (_FIRST - 1)) for code in np.sort(best)[::-1]]

    def by_key(self, ordinals: Iterable[int]) -> dict[int, dict[str, int]]:
        import numpy as np

        added: dict[int, dict[str, int]] = {}
        for block, block_offsets in _offsets_by_block(ordinals).items():
            if block not in self._lists:
                continue
            rows = np.fromiter(block_offsets, np.uint16, len(block_offsets))
            rows = np.sort(rows[self._block(block)[rows] > 0])
            for key, weight, chunk in self._lists[block]:
                offsets = np.frombuffer(chunk.offsets, np.uint16)
                places = np.searchsorted(offsets, rows).clip(max=len(offsets) - 1)
                for offset in rows[offsets[places] == rows] if len(offsets) else ():
                    added.setdefault((block << BLOCK_BITS) + int(offset), {})[key] = weight
        return added

    def _most(self, block: int) -> int:
        """Return what no engram of a block can exceed."""
        return sum(weight for _, weight, _ in self._lists[block])

    def _block(self, block: int) -> np.ndarray[Any, Any]:
        import numpy as np

        scores = self._blocks.get(block)
        if scores is None:
            scores = np.zeros(BLOCK_ROWS, np.int32)
            for _, weight, chunk in self._lists[block]:
                scores[np.frombuffer(chunk.offsets, np.uint16)] += weight  # an ordinal is on a list once
            if self._allowed is not None:
                mask = np.zeros(BLOCK_ROWS, np.int32)
                for chunk in self._allowed.get(block, ()):
                    mask[np.frombuffer(chunk.offsets, np.uint16)] = 1
                scores *= mask
            for chunk in self._halved.get(block, ()):
                rows = np.frombuffer(chunk.offsets, np.uint16)
                scores[rows] = (scores[rows] + 1) >> 1
            self._blocks[block] = scores
        return scores

    def _highest(self, scores: Any, rows: Any, count: int, lasting: Any, block: int) -> Any:
        """Return the rows that can be among the best `count`: by score, and for equal ones the newest."""
        import numpy as np

        values = scores[rows]
        lowest = np.partition(values, len(values) - count)[len(values) - count]
        above, equal = rows[values > lowest], rows[values == lowest]
        is_last = np.isin(equal + (block << BLOCK_BITS), lasting)
        ordinary, lasts = equal[~is_last], equal[is_last]
        return np.concatenate((above, ordinary[-count:], lasts[-count:]))

    @staticmethod
    def _codes(scores: Any, ordinals: Any, lasting: Any) -> Any:
        """Return one integer for each candidate that sorts as the candidates do."""
        import numpy as np

        ordinary = (~np.isin(ordinals, lasting)).astype(np.int64)
        return (((scores << 1) | ordinary) << _ORDINAL_BITS) | ordinals
