"""The shared cortex: what a team remembers, what sub-agents inherit of it and what they contribute to it."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.cortex.adoption import (
        AdoptableMemory,
        ForeignMemory,
        adopt_memories,
        check_foreign_memory,
    )
    from engrambus.knowledge.cortex.episodes import EpisodeDraft, SamResolver, episode_at, keep, no_episode, pin
    from engrambus.knowledge.cortex.memory_engrams import earlier_id, memory_engram, memory_put
    from engrambus.knowledge.cortex.ports import CortexReads
    from engrambus.knowledge.cortex.review import (
        AcceptanceTerms,
        accept,
        engram_draft,
        evidence_pointers,
        find_contribution,
        reject,
        visible_contributions,
        visible_part,
        withdraw,
    )
    from engrambus.knowledge.cortex.snapshots import (
        DEFAULT_MAX_BYTES,
        DEFAULT_MAX_ITEMS,
        SharedContextSnapshot,
        SnapshotLimits,
        SnapshotScope,
        covered_engrams,
        inherit_snapshot,
        snapshot_bytes,
    )
    from engrambus.knowledge.cortex.submission import (
        MAX_CONTENT_CHARS,
        MAX_EVIDENCE,
        MAX_EVIDENCE_CHARS,
        ContributionDraft,
        check_draft,
        compare_with_pins,
        redact_draft,
        submit,
    )
    from engrambus.knowledge.cortex.text_rules import (
        MAX_CATEGORIES,
        MAX_INPUT_CHARS,
        MAX_KIND_CHARS,
        MAX_LABEL_CHARS,
        MAX_SLUG_CHARS,
        MAX_TEXT_CHARS,
        check_kind,
        check_label,
        check_slug,
        check_text,
        log_line,
    )
    from engrambus.knowledge.cortex.values import (
        Contribution,
        ContributionMoved,
        ContributionSubmitted,
        Episode,
        EpisodeKept,
        EvidenceItem,
        EvidenceKind,
        SnapshotTaken,
        Status,
        apply_move,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "adoption": "AdoptableMemory ForeignMemory adopt_memories check_foreign_memory",
        "episodes": "EpisodeDraft SamResolver episode_at keep no_episode pin",
        "memory_engrams": "earlier_id memory_engram memory_put",
        "ports": "CortexReads",
        "review": (
            "AcceptanceTerms accept engram_draft evidence_pointers find_contribution reject visible_contributions "
            "visible_part withdraw "
        ),
        "snapshots": (
            "DEFAULT_MAX_BYTES DEFAULT_MAX_ITEMS SharedContextSnapshot SnapshotLimits SnapshotScope "
            "covered_engrams inherit_snapshot snapshot_bytes "
        ),
        "submission": (
            "MAX_CONTENT_CHARS MAX_EVIDENCE MAX_EVIDENCE_CHARS ContributionDraft check_draft compare_with_pins "
            "redact_draft submit "
        ),
        "text_rules": (
            "MAX_CATEGORIES MAX_INPUT_CHARS MAX_KIND_CHARS MAX_LABEL_CHARS MAX_SLUG_CHARS MAX_TEXT_CHARS "
            "check_kind check_label check_slug check_text log_line "
        ),
        "values": (
            "Contribution ContributionMoved ContributionSubmitted Episode EpisodeKept EvidenceItem EvidenceKind "
            "SnapshotTaken Status apply_move "
        ),
    })

__all__ = [
    "DEFAULT_MAX_BYTES", "DEFAULT_MAX_ITEMS", "MAX_CATEGORIES", "MAX_CONTENT_CHARS", "MAX_EVIDENCE",
    "MAX_EVIDENCE_CHARS", "MAX_INPUT_CHARS", "MAX_KIND_CHARS", "MAX_LABEL_CHARS", "MAX_SLUG_CHARS", "MAX_TEXT_CHARS",
    "AcceptanceTerms", "AdoptableMemory", "Contribution", "ContributionDraft", "ContributionMoved",
    "ContributionSubmitted", "CortexReads", "Episode", "EpisodeDraft", "EpisodeKept", "EvidenceItem", "EvidenceKind",
    "ForeignMemory", "SamResolver", "SharedContextSnapshot", "SnapshotLimits", "SnapshotScope", "SnapshotTaken",
    "Status", "accept", "adopt_memories", "apply_move", "check_draft", "check_foreign_memory", "check_kind",
    "check_label", "check_slug", "check_text", "compare_with_pins", "covered_engrams", "earlier_id", "engram_draft",
    "episode_at", "evidence_pointers", "find_contribution", "inherit_snapshot", "keep", "log_line", "memory_engram",
    "memory_put", "no_episode", "pin", "redact_draft", "reject", "snapshot_bytes", "submit", "visible_contributions",
    "visible_part", "withdraw",
]
