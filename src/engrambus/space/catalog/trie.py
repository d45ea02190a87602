"""A persistent map of names: every change makes a new one that shares all it did not change with the old.

The hash, the slots and the depth are the published ones: BLAKE2b-64 cut to thirty bits, five bits a level, six levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar, cast

from engrambus.core.digest import PREFIX
from engrambus.space.catalog.nodes import (
    BITS,
    BRANCHES,
    EMPTY,
    HASH_BITS,
    LEVELS,
    MASK,
    TOP,
    Leaf,
    Node,
    build,
    differing,
    drop,
    find,
    leaves_of,
    nodes_of,
    put,
    seal,
)

V = TypeVar("V")
_ALL_BITS = (1 << HASH_BITS) - 1


def yool_hash(name: str) -> int:
    """The thirty bits that place a name, as published."""
    try:
        data = name.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: no name, but any text has its place
        data = name.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") & _ALL_BITS


def slots(place: int) -> list[int]:
    """The six slots that thirty bits name, the top first."""
    return [(place >> ((LEVELS - 1 - level) * BITS)) & MASK for level in range(LEVELS)]


class Sharing(NamedTuple):
    """How much of a trie is another's."""

    shared: int
    """Nodes that are the very same."""
    nodes: int
    """Nodes there are."""


class Trie(Generic[V]):
    """A map from texts to values other than None; `content` gives the bytes a value stands for in the root's hash."""

    __slots__ = ("_content", "_place", "_root", "_size")

    def __init__(
        self,
        items: Mapping[str, V] | Iterable[tuple[str, V]] = (),
        *,
        content: Callable[[V], bytes],
        place: Callable[[str], int] = yool_hash,
    ) -> None:
        self._content = content
        self._place = place
        given = dict(items)
        self._size = len(given)
        leaves = [Leaf(place(key), key, value) for key, value in given.items()]
        self._root = build(sorted(leaves, key=lambda leaf: (leaf.hash, leaf.key)))

    def get(self, key: str) -> V | None:
        """The value of a key, by walking down to it."""
        place = self._place(key)
        node, shift = self._root, TOP
        while True:
            bit = 1 << ((place >> shift) & MASK)
            bitmap = node.bitmap
            if not bitmap & bit:
                return None
            child = node.children[(bitmap & (bit - 1)).bit_count()]
            if type(child) is Node:
                node = child
                shift -= BITS
                continue
            leaf = child if type(child) is Leaf else find(child, key)
            return cast(V, leaf.value) if leaf is not None and leaf.key == key else None

    def put(self, key: str, value: V) -> Trie[V]:
        """The same map with a key set; this very one if it was so already."""
        root, grown = put(self._root, Leaf(self._place(key), key, value))
        return self._with(root, self._size + grown)

    def drop(self, key: str) -> Trie[V]:
        """The same map without a key; this very one if it was not there."""
        return self._with(drop(self._root, self._place(key), key), self._size - 1)

    def items(self) -> Iterator[tuple[str, V]]:
        """Every key and value, in the order of the keys' hashes."""
        return ((leaf.key, leaf.value) for leaf in leaves_of(self._root))

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    @property
    def root(self) -> str:
        """The digest of the whole: equal for equal content, however it came about. Computed when first asked for."""
        return PREFIX + seal(self._root, self._content).hex()

    @property
    def popcount(self) -> int:
        """How many of the thirty-two slots at the top are in use."""
        return self._root.bitmap.bit_count()

    def diff(self, newer: Trie[V]) -> Iterator[tuple[str, V | None, V | None]]:
        """Every key in which a newer map differs, with what it was and is; shared parts are skipped unread."""
        for key, was, now in differing(self._root, newer._root):
            yield key, None if was is None else was.value, None if now is None else now.value

    def sharing(self, older: Trie[V]) -> Sharing:
        """How many of this map's nodes are the older one's own."""
        known = {id(node) for node in nodes_of(older._root)}
        mine = [id(node) in known for node in nodes_of(self._root)]
        return Sharing(sum(mine), len(mine))

    def shard(self, slot: int) -> Trie[V]:
        """The part of the map below one slot of the top, a map of its own; it shares all its nodes with this one."""
        bit = 1 << slot
        if not self._root.bitmap & bit:
            return self._with(EMPTY, 0)
        child = self._root.children[(self._root.bitmap & (bit - 1)).bit_count()]
        return self._with(Node(bit, (child,)), sum(1 for _ in leaves_of(child)))

    def shards(self) -> dict[int, Trie[V]]:
        """The parts below every slot in use."""
        return {slot: self.shard(slot) for slot in range(BRANCHES) if self._root.bitmap >> slot & 1}

    def join(self, other: Trie[V]) -> Trie[V]:
        """This map and one that fills other slots of the top, as one."""
        mine, theirs = self._root, other._root
        if mine.bitmap & theirs.bitmap:
            raise ValueError("shards of the same slot cannot be joined")
        children: list[Any] = []
        for slot in range(BRANCHES):
            for root in (mine, theirs):
                bit = 1 << slot
                if root.bitmap & bit:
                    children.append(root.children[(root.bitmap & (bit - 1)).bit_count()])
        return self._with(Node(mine.bitmap | theirs.bitmap, tuple(children)), self._size + other._size)

    def _with(self, root: Node, size: int) -> Trie[V]:
        if root is self._root:
            return self
        made: Trie[V] = Trie.__new__(Trie)
        made._content, made._place, made._root, made._size = self._content, self._place, root, size
        return made
