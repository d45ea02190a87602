"""Snapshots of anything: in their order, within their size, the same for the same memories."""  # SC-01

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.cortex import (
    Episode,
    SharedContextSnapshot,
    SnapshotLimits,
    SnapshotScope,
    snapshot_items,
    take_snapshot,
)

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)
categories = st.lists(st.sampled_from(["billing", "Billing", "search", "ops"]), max_size=3, unique=True).map(tuple)
NOW = 1_800_000_000_000_000


@st.composite
def memories(draw: st.DrawFn) -> list[Episode]:
    """Memories of different names."""
    return [
        Episode(
            kind="fact",
            slug=f"m{number}",
            version=draw(st.integers(1, 3)),
            text=draw(texts),
            categories=draw(categories),
            importance=draw(st.floats(0, 1)),
            pinned=draw(st.booleans()),
            created_us=NOW - draw(st.integers(0, 10**12)),
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


def covers(scope: SnapshotScope, held: Episode) -> bool:
    """Whether a back end answers with it."""
    return not held.pinned and held.has_category(scope.lower_categories)


def taken(held: list[Episode], scope: SnapshotScope, most: int, now: int = NOW) -> SharedContextSnapshot:
    """A snapshot as a back end's answers make it."""
    ordered = sorted(held, key=lambda each: -each.importance)
    items = snapshot_items(
        [each for each in ordered if each.pinned],
        [each for each in ordered if covers(scope, each) and each.importance >= scope.min_importance],
        sorted((each for each in held if covers(scope, each)), key=lambda each: -each.created_us),
        (),
        scope,
    )
    limits = SnapshotLimits(max_chars=50_000, max_items=8)
    return take_snapshot(items, scope, source_session="run/lead", now_us=now, limits=limits, max_bytes=most)


@given(memories(), scopes, st.integers(600, 5000))
def test_a_snapshot_never_exceeds_its_size_nor_its_number(held: list[Episode], scope: SnapshotScope, most: int) -> None:
    snapshot = taken(held, scope, most)
    assert len(snapshot.items) <= 8
    assert not snapshot.items or len(msgspec.json.encode(snapshot)) <= most
    larger = taken(held, scope, 1_000_000)
    assert larger.items[: len(snapshot.items)] == snapshot.items
    assert snapshot.left_out + len(snapshot.items) == larger.left_out + len(larger.items)


@given(memories(), scopes)
def test_pins_come_first_then_what_matters_then_what_is_recent(held: list[Episode], scope: SnapshotScope) -> None:
    items = taken(held, scope, 1_000_000).items
    names = [item.provenance.memory_id for item in items]
    assert len(set(names)) == len(names)
    origins = [item.provenance.origin for item in items]
    assert origins == sorted(origins, key=["working_memory", "stm", "atom"].index)
    if not scope.include_working_memory:
        assert "working_memory" not in origins
    rest = [item for item in items if item.provenance.origin == "stm"]
    important = [item.importance >= scope.min_importance for item in rest]
    assert important == sorted(important, reverse=True)
    wanted = {each.lower() for each in scope.categories}
    assert all(not wanted or wanted & {each.lower() for each in item.categories} for item in rest)
    assert all(item.provenance.source == "run/lead" and item.provenance.created_at for item in items)


@given(memories(), scopes, st.integers(0, 10**12))
def test_the_same_memories_and_scope_have_the_same_id(held: list[Episode], scope: SnapshotScope, later: int) -> None:
    one, other = taken(held, scope, 20_000), taken(held, scope, 20_000, NOW + later)
    assert one.snapshot_id == other.snapshot_id
    if one.items:
        assert taken(held[1:], scope, 20_000).snapshot_id != one.snapshot_id or held[0].memory_id not in {
            item.provenance.memory_id for item in one.items
        }


def test_secrets_in_what_is_remembered_are_taken_out_and_noted() -> None:  # SC-06
    secret = "AKIA" + "IOSFODNN7EXAMPLQ"
    held = Episode(
        kind="fact", slug="s", version=1, text=f"Key {secret}", importance=1.0, pinned=True, created_us=NOW, by="r/a"
    )
    snapshot = taken([held], SnapshotScope(), 5000)
    assert secret not in msgspec.json.encode(snapshot).decode()
    assert [(each.item, bool(each.kind)) for each in snapshot.redactions] == [(0, True)]
