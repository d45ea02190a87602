"""What an engram is: one claim, anchored to pointers, by somebody, for a while."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from engrambus.evidence.pointers import Address, Pointer
from engrambus.policy import Scope

Kind = Literal["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"]
Source = Literal["rag", "sam", "agent", "tool"]

KINDS: tuple[str, ...] = get_args(Kind)


class Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who put an engram on the bus, and when; stamped, never sent."""

    created_at: str
    """The moment, in RFC 3339."""
    created_by: str
    """The agent's full name."""
    source: Source
    """Where the claim came from."""


class Engram(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One claim the team knows; its JSON is valid by the published schema v0.1."""

    id: str
    """A ULID or a UUID."""
    kind: Kind
    """What sort of claim it is."""
    claim: str
    """One to three sentences."""
    pointers: tuple[Pointer, ...]
    """Where the evidence is; at least one."""
    confidence: float
    """How sure its author is, from 0 to 1."""
    ttl: str
    """How long it lives, as an ISO 8601 duration."""
    scope: Scope
    """How far it is seen."""
    tags: tuple[str, ...] = ()
    """Words its author filed it under."""
    hash_keys: tuple[str, ...] = ()
    """The keys it is found by."""
    embedding_ref: str | None = None
    """Where an embedding of the claim is kept."""
    provenance: Provenance
    """Who said so, and when."""


class CheckedEngram(msgspec.Struct, frozen=True, kw_only=True):
    """An engram that may be stamped and stored."""

    kind: Kind
    claim: str
    pointers: tuple[Pointer, ...]
    """In canonical form."""
    addresses: tuple[Address, ...]
    """What the pointers name, in the same order."""
    confidence: float
    ttl: str
    lifetime: int
    """The ttl in microseconds."""
    scope: Scope
    tags: tuple[str, ...]
    hash_keys: tuple[str, ...]
    """The author's own keys, as sent; see `keys.hash_keys` for what becomes of them."""
    embedding_ref: str | None
    id: str | None
    """The author's own id, if there is one."""
    provenance: Provenance | None = None
    """Only in an engram that was whole already."""
    created_at: int | None = None
    """The provenance's moment in microseconds."""


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What is filled in when an author leaves it out."""

    ttl: str
    confidence: float
    scope: Scope


DEFAULTS: dict[str, Defaults] = {
    "fact": Defaults(ttl="P90D", confidence=0.8, scope="project"),
    "decision": Defaults(ttl="P180D", confidence=0.9, scope="project"),
    "risk": Defaults(ttl="P30D", confidence=0.6, scope="project"),
    "todo": Defaults(ttl="P14D", confidence=0.8, scope="project"),
    "constraint": Defaults(ttl="P180D", confidence=0.9, scope="project"),
    "diff": Defaults(ttl="P7D", confidence=0.9, scope="run"),
    "test": Defaults(ttl="P7D", confidence=0.9, scope="run"),
    "perf": Defaults(ttl="P30D", confidence=0.7, scope="project"),
    "policy": Defaults(ttl="P180D", confidence=0.9, scope="project"),
}
"""Ttl, confidence and scope by kind, for authors in a hurry.

What was settled (decision, constraint, policy) holds for half a year and is stated with confidence; what was seen
(fact, perf) ages with the code; what is feared or planned (risk, todo) is worth a second look within weeks. A diff
and a test result are about the work in hand: a week, and inside the run. Everything else is for the project.
"""


def is_contradiction(engram: Engram) -> bool:
    """Whether an engram says that two sources disagree: a risk that points at both.

    Whether they do disagree is for whoever reads them to say; that they are two is all a store can know.
    """
    return engram.kind == "risk" and len({pointer.ref for pointer in engram.pointers}) > 1


def less_export(engram: Engram) -> Engram:
    """The engram as the LESS family of the schema takes it: that one has no `embedding_ref`."""
    if engram.embedding_ref is None:
        return engram
    return msgspec.structs.replace(engram, embedding_ref=None)
