"""Memories among engrams: one query finds both, and what was remembered and put is shown once (decision 81).

A memory is found as an engram whose id and first pointer are its `sam:` ref. An accepted contribution with evidence is
a memory and an engram: as long as that engram lives, it stands for both.
"""

from __future__ import annotations

from collections.abc import Sequence

from engrambus.knowledge.engrams.ports import WITH_EVIDENCE, EngramReads
from engrambus.knowledge.engrams.values import Engram, is_memory
from engrambus.policy import MEMORY_SPACE, PROJECT_SPACE

MEMORY_TWIN_KIND = "fact"
"""The kind of the engram that an accepted contribution becomes."""
MAX_TWINS = 16
"""Engrams with the twin key of a memory that are compared with it."""


def engram_of_memory(reads: EngramReads, memory: Engram) -> int | None:
    """Return the ordinal of the engram that says the same as a memory about the same lines; None if there is none."""
    if not is_memory(memory.id) or len(memory.pointers) < 2:  # nothing but its own pointer: no engram has that
        return None
    return _same(reads, memory, PROJECT_SPACE)


def has_pointed_memories(reads: EngramReads) -> bool:
    """True if there is a memory that points at evidence."""
    return bool(reads.postings((MEMORY_SPACE,), WITH_EVIDENCE, kind=None, limit=1))


def memory_of_engram(reads: EngramReads, engram: Engram) -> Engram | None:
    """Return the memory that says the same as an engram of the project about the same lines; None if there is none."""
    if is_memory(engram.id) or (engram.kind, engram.scope) != (MEMORY_TWIN_KIND, "project"):
        return None
    ordinal = _same(reads, engram, MEMORY_SPACE)
    return None if ordinal is None else reads.engrams((ordinal,))[0]


def _same(reads: EngramReads, engram: Engram, space: str) -> int | None:
    from engrambus.knowledge.engrams.dedupe import is_repeat, twin_key  # slow to import, and few engrams need it

    ordinals: Sequence[int] = reads.twins(space, twin_key(engram), limit=MAX_TWINS)
    for ordinal, other in zip(ordinals, reads.engrams(ordinals), strict=True):
        if is_repeat(engram, other):
            return ordinal
    return None
