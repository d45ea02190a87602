"""Anchoring: from text that was pasted to the pointer that leads to it."""

from engrambus.evidence.anchoring.anchors import Anchors
from engrambus.evidence.anchoring.pasted_text import QuotedText, is_blank
from engrambus.evidence.anchoring.recognition import Recognised
from engrambus.evidence.anchoring.search import Anchor

__all__ = ["Anchor", "Anchors", "QuotedText", "Recognised", "is_blank"]
