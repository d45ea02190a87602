"""The rules of inheriting: a snapshot of what the team remembers, bounded in size and in number of items.

Pins come first, then important episodes, then recent ones, then engrams if the scope includes them.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engrambus.core import MAX_BYTES_PER_TOKEN, canonical, estimate_tokens, print_time
from engrambus.errors import BudgetTooSmall
from engrambus.knowledge.cortex.ports import CortexView
from engrambus.knowledge.cortex.text_rules import MAX_LABEL_CHARS
from engrambus.knowledge.cortex.values import Episode, ItemOrigin, SnapshotPart, SnapshotRecipe, SnapshotTaken
from engrambus.knowledge.engrams import Engram, VisibleStore, has_evidence, is_memory
from engrambus.policy import (
    ADMIN,
    Caller,
    ContentDrawn,
    Payers,
    Scope,
    TurnCharged,
    check_descends,
    check_may_read,
    draw_content,
)
from engrambus.policy.secrets import DEFAULT_RULES, SecretRules, redact
from engrambus.visible_text import make_json_visible

DEFAULT_MAX_BYTES = 50_000
DEFAULT_MAX_ITEMS = 200
MAX_ENGRAMS = 100
MAX_ENGRAM_PAGES = 20
"""Pages of engrams that are searched for the scope's categories."""

MAX_SIMILAR_ITEMS = 20
"""Engrams and memories that are included because they are about what the scope names."""
MAX_ABOUT_CHARS = 300


class SnapshotScope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part of the team's memory to inherit."""

    categories: Annotated[
        list[Annotated[str, Meta(max_length=MAX_LABEL_CHARS)]],
        Meta(max_length=32, description="Only these categories; pins come all the same"),
    ] = []
    min_importance: Annotated[float, Meta(ge=0, le=1, description="From here on a memory is important")] = 0.7
    recency_window: Annotated[str, Meta(max_length=32, description="How far back is recent: P7D")] = "P7D"
    include_working_memory: Annotated[bool, Meta(description="Whether pins are included")] = True
    include_atoms: Annotated[bool, Meta(description="Whether engrams are included")] = False
    about: (
        Annotated[
            str, Meta(max_length=MAX_ABOUT_CHARS, description="Include what is about this, too, found by meaning")
        ]
        | UnsetType
    ) = UNSET
    visibility: Annotated[list[Scope], Meta(max_length=4, description="Which scopes engrams may come from")] = []

    @property
    def lower_categories(self) -> frozenset[str]:
        return frozenset(category.lower() for category in self.categories)

    def covers(self, engram: Engram) -> bool:
        """True if the engram's kind or one of its tags is among the categories, or if there are none."""
        names = {name.lower() for name in (engram.kind, *engram.tags)}
        return not self.categories or not names.isdisjoint(self.lower_categories)

    def summary(self) -> str:
        """Return the scope as one word of figures, for the log."""
        return (
            f"categories:{len(self.categories)},min_importance:{self.min_importance},window:{self.recency_window},"
            f"pins:{int(self.include_working_memory)},atoms:{int(self.include_atoms)},"
            f"about:{int(self.about is not UNSET)}"
        )


class ItemProvenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    origin: ItemOrigin
    source: str
    """The author: `<run>/<agent>`."""
    created_at: str
    memory_id: str | None = None
    atom_id: str | None = None


class SnapshotItem(msgspec.Struct, frozen=True, kw_only=True):
    content: str
    categories: tuple[str, ...]
    importance: float
    confidence: float | None
    provenance: ItemProvenance


class SnapshotLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_chars: int
    """Size of the snapshot as JSON."""
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
    """The parent of the agent that inherits: `<run>/<agent>`."""
    scope: SnapshotScope
    items: tuple[SnapshotItem, ...]
    redactions: tuple[Redaction, ...]
    limits: SnapshotLimits
    left_out: int
    """Items considered that did not fit; at most twice `max_items` important and recent ones are considered."""
    missing: tuple[str, ...] | UnsetType = UNSET
    """Ids of items that were forgotten or hidden since; only in a snapshot that is fetched again."""


_NOT_HASHED = frozenset({"snapshot_id", "created_at"})


