"""The shared cortex: what a team remembers, what sub-agents inherit of it and what they contribute to it."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.cortex.conflicts import contradicts, find_conflicts
    from engrambus.knowledge.cortex.contributions import (
        MAX_CONTENT,
        MAX_EVIDENCE,
        MAX_VALUE,
        OPEN,
        ConflictCheck,
        Contribution,
        Dedupe,
        EvidenceItem,
        EvidenceKind,
        Security,
        Status,
        Verdict,
    )
    from engrambus.knowledge.cortex.episodes import (
        MAX_CATEGORIES,
        MAX_SLUG,
        MAX_TEXT,
        Accepted,
        Episode,
        is_slug,
        slug_of,
    )
    from engrambus.knowledge.cortex.facts import (
        ContributionMoved,
        ContributionSubmitted,
        EpisodeKept,
        SnapshotTaken,
        moved,
    )
    from engrambus.knowledge.cortex.forensics import signature
    from engrambus.knowledge.cortex.ports import CortexReads
    from engrambus.knowledge.cortex.sam_resolver import SamResolver
    from engrambus.knowledge.cortex.sameness import content_hash, similarity_key
    from engrambus.knowledge.cortex.snapshots import (
        MAX_BYTES,
        MAX_ITEMS,
        Limits,
        SharedContextSnapshot,
        SnapshotScope,
        items_of,
        take_snapshot,
    )
    from engrambus.knowledge.cortex.texts import MAX_INPUT, MAX_KIND, MAX_LABEL, check_kind, check_label, check_plain

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "conflicts": "contradicts find_conflicts",
        "contributions": (
            "MAX_CONTENT MAX_EVIDENCE MAX_VALUE OPEN ConflictCheck Contribution Dedupe EvidenceItem EvidenceKind "
            "Security Status Verdict "
        ),
        "episodes": "MAX_CATEGORIES MAX_SLUG MAX_TEXT Accepted Episode is_slug slug_of",
        "facts": "ContributionMoved ContributionSubmitted EpisodeKept SnapshotTaken moved",
        "forensics": "signature",
        "ports": "CortexReads",
        "sam_resolver": "SamResolver",
        "sameness": "content_hash similarity_key",
        "snapshots": "MAX_BYTES MAX_ITEMS Limits SharedContextSnapshot SnapshotScope items_of take_snapshot",
        "texts": "MAX_INPUT MAX_KIND MAX_LABEL check_kind check_label check_plain",
    })

__all__ = [
    "MAX_BYTES", "MAX_CATEGORIES", "MAX_CONTENT", "MAX_EVIDENCE", "MAX_INPUT", "MAX_ITEMS", "MAX_KIND", "MAX_LABEL",
    "MAX_SLUG", "MAX_TEXT", "MAX_VALUE", "OPEN", "Accepted", "ConflictCheck", "Contribution", "ContributionMoved",
    "ContributionSubmitted", "CortexReads", "Dedupe", "Episode", "EpisodeKept", "EvidenceItem", "EvidenceKind",
    "Limits", "SamResolver", "Security", "SharedContextSnapshot", "SnapshotScope", "SnapshotTaken", "Status", "Verdict",
    "check_kind", "check_label", "check_plain", "content_hash", "contradicts", "find_conflicts", "is_slug", "items_of",
    "moved", "signature", "similarity_key", "slug_of", "take_snapshot",
]
