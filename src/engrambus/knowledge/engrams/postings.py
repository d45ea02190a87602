"""Posting lists: the ordinals of the engrams of one space that are found by one key.

A list comes in chunks. A chunk holds the low 16 bits of ordinals that share the others, two bytes each, so that a list
is used as it was stored, without decoding (decision 87).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

BLOCK_BITS = 16
BLOCK_ROWS = 1 << BLOCK_BITS
LINE, LONG_LINE = "=", "=="
"""Put before a word of the pointed lines where engrams are posted: those are lists of their own, of lower weight. Words
of many lines have a third list."""


class PostingChunk(NamedTuple):
    """Some postings whose ordinals lie in one block."""

    block: int
    """The ordinals divided by `BLOCK_ROWS`."""
    offsets: array[int]
    """Ordinals within the block, ascending, as unsigned 16-bit integers."""


def is_line_key(key: str) -> bool:
    """True if a key stands for a word of the pointed lines."""
    return key.startswith(LINE)


def chunks_of(ordinals: Iterable[int]) -> list[PostingChunk]:
    """Return ordinals, in any order, as chunks."""
    ordered = sorted(ordinals)
    if ordered and ordered[0] >> BLOCK_BITS == ordered[-1] >> BLOCK_BITS:  # nearly always
        first = ordered[0] >> BLOCK_BITS << BLOCK_BITS
        return [PostingChunk(first >> BLOCK_BITS, array("H", [ordinal - first for ordinal in ordered]))]
    blocks: dict[int, array[int]] = {}
    for ordinal in ordered:
        blocks.setdefault(ordinal >> BLOCK_BITS, array("H")).append(ordinal & (BLOCK_ROWS - 1))
    return [PostingChunk(block, offsets) for block, offsets in blocks.items()]


def count_postings(chunks: Iterable[PostingChunk]) -> int:
    """Return the number of postings in some chunks."""
    return sum(len(chunk.offsets) for chunk in chunks)


def ordinals_of(chunk: PostingChunk) -> list[int]:
    """Return the ordinals of a chunk, ascending."""
    first = chunk.block << BLOCK_BITS
    return [first + offset for offset in chunk.offsets]


def without(chunks: Sequence[PostingChunk], ordinals: Iterable[int]) -> list[PostingChunk]:
    """Return the chunks without these ordinals, of which there are few."""
    offsets_by_block: dict[int, list[int]] = {}
    for ordinal in ordinals:
        offsets_by_block.setdefault(ordinal >> BLOCK_BITS, []).append(ordinal & (BLOCK_ROWS - 1))
    return _filled(_without(chunk, offsets_by_block.get(chunk.block, ())) for chunk in chunks)


def _without(chunk: PostingChunk, removed: Iterable[int]) -> PostingChunk:
    offsets = chunk.offsets
    copied = False
    for offset in removed:
        index = bisect_left(offsets, offset)
        if index < len(offsets) and offsets[index] == offset:
            if not copied:
                offsets, copied = offsets[:], True
            del offsets[index]
    return PostingChunk(chunk.block, offsets)


def below(chunks: Sequence[PostingChunk], end: int) -> list[PostingChunk]:
    """Return the chunks without ordinals from `end` on."""
    last_block, last_offset = end >> BLOCK_BITS, end & (BLOCK_ROWS - 1)
    older = [chunk for chunk in chunks if chunk.block < last_block]
    for chunk in chunks:
        if chunk.block == last_block:
            older.append(PostingChunk(chunk.block, chunk.offsets[: bisect_left(chunk.offsets, last_offset)]))
    return _filled(older)


def only(chunks: Sequence[PostingChunk], ordinals: frozenset[int]) -> list[PostingChunk]:
    """Return the chunks with these ordinals only."""
    return _filled(
        PostingChunk(chunk.block, array("H", [o for o in chunk.offsets if (chunk.block << BLOCK_BITS) + o in ordinals]))
        for chunk in chunks
    )


def _filled(chunks: Iterable[PostingChunk]) -> list[PostingChunk]:
    return [chunk for chunk in chunks if chunk.offsets]