def inherit_snapshot(
    view: CortexView,
    scope: SnapshotScope,
    *,
    for_agent: str | None,
    limits: SnapshotLimits,
    window_us: int,
    engrams: Sequence[Engram],
    similar: Sequence[Engram] = (),
    caller: Caller,
    payers: Payers,
    rules: SecretRules,
) -> tuple[list[SnapshotTaken | ContentDrawn | TurnCharged], SharedContextSnapshot]:
    """Take a snapshot for the caller or a descendant, paid for by the caller's turn."""
    heir, agent = caller.name, view.agent(caller.run.run_id, caller.name)
    if for_agent not in (None, caller.name):
        agent = check_descends(view, caller, for_agent or "", "for_agent")
        heir = agent.name
    # decision 26: a sub-agent that inherits pays with its turn; the admin, who may hand it more, does not.
    for account in payers.accounts:
        check_may_read(account)
    max_tokens = payers.tokens_left()
    items = snapshot_items(
        view.pins(limit=limits.max_items),
        view.important(scope.min_importance, categories=scope.lower_categories, limit=2 * limits.max_items),
        view.recent(view.as_of - window_us, categories=scope.lower_categories, limit=2 * limits.max_items),
        engrams,
        scope,
        similar=[(engram, _memory_of(view, engram)) for engram in similar],
    )
    parent = (agent.parent if agent else None) or ADMIN
    snapshot = take_snapshot(
        items,
        scope,
        source_session=f"{caller.run.run_id}/{parent}",
        now_us=view.as_of,
        limits=limits,
        max_tokens=max_tokens,
        rules=rules,
    )
    size_bytes, tokens = snapshot_bytes(snapshot), snapshot_tokens(snapshot)
    if size_bytes > limits.max_chars:
        raise BudgetTooSmall(field="max_bytes", limit=limits.max_chars, used=size_bytes)
    snapshot_fact = SnapshotTaken(
        run=caller.run.run_id,
        by=caller.full_name,
        heir=heir,
        snapshot_id=snapshot.snapshot_id,
        items=len(snapshot.items),
        chars=size_bytes,
        # decision 109: the same snapshot is described once, however many agents take it
        recipe=None if view.snapshot_takings(snapshot.snapshot_id) else _recipe(snapshot),
    )
    return [snapshot_fact, *draw_content(payers, tokens)], snapshot


def covered_engrams(stores: Iterable[VisibleStore], scope: SnapshotScope) -> list[Engram]:
    """Return the newest engrams of each store that the scope covers; never one without resolved evidence."""
    engrams: list[Engram] = []
    for store in stores:
        engrams += _covered_in(store, scope)
    return engrams


def snapshot_items(
    pins: Iterable[Episode],
    important: Iterable[Episode],
    recent: Iterable[Episode],
    engrams: Iterable[Engram],
    scope: SnapshotScope,
    *,
    similar: Iterable[tuple[Engram, Episode | None]] = (),
) -> list[SnapshotItem]:
    """Return the items of a snapshot by precedence, without repetitions."""
    items: dict[str, SnapshotItem] = {}  # an episode may be both important and recent
    if scope.include_working_memory:
        for episode in pins:
            items.setdefault(episode.memory_id, episode_item(episode, "working_memory"))
    for episode in (*important, *recent):
        items.setdefault(episode.memory_id, episode_item(episode, _origin(episode)))
    for engram in engrams:
        items.setdefault(engram.id, engram_item(engram, "atom"))
    for engram, memory in similar:
        if memory is None:
            items.setdefault(engram.id, engram_item(engram, "embedding"))
        else:
            items.setdefault(memory.memory_id, episode_item(memory, "embedding"))
    return list(items.values())


def _origin(episode: Episode) -> ItemOrigin:
    """Return the origin of a memory without a pin: the admin is a person, and what it accepted is an agent's."""
    is_by_hand = episode.acceptance is None and episode.by.rpartition("/")[2] == ADMIN
    return "manual" if is_by_hand else "stm"


def _memory_of(view: CortexView, engram: Engram) -> Episode | None:
    """Return the memory that is shown in the form of an engram; None if it is one."""
    if not is_memory(engram.id):
        return None
    kind, _, name = engram.id.removeprefix("sam:").partition(":")
    slug, _, version = name.rpartition("@")
    return view.episode(kind, slug, version=int(version))


def _recipe(snapshot: SharedContextSnapshot) -> SnapshotRecipe:
    return SnapshotRecipe(
        source_session=snapshot.source_session,
        # in the order in which it is read from the journal, so that an index made again has the same bytes
        scope=dict(sorted(msgspec.to_builtins(snapshot.scope).items())),
        max_chars=snapshot.limits.max_chars,
        max_items=snapshot.limits.max_items,
        left_out=snapshot.left_out,
        parts=tuple(_part(item) for item in snapshot.items),
    )


def _part(item: SnapshotItem) -> SnapshotPart:
    origin, memory_id = item.provenance.origin, item.provenance.memory_id
    if memory_id is not None:
        return SnapshotPart(id=memory_id, origin=origin)
    kind_and_tags = item.categories
    return SnapshotPart(
        id=item.provenance.atom_id or "", origin=origin, confidence=item.confidence, tags=kind_and_tags[1:]
    )


