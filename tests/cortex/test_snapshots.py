"""Snapshots: their order, their limits, and equal ids for equal memories."""  # SC-01

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import estimate_tokens
from engrambus.knowledge.cortex import Episode, SharedContextSnapshot, SnapshotLimits, SnapshotScope
from engrambus.knowledge.cortex.snapshots import snapshot_items, take_snapshot

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)
categories = st.lists(st.sampled_from(["billing", "Billing", "search", "ops"]), max_size=3, unique=True).map(tuple)
NOW_US = 1_800_000_000_000_000


@st.composite
def memories(draw: st.DrawFn) -> list[Episode]:
    """Draw episodes with different slugs."""
    return [
        Episode(
            kind="fact",
            slug=f"m{number}",
            version=draw(st.integers(1, 3)),
            text=draw(texts),
            categories=draw(categories),
            importance=draw(st.floats(0, 1)),
            pinned=draw(st.booleans()),
            created_us=NOW_US - draw(st.integers(0, 10**12)),
            by="run/lead",
        )
        for number in range(draw(st.integers(0, 12)))
    ]


scopes = st.builds(
    SnapshotScope,
    categories=st.lists(st.sampled_from(["billing", "search"]), max_size=2),
    min_importance=st.floats(0, 1),
    include_working_memory=st.booleans(),
)


def is_covered(scope: SnapshotScope, episode: Episode) -> bool:
    """True if a back end returns the episode as important or recent."""
    return not episode.pinned and episode.has_category(scope.lower_categories)


def snapshot_of(
    episodes: list[Episode], scope: SnapshotScope, max_tokens: int, now_us: int = NOW_US
) -> SharedContextSnapshot:
    """Take a snapshot of the answers that a back end would give."""
    by_importance = sorted(episodes, key=lambda episode: -episode.importance)
    covered = [episode for episode in by_importance if is_covered(scope, episode)]
    items = snapshot_items(
        [episode for episode in by_importance if episode.pinned],
        [episode for episode in covered if episode.importance >= scope.min_importance],
        sorted(covered, key=lambda episode: -episode.created_us),
        (),
        scope,
    )
    limits = SnapshotLimits(max_chars=50_000, max_items=8)
    return take_snapshot(items, scope, source_session="run/lead", now_us=now_us, limits=limits, max_tokens=max_tokens)


@given(memories(), scopes, st.integers(600, 5000))
def test_a_snapshot_never_exceeds_its_limits(episodes: list[Episode], scope: SnapshotScope, max_tokens: int) -> None:
    snapshot = snapshot_of(episodes, scope, max_tokens)
    assert len(snapshot.items) <= 8
    assert not snapshot.items or estimate_tokens(msgspec.json.encode(snapshot)) <= max_tokens
    larger = snapshot_of(episodes, scope, 1_000_000)
    assert larger.items[: len(snapshot.items)] == snapshot.items
    assert snapshot.left_out + len(snapshot.items) == larger.left_out + len(larger.items)


@given(memories(), scopes)
def test_pins_come_first_then_important_then_recent_episodes(episodes: list[Episode], scope: SnapshotScope) -> None:
    items = snapshot_of(episodes, scope, 1_000_000).items
    names = [item.provenance.memory_id for item in items]
    assert len(set(names)) == len(names)
    origins = [item.provenance.origin for item in items]
    assert origins == sorted(origins, key=["working_memory", "stm", "atom"].index)
    if not scope.include_working_memory:
        assert "working_memory" not in origins
    unpinned = [item for item in items if item.provenance.origin == "stm"]
    important = [item.importance >= scope.min_importance for item in unpinned]
    assert important == sorted(important, reverse=True)
    categories = {category.lower() for category in scope.categories}
    assert all(not categories or categories & {category.lower() for category in item.categories} for item in unpinned)
    assert all(item.provenance.source == "run/lead" and item.provenance.created_at for item in items)


@given(memories(), scopes, st.integers(0, 10**12))
def test_the_same_memories_and_scope_have_the_same_id(
    episodes: list[Episode], scope: SnapshotScope, later_us: int
) -> None:
    first = snapshot_of(episodes, scope, 20_000)
    assert first.snapshot_id == snapshot_of(episodes, scope, 20_000, NOW_US + later_us).snapshot_id
    if first.items:
        names = {item.provenance.memory_id for item in first.items}
        without_one = snapshot_of(episodes[1:], scope, 20_000)
        assert without_one.snapshot_id != first.snapshot_id or episodes[0].memory_id not in names


def test_secrets_in_episodes_are_removed_and_noted() -> None:  # SC-06
    secret = "AKIA" + "IOSFODNN7EXAMPLQ"
    episode = Episode(
        kind="fact", slug="s", version=1, text=f"Key {secret}", importance=1.0, pinned=True, created_us=NOW_US, by="r/a"
    )
    snapshot = snapshot_of([episode], SnapshotScope(), 5000)
    assert secret not in msgspec.json.encode(snapshot).decode()
    assert [(redaction.item, bool(redaction.kind)) for redaction in snapshot.redactions] == [(0, True)]
