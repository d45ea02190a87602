"""A persistent map (HAMT): every change returns a new map that shares all unchanged nodes with the old one.

Hash, slots and depth are as published: BLAKE2b-64 cut to thirty bits, five bits a level, six levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar, cast

from engrambus.core.canonical_json import DIGEST_PREFIX
from engrambus.space.catalog.trie_nodes import (
    BITS,
    BRANCHES,
    EMPTY,
    HASH_BITS,
    LEVELS,
    MASK,
    TOP,
    Leaf,
    TrieNode,
    build,
    differences,
    digest_of_child,
    drop,
    find,
    leaves_of,
    nodes_of,
    put,
)

V = TypeVar("V")
_ALL_BITS = (1 << HASH_BITS) - 1


def yool_hash(name: str) -> int:
    """Return the published thirty-bit hash of a name."""
    try:
        data = name.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: never a valid name, but any text must have a hash
        data = name.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") & _ALL_BITS


def slots(hash30: int) -> list[int]:
    """Return the six slots of a thirty-bit hash, the top level first."""
    return [(hash30 >> ((LEVELS - 1 - level) * BITS)) & MASK for level in range(LEVELS)]


class NodeSharing(NamedTuple):
    """Number of nodes a trie shares with another, and of all its nodes."""

    shared: int
    nodes: int


class Trie(Generic[V]):
    """A map from texts to values other than None. `content` returns a value's bytes for the hash of the root."""

    __slots__ = ("_content", "_hash_key", "_root", "_size")

    def __init__(
        self,
        items: Mapping[str, V] | Iterable[tuple[str, V]] = (),
        *,
        content: Callable[[V], bytes],
        hash_key: Callable[[str], int] = yool_hash,
    ) -> None:
        self._content = content
        self._hash_key = hash_key
        values = dict(items)
        self._size = len(values)
        leaves = [Leaf(hash_key(key), key, value) for key, value in values.items()]
        self._root = build(sorted(leaves, key=lambda leaf: (leaf.hash, leaf.key)))

    def get(self, key: str) -> V | None:
        """Return the value of a key, or None."""
        hash30 = self._hash_key(key)
        node, shift = self._root, TOP
        while True:
            bit = 1 << ((hash30 >> shift) & MASK)
            bitmap = node.bitmap
            if not bitmap & bit:
                return None
            child = node.children[(bitmap & (bit - 1)).bit_count()]
            if type(child) is TrieNode:
                node = child
                shift -= BITS
                continue
            leaf = child if type(child) is Leaf else find(child, key)
            return cast(V, leaf.value) if leaf is not None and leaf.key == key else None

    def put(self, key: str, value: V) -> Trie[V]:
        """Return the map with a key set; this map itself if the key has that value already."""
        root, added = put(self._root, Leaf(self._hash_key(key), key, value))
        return self._with(root, self._size + added)

    def drop(self, key: str) -> Trie[V]:
        """Return the map without a key; this map itself if it does not have the key."""
        return self._with(drop(self._root, self._hash_key(key), key), self._size - 1)

    def items(self) -> Iterator[tuple[str, V]]:
        """Yield every key and value, sorted by the keys' hashes."""
        return ((leaf.key, leaf.value) for leaf in leaves_of(self._root))

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    # Computed late, because most maps are only steps on the way to another one.
    @property
    def root(self) -> str:
        """Digest of the whole content, independent of its history; computed at first use."""
        return DIGEST_PREFIX + digest_of_child(self._root, self._content).hex()

    @property
    def popcount(self) -> int:
        """Number of the thirty-two slots at the top that are in use."""
        return self._root.bitmap.bit_count()

    def diff(self, newer: Trie[V]) -> Iterator[tuple[str, V | None, V | None]]:
        """Yield every key whose value differs in a newer map, with old and new value; shared parts are not read."""
        for key, was, now in differences(self._root, newer._root):
            yield key, None if was is None else was.value, None if now is None else now.value

    def sharing(self, older: Trie[V]) -> NodeSharing:
        """Count the nodes of this map that are shared with an older one."""
        older_nodes = {id(node) for node in nodes_of(older._root)}
        shared = [id(node) in older_nodes for node in nodes_of(self._root)]
        return NodeSharing(sum(shared), len(shared))

    def shard(self, slot: int) -> Trie[V]:
        """Return the part of the map below one slot of the top, which shares all its nodes with this map."""
        bit = 1 << slot
        if not self._root.bitmap & bit:
            return self._with(EMPTY, 0)
        child = self._root.children[(self._root.bitmap & (bit - 1)).bit_count()]
        return self._with(TrieNode(bit, (child,)), sum(1 for _ in leaves_of(child)))

    def shards(self) -> dict[int, Trie[V]]:
        """Return the parts below every slot in use, by slot."""
        return {slot: self.shard(slot) for slot in range(BRANCHES) if self._root.bitmap >> slot & 1}

    def join(self, shard: Trie[V]) -> Trie[V]:
        """Return this map combined with one that fills other slots of the top."""
        first, second = self._root, shard._root
        if first.bitmap & second.bitmap:
            raise ValueError("shards of the same slot cannot be joined")
        children: list[Any] = []
        for slot in range(BRANCHES):
            for root in (first, second):
                bit = 1 << slot
                if root.bitmap & bit:
                    children.append(root.children[(root.bitmap & (bit - 1)).bit_count()])
        return self._with(TrieNode(first.bitmap | second.bitmap, tuple(children)), self._size + shard._size)

    def _with(self, root: TrieNode, size: int) -> Trie[V]:
        if root is self._root:
            return self
        trie: Trie[V] = Trie.__new__(Trie)
        trie._content, trie._hash_key, trie._root, trie._size = self._content, self._hash_key, root, size
        return trie
