"""Nodes of the trie: what each contains, and how changes copy the path to the root and share the rest.

A key's thirty hash bits are six slots of five bits, the top level first. A `TrieNode` has a bit for each slot in use,
and its children packed in slot order. A child is a `Leaf`, a `TrieNode` one level down, or, below the sixth level, a
`Bucket` of the leaves whose thirty bits are all equal, sorted by key.

The shape depends only on the keys: a leaf is as high as it can be without sharing its slot, so a node other than the
root never contains a single leaf and nothing else. Removing keeps this true, so a removed key leaves no trace.
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
"""Number of bits a hash is shifted to read its first slot."""

_key = attrgetter("key")

# decision 21: `gc=False` hides nodes from the garbage collector. They only refer to older values, so they form no
# cycles, and with a million of them each collection would make adding a name twenty times slower.


@final
class Leaf(msgspec.Struct, gc=False, eq=False):
    """A key, its hash and its value."""

    hash: int
    key: str
    value: Any
    digest: bytes | None = None


@final
class Bucket(msgspec.Struct, gc=False, eq=False):
    """Leaves whose thirty hash bits are all equal, sorted by key."""

    leaves: tuple[Leaf, ...]
    digest: bytes | None = None


@final
class TrieNode(msgspec.Struct, gc=False, eq=False):
    """Up to thirty-two children, packed; the bits of `bitmap` are the slots they fill."""

    bitmap: int
    children: tuple[Child, ...]
    digest: bytes | None = None


Child: TypeAlias = Leaf | Bucket | TrieNode

EMPTY = TrieNode(0, ())


def build(leaves: list[Leaf]) -> TrieNode:
    """Build the trie of leaves that are sorted by hash and key, from the bottom up."""
    return _build(leaves, [leaf.hash for leaf in leaves], TOP, 0, len(leaves)) if leaves else EMPTY


def _build(leaves: list[Leaf], hashes: list[int], shift: int, start: int, end: int) -> TrieNode:
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
    return TrieNode(bitmap, tuple(children))


def put(root: TrieNode, leaf: Leaf) -> tuple[TrieNode, int]:
    """Return the trie with a leaf put in, and 1 if its key is new; the same trie if nothing changed."""
    hash30, shift, node = leaf.hash, TOP, root
    path: list[tuple[TrieNode, int]] = []
    while True:
        bit = 1 << ((hash30 >> shift) & MASK)
        bitmap, children = node.bitmap, node.children
        index = (bitmap & (bit - 1)).bit_count()
        if not bitmap & bit:
            new = TrieNode(bitmap | bit, (*children[:index], leaf, *children[index:]))
            added = 1
            break
        child = children[index]
        if type(child) is TrieNode:
            path.append((node, index))
            node = child
            shift -= BITS
            continue
        joined, added = _join(child, leaf, shift - BITS)
        if joined is child:
            return root, 0
        new = TrieNode(bitmap, (*children[:index], joined, *children[index + 1 :]))
        break
    for parent, index in reversed(path):
        new = TrieNode(parent.bitmap, (*parent.children[:index], new, *parent.children[index + 1 :]))
    return new, added


def _join(child: Leaf | Bucket, leaf: Leaf, shift: int) -> tuple[Child, int]:
    """Return the new child of a slot that is in use when a leaf arrives there, and 1 if its key is new."""
    if type(child) is Bucket:
        index = bisect_left(child.leaves, leaf.key, key=_key)
        existing = find(child, leaf.key)
        if existing is not None and _same_value(existing, leaf):
            return child, 0
        end = index if existing is None else index + 1
        return Bucket((*child.leaves[:index], leaf, *child.leaves[end:])), int(existing is None)
    if child.key == leaf.key:
        return (child, 0) if _same_value(child, leaf) else (leaf, 0)
    return _split(child, leaf, shift), 1


def _split(first: Leaf, second: Leaf, shift: int) -> TrieNode | Bucket:
    """Return the subtree of two leaves in one slot, as many levels deep as their hashes agree."""
    if shift < 0:
        return Bucket((first, second) if first.key < second.key else (second, first))
    first_slot, second_slot = (first.hash >> shift) & MASK, (second.hash >> shift) & MASK
    if first_slot == second_slot:
        return TrieNode(1 << first_slot, (_split(first, second, shift - BITS),))
    children = (first, second) if first_slot < second_slot else (second, first)
    return TrieNode(1 << first_slot | 1 << second_slot, children)


def _same_value(existing: Leaf, leaf: Leaf) -> bool:
    return existing.value is leaf.value or bool(existing.value == leaf.value)


def find(bucket: Bucket, key: str) -> Leaf | None:
    """Return the leaf of a key in a bucket."""
    index = bisect_left(bucket.leaves, key, key=_key)
    return bucket.leaves[index] if index < len(bucket.leaves) and bucket.leaves[index].key == key else None


def drop(root: TrieNode, hash30: int, key: str) -> TrieNode:
    """Return the trie without a key; the same trie if it was not in it."""
    path: list[tuple[TrieNode, int]] = []
    node, shift = root, TOP
    while True:
        bit = 1 << ((hash30 >> shift) & MASK)
        if not node.bitmap & bit:
            return root
        index = (node.bitmap & (bit - 1)).bit_count()
        path.append((node, index))
        child = node.children[index]
        if type(child) is not TrieNode:
            break
        node = child
        shift -= BITS
    replacement: Child | None
    if type(child) is Leaf:
        if child.key != key:
            return root
        replacement = None
    else:
        leaves = tuple(leaf for leaf in child.leaves if leaf.key != key)
        if len(leaves) == len(child.leaves):
            return root
        replacement = leaves[0] if len(leaves) == 1 else Bucket(leaves)
    for node, index in reversed(path):
        replacement = _replace_child(node, index, replacement)
        if node is root:
            break
        # A node with a single leaf is replaced by that leaf, as if the dropped key had never been put.
        if len(replacement.children) == 1 and type(replacement.children[0]) is Leaf:
            replacement = replacement.children[0]
    return replacement if type(replacement) is TrieNode else EMPTY


def _replace_child(node: TrieNode, index: int, replacement: Child | None) -> TrieNode:
    """Return a node with one child replaced, or removed."""
    if replacement is not None:
        return TrieNode(node.bitmap, (*node.children[:index], replacement, *node.children[index + 1 :]))
    bits = node.bitmap
    for _ in range(index):
        bits &= bits - 1  # clears the lowest bit
    return TrieNode(node.bitmap & ~(bits & -bits), (*node.children[:index], *node.children[index + 1 :]))


def leaves_of(child: Child) -> Iterator[Leaf]:
    """Yield every leaf, sorted by hash and key."""
    if type(child) is Leaf:
        yield child
    elif type(child) is Bucket:
        yield from child.leaves
    else:
        for grandchild in child.children:
            yield from leaves_of(grandchild)


def nodes_of(child: Child) -> Iterator[TrieNode | Bucket]:
    """Yield every node and bucket, parents first."""
    if type(child) is not Leaf:
        yield child
    if type(child) is TrieNode:
        for grandchild in child.children:
            yield from nodes_of(grandchild)


Difference: TypeAlias = tuple[str, Leaf | None, Leaf | None]
"""A key with its old and its new leaf."""


def differences(old: TrieNode, new: TrieNode) -> list[Difference]:
    """Return the keys whose values differ between two tries; shared parts are not read."""
    result: list[Difference] = []
    _compare(old, new, result)
    return result


def _compare(old: Child | None, new: Child | None, result: list[Difference]) -> None:
    # Nodes that two tries share are the same object; equal digests also show tries that were built separately.
    if old is new or (old is not None and new is not None and old.digest is not None and old.digest == new.digest):
        return
    if type(old) is TrieNode and type(new) is TrieNode:
        bits = old.bitmap | new.bitmap
        while bits:
            bit = bits & -bits
            bits ^= bit
            was, now = _child_at(old, bit), _child_at(new, bit)
            if was is not now:
                _compare(was, now, result)
        return
    old_leaves = {leaf.key: leaf for leaf in leaves_of(old)} if old is not None else {}
    new_leaves = {leaf.key: leaf for leaf in leaves_of(new)} if new is not None else {}
    for key in sorted(old_leaves.keys() | new_leaves.keys()):
        old_leaf, new_leaf = old_leaves.get(key), new_leaves.get(key)
        if old_leaf is None or new_leaf is None or not _same_value(old_leaf, new_leaf):
            result.append((key, old_leaf, new_leaf))


def _child_at(node: TrieNode, bit: int) -> Child | None:
    return node.children[(node.bitmap & (bit - 1)).bit_count()] if node.bitmap & bit else None


def digest_of_child(child: Child, content: Callable[[Any], bytes]) -> bytes:
    """Return the hash of everything below; computed once for each node, however many tries share it."""
    if child.digest is not None:
        return child.digest
    # decision 21: BLAKE2b only places names. Integrity is SHA-256 over a tag, the bitmap and the children's hashes.
    if type(child) is Leaf:
        key = child.key.encode("utf-8", "surrogatepass")
        data = b"leaf" + len(key).to_bytes(4, "big") + key + content(child.value)
    elif type(child) is Bucket:
        data = b"bucket" + b"".join(digest_of_child(leaf, content) for leaf in child.leaves)
    else:
        digests = (digest_of_child(grandchild, content) for grandchild in child.children)
        data = b"node" + child.bitmap.to_bytes(4, "big") + b"".join(digests)
    child.digest = hashlib.sha256(data).digest()
    return child.digest
