"""The trie behaves as a dict that never changes, whatever its keys hash to, and its root is its content."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.space.catalog import Trie, slots, yool_hash
from engrambus.space.catalog.trie_nodes import HASH_BITS, TOP, Bucket, Child, Leaf, TrieNode

VECTORS = json.loads((Path(__file__).parent / "vectors" / "yool_hash.json").read_text())

Place = Callable[[str], int]
PLACES: dict[str, Place] = {
    "published": yool_hash,
    "all in one place": lambda key: 0,
    "all in the last place": lambda key: (1 << HASH_BITS) - 1,
    "three places": lambda key: yool_hash(key) % 3,
    "differ only at the bottom": lambda key: yool_hash(key) & 31,
    "differ only at the top": lambda key: (yool_hash(key) & 7) << TOP,
    "differ in the middle": lambda key: (yool_hash(key) & 3) << 12 | 5,
}
places = st.sampled_from(list(PLACES.values()))
# Few keys that come again and again, and any text: empty, NUL, combining, half a surrogate pair.
keys = st.sampled_from(["", "a", "b", "agent.dev.python", "\0", "é", "e\u0301", "\ud800", "k" * 300]) | st.text(
    max_size=6
)
changes = st.lists(st.tuples(keys, st.none() | st.integers(0, 3)), max_size=40)


def make(place: Place, held: dict[str, int] | None = None) -> Trie[int]:
    """A trie of these, built in one go."""
    return Trie(held or {}, content=lambda value: b"%d" % value, hash_key=place)


def check_shape(trie: Trie[int]) -> None:
    """What must hold of every node: bits and children agree, leaves stand high, buckets low and in order."""

    def check(child: Child, level: int) -> int:
        if isinstance(child, Leaf):
            return 1
        if isinstance(child, Bucket):
            found = [leaf.key for leaf in child.leaves]
            assert level == 6
            assert len(found) > 1
            assert found == sorted(set(found))
            assert len({leaf.hash for leaf in child.leaves}) == 1
            return len(found)
        assert isinstance(child, TrieNode)
        assert child.bitmap.bit_count() == len(child.children)
        if level:
            assert child.children
            assert not (len(child.children) == 1 and isinstance(child.children[0], Leaf))
        return sum(check(each, level + 1) for each in child.children)

    assert check(trie._root, 0) == len(trie)


def test_the_published_hashes_and_slots() -> None:  # YT-02
    for each in VECTORS["yools"]:
        assert yool_hash(each["name"]) == each["hash30"]
        assert slots(each["hash30"]) == each["slots"]


def test_names_that_collide_on_all_thirty_bits_are_found_changed_and_removed() -> None:  # YT-02
    trie = make(yool_hash)
    for pair in VECTORS["full_collisions"]:
        one, other = pair["names"]
        assert yool_hash(one) == yool_hash(other) == pair["hash30"]
        trie = trie.put(one, 1).put(other, 2)
        assert (trie.get(one), trie.get(other)) == (1, 2)
        assert (trie.put(one, 3).get(one), trie.put(one, 3).get(other)) == (3, 2)
        assert (trie.drop(one).get(one), trie.drop(one).get(other)) == (None, 2)
        check_shape(trie)
    assert len(trie) == 4
    missing = "agent.dev.lang1"
    assert make(lambda key: 7, {"agent.dev.x": 1, "agent.dev.y": 2}).get(missing) is None


@settings(deadline=None)
@given(place=places, done=changes)
def test_it_answers_as_a_dict_does_after_any_changes(place: Place, done: list[tuple[str, int | None]]) -> None:  # YT-02
    trie, held = make(place), dict[str, int]()
    before: list[tuple[Trie[int], dict[str, int]]] = []
    for key, value in done:
        before.append((trie, dict(held)))
        if value is None:
            trie = trie.drop(key)
            held.pop(key, None)
        else:
            trie = trie.put(key, value)
            held[key] = value
        check_shape(trie)
    for each, expected in [*before, (trie, held)]:  # those from before are as they were
        assert dict(each.items()) == expected
        assert len(each) == len(expected)
        for key in {key for key, _ in done} | {"never"}:
            assert each.get(key) == expected.get(key)
            assert (key in each) == (key in expected)


@settings(deadline=None)
@given(
    place=places,
    held=st.dictionaries(keys, st.integers(0, 3)),
    gone=st.dictionaries(keys, st.just(9)),
    mix=st.randoms(),
)
def test_the_root_depends_only_on_the_content(
    place: Place, held: dict[str, int], gone: dict[str, int], mix: random.Random
) -> None:  # YT-02
    whole = make(place, held)
    order = [*held, *(key for key in gone if key not in held)]
    mix.shuffle(order)
    trie = make(place)
    for key in order:
        trie = trie.put(key, held.get(key, 9))
    for key in order:
        if key not in held:
            trie = trie.drop(key)
    check_shape(whole)
    assert trie.root == whole.root
    assert list(trie.items()) == list(whole.items())
    if held:
        key = next(iter(held))
        assert whole.put(key, held[key] + 1).root != whole.root
        assert whole.drop(key).root != whole.root
        assert whole.drop(key).put(key, held[key]).root == whole.root


def test_a_root_tells_apart_what_could_be_confused() -> None:  # YT-02
    def root(held: dict[str, bytes]) -> str:
        return Trie(held, content=lambda value: value, hash_key=lambda key: 0).root

    roots = [root({}), root({"a": b"bc"}), root({"ab": b"c"}), root({"": b"abc"}), root({"a": b"", "bc": b""})]
    assert len(set(roots)) == len(roots)


@settings(deadline=None)
@given(place=places, old=st.dictionaries(keys, st.integers(0, 2)), done=changes, sealed=st.booleans())
def test_a_diff_is_what_two_dicts_differ_in(
    place: Place, old: dict[str, int], done: list[tuple[str, int | None]], sealed: bool
) -> None:  # YT-02
    new = dict(old)
    was = now = make(place, old)
    for key, value in done:
        if value is None:
            now = now.drop(key)
            new.pop(key, None)
        else:
            now = now.put(key, value)
            new[key] = value
    alone = make(place, new)  # the same content, sharing nothing
    if sealed:
        assert (was.root == now.root) == (old == new)
        assert alone.root == now.root
    expected = {key: (old.get(key), new.get(key)) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    for newer in (now, alone):
        found = list(was.diff(newer))
        assert {key: (before, after) for key, before, after in found} == expected
        assert len(found) == len(expected)


def names(count: int) -> dict[str, int]:
    """That many names."""
    return {f"agent.dev.lang{number}": number for number in range(count)}


def calls(work: Callable[[], Any]) -> int:
    """How often Python code was entered or resumed while working."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_diff_costs_what_differs_and_not_what_there_is() -> None:  # YT-02
    costs = []
    for size in (2_000, 50_000):
        was = make(yool_hash, names(size))
        now = was.put("agent.dev.lang7", -1).drop("agent.dev.lang8").put("agent.dev.new", 1)
        assert len(list(was.diff(now))) == 3
        costs.append(calls(lambda was=was, now=now: list(was.diff(now))))  # type: ignore[misc]
    # One path a change: a level more has at most 32 more children to look at, each in one step.
    assert costs[1] < 3 * 6 * 32 * 8
    assert costs[1] < costs[0] * 4
    rebuilt = make(yool_hash, names(50_000))
    assert rebuilt.root == make(yool_hash, names(50_000)).root
    sealed = make(yool_hash, names(50_000))
    assert sealed.root == rebuilt.root
    assert calls(lambda: list(sealed.diff(rebuilt))) < 10, "equal seals are not opened"


