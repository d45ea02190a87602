"""The trie's nodes: what each holds, and how a changed one is made without touching the one it came from.

Thirty bits of hash name a place: six slots of five bits, the top first. A `Node` has a bit for each slot in use and its
children packed in their order. A child is a `Leaf`, a `Node` one level further down, or, below the sixth level, a
`Bucket` of the leaves whose thirty bits are all the same, in the order of their keys.

The shape depends only on the keys: a leaf stands as high as it can without sharing its slot, so a node other than the
root never holds one leaf and nothing else. Removing keeps to this; what was removed leaves no trace.

Nodes are out of the garbage collector's sight (`gc=False`): they only ever hold what was there before them, so they
form no cycles, and a million of them would otherwise be walked again and again.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, TypeAlias, final

import msgspec

BITS = 5
LEVELS = 6
BRANCHES = 1 << BITS
MASK = BRANCHES - 1
HASH_BITS = BITS * LEVELS
TOP = HASH_BITS - BITS
"""How far a hash is shifted to read its first slot."""

_key = attrgetter("key")


@final
class Leaf(msgspec.Struct, gc=False, eq=False):
    """A key, its hash and its value."""

    hash: int
    key: str
    value: Any
    seal: bytes | None = None


@final
class Bucket(msgspec.Struct, gc=False, eq=False):
    """Leaves that share all thirty bits, in the order of their keys."""

    leaves: tuple[Leaf, ...]
    seal: bytes | None = None


@final
class Node(msgspec.Struct, gc=False, eq=False):
    """Up to thirty-two children, packed; the bitmap tells which slots they fill."""

    bitmap: int
    children: tuple[Child, ...]
    seal: bytes | None = None


Child: TypeAlias = Leaf | Bucket | Node

EMPTY = Node(0, ())


def build(leaves: list[Leaf]) -> Node:
    """The trie of leaves in the order of hash and key, made from the bottom up."""
    return _build(leaves, [leaf.hash for leaf in leaves], TOP, 0, len(leaves)) if leaves else EMPTY


def _build(leaves: list[Leaf], hashes: list[int], shift: int, start: int, end: int) -> Node:
    bitmap = 0
    children: list[Child] = []
    while start < end:
        prefix = hashes[start] >> shift
        stop = bisect_left(hashes, (prefix + 1) << shift, start, end)
        bitmap |= 1 << (prefix & MASK)
        if stop - start == 1:
            children.append(leaves[start])
        elif shift == 0:
            children.append(Bucket(tuple(leaves[start:stop])))
        else:
            children.append(_build(leaves, hashes, shift - BITS, start, stop))
        start = stop
    return Node(bitmap, tuple(children))


def put(root: Node, leaf: Leaf) -> tuple[Node, int]:
    """The trie with a leaf in it, and by how much it grew; the same trie if nothing changed."""
    place, shift, node = leaf.hash, TOP, root
    path: list[tuple[Node, int]] = []
    while True:
        bit = 1 << ((place >> shift) & MASK)
        bitmap, children = node.bitmap, node.children
        at = (bitmap & (bit - 1)).bit_count()
        if not bitmap & bit:
            new = Node(bitmap | bit, (*children[:at], leaf, *children[at:]))
            grown = 1
            break
        child = children[at]
        if type(child) is Node:
            path.append((node, at))
            node = child
            shift -= BITS
            continue
        joined, grown = _joined(child, leaf, shift - BITS)
        if joined is child:
            return root, 0
        new = Node(bitmap, (*children[:at], joined, *children[at + 1 :]))
        break
    for above, at in reversed(path):
        new = Node(above.bitmap, (*above.children[:at], new, *above.children[at + 1 :]))
    return new, grown


def _joined(child: Leaf | Bucket, leaf: Leaf, shift: int) -> tuple[Child, int]:
    """What stands in a slot where a leaf arrives."""
    if type(child) is Bucket:
        at = bisect_left(child.leaves, leaf.key, key=_key)
        known = find(child, leaf.key)
        if known is not None and _same(known, leaf):
            return child, 0
        after = at if known is None else at + 1
        return Bucket((*child.leaves[:at], leaf, *child.leaves[after:])), int(known is None)
    if child.key == leaf.key:
        return (child, 0) if _same(child, leaf) else (leaf, 0)
    return _split(child, leaf, shift), 1


def _split(one: Leaf, other: Leaf, shift: int) -> Node | Bucket:
    """Two leaves of different keys in one slot: as many levels down as their hashes agree."""
    if shift < 0:
        return Bucket((one, other) if one.key < other.key else (other, one))
    first, second = (one.hash >> shift) & MASK, (other.hash >> shift) & MASK
    if first == second:
        return Node(1 << first, (_split(one, other, shift - BITS),))
    return Node(1 << first | 1 << second, (one, other) if first < second else (other, one))


def _same(known: Leaf, leaf: Leaf) -> bool:
    return known.value is leaf.value or bool(known.value == leaf.value)


def find(bucket: Bucket, key: str) -> Leaf | None:
    """The leaf of a key in a bucket."""
    at = bisect_left(bucket.leaves, key, key=_key)
    return bucket.leaves[at] if at < len(bucket.leaves) and bucket.leaves[at].key == key else None


def drop(root: Node, place: int, key: str) -> Node:
    """The trie without a key; the same trie if it was not there."""
    path: list[tuple[Node, int]] = []
    node, shift = root, TOP
    while True:
        bit = 1 << ((place >> shift) & MASK)
        if not node.bitmap & bit:
            return root
        at = (node.bitmap & (bit - 1)).bit_count()
        path.append((node, at))
        child = node.children[at]
        if type(child) is not Node:
            break
        node = child
        shift -= BITS
    left: Child | None
    if type(child) is Leaf:
        if child.key != key:
            return root
        left = None
    else:
        rest = tuple(leaf for leaf in child.leaves if leaf.key != key)
        if len(rest) == len(child.leaves):
            return root
        left = rest[0] if len(rest) == 1 else Bucket(rest)
    for node, at in reversed(path):
        left = _shrunk(node, at, left)
        if node is root:
            break
        if len(left.children) == 1 and type(left.children[0]) is Leaf:
            left = left.children[0]
    return left if type(left) is Node else EMPTY


def _shrunk(node: Node, at: int, left: Child | None) -> Node:
    """A node whose child was taken out, or became something smaller."""
    if left is not None:
        return Node(node.bitmap, (*node.children[:at], left, *node.children[at + 1 :]))
    bit = node.bitmap
    for _ in range(at):
        bit &= bit - 1
    return Node(node.bitmap & ~(bit & -bit), (*node.children[:at], *node.children[at + 1 :]))


def leaves_of(child: Child) -> Iterator[Leaf]:
    """Every leaf, in the order of hash and key."""
    if type(child) is Leaf:
        yield child
    elif type(child) is Bucket:
        yield from child.leaves
    else:
        for each in child.children:
            yield from leaves_of(each)


def nodes_of(child: Child) -> Iterator[Node | Bucket]:
    """Every node and bucket, the upper ones first."""
    if type(child) is not Leaf:
        yield child
    if type(child) is Node:
        for each in child.children:
            yield from nodes_of(each)


Difference: TypeAlias = tuple[str, Leaf | None, Leaf | None]
"""A key, the leaf there was and the leaf there is."""


def differing(old: Node, new: Node) -> list[Difference]:
    """The keys in which two tries differ; what they share is not looked at."""
    found: list[Difference] = []
    _compare(old, new, found)
    return found


def _compare(old: Child | None, new: Child | None, found: list[Difference]) -> None:
    if old is new or (old is not None and new is not None and old.seal is not None and old.seal == new.seal):
        return
    if type(old) is Node and type(new) is Node:
        either = old.bitmap | new.bitmap
        while either:
            bit = either & -either
            either ^= bit
            was, now = _at(old, bit), _at(new, bit)
            if was is not now:
                _compare(was, now, found)
        return
    before = {leaf.key: leaf for leaf in leaves_of(old)} if old is not None else {}
    after = {leaf.key: leaf for leaf in leaves_of(new)} if new is not None else {}
    for key in sorted(before.keys() | after.keys()):
        left, right = before.get(key), after.get(key)
        if left is None or right is None or not _same(left, right):
            found.append((key, left, right))


def _at(node: Node, bit: int) -> Child | None:
    return node.children[(node.bitmap & (bit - 1)).bit_count()] if node.bitmap & bit else None


def seal(child: Child, content: Callable[[Any], bytes]) -> bytes:
    """The hash of everything below, computed once for each node however many tries share it."""
    known = child.seal
    if known is not None:
        return known
    if type(child) is Leaf:
        key = child.key.encode("utf-8", "surrogatepass")
        data = b"leaf" + len(key).to_bytes(4, "big") + key + content(child.value)
    elif type(child) is Bucket:
        data = b"bucket" + b"".join(seal(leaf, content) for leaf in child.leaves)
    else:
        data = b"node" + child.bitmap.to_bytes(4, "big") + b"".join(seal(each, content) for each in child.children)
    child.seal = hashlib.sha256(data).digest()
    return child.seal
