"""Anchoring: from text that somebody pasted to the pointer that leads to it."""

from stigmergy.evidence.anchoring.anchors import Anchors, Recognised
from stigmergy.evidence.anchoring.search import Anchor

__all__ = ["Anchor", "Anchors", "Recognised"]
