"""Sequences: what one author put in a row lends part of its score to its neighbours.

A turn of a conversation or a paragraph of a document often says only together with the one before what a question asks
for. So an engram that has some words of the question counts the others as well, for part of their weight, if one of
the three before or after it by the same author has them. Claims about code are no sequence: two functions that lie next
to each other have nothing to do with each other (measured, docs/retrieval.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter

from engrambus.evidence.pointers import Pointer, pointed_path
from engrambus.knowledge.engrams.counting import Candidate, Scores
from engrambus.knowledge.engrams.ports import Traits
from engrambus.knowledge.engrams.values import Engram, is_learned, is_memory

BEFORE_PERCENT = (70, 50, 30)
"""Part of the weight of a word that counts if the engram before has it, the one before that, and so on."""
AFTER_PERCENT = (60, 40, 20)
REACH = 12
"""Ordinals within which neighbours are looked for: others may put between two engrams of an author."""

CODE_EXTENSIONS = frozenset(
    """asm bash bat bzl c cc cjs clj cljs cmake coffee cpp cs css cu cuh cxx d dart el erl ex exs f f90 fish for fs fsx
    go gradle groovy h hh hpp hrl hs hxx ipynb java jl js jsx kt kts less lisp lua m mjs ml mli mm nim php pl pm proto
    ps1 py pyi pyx r rb rkt rs s sass scala scm scss sh sol sql svelte swift tcl tf ts tsx v vb vhd vim vue wat zig zsh
    """.split()  # noqa: SIM905
)


def sequence_of(engram: Engram) -> int:
    """Return the number of the sequence that an engram belongs to; 0 if it is in none."""
    if is_memory(engram.id) or is_learned(engram) or any(map(_is_code, engram.pointers)):
        return 0
    author = engram.provenance.created_by.encode()  # with its run: another session is another sequence
    return int.from_bytes(blake2b(author, digest_size=8).digest()) >> 1 | 1


def _is_code(pointer: Pointer) -> bool:
    if pointer.type in ("diff", "test"):
        return True
    path = pointed_path(pointer.ref) if pointer.type == "repo" else None
    return path is not None and path.rpartition("/")[2].rpartition(".")[2].lower() in CODE_EXTENSIONS


def lend(
    pool: Sequence[Candidate],
    traits: dict[int, Traits],
    scores: Scores,
    sequence_rows: Callable[[Sequence[int], int], dict[int, int]],
) -> dict[int, int]:
    """Return the scores of the pool, and of neighbours that were found at all, with what their neighbours lend."""
    lent = {candidate.ordinal: candidate.score for candidate in pool}
    in_sequence = [ordinal for ordinal in lent if traits[ordinal].sequence]
    if not in_sequence:
        return lent
    rows = sequence_rows(in_sequence, 2 * REACH)
    weights = scores.by_key(rows)
    near = {row for ordinal in in_sequence for row in range(ordinal - REACH, ordinal + REACH + 1)}
    for ordinals in _rows_by_sequence(rows):
        for place, ordinal in enumerate(ordinals):
            if ordinal in near and ordinal in weights:
                lent[ordinal] = _score_with_neighbours(ordinals, place, weights)
    return lent


def _rows_by_sequence(rows: dict[int, int]) -> list[list[int]]:
    """Return the ordinals of each sequence, in the order in which they were put."""
    ordered = sorted((sequence, ordinal) for ordinal, sequence in rows.items())
    return [[ordinal for _, ordinal in group] for _, group in groupby(ordered, key=itemgetter(0))]


def _score_with_neighbours(ordinals: Sequence[int], place: int, weights: dict[int, dict[str, int]]) -> int:
    ordinal = ordinals[place]
    percents = {key: 100 * weight for key, weight in weights[ordinal].items()}
    for distance, (percent_before, percent_after) in enumerate(
        zip(BEFORE_PERCENT, AFTER_PERCENT, strict=True), start=1
    ):
        for neighbour, percent in ((place - distance, percent_before), (place + distance, percent_after)):
            if 0 <= neighbour < len(ordinals) and abs(ordinals[neighbour] - ordinal) <= REACH:
                for key, weight in weights.get(ordinals[neighbour], {}).items():
                    percents[key] = max(percents.get(key, 0), percent * weight)
    return sum(percents.values()) // 100