def take_snapshot(
    items: Sequence[SnapshotItem],
    scope: SnapshotScope,
    *,
    source_session: str,
    now_us: int,
    limits: SnapshotLimits,
    max_tokens: int | None = None,
    rules: SecretRules = DEFAULT_RULES,
) -> SharedContextSnapshot:
    """Take the items that fit, in their order, with secrets removed.

    `max_tokens` is what the reader's turn pays for. It is not part of the snapshot, so that a snapshot which loses no
    item by it has the same id.
    """
    empty = SharedContextSnapshot(
        snapshot_id="0" * 64,  # as long as the real id, so that the size below is exact
        created_at=print_time(now_us),
        source_session=source_session,
        scope=scope,
        items=(),
        redactions=(),
        limits=limits,
        left_out=len(items),
    )
    max_bytes = limits.max_chars
    if max_tokens is not None:
        max_bytes = min(max_bytes, max_tokens * MAX_BYTES_PER_TOKEN)
    size_bytes = snapshot_bytes(empty)
    included: list[SnapshotItem] = []
    redactions: list[Redaction] = []
    for item in items[: limits.max_items]:
        content, secrets = redact(item.content, rules)
        redacted_item = msgspec.structs.replace(item, content=content)
        item_redactions = [Redaction(item=len(included), kind=secret.kind) for secret in secrets]
        # One byte more for the comma after each value.
        size_bytes += sum(len(msgspec.json.encode(value)) + 1 for value in (redacted_item, *item_redactions))
        if size_bytes > max_bytes:
            break
        included.append(redacted_item)
        redactions += item_redactions

    def first(count: int) -> SharedContextSnapshot:
        snapshot = msgspec.structs.replace(
            empty,
            items=tuple(included[:count]),
            redactions=tuple(redaction for redaction in redactions if redaction.item < count),
            left_out=len(items) - count,
        )
        hashed = {name: value for name, value in msgspec.to_builtins(snapshot).items() if name not in _NOT_HASHED}
        return msgspec.structs.replace(snapshot, snapshot_id=hashlib.sha256(canonical(hashed)).hexdigest())

    count = len(included)
    if max_tokens is not None:
        costs = [estimate_tokens(_as_sent(item)) for item in included]
        count = bisect_right(list(accumulate(costs)), max_tokens)
        while count and estimate_tokens(_as_sent(first(count))) > max_tokens:
            count -= 1
    return first(count)


def snapshot_bytes(snapshot: SharedContextSnapshot) -> int:
    """Return the size of a snapshot as JSON."""
    return len(_as_sent(snapshot))


def snapshot_tokens(snapshot: SharedContextSnapshot) -> int:
    """Return what a snapshot costs its reader's turn."""
    return estimate_tokens(_as_sent(snapshot))


def _as_sent(value: msgspec.Struct) -> bytes:
    return make_json_visible(msgspec.json.encode(value))  # decision 72: readers get escapes


def _covered_in(store: VisibleStore, scope: SnapshotScope) -> list[Engram]:
    engrams: list[Engram] = []
    cursor: int | None = None
    for _ in range(MAX_ENGRAM_PAGES):
        page = store.reads.newest(store.spaces, kind=None, limit=MAX_ENGRAMS, older_than=cursor)
        engrams += (engram for engram in store.reads.engrams(page) if scope.covers(engram) and has_evidence(engram))
        if len(engrams) >= MAX_ENGRAMS or len(page) < MAX_ENGRAMS:
            break
        cursor = page[-1]
    return engrams[:MAX_ENGRAMS]


def episode_item(episode: Episode, origin: ItemOrigin) -> SnapshotItem:
    """Return the item for a memory."""
    return SnapshotItem(
        content=episode.text,
        categories=episode.categories,
        importance=episode.importance,
        confidence=episode.confidence,
        provenance=ItemProvenance(
            origin=origin,
            source=episode.by,
            created_at=print_time(episode.created_us),
            memory_id=episode.memory_id,
        ),
    )


def engram_item(engram: Engram, origin: ItemOrigin) -> SnapshotItem:
    """Return the item for an engram."""
    return SnapshotItem(
        content=engram.claim,
        categories=(engram.kind, *engram.tags),
        importance=engram.confidence,
        confidence=engram.confidence,
        provenance=ItemProvenance(
            origin=origin,
            source=engram.provenance.created_by,
            created_at=engram.provenance.created_at,
            atom_id=engram.id,
        ),
    )
