"""The reads that the rules about engrams make, over plain lists: no store, no journal, no index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.engrams import (
    Engram,
    PreparedEngram,
    PromotionView,
    RecentPuts,
    StoredEngram,
    hash_keys,
    put_or_confirm,
    twin_key,
    validate,
)
from engrambus.policy import Agent, Caller, LimitChecks, Run, Turn

NOW_US = 1_767_864_600_000_000
DAY_US = 86_400_000_000
DIGEST = "sha256:" + "d" * 64
SHA = "a" * 40
RUN = Run(run_id="01JH000000000000000000000R", goal="test the rules", number=1, opened_us=0)
AGENTS = {
    "lead": Agent(run=RUN.run_id, name="lead", role="architect"),
    "ada": Agent(run=RUN.run_id, name="ada", role="programmer", parent="lead"),
    "bob": Agent(run=RUN.run_id, name="bob", role="programmer"),
}


ENFORCED = LimitChecks({}, "programmer")
"""Every limit is enforced."""


class PlainView:
    """A store that holds exactly the engrams it was given."""

    def __init__(
        self,
        *stored: StoredEngram,
        read_digests: Sequence[str] = (),
        puts: Sequence[RecentPuts] = (),
        turn: Turn | None = None,
    ) -> None:
        self.as_of = NOW_US
        self.stored = {item.ordinal: item for item in stored}
        self.pins: list[int] = []
        self.roots: dict[int, set[str]] = {}
        self._read_digests = read_digests
        self._puts = puts
        self._turn = turn

    def engrams(self, ordinals: Sequence[int]) -> list[Engram]:
        return [self.stored[ordinal].engram for ordinal in ordinals]

    def find(self, spaces: Sequence[str], engram_id: str) -> StoredEngram | None:
        matches = (item for item in self.stored.values() if item.space in spaces and item.engram.id == engram_id)
        return next(matches, None)

    def ids_starting(self, spaces: Sequence[str], beginning: str, *, limit: int) -> list[str]:
        ids = [item.engram.id for item in self.stored.values() if item.space in spaces]
        return [engram_id for engram_id in ids if engram_id.startswith(beginning)][:limit]

    def find_past(self, spaces: Sequence[str], engram_id: str) -> None:
        """Nothing was replaced in this store."""

    def replaced_ids_starting(self, spaces: Sequence[str], beginning: str, *, limit: int) -> list[str]:
        return []

    def is_id_taken(self, space: str, engram_id: str) -> bool:
        return self.find((space,), engram_id) is not None

    def is_id_used(self, engram_id: str) -> bool:
        return any(item.engram.id == engram_id for item in self.stored.values())

    def waiting_promotion(self, engram_id: str) -> None:
        """No request waits in this store."""

    def twins(self, space: str, twin: str, *, limit: int) -> list[int]:
        matches = [item for item in self.stored.values() if item.space == space and twin_key(item.engram) == twin]
        return [item.ordinal for item in matches][:limit]

    def pinned(self, spaces: Sequence[str]) -> list[int]:
        return [ordinal for ordinal in self.pins if self.stored[ordinal].space in spaces]

    def votes(self, ordinal: int, *, except_root: str) -> int:
        return len(self.roots.get(ordinal, set()) - {except_root})

    def outbox(self) -> list[StoredEngram]:
        return [item for item in self.stored.values() if item.space == "o"]

    def recent_puts(self, root: str, since_us: int) -> list[RecentPuts]:
        return [puts for puts in self._puts if puts.last_us > since_us]

    def turn(self, run_id: str, agent: str) -> Turn | None:
        return self._turn

    def was_read(self, run_id: str, digest: str) -> bool:
        return digest in self._read_digests

    def agent(self, run_id: str, name: str) -> Agent | None:
        return AGENTS.get(name) if run_id == RUN.run_id else None


def view_of(*stored: StoredEngram, **options: Any) -> PromotionView:
    """Return a view that holds these engrams; the rules read nothing a `PlainView` lacks."""
    return cast(PromotionView, PlainView(*stored, **options))


def caller(name: str = "ada") -> Caller:
    """Return an agent of the run, or the admin."""
    role = AGENTS[name].role if name in AGENTS else "admin"
    return Caller(project="01JH000000000000000000000P", run=RUN, name=name, role=role)


def prepared(claim: str = "The parser trusts its input.", **fields: Any) -> PreparedEngram:
    """Return an engram ready to be put, with one resolved pointer."""
    ref = f"repo:src/parser.py#L1-L2@{SHA}"
    draft = {"kind": "fact", "claim": claim, "pointers": [{"type": "repo", "ref": ref}], **fields}
    checked = validate(draft, max_ttl_us=365 * DAY_US)
    keys = hash_keys(checked.claim, [pointer.ref for pointer in checked.pointers])
    stamped = tuple(msgspec.structs.replace(pointer, digest=DIGEST) for pointer in checked.pointers)
    return PreparedEngram(checked=checked, pointers=stamped, pointed_tokens=7, keys=keys, tokens=10)


def no_randomness(size: int) -> bytes:
    """Return zeros in place of random bytes."""
    return bytes(size)


def stored_engram(claim: str = "The parser trusts its input.", *, by: str = "bob", **fields: Any) -> StoredEngram:
    """Return an engram as a store would hold it after `by` had put it."""
    fact, engram = put_or_confirm(view_of(), prepared(claim, **fields), caller=caller(by), randomness=no_randomness)
    assert fact is not None
    space = {"run": "r1", "project": "p"}.get(engram.scope, "o")
    return StoredEngram(
        ordinal=1,
        engram=engram,
        space=space,
        run=RUN.run_id,
        expires_at=NOW_US + DAY_US,
        more_keys=(),
    )


def with_digest(item: PreparedEngram, digest: str) -> PreparedEngram:
    """Return the same engram, its pointer sent with a digest."""
    pointer = Pointer(type="repo", ref=item.checked.pointers[0].ref, digest=digest)
    return msgspec.structs.replace(item, checked=msgspec.structs.replace(item.checked, pointers=(pointer,)))