def test_a_change_shares_all_but_one_path() -> None:  # YT-02
    was = make(yool_hash, names(20_000))
    assert was.sharing(was).shared == was.sharing(was).nodes
    for now in (was.put("agent.dev.lang7", -1), was.put("agent.dev.one_more", 1), was.drop("agent.dev.lang9")):
        shared, nodes = now.sharing(was)
        assert nodes - shared <= 7
        assert shared > 0.99 * nodes
    assert make(yool_hash, names(20_000)).sharing(was).shared == 0
    assert was.put("agent.dev.lang7", 7) is was, "what is so already makes nothing new"
    assert was.drop("agent.dev.unknown") is was


def test_a_root_is_computed_when_asked_for_and_then_only_where_something_changed() -> None:  # YT-02
    sealed: list[int] = []

    def content(value: int) -> bytes:
        sealed.append(value)
        return b"%d" % value

    was = Trie(names(5_000), content=content)
    assert not sealed
    first = was.root
    assert len(sealed) == 5_000
    sealed.clear()
    assert was.root == first
    now = was.put("agent.dev.lang7", -1)
    assert now.root != first
    assert sealed == [-1]


@settings(deadline=None)
@given(place=places, held=st.dictionaries(keys, st.integers(0, 3)))
def test_shards_by_top_slot_are_maps_of_their_own_and_join_again(place: Place, held: dict[str, int]) -> None:  # YT-02
    whole = make(place, held)
    parts = whole.shards()
    assert len(parts) == whole.popcount
    joined = make(place)
    for slot, part in sorted(parts.items(), reverse=True):
        assert all(slots(place(key))[0] == slot for key, _ in part.items())
        assert dict(part.items()) == {key: value for key, value in held.items() if slots(place(key))[0] == slot}
        assert make(place, dict(part.items())).root == part.root
        joined = joined.join(part)
    assert joined.root == whole.root
    assert len(joined) == len(whole)
    for slot in set(range(32)) - parts.keys():
        assert len(whole.shard(slot)) == 0
    if parts:
        with pytest.raises(ValueError, match="same slot"):
            whole.join(whole)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40))
def test_many_names_in_one_place_stay_in_order(count: int) -> None:  # YT-02
    held = {f"k{number}": number for number in range(count)}
    trie = make(lambda key: 12345)
    for key in reversed(list(held)):
        trie = trie.put(key, held[key])
    check_shape(trie)
    assert [key for key, _ in trie.items()] == sorted(held)
    for key in held:
        trie = trie.drop(key)
        check_shape(trie)
    assert trie.root == make(yool_hash).root
