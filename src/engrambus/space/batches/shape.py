"""The tree of a batch: how many agents each level has, and how its agents are numbered and named."""

from __future__ import annotations

import msgspec

from engrambus.errors import BatchPath, BatchShapeInvalid, BatchThreshold, BatchTooLarge
from engrambus.space.batches.ranges import LeafRange

MAX_LEAVES = 1_000_000_000
"""Leaves that one batch may have."""


class BatchShape(msgspec.Struct, frozen=True, kw_only=True):
    """A tree in which every node above the last level has the same number of children.

    Level 0 is the root. The nodes of a level are numbered from 0, from left to right.
    """

    depth: int
    """Levels below the root; the leaves are at this level."""
    branching: int
    """Children of each node above the leaves."""

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return self.agents_at(self.depth)

    @property
    def agents(self) -> int:
        """Number of nodes of all levels, the root included."""
        return sum(self.agents_at(level) for level in range(self.depth + 1))

    def agents_at(self, level: int) -> int:
        """Return the number of nodes of a level."""
        agents: int = self.branching**level
        return agents

    def leaves_below(self, level: int) -> int:
        """Return the number of leaves below one node of a level."""
        return self.agents_at(self.depth - level)

    def leaf_span(self, level: int, number: int) -> LeafRange:
        """Return the leaves below a node; for a leaf, itself."""
        leaves = self.leaves_below(level)
        return LeafRange(number * leaves, (number + 1) * leaves)

    def whole_nodes(self, leaves: LeafRange, level: int) -> LeafRange:
        """Return the nodes of a level all of whose leaves are in a range, as a range of their numbers."""
        size = self.leaves_below(level)
        start = -(-leaves.start // size)
        return LeafRange(start, max(start, leaves.stop // size))

    def touched_nodes(self, leaves: LeafRange, level: int) -> range:
        """Return the numbers of the nodes of a level that have a leaf in a range that is not empty."""
        size = self.leaves_below(level)
        return range(leaves.start // size, (leaves.stop - 1) // size + 1)

    def path(self, level: int, number: int) -> str:
        """Return the path of a node: `0` is the root, `0.3.1` the second child of its fourth child."""
        parts = []
        for _ in range(level):
            number, part = divmod(number, self.branching)
            parts.append(str(part))
        return ".".join(["0", *reversed(parts)])

    def read_path(self, text: str) -> tuple[int, int]:
        """Return level and number of the node with that path, or refuse."""
        first, *parts = text.split(".")
        valid = first == "0" and len(parts) <= self.depth
        number = 0
        for part in parts:
            if not (part.isascii() and part.isdecimal() and len(part) <= 10 and int(part) < self.branching):
                valid = False
                break
            number = number * self.branching + int(part)
        if not valid:
            raise BatchPath(
                f"A path in this batch begins with 0 and has up to {self.depth} further numbers, "
                f"each from 0 to {self.branching - 1}.",
                field="path",
                used=text[:80],
                limit=self.path(self.depth, self.leaves - 1),
            )
        return len(parts), number


def check_shape(depth: int, branching: int, *, max_depth: int) -> BatchShape:
    """Return the shape, or refuse one that is empty, too deep or too large."""
    if depth < 1:
        raise BatchShapeInvalid("A batch has at least one level below its root.", field="depth", limit=1, used=depth)
    if branching < 1:
        raise BatchShapeInvalid("A node has at least one child.", field="branching", limit=1, used=branching)
    if depth > max_depth:
        raise BatchShapeInvalid(
            "The batch is too deep: its levels and the parents above it share spending.",
            field="depth",
            limit=max_depth,
            used=depth,
        )
    if branching > MAX_LEAVES or branching**depth > MAX_LEAVES:
        raise BatchTooLarge(
            field="branching",
            limit=MAX_LEAVES,
            used=f"{branching}^{depth}",
            hint="Lower `depth` or `branching`, or spawn several batches.",
        )
    return BatchShape(depth=depth, branching=branching)


def check_threshold(threshold: int) -> int:
    """Return the number of leaves from which a batch is put folded, or refuse one below 1."""
    if threshold < 1:
        raise BatchThreshold(field="compression_threshold", limit=1, used=threshold)
    return threshold
