"""Memories as a query and a brief show them: in the form of an engram (decision 81).

The published schema of an engram is closed and has a place for everything a memory says: its id and its first pointer
are the `sam:` ref, which leads to the whole text; its claim is the beginning of the text.
"""

from __future__ import annotations

from typing import cast

import msgspec

from engrambus.core import digest, print_duration, print_time
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge import engrams
from engrambus.knowledge.cortex.values import Episode, EpisodeKept
from engrambus.knowledge.engrams import (
    KINDS,
    MAX_CLAIM_CHARS,
    MAX_CLAIM_SENTENCES,
    MAX_POINTERS,
    WITH_EVIDENCE,
    Engram,
    EngramPut,
    Kind,
    Provenance,
)

FOREVER_US = 1 << 62
"""The end of a memory that never expires."""
FOREVER_TTL = "P36500D"
"""How the ttl of such a memory is written: an engram must have one."""
OTHER_KIND: Kind = "fact"
"""The kind that a memory is shown with if its own is not one of the kinds of engrams."""
MAX_TAGS = 12
MAX_TAG_CHARS = 40


def memory_engram(episode: Episode) -> Engram:
    """Return a memory in the form of an engram, without keys."""
    self_pointer = Pointer(type="sam", ref=episode.ref, digest=digest(episode.text.encode()))
    expires_us = episode.expires_us
    return Engram(
        id=episode.ref,
        kind=cast("Kind", episode.kind) if episode.kind in KINDS else OTHER_KIND,
        claim=shorten_to_claim(episode.text),
        pointers=(self_pointer, *episode.pointers[: MAX_POINTERS - 1]),
        confidence=episode.importance if episode.confidence is None else episode.confidence,
        ttl=FOREVER_TTL if expires_us is None else print_duration(expires_us - episode.created_us),
        scope="project",
        tags=tuple(name for name in episode.categories if len(name) <= MAX_TAG_CHARS)[:MAX_TAGS],
        provenance=Provenance(created_at=print_time(episode.created_us), created_by=episode.by, source="sam"),
    )


def memory_put(fact: EpisodeKept) -> EngramPut:
    """Return the row of the index for a version of a memory: every word of its text and its categories is a key."""
    episode = fact.episode
    engram = memory_engram(episode)
    refs = [pointer.ref for pointer in engram.pointers]
    keys = engrams.hash_keys(episode.text, refs, episode.categories)
    return EngramPut(
        engram=msgspec.structs.replace(engram, hash_keys=keys.public),
        run=fact.run,
        expires_at=FOREVER_US if episode.expires_us is None else episode.expires_us,
        more_keys=(*keys.extra, *((WITH_EVIDENCE,) if episode.pointers else ())),
        key_format=engrams.KEY_FORMAT,
    )


def earlier_id(episode: Episode) -> str | None:
    """Return the id of the version that an episode replaces; None for the first."""
    return f"sam:{episode.kind}:{episode.slug}@{episode.version - 1}" if episode.version > 1 else None


def shorten_to_claim(text: str) -> str:
    """Return a text on one line, or as many of its first words as a claim may have."""
    line = " ".join(text.split())
    if len(line) <= MAX_CLAIM_CHARS and engrams.count_sentences(line) <= MAX_CLAIM_SENTENCES:
        return line
    claim, *words = line.split(" ")
    for word in words:
        longer = f"{claim} {word}"
        if len(longer) > MAX_CLAIM_CHARS or engrams.count_sentences(longer) > MAX_CLAIM_SENTENCES:
            return f"{claim[: MAX_CLAIM_CHARS - 2]} …"
        claim = longer
    return claim[:MAX_CLAIM_CHARS]
