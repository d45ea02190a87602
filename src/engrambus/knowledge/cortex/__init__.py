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
    from engrambus.knowledge.cortex.contradiction_records import (
        close_contradictions,
        decide_between,
        find_contradiction,
        is_waiting,
        may_see_contradiction,
        record_contradictions,
    )
    from engrambus.knowledge.cortex.episodes import EpisodeDraft, SamResolver, episode_at, keep, no_episode, pin
    from engrambus.knowledge.cortex.memory_engrams import earlier_id, memory_engram, memory_put
    from engrambus.knowledge.cortex.nearest import (
        EarlierClaim,
        earlier_claims,
        names_memory,
        nearest_claims,
    )
    from engrambus.knowledge.cortex.ports import CortexReads
    from engrambus.knowledge.cortex.review import (
        AcceptanceTerms,
        accept,
        engram_drafts,
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
        MAX_SIMILAR_ITEMS,
        SharedContextSnapshot,
        SnapshotLimits,
        SnapshotScope,
        covered_engrams,
        inherit_snapshot,
        snapshot_bytes,
        snapshot_tokens,
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
    from engrambus.knowledge.cortex.taken_snapshots import (
        find_snapshot,
        names_snapshot,
        visible_takings,
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
        CHECKED_KINDS,
        Contradiction,
        ContradictionRecorded,
        ContradictionSettled,
        Contribution,
        ContributionMoved,
        ContributionSubmitted,
        Episode,
        EpisodeKept,
        EvidenceItem,
        EvidenceKind,
        Keep,
        NearClaim,
        SnapshotRecipe,
        SnapshotTaken,
        SnapshotTaking,
        Status,
        apply_move,
        settle,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "adoption": "AdoptableMemory ForeignMemory adopt_memories check_foreign_memory",
        "contradiction_records": (
            "close_contradictions decide_between find_contradiction is_waiting may_see_contradiction "
            "record_contradictions "
        ),
        "episodes": "EpisodeDraft SamResolver episode_at keep no_episode pin",
        "memory_engrams": "earlier_id memory_engram memory_put",
        "nearest": "EarlierClaim earlier_claims names_memory nearest_claims",
        "ports": "CortexReads",
        "review": (
            "AcceptanceTerms accept engram_drafts evidence_pointers find_contribution reject "
            "visible_contributions visible_part withdraw "
        ),
        "snapshots": (
            "DEFAULT_MAX_BYTES DEFAULT_MAX_ITEMS MAX_SIMILAR_ITEMS SharedContextSnapshot SnapshotLimits "
            "SnapshotScope covered_engrams inherit_snapshot snapshot_bytes snapshot_tokens "
        ),
        "submission": (
            "MAX_CONTENT_CHARS MAX_EVIDENCE MAX_EVIDENCE_CHARS ContributionDraft check_draft compare_with_pins "
            "redact_draft submit "
        ),
        "taken_snapshots": "find_snapshot names_snapshot visible_takings",
        "text_rules": (
            "MAX_CATEGORIES MAX_INPUT_CHARS MAX_KIND_CHARS MAX_LABEL_CHARS MAX_SLUG_CHARS MAX_TEXT_CHARS "
            "check_kind check_label check_slug check_text log_line "
        ),
        "values": (
            "CHECKED_KINDS Contradiction ContradictionRecorded ContradictionSettled Contribution "
            "ContributionMoved ContributionSubmitted Episode EpisodeKept EvidenceItem EvidenceKind Keep NearClaim "
            "SnapshotRecipe SnapshotTaken SnapshotTaking Status apply_move settle "
        ),
    })

__all__ = [
    "CHECKED_KINDS", "DEFAULT_MAX_BYTES", "DEFAULT_MAX_ITEMS", "MAX_CATEGORIES", "MAX_CONTENT_CHARS", "MAX_EVIDENCE",
    "MAX_EVIDENCE_CHARS", "MAX_INPUT_CHARS", "MAX_KIND_CHARS", "MAX_LABEL_CHARS", "MAX_SIMILAR_ITEMS", "MAX_SLUG_CHARS",
    "MAX_TEXT_CHARS", "AcceptanceTerms", "AdoptableMemory", "Contradiction", "ContradictionRecorded",
    "ContradictionSettled", "Contribution", "ContributionDraft", "ContributionMoved", "ContributionSubmitted",
    "CortexReads", "EarlierClaim", "Episode", "EpisodeDraft", "EpisodeKept", "EvidenceItem", "EvidenceKind",
    "ForeignMemory", "Keep", "NearClaim", "SamResolver", "SharedContextSnapshot", "SnapshotLimits", "SnapshotRecipe",
    "SnapshotScope", "SnapshotTaken", "SnapshotTaking", "Status", "accept", "adopt_memories", "apply_move",
    "check_draft", "check_foreign_memory", "check_kind", "check_label", "check_slug", "check_text",
    "close_contradictions", "compare_with_pins", "covered_engrams", "decide_between", "earlier_claims", "earlier_id",
    "engram_drafts", "episode_at", "evidence_pointers", "find_contradiction", "find_contribution", "find_snapshot",
    "inherit_snapshot", "is_waiting", "keep", "log_line", "may_see_contradiction", "memory_engram", "memory_put",
    "names_memory", "names_snapshot", "nearest_claims", "no_episode", "pin", "record_contradictions", "redact_draft",
    "reject", "settle", "snapshot_bytes", "snapshot_tokens", "submit", "visible_contributions", "visible_part",
    "visible_takings", "withdraw",
]
