"""The trie behaves like an immutable dict for any hash of its keys, and its root depends only on its content."""

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

from engrambus.space.catalog.trie import Trie, slots, yool_hash
from engrambus.space.catalog.trie_nodes import HASH_BITS, TOP, Bucket, Child, Leaf, TrieNode

VECTORS = json.loads((Path(__file__).parent / "vectors" / "yool_hash.json").read_text())

HashKey = Callable[[str], int]
HASHES: dict[str, HashKey] = {
    "published": yool_hash,
    "all equal": lambda key: 0,
    "all in the last slot": lambda key: (1 << HASH_BITS) - 1,
    "three values": lambda key: yool_hash(key) % 3,
    "differ only at the bottom": lambda key: yool_hash(key) & 31,
    "differ only at the top": lambda key: (yool_hash(key) & 7) << TOP,
    "differ in the middle": lambda key: (yool_hash(key) & 3) << 12 | 5,
}
hashes = st.sampled_from(list(HASHES.values()))
# A few keys that repeat, and any text: empty, NUL, combining characters, half of a surrogate pair.
keys = st.sampled_from(["", "a", "b", "agent.dev.python", "\0", "é", "e\u0301", "\ud800", "k" * 300]) | st.text(
    max_size=6
)
changes = st.lists(st.tuples(keys, st.none() | st.integers(0, 3)), max_size=40)


def make(hash_key: HashKey, items: dict[str, int] | None = None) -> Trie[int]:
    """Return a trie of these items, built at once."""
    return Trie(items or {}, content=lambda value: b"%d" % value, hash_key=hash_key)


def check_shape(trie: Trie[int]) -> None:
    """Check every node: bits match children, leaves are as high as possible, buckets lowest and sorted."""

    def check(child: Child, level: int) -> int:
        if isinstance(child, Leaf):
            return 1
        if isinstance(child, Bucket):
            bucket_keys = [leaf.key for leaf in child.leaves]
            assert level == 6
            assert len(bucket_keys) > 1
            assert bucket_keys == sorted(set(bucket_keys))
            assert len({leaf.hash for leaf in child.leaves}) == 1
            return len(bucket_keys)
        assert isinstance(child, TrieNode)
        assert child.bitmap.bit_count() == len(child.children)
        if level:
            assert child.children
            assert not (len(child.children) == 1 and isinstance(child.children[0], Leaf))
        return sum(check(grandchild, level + 1) for grandchild in child.children)

    assert check(trie._root, 0) == len(trie)


def test_hashes_and_slots_are_as_published() -> None:  # YT-02
    for vector in VECTORS["yools"]:
        assert yool_hash(vector["name"]) == vector["hash30"]
        assert slots(vector["hash30"]) == vector["slots"]


def test_names_with_equal_hashes_can_be_read_changed_and_removed() -> None:  # YT-02
    trie = make(yool_hash)
    for pair in VECTORS["full_collisions"]:
        first, second = pair["names"]
        assert yool_hash(first) == yool_hash(second) == pair["hash30"]
        trie = trie.put(first, 1).put(second, 2)
        assert (trie.get(first), trie.get(second)) == (1, 2)
        assert (trie.put(first, 3).get(first), trie.put(first, 3).get(second)) == (3, 2)
        assert (trie.drop(first).get(first), trie.drop(first).get(second)) == (None, 2)
        check_shape(trie)
    assert len(trie) == 4
    missing = "agent.dev.lang1"
    assert make(lambda key: 7, {"agent.dev.x": 1, "agent.dev.y": 2}).get(missing) is None


@settings(deadline=None)
@given(hash_key=hashes, steps=changes)
def test_it_equals_a_dict_after_any_changes(hash_key: HashKey, steps: list[tuple[str, int | None]]) -> None:  # YT-02
    trie, items = make(hash_key), dict[str, int]()
    earlier: list[tuple[Trie[int], dict[str, int]]] = []
    for key, value in steps:
        earlier.append((trie, dict(items)))
        if value is None:
            trie = trie.drop(key)
            items.pop(key, None)
        else:
            trie = trie.put(key, value)
            items[key] = value
        check_shape(trie)
    for version, expected in [*earlier, (trie, items)]:  # earlier versions are unchanged
        assert dict(version.items()) == expected
        assert len(version) == len(expected)
        for key in {key for key, _ in steps} | {"never"}:
            assert version.get(key) == expected.get(key)
            assert (key in version) == (key in expected)


@settings(deadline=None)
@given(
    hash_key=hashes,
    items=st.dictionaries(keys, st.integers(0, 3)),
    removed=st.dictionaries(keys, st.just(9)),
    mix=st.randoms(),
)
def test_the_root_depends_only_on_the_content(
    hash_key: HashKey, items: dict[str, int], removed: dict[str, int], mix: random.Random
) -> None:  # YT-02
    built = make(hash_key, items)
    order = [*items, *(key for key in removed if key not in items)]
    mix.shuffle(order)
    trie = make(hash_key)
    for key in order:
        trie = trie.put(key, items.get(key, 9))
    for key in order:
        if key not in items:
            trie = trie.drop(key)
    check_shape(built)
    assert trie.root == built.root
    assert list(trie.items()) == list(built.items())
    if items:
        key = next(iter(items))
        assert built.put(key, items[key] + 1).root != built.root
        assert built.drop(key).root != built.root
        assert built.drop(key).put(key, items[key]).root == built.root


