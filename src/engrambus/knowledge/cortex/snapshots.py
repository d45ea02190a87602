"""What a sub-agent inherits: pins first, then what matters, then what is recent, then engrams if asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from engrambus.core import canonical, print_time
from engrambus.knowledge.cortex.episodes import Episode
from engrambus.knowledge.cortex.texts import MAX_LABEL
from engrambus.knowledge.engrams import Engram
from engrambus.policy import Scope
from engrambus.policy.secrets import redact

MAX_BYTES = 50_000
MAX_ITEMS = 200

Origin = Literal["working_memory", "stm", "atom"]


class SnapshotScope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be inherited."""

    categories: Annotated[
        list[Annotated[str, Meta(max_length=MAX_LABEL)]],
        Meta(max_length=32, description="Only these categories; pins come all the same"),
    ] = []
    min_importance: Annotated[float, Meta(ge=0, le=1, description="From here on a memory is important")] = 0.7
    recency_window: Annotated[str, Meta(max_length=32, description="How far back is recent: P7D")] = "P7D"
    include_working_memory: Annotated[bool, Meta(description="Whether pins are included")] = True
    include_atoms: Annotated[bool, Meta(description="Whether engrams are included")] = False
    visibility: Annotated[list[Scope], Meta(max_length=4, description="Which scopes engrams may come from")] = []

    @property
    def about(self) -> frozenset[str]:
        """The categories in lower case."""
        return frozenset(each.lower() for each in self.categories)

    def covers(self, engram: Engram) -> bool:
        """Whether an engram is of one of the categories, by its kind or a tag."""
        return not self.about or not self.about.isdisjoint(each.lower() for each in (engram.kind, *engram.tags))


class Provenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    origin: Origin
    source: str
    """The session and agent it comes from."""
    created_at: str
    memory_id: str | None = None
    atom_id: str | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True):
    content: str
    categories: tuple[str, ...]
    importance: float
    confidence: float | None
    provenance: Provenance


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    max_chars: int
    """The whole snapshot, as JSON, is never larger."""
    max_items: int


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    item: int
    kind: str


class SharedContextSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A bounded part of what the team remembers, with the provenance of every item."""

    snapshot_id: str
    """sha256 of the canonical snapshot without this field and `created_at`: the same memories, the same id."""
    created_at: str
    source_session: str
    """Whose memories they are: the parent of who inherits, `<run>/<agent>`."""
    scope: SnapshotScope
    items: tuple[Item, ...]
    redactions: tuple[Redaction, ...]
    limits: Limits
    left_out: int
    """How many more did not fit, of those looked at: at the most twice `max_items` of the important and the recent."""


def items_of(
    pins: Iterable[Episode],
    important: Iterable[Episode],
    recent: Iterable[Episode],
    atoms: Iterable[Engram],
    scope: SnapshotScope,
) -> list[Item]:
    """What was found of what the scope covers, by precedence, each once."""
    chosen: dict[str, Item] = {}
    if scope.include_working_memory:
        for episode in pins:
            chosen.setdefault(episode.memory_id, _item(episode, "working_memory"))
    for episode in (*important, *recent):
        chosen.setdefault(episode.memory_id, _item(episode, "stm"))
    for engram in atoms:
        chosen.setdefault(engram.id, _atom(engram))
    return list(chosen.values())


def take_snapshot(
    items: Sequence[Item],
    scope: SnapshotScope,
    *,
    source_session: str,
    now: int,
    limits: Limits,
    room: int,
) -> SharedContextSnapshot:
    """As many items as fit into the room there is, in their order, with secrets taken out.

    The room may be less than the limits say, if its reader can pay no more: a snapshot that loses nothing by it is the
    same snapshot.
    """
    snapshot = SharedContextSnapshot(
        snapshot_id="0" * 64,
        created_at=print_time(now),
        source_session=source_session,
        scope=scope,
        items=(),
        redactions=(),
        limits=limits,
        left_out=len(items),
    )
    size = len(msgspec.json.encode(snapshot))
    kept: list[Item] = []
    redactions: list[Redaction] = []
    for item in items[: limits.max_items]:
        clean, secrets = redact(item.content)
        noted = [Redaction(item=len(kept), kind=secret.kind) for secret in secrets]
        shown = msgspec.structs.replace(item, content=clean)
        more = len(msgspec.json.encode(shown)) + 1 + sum(len(msgspec.json.encode(each)) + 1 for each in noted)
        if size + more > room:
            break
        size += more
        kept.append(shown)
        redactions += noted
    snapshot = msgspec.structs.replace(
        snapshot, items=tuple(kept), redactions=tuple(redactions), left_out=len(items) - len(kept)
    )
    hashed = {name: value for name, value in msgspec.to_builtins(snapshot).items() if name not in _NOT_HASHED}
    return msgspec.structs.replace(snapshot, snapshot_id=hashlib.sha256(canonical(hashed)).hexdigest())


_NOT_HASHED = frozenset({"snapshot_id", "created_at"})


def _item(episode: Episode, origin: Origin) -> Item:
    return Item(
        content=episode.text,
        categories=episode.categories,
        importance=episode.importance,
        confidence=episode.confidence,
        provenance=Provenance(
            origin=origin, source=episode.by, created_at=print_time(episode.at), memory_id=episode.memory_id
        ),
    )


def _atom(engram: Engram) -> Item:
    return Item(
        content=engram.claim,
        categories=(engram.kind, *engram.tags),
        importance=engram.confidence,
        confidence=engram.confidence,
        provenance=Provenance(
            origin="atom",
            source=engram.provenance.created_by,
            created_at=engram.provenance.created_at,
            atom_id=engram.id,
        ),
    )
