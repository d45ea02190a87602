"""Anchoring: from text that somebody pasted to the pointer that leads to it."""

from engrambus.evidence.anchoring.anchors import Anchors, Recognised
from engrambus.evidence.anchoring.search import Anchor

__all__ = ["Anchor", "Anchors", "Recognised"]
