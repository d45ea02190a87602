"""Engrams: one small claim each, anchored to pointers."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.knowledge.engrams.dedupe import is_repeat, twin_key
    from engrambus.knowledge.engrams.facts import (
        EngramConfirmed,
        EngramDelivered,
        EngramForgotten,
        EngramPinned,
        EngramPromoted,
        EngramPut,
        EngramReceived,
        EngramUnpinned,
    )
    from engrambus.knowledge.engrams.keys import Keys, hash_keys, name_keys, normalise_key, query_keys
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
    )
    from engrambus.knowledge.engrams.ports import (
        EVERYTHING,
        EngramReads,
        EngramView,
        StoredEngram,
        Traits,
        VisibleStore,
        kind_key,
    )
    from engrambus.knowledge.engrams.put import (
        PreparedEngram,
        PutBatch,
        PutFact,
        prefix_field,
        prepare,
        put_all,
        put_one,
        put_or_confirm,
    )
    from engrambus.knowledge.engrams.ranking import DEFAULT_K, DEPTH, MAX_K, pointer_names, posted_keys, recall
    from engrambus.knowledge.engrams.rules import print_duration, stamp, validate, validate_stamped
    from engrambus.knowledge.engrams.schemas import schema_bytes, schema_names, validator
    from engrambus.knowledge.engrams.sentences import count_sentences
    from engrambus.knowledge.engrams.values import (
        DEFAULTS,
        KINDS,
        CheckedEngram,
        Defaults,
        Engram,
        Kind,
        Provenance,
        Source,
        is_contradiction,
        less_export,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "dedupe": "is_repeat twin_key",
        "facts": (
            "EngramConfirmed EngramDelivered EngramForgotten EngramPinned EngramPromoted EngramPut EngramReceived "
            "EngramUnpinned "
        ),
        "keys": "Keys hash_keys name_keys normalise_key query_keys",
        "lifecycle": (
            "ConfirmAnswer ForgetAnswer PinAnswer confirm find_engram forget mark_delivered promote receive "
            "set_pinned "
        ),
        "ports": "EVERYTHING EngramReads EngramView StoredEngram Traits VisibleStore kind_key",
        "put": "PreparedEngram PutBatch PutFact prefix_field prepare put_all put_one put_or_confirm",
        "ranking": "DEFAULT_K DEPTH MAX_K pointer_names posted_keys recall",
        "rules": "print_duration stamp validate validate_stamped",
        "schemas": "schema_bytes schema_names validator",
        "sentences": "count_sentences",
        "values": "DEFAULTS KINDS CheckedEngram Defaults Engram Kind Provenance Source is_contradiction less_export",
    })

__all__ = [
    "DEFAULTS", "DEFAULT_K", "DEPTH", "EVERYTHING", "KINDS", "MAX_K", "CheckedEngram", "ConfirmAnswer", "Defaults",
    "Engram", "EngramConfirmed", "EngramDelivered", "EngramForgotten", "EngramPinned", "EngramPromoted", "EngramPut",
    "EngramReads", "EngramReceived", "EngramUnpinned", "EngramView", "ForgetAnswer", "Keys", "Kind", "PinAnswer",
    "PreparedEngram", "Provenance", "PutBatch", "PutFact", "Source", "StoredEngram", "Traits", "VisibleStore",
    "confirm", "count_sentences", "find_engram", "forget", "hash_keys", "is_contradiction", "is_repeat", "kind_key",
    "less_export", "mark_delivered", "name_keys", "normalise_key", "pointer_names", "posted_keys", "prefix_field",
    "prepare", "print_duration", "promote", "put_all", "put_one", "put_or_confirm", "query_keys", "recall", "receive",
    "schema_bytes", "schema_names", "set_pinned", "stamp", "twin_key", "validate", "validate_stamped", "validator",
]