def test_similar_contents_have_different_roots() -> None:  # YT-02
    def root(items: dict[str, bytes]) -> str:
        return Trie(items, content=lambda value: value, hash_key=lambda key: 0).root

    roots = [root({}), root({"a": b"bc"}), root({"ab": b"c"}), root({"": b"abc"}), root({"a": b"", "bc": b""})]
    assert len(set(roots)) == len(roots)


@settings(deadline=None)
@given(hash_key=hashes, old=st.dictionaries(keys, st.integers(0, 2)), steps=changes, with_digests=st.booleans())
def test_a_diff_equals_the_difference_of_two_dicts(
    hash_key: HashKey, old: dict[str, int], steps: list[tuple[str, int | None]], with_digests: bool
) -> None:  # YT-02
    new = dict(old)
    was = now = make(hash_key, old)
    for key, value in steps:
        if value is None:
            now = now.drop(key)
            new.pop(key, None)
        else:
            now = now.put(key, value)
            new[key] = value
    separate = make(hash_key, new)  # the same content, sharing nothing
    if with_digests:
        assert (was.root == now.root) == (old == new)
        assert separate.root == now.root
    expected = {key: (old.get(key), new.get(key)) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    for newer in (now, separate):
        differences = list(was.diff(newer))
        assert {key: (old_value, new_value) for key, old_value, new_value in differences} == expected
        assert len(differences) == len(expected)


def names(count: int) -> dict[str, int]:
    """Return that many names."""
    return {f"agent.dev.lang{number}": number for number in range(count)}


def calls(work: Callable[[], Any]) -> int:
    """Count the Python calls during some work."""
    count = 0

    def count_call(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(count_call)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_diff_costs_as_much_as_differs_and_not_as_much_as_there_is() -> None:  # YT-02
    costs = []
    for size in (2_000, 50_000):
        was = make(yool_hash, names(size))
        now = was.put("agent.dev.lang7", -1).drop("agent.dev.lang8").put("agent.dev.new", 1)
        assert len(list(was.diff(now))) == 3
        costs.append(calls(lambda was=was, now=now: list(was.diff(now))))  # type: ignore[misc]
    # One path per change: one more level means at most 32 more children to compare.
    assert costs[1] < 3 * 6 * 32 * 8
    assert costs[1] < costs[0] * 4
    rebuilt = make(yool_hash, names(50_000))
    assert rebuilt.root == make(yool_hash, names(50_000)).root
    hashed = make(yool_hash, names(50_000))
    assert hashed.root == rebuilt.root
    assert calls(lambda: list(hashed.diff(rebuilt))) < 10, "nodes with equal digests are not read"


def test_a_change_shares_all_but_one_path() -> None:  # YT-02
    was = make(yool_hash, names(20_000))
    assert was.sharing(was).shared == was.sharing(was).nodes
    for now in (was.put("agent.dev.lang7", -1), was.put("agent.dev.one_more", 1), was.drop("agent.dev.lang9")):
        shared, nodes = now.sharing(was)
        assert nodes - shared <= 7
        assert shared > 0.99 * nodes
    assert make(yool_hash, names(20_000)).sharing(was).shared == 0
    assert was.put("agent.dev.lang7", 7) is was, "setting the same value changes nothing"
    assert was.drop("agent.dev.unknown") is was


def test_a_root_is_computed_at_first_use_and_then_only_for_changed_nodes() -> None:  # YT-02
    hashed: list[int] = []

    def content(value: int) -> bytes:
        hashed.append(value)
        return b"%d" % value

    was = Trie(names(5_000), content=content)
    assert not hashed
    first = was.root
    assert len(hashed) == 5_000
    hashed.clear()
    assert was.root == first
    now = was.put("agent.dev.lang7", -1)
    assert now.root != first
    assert hashed == [-1]


@settings(deadline=None)
@given(hash_key=hashes, items=st.dictionaries(keys, st.integers(0, 3)))
def test_shards_by_top_slot_can_be_joined_again(hash_key: HashKey, items: dict[str, int]) -> None:  # YT-02
    trie = make(hash_key, items)
    shards = trie.shards()
    assert len(shards) == trie.popcount
    joined = make(hash_key)
    for slot, shard in sorted(shards.items(), reverse=True):
        assert all(slots(hash_key(key))[0] == slot for key, _ in shard.items())
        assert dict(shard.items()) == {key: value for key, value in items.items() if slots(hash_key(key))[0] == slot}
        assert make(hash_key, dict(shard.items())).root == shard.root
        joined = joined.join(shard)
    assert joined.root == trie.root
    assert len(joined) == len(trie)
    for slot in set(range(32)) - shards.keys():
        assert len(trie.shard(slot)) == 0
    if shards:
        with pytest.raises(ValueError, match="same slot"):
            trie.join(trie)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40))
def test_many_names_with_one_hash_stay_sorted(count: int) -> None:  # YT-02
    items = {f"k{number}": number for number in range(count)}
    trie = make(lambda key: 12345)
    for key in reversed(list(items)):
        trie = trie.put(key, items[key])
    check_shape(trie)
    assert [key for key, _ in trie.items()] == sorted(items)
    for key in items:
        trie = trie.drop(key)
        check_shape(trie)
    assert trie.root == make(yool_hash).root
