"""The shape of a batch: a tree of agents, its numbering and paths, and the ranges of leaves that are folded.

Nothing here knows tuples. The rules that put, unfold, fold and end the agents of a batch are in `space/tuples`.
"""

from engrambus.space.batches.ranges import LeafRange, count_leaves, overlap, united, without
from engrambus.space.batches.shape import BatchShape, check_shape, check_threshold

__all__ = [
    "BatchShape",
    "LeafRange",
    "check_shape",
    "check_threshold",
    "count_leaves",
    "overlap",
    "united",
    "without",
]
