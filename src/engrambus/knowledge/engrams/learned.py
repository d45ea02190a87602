"""The rule of learning: what the repository says now is in the store, and what it no longer says is withdrawn.

What is learned is put like any engram, with the author `learn` and the source `tool`. It never confirms another engram,
and a person's decision about it stands: what was pinned or confirmed stays, what was forgotten does not come back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from engrambus.core import Randomness, new_ulid, parse_duration, print_time
from engrambus.knowledge.engrams.dedupe import twin_key
from engrambus.knowledge.engrams.facts import EngramForgotten, EngramPut, RepositoryLearned
from engrambus.knowledge.engrams.ports import EngramView, LearnedEngram
from engrambus.knowledge.engrams.put import PreparedEngram, PutBatch, find_repeated, put_fact
from engrambus.knowledge.engrams.values import Learned
from engrambus.policy import LEARN, PROJECT_SPACE, Caller

LearnFact: TypeAlias = EngramForgotten | EngramPut | RepositoryLearned


class LearnableEngram(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of the repository that needs only a time and an id to be put."""

    prepared: PreparedEngram
    learned: Learned


class LearnedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What learning changed in the store."""

    put: list[str]
    """Ids of new engrams, the best first."""
    kept: int
    """Engrams learned before that the repository still says."""
    withdrawn: int
    """Engrams learned before that it no longer says, or that better ones took the place of."""
    renewed: int
    """Those of the kept ones whose ttl starts over."""
    repeated: int
    """Claims that a person or an agent had already stated, or that repeat another one."""
    unwanted: int
    """Claims that a person has forgotten before."""


def put_learned(
    view: EngramView,
    chosen_keys: Sequence[str],
    new: Mapping[str, LearnableEngram],
    *,
    commit: str,
    ttl: str,
    caller: Caller,
    unread_sources: frozenset[str] = frozenset(),
) -> tuple[list[LearnFact], LearnedOutcome]:
    """Make the store hold the chosen claims, named by their keys, best first; `new` has those it did not hold before.

    A second call with the same keys and the same commit returns no facts. What was learned from `unread_sources` stays
    as it is, because that source was not read this time.
    """
    author = msgspec.structs.replace(caller, name=LEARN)
    live = {row.learned.key: row for row in view.learned_engrams()}
    unwanted = view.unwanted_keys()
    refused = sum(key in unwanted for key in chosen_keys)
    withdrawn = _withdrawn(view, live, frozenset(chosen_keys) - unwanted, unread_sources)
    expires_at = view.as_of + parse_duration(ttl)
    renewed = _to_renew(view, [live[key] for key in chosen_keys if key in live], expires_at)
    facts: list[LearnFact] = [
        EngramForgotten(id=row.id, space=row.space, by=author.full_name) for row in withdrawn.values()
    ]
    missing = [key for key in chosen_keys if key not in live and key not in unwanted]
    puts, repeated = _puts(view, missing, new, withdrawn, author)
    facts += puts
    if facts or renewed or view.learned_commit() != commit:
        facts.append(
            RepositoryLearned(
                commit=commit,
                run=caller.run.run_id,
                by=caller.full_name,
                renewed=renewed,
                expires_at=expires_at if renewed else 0,
            )
        )
    return facts, LearnedOutcome(
        put=[fact.engram.id for fact in puts],
        kept=len(live) - len(withdrawn),
        withdrawn=len(withdrawn),
        renewed=len(renewed),
        repeated=repeated,
        unwanted=refused,
    )


def was_withdrawn(fact: EngramForgotten) -> bool:
    """True if learning itself took an engram away, and no person did."""
    return fact.by.rpartition("/")[2] == LEARN


def _withdrawn(
    view: EngramView, live: Mapping[str, LearnedEngram], chosen_keys: frozenset[str], unread_sources: frozenset[str]
) -> dict[str, LearnedEngram]:
    """Return what the repository no longer says, by id, without what a person pinned, shared or confirmed."""
    spaces = tuple({row.space for row in live.values()})
    pinned = frozenset(view.pinned(spaces)) if spaces else frozenset()
    return {
        row.id: row
        for key, row in live.items()
        if key not in chosen_keys
        and row.learned.source not in unread_sources
        and row.space == PROJECT_SPACE
        and row.ordinal not in pinned
        and not view.votes(row.ordinal, except_root="")
    }


def _to_renew(view: EngramView, rows: Sequence[LearnedEngram], expires_at: int) -> tuple[str, ...]:
    """Return the ids of engrams with less than half of their ttl left, so that most runs write nothing."""
    half_us = (expires_at - view.as_of) // 2
    return tuple(row.id for row in rows if row.expires_at - view.as_of < half_us)


def _puts(
    view: EngramView,
    keys: Sequence[str],
    new: Mapping[str, LearnableEngram],
    withdrawn: Mapping[str, LearnedEngram],
    author: Caller,
) -> tuple[list[EngramPut], int]:
    """Return the facts of new engrams, and how many claims only repeat another one."""
    facts: list[EngramPut] = []
    batch = PutBatch()
    repeated = 0
    for position, key in enumerate(keys):
        item = new.get(key)
        if item is None:
            continue
        fact = put_fact(view, item.prepared, author, _numbered(view, position, key), "tool", batch)
        twin = twin_key(fact.engram)
        stored = find_repeated(view, fact.engram, twin, PROJECT_SPACE, withdrawn.keys())
        if batch.find_repeated(fact.engram, twin) is not None or stored is not None:
            repeated += 1  # a quotation is no vote for what a person or an agent has stated
            continue
        batch.add(fact.engram, twin)
        facts.append(msgspec.structs.replace(fact, learned=item.learned))
    return facts, repeated


def _numbered(view: EngramView, position: int, key: str) -> Randomness:
    """Return the source of an id's random part: by position, so that of equal ranks the better claim comes first."""
    attempt = 0
    while True:
        digest = hashlib.blake2b(f"{key} {attempt}".encode(), digest_size=16).digest()
        # Shifted, so that the beginning of the id, which agents are shown, differs for each position.
        data = (position << 6).to_bytes(2) + digest
        randomness = _fixed(data)
        if not view.is_id_used(new_ulid(view.as_of, randomness)):
            return randomness
        attempt += 1


def _fixed(data: bytes) -> Randomness:
    return lambda size: data[:size]


def day_of(time_s: int) -> str:
    """Return the day of a time in seconds."""
    return print_time(time_s * 1_000_000)[:10]
