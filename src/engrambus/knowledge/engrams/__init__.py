"""Engrams: one small claim each, anchored to pointers."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.engrams.approvals import (
        PromotionReads,
        PromotionView,
        StoredPromotion,
        answer_promotion,
    )
    from engrambus.knowledge.engrams.dedupe import count_negations, is_same_statement, numbers, twin_key
    from engrambus.knowledge.engrams.facts import (
        EngramConfirmed,
        EngramDelivered,
        EngramForgotten,
        EngramPinned,
        EngramPromoted,
        EngramPut,
        EngramReceived,
        EngramUnpinned,
        PromotionAnswered,
        PromotionRequested,
    )
    from engrambus.knowledge.engrams.keys import hash_keys, normalise_key, query_keys
    from engrambus.knowledge.engrams.lifecycle import (
        ConfirmAnswer,
        ForgetAnswer,
        PinAnswer,
        confirm,
        find_engram,
        forget,
        mark_delivered,
        promote,
        receive,
        set_pinned,
        with_gain,
    )
    from engrambus.knowledge.engrams.ports import (
        EVERYTHING,
        EngramReads,
        EngramView,
        RecentPuts,
        StoredEngram,
        Traits,
        VisibleStore,
        kind_key,
    )
    from engrambus.knowledge.engrams.put import (
        PreparedEngram,
        PutFact,
        prefix_field,
        prepare,
        put_all,
        put_one,
        put_or_confirm,
    )
    from engrambus.knowledge.engrams.ranking import DEFAULT_K, DEPTH, MAX_K, pointer_names, posted_keys, recall
    from engrambus.knowledge.engrams.role_filter import RoleFilter
    from engrambus.knowledge.engrams.rules import stamp, validate
    from engrambus.knowledge.engrams.schemas import schema_bytes, schema_names
    from engrambus.knowledge.engrams.sentences import count_sentences, split_sentences
    from engrambus.knowledge.engrams.values import (
        DEFAULTS,
        FOUND_DEFAULTS,
        KINDS,
        CheckedEngram,
        Engram,
        Kind,
        Provenance,
        Source,
        has_evidence,
        is_contradiction,
        less_export,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "approvals": "PromotionReads PromotionView StoredPromotion answer_promotion",
        "dedupe": "count_negations is_same_statement numbers twin_key",
        "facts": (
            "EngramConfirmed EngramDelivered EngramForgotten EngramPinned EngramPromoted EngramPut EngramReceived "
            "EngramUnpinned PromotionAnswered PromotionRequested "
        ),
        "keys": "hash_keys normalise_key query_keys",
        "lifecycle": (
            "ConfirmAnswer ForgetAnswer PinAnswer confirm find_engram forget mark_delivered promote receive "
            "set_pinned with_gain "
        ),
        "ports": "EVERYTHING EngramReads EngramView RecentPuts StoredEngram Traits VisibleStore kind_key",
        "put": "PreparedEngram PutFact prefix_field prepare put_all put_one put_or_confirm",
        "ranking": "DEFAULT_K DEPTH MAX_K pointer_names posted_keys recall",
        "role_filter": "RoleFilter",
        "rules": "stamp validate",
        "schemas": "schema_bytes schema_names",
        "sentences": "count_sentences split_sentences",
        "values": (
            "DEFAULTS FOUND_DEFAULTS KINDS CheckedEngram Engram Kind Provenance Source has_evidence "
            "is_contradiction less_export "
        ),
    })

__all__ = [
    "DEFAULTS", "DEFAULT_K", "DEPTH", "EVERYTHING", "FOUND_DEFAULTS", "KINDS", "MAX_K", "CheckedEngram",
    "ConfirmAnswer", "Engram", "EngramConfirmed", "EngramDelivered", "EngramForgotten", "EngramPinned",
    "EngramPromoted", "EngramPut", "EngramReads", "EngramReceived", "EngramUnpinned", "EngramView", "ForgetAnswer",
    "Kind", "PinAnswer", "PreparedEngram", "PromotionAnswered", "PromotionReads", "PromotionRequested", "PromotionView",
    "Provenance", "PutFact", "RecentPuts", "RoleFilter", "Source", "StoredEngram", "StoredPromotion", "Traits",
    "VisibleStore", "answer_promotion", "confirm", "count_negations", "count_sentences", "find_engram", "forget",
    "has_evidence", "hash_keys", "is_contradiction", "is_same_statement", "kind_key", "less_export", "mark_delivered",
    "normalise_key", "numbers", "pointer_names", "posted_keys", "prefix_field", "prepare", "promote", "put_all",
    "put_one", "put_or_confirm", "query_keys", "recall", "receive", "schema_bytes", "schema_names", "set_pinned",
    "split_sentences", "stamp", "twin_key", "validate", "with_gain",
]
