"""Engrams: one small claim each, anchored to pointers."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.engrams.adoption import (
        ForeignEngram,
        PreparedAdoption,
        adopt_engrams,
        adopted_fact,
        author_name,
        check_foreign,
        check_own_words,
        id_from_elsewhere,
    )
    from engrambus.knowledge.engrams.approvals import (
        PromotionReads,
        PromotionView,
        StoredPromotion,
        answer_promotion,
    )
    from engrambus.knowledge.engrams.captures import (
        ClaimsConfirmed,
        PreparedCapture,
        capture_all,
        confirm_claims,
        waiting_claims,
    )
    from engrambus.knowledge.engrams.current import FindStale, stale_last
    from engrambus.knowledge.engrams.dedupe import count_negations, is_same_statement, numbers, twin_key
    from engrambus.knowledge.engrams.embeddings import (
        EngramVectors,
        StoredVector,
        TextEmbedder,
        VectorStore,
        embedding_ref,
        read_embedding_ref,
    )
    from engrambus.knowledge.engrams.facts import (
        EngramAdopted,
        EngramCaptured,
        EngramConfirmed,
        EngramDelivered,
        EngramForgotten,
        EngramPinned,
        EngramPromoted,
        EngramPut,
        EngramReceived,
        EngramReplaced,
        EngramsListed,
        EngramsRecalled,
        EngramsUsed,
        EngramTrusted,
        EngramUnpinned,
        PromotionAnswered,
        PromotionRequested,
        RecallForgotten,
        RepositoryLearned,
        TaskRecalled,
    )
    from engrambus.knowledge.engrams.filters import (
        AuthorRoles,
        EngramFilter,
        filter_store,
        list_once,
        listed_up_to,
        listing_reader,
        mark_listed,
        own_name,
        read_moment,
    )
    from engrambus.knowledge.engrams.finding import find_engram, find_shown, find_visible
    from engrambus.knowledge.engrams.keys import (
        KEY_FORMAT,
        hash_keys,
        name_keys,
        query_keys,
        renew_keys,
        requested_keys,
    )
    from engrambus.knowledge.engrams.learned import (
        LearnableEngram,
        LearnedOutcome,
        day_of,
        put_learned,
        was_withdrawn,
    )
    from engrambus.knowledge.engrams.lifecycle import (
        ConfirmAnswer,
        ForgetAnswer,
        PinAnswer,
        as_promoted,
        confirm,
        every_space,
        forget,
        keys_after,
        mark_delivered,
        promote,
        receive,
        repoint,
        resolve_again,
        set_pinned,
        with_gain,
    )
    from engrambus.knowledge.engrams.line_words import line_keys
    from engrambus.knowledge.engrams.memories import engram_of_memory, has_pointed_memories, memory_of_engram
    from engrambus.knowledge.engrams.ports import (
        EVERYTHING,
        HELD,
        HELD_KINDS,
        WITH_EVIDENCE,
        EngramReads,
        EngramUse,
        EngramView,
        LearnedEngram,
        ListingReads,
        PastEngram,
        RecallReads,
        RecentPuts,
        StoredEngram,
        Traits,
        UseReads,
        VisibleStore,
        fill,
        held_key,
        kind_key,
        replaces_key,
    )
    from engrambus.knowledge.engrams.postings import (
        BLOCK_BITS,
        BLOCK_ROWS,
        PostingChunk,
        below,
        chunks_of,
        count_postings,
        only,
        ordinals_of,
        without,
    )
    from engrambus.knowledge.engrams.put import (
        PreparedEngram,
        PutBatch,
        prefix_field,
        prepare,
        put_all,
        put_one,
        put_or_confirm,
    )
    from engrambus.knowledge.engrams.ranking import DEFAULT_K, MAX_K, pointer_names, posted_keys, rank
    from engrambus.knowledge.engrams.readers import Reader, describe_readers, read_by
    from engrambus.knowledge.engrams.recall_lines import PathLines, parse_path_lines, recall_line, stale_line
    from engrambus.knowledge.engrams.relevance import fit_before_edit, fit_text
    from engrambus.knowledge.engrams.replacing import may_decide_on, replaced_fact
    from engrambus.knowledge.engrams.repointing import Renewal, check_may_repoint, renewed_pointers, worst_stale
    from engrambus.knowledge.engrams.role_filter import RoleFilter
    from engrambus.knowledge.engrams.rules import read_used, stamp, validate
    from engrambus.knowledge.engrams.schemas import schema_bytes, schema_names
    from engrambus.knowledge.engrams.semantic_recall import find_about, most_similar, recall_by_meaning
    from engrambus.knowledge.engrams.sentences import count_sentences, split_sentences
    from engrambus.knowledge.engrams.sequences import sequence_of
    from engrambus.knowledge.engrams.splitting import find_speaker, fits_claim, split_claim
    from engrambus.knowledge.engrams.used import find_used, used_facts, visible_uses
    from engrambus.knowledge.engrams.value import (
        MAX_VALUED_USES,
        ValuedUse,
        value_in_space,
        value_of,
    )
    from engrambus.knowledge.engrams.values import (
        DEFAULTS,
        FOUND_DEFAULTS,
        KINDS,
        MAX_CLAIM_CHARS,
        MAX_CLAIM_SENTENCES,
        MAX_POINTERS,
        MAX_SHOWN_ID_CHARS,
        MAX_USED,
        Adoption,
        Capture,
        CaptureOutcome,
        CheckedEngram,
        Engram,
        Kind,
        Learned,
        Provenance,
        Source,
        UserKind,
        has_evidence,
        is_contradiction,
        is_learned,
        is_memory,
        less_export,
        memory_name,
    )
    from engrambus.knowledge.engrams.words import tokens

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "adoption": (
            "ForeignEngram PreparedAdoption adopt_engrams adopted_fact author_name check_foreign check_own_words "
            "id_from_elsewhere "
        ),
        "approvals": "PromotionReads PromotionView StoredPromotion answer_promotion",
        "captures": "ClaimsConfirmed PreparedCapture capture_all confirm_claims waiting_claims",
        "current": "FindStale stale_last",
        "dedupe": "count_negations is_same_statement numbers twin_key",
        "embeddings": "EngramVectors StoredVector TextEmbedder VectorStore embedding_ref read_embedding_ref",
        "facts": (
            "EngramAdopted EngramCaptured EngramConfirmed EngramDelivered EngramForgotten EngramPinned "
            "EngramPromoted EngramPut EngramReceived EngramReplaced EngramTrusted EngramUnpinned EngramsListed "
            "EngramsRecalled EngramsUsed PromotionAnswered PromotionRequested RecallForgotten RepositoryLearned "
            "TaskRecalled "
        ),
        "filters": (
            "AuthorRoles EngramFilter filter_store list_once listed_up_to listing_reader mark_listed own_name "
            "read_moment "
        ),
        "finding": "find_engram find_shown find_visible",
        "keys": "KEY_FORMAT hash_keys name_keys query_keys renew_keys requested_keys",
        "learned": "LearnableEngram LearnedOutcome day_of put_learned was_withdrawn",
        "lifecycle": (
            "ConfirmAnswer ForgetAnswer PinAnswer as_promoted confirm every_space forget keys_after "
            "mark_delivered promote receive repoint resolve_again set_pinned with_gain "
        ),
        "line_words": "line_keys",
        "memories": "engram_of_memory has_pointed_memories memory_of_engram",
        "ports": (
            "EVERYTHING HELD HELD_KINDS WITH_EVIDENCE EngramReads EngramUse EngramView LearnedEngram ListingReads "
            "PastEngram RecallReads RecentPuts StoredEngram Traits UseReads VisibleStore fill held_key kind_key "
            "replaces_key "
        ),
        "postings": "BLOCK_BITS BLOCK_ROWS PostingChunk below chunks_of count_postings only ordinals_of without",
        "put": "PreparedEngram PutBatch prefix_field prepare put_all put_one put_or_confirm",
        "ranking": "DEFAULT_K MAX_K pointer_names posted_keys rank",
        "readers": "Reader describe_readers read_by",
        "recall_lines": "PathLines parse_path_lines recall_line stale_line",
        "relevance": "fit_before_edit fit_text",
        "replacing": "may_decide_on replaced_fact",
        "repointing": "Renewal check_may_repoint renewed_pointers worst_stale",
        "role_filter": "RoleFilter",
        "rules": "read_used stamp validate",
        "schemas": "schema_bytes schema_names",
        "semantic_recall": "find_about most_similar recall_by_meaning",
        "sentences": "count_sentences split_sentences",
        "sequences": "sequence_of",
        "splitting": "find_speaker fits_claim split_claim",
        "used": "find_used used_facts visible_uses",
        "value": "MAX_VALUED_USES ValuedUse value_in_space value_of",
        "values": (
            "DEFAULTS FOUND_DEFAULTS KINDS MAX_CLAIM_CHARS MAX_CLAIM_SENTENCES MAX_POINTERS MAX_SHOWN_ID_CHARS "
            "MAX_USED Adoption Capture CaptureOutcome CheckedEngram Engram Kind Learned Provenance Source "
            "UserKind has_evidence is_contradiction is_learned is_memory less_export memory_name "
        ),
        "words": "tokens",
    })

__all__ = [
    "BLOCK_BITS", "BLOCK_ROWS", "DEFAULTS", "DEFAULT_K", "EVERYTHING", "FOUND_DEFAULTS", "HELD", "HELD_KINDS",
    "KEY_FORMAT", "KINDS", "MAX_CLAIM_CHARS", "MAX_CLAIM_SENTENCES", "MAX_K", "MAX_POINTERS", "MAX_SHOWN_ID_CHARS",
    "MAX_USED", "MAX_VALUED_USES", "WITH_EVIDENCE", "Adoption", "AuthorRoles", "Capture", "CaptureOutcome",
    "CheckedEngram", "ClaimsConfirmed", "ConfirmAnswer", "Engram", "EngramAdopted", "EngramCaptured", "EngramConfirmed",
    "EngramDelivered", "EngramFilter", "EngramForgotten", "EngramPinned", "EngramPromoted", "EngramPut", "EngramReads",
    "EngramReceived", "EngramReplaced", "EngramTrusted", "EngramUnpinned", "EngramUse", "EngramVectors", "EngramView",
    "EngramsListed", "EngramsRecalled", "EngramsUsed", "FindStale", "ForeignEngram", "ForgetAnswer", "Kind",
    "LearnableEngram", "Learned", "LearnedEngram", "LearnedOutcome", "ListingReads", "PastEngram", "PathLines",
    "PinAnswer", "PostingChunk", "PreparedAdoption", "PreparedCapture", "PreparedEngram", "PromotionAnswered",
    "PromotionReads", "PromotionRequested", "PromotionView", "Provenance", "PutBatch", "Reader", "RecallForgotten",
    "RecallReads", "RecentPuts", "Renewal", "RepositoryLearned", "RoleFilter", "Source", "StoredEngram",
    "StoredPromotion", "StoredVector", "TaskRecalled", "TextEmbedder", "Traits", "UseReads", "UserKind", "ValuedUse",
    "VectorStore", "VisibleStore", "adopt_engrams", "adopted_fact", "answer_promotion", "as_promoted", "author_name",
    "below", "capture_all", "check_foreign", "check_may_repoint", "check_own_words", "chunks_of", "confirm",
    "confirm_claims", "count_negations", "count_postings", "count_sentences", "day_of", "describe_readers",
    "embedding_ref", "engram_of_memory", "every_space", "fill", "filter_store", "find_about", "find_engram",
    "find_shown", "find_speaker", "find_used", "find_visible", "fit_before_edit", "fit_text", "fits_claim", "forget",
    "has_evidence", "has_pointed_memories", "hash_keys", "held_key", "id_from_elsewhere", "is_contradiction",
    "is_learned", "is_memory", "is_same_statement", "keys_after", "kind_key", "less_export", "line_keys", "list_once",
    "listed_up_to", "listing_reader", "mark_delivered", "mark_listed", "may_decide_on", "memory_name",
    "memory_of_engram", "most_similar", "name_keys", "numbers", "only", "ordinals_of", "own_name", "parse_path_lines",
    "pointer_names", "posted_keys", "prefix_field", "prepare", "promote", "put_all", "put_learned", "put_one",
    "put_or_confirm", "query_keys", "rank", "read_by", "read_embedding_ref", "read_moment", "read_used",
    "recall_by_meaning", "recall_line", "receive", "renew_keys", "renewed_pointers", "replaced_fact", "replaces_key",
    "repoint", "requested_keys", "resolve_again", "schema_bytes", "schema_names", "sequence_of", "set_pinned",
    "split_claim", "split_sentences", "stale_last", "stale_line", "stamp", "tokens", "twin_key", "used_facts",
    "validate", "value_in_space", "value_of", "visible_uses", "waiting_claims", "was_withdrawn", "with_gain", "without",
    "worst_stale",
]
