"""Engrams: one claim each, with pointers to its evidence, an author and a lifetime."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from engrambus.evidence.pointers import Address, Pointer, pointed_path
from engrambus.policy import LEARN, Scope

Kind = Literal["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"]
Source = Literal["rag", "sam", "agent", "tool"]
UserKind = Literal["engram", "message", "broadcast", "contribution", "review"]
"""What can name the engrams it used."""

KINDS: tuple[str, ...] = get_args(Kind)
MAX_CLAIM_CHARS = 500
MAX_CLAIM_SENTENCES = 3
MAX_POINTERS = 12
MAX_SHOWN_ID_CHARS = 120
"""Length of an id that an answer may show; the longest is the pointer to a memory."""
MAX_USED = 12
"""Engrams that one author may name as used: as many as a message may put."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The author, time and source of an engram; stamped by the gateway, never sent."""

    created_at: str
    """Time of the put in RFC 3339."""
    created_by: str
    """The agent's full name."""
    source: Source
    """Origin of the claim."""


class Engram(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One claim the team knows; its JSON follows the published schema v0.1."""

    id: str
    """A ULID or a UUID."""
    kind: Kind
    """The sort of claim."""
    claim: str
    """One to three sentences."""
    pointers: tuple[Pointer, ...]
    """Pointers to the evidence; at least one."""
    confidence: float
    """The author's confidence, from 0 to 1."""
    ttl: str
    """Lifetime as an ISO 8601 duration."""
    scope: Scope
    """The circle that can see it: run, project, org or global."""
    tags: tuple[str, ...] = ()
    """Words the author filed it under."""
    hash_keys: tuple[str, ...] = ()
    """Keys it is found by."""
    embedding_ref: str | None = None
    """Location of an embedding of the claim."""
    provenance: Provenance
    """Author, time and source."""


class Adoption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an engram of another project came from, as far as that project says so itself."""

    origin: str = msgspec.field(name="from")
    """The project or the person that it came from."""
    by: str
    """Its author there; the name is not checked here."""
    made_at: str
    """When it was put there."""
    adopted_at: str
    """When a person took it on here."""
    pinned: bool = False
    """True if it was pinned there; it is pinned here when a person confirms it."""
    id: str | None = None
    """Its id there, if another engram has that id here."""
    key: str = ""
    """Public key that signed it; empty if it came in a journal."""
    replaces: tuple[str, ...] = ()
    """Ids of the engrams that its author put it in place of."""
    confirmed_by: str | None = None
    """The person who confirmed it; None while it is untrusted."""
    confirmed_at: str | None = None

    def confirm(self, by: str, at: str) -> Adoption:
        """Return the adoption as a person's confirmation leaves it."""
        return msgspec.structs.replace(self, confirmed_by=by, confirmed_at=at)


class Capture(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer in prose that an engram was taken from (decision 82)."""

    by: str
    """The agent that wrote it, by its full name."""
    at: str
    """When the answer was handed in."""
    answer: str | None = None
    """Pointer to the lines of the answer that say it; none if the answer is stored nowhere."""
    marked: bool = False
    """True if its author marked it as worth keeping; otherwise it cites lines."""
    confirmed_by: str | None = None
    """The agent or the person who confirmed it; None while it is unconfirmed."""
    confirmed_at: str | None = None

    def confirm(self, by: str, at: str) -> Capture:
        """Return the capture as a confirmation leaves it."""
        return msgspec.structs.replace(self, confirmed_by=by, confirmed_at=at)


class Learned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where in the repository an engram was learned; it quotes what stands there, and no person or agent said it."""

    source: str = msgspec.field(name="from")
    """The kind of place: commit, changelog, decision, todo and so on."""
    at: str
    """The place as people call it: the path of a file, or the beginning of a commit's id."""
    commit: str
    """The commit that was checked out when it was learned."""
    since: str = ""
    """The day on which what it quotes was written, as far as git knows."""
    key: str = ""
    """Name of what it quotes, by which the next run knows it again."""


class CaptureOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of the claims in an answer."""

    ids: list[str] = []
    """Engrams that await confirmation, in the order of the answer's best claims."""
    known: int = 0
    """Claims that an engram states already."""
    left_out: int = 0
    """Claims beyond the number that one answer leaves, the author's rate or the tokens of its turn."""


class CheckedEngram(msgspec.Struct, frozen=True, kw_only=True):
    """A validated engram that can be stamped and stored."""

    kind: Kind
    claim: str
    pointers: tuple[Pointer, ...]
    """In canonical form."""
    addresses: tuple[Address, ...]
    """The parsed pointers, in the same order."""
    confidence: float
    ttl: str
    lifetime_us: int
    """The ttl in microseconds."""
    scope: Scope
    tags: tuple[str, ...]
    hash_keys: tuple[str, ...]
    """The author's own keys as sent; `keys.hash_keys` normalises them."""
    embedding_ref: str | None
    id: str | None
    """The id the author chose, if any."""
    used: tuple[str, ...] = ()
    """Ids of the engrams it is based on, as sent."""
    replaces: str | None = None
    """Id of the engram that it replaces, or the beginning of it, as sent."""


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """Values for the fields an author leaves out."""

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
"""Default ttl, confidence and scope by kind.

Agreements (decision, constraint, policy) hold for half a year and are stated with confidence; observations (fact, perf)
age with the code; risks and todos are worth a second look within weeks. A diff and a test result concern the current
work: a week, inside the run. Everything else is for the project.
"""

FOUND_DEFAULTS: dict[str, Defaults] = {
    "rag": Defaults(ttl="P14D", confidence=0.5, scope="run"),
    "sam": Defaults(ttl="P180D", confidence=0.8, scope="run"),
}
"""The same by source, for what was looked up and not stated.

An index is searched again with the next question, so what it gave is soon worth nothing; a memory was kept on purpose.
"""


def is_memory(engram_id: str) -> bool:
    """True if what is shown as an engram is a memory: its id is the pointer to it."""
    return engram_id.startswith("sam:")


def memory_name(memory_id: str) -> tuple[str, str]:
    """Return the kind and the slug in the id of a memory."""
    kind, _, slug = memory_id.removeprefix("sam:").rpartition("@")[0].partition(":")
    return kind, slug


def is_learned(engram: Engram) -> bool:
    """True if an engram quotes the repository: its author is `learn`, a name that no agent can have."""
    return engram.provenance.source == "tool" and engram.provenance.created_by.endswith(f"/{LEARN}")


def has_evidence(engram: Engram) -> bool:
    """True if content was found behind at least one pointer; an engram without any is never pinned or briefed."""
    return any(pointer.digest is not None for pointer in engram.pointers)


def unresolved_refs(engram: Engram) -> list[str]:
    """Return the refs whose content has not been found here: their pointers carry no digest."""
    # decision 55: every pointer that was resolved carries the digest of its content
    return [pointer.ref for pointer in engram.pointers if pointer.digest is None]


def is_contradiction(engram: Engram) -> bool:
    """True if an engram claims that two sources disagree: a risk that points at both.

    A store cannot judge whether they really do; it only sees that there are two. Two spans or two versions of one file
    are one source.
    """
    return engram.kind == "risk" and len({source_of(pointer.ref) for pointer in engram.pointers}) > 1


def source_of(ref: str) -> str:
    """Return what a ref leads to, without lines, sections, commits and versions: a file, an artifact, a memory."""
    path = pointed_path(ref)
    if path is not None:
        return path
    name = ref.partition("#")[0]
    return name.partition("@")[0] if ref.startswith("sam:") else name


def less_export(fields: Any) -> Any:
    """Return an answer, as plain objects, in the form of the LESS schemas: engrams without `embedding_ref`."""
    if isinstance(fields, dict):
        return {name: less_export(value) for name, value in fields.items() if name != "embedding_ref"}
    return [less_export(item) for item in fields] if isinstance(fields, list | tuple) else fields
