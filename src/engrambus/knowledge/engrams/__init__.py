"""Engrams: one small claim each, anchored to pointers."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
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
    from engrambus.knowledge.engrams.likeness import alike, twin_key
    from engrambus.knowledge.engrams.ports import EVERYTHING, EngramReads, Sight, Stored, Traits, kind_key
    from engrambus.knowledge.engrams.recalling import DEFAULT_K, DEPTH, MAX_K, pointer_names, posted_keys, recall
    from engrambus.knowledge.engrams.rules import print_duration, stamp, validate, validate_whole
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
        "facts": (
            "EngramConfirmed EngramDelivered EngramForgotten EngramPinned EngramPromoted EngramPut EngramReceived "
            "EngramUnpinned "
        ),
        "keys": "Keys hash_keys name_keys normalise_key query_keys",
        "likeness": "alike twin_key",
        "ports": "EVERYTHING EngramReads Sight Stored Traits kind_key",
        "recalling": "DEFAULT_K DEPTH MAX_K pointer_names posted_keys recall",
        "rules": "print_duration stamp validate validate_whole",
        "schemas": "schema_bytes schema_names validator",
        "sentences": "count_sentences",
        "values": "DEFAULTS KINDS CheckedEngram Defaults Engram Kind Provenance Source is_contradiction less_export",
    })

__all__ = [
    "DEFAULTS", "DEFAULT_K", "DEPTH", "EVERYTHING", "KINDS", "MAX_K", "CheckedEngram", "Defaults", "Engram",
    "EngramConfirmed", "EngramDelivered", "EngramForgotten", "EngramPinned", "EngramPromoted", "EngramPut",
    "EngramReads", "EngramReceived", "EngramUnpinned", "Keys", "Kind", "Provenance", "Sight", "Source", "Stored",
    "Traits", "alike", "count_sentences", "hash_keys", "is_contradiction", "kind_key", "less_export", "name_keys",
    "normalise_key", "pointer_names", "posted_keys", "print_duration", "query_keys", "recall", "schema_bytes",
    "schema_names", "stamp", "twin_key", "validate", "validate_whole", "validator",
]
