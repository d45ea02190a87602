"""Engrams: one small claim each, anchored to pointers."""

from stigmergy.knowledge.engrams.facts import (
    EngramConfirmed,
    EngramDelivered,
    EngramForgotten,
    EngramPinned,
    EngramPromoted,
    EngramPut,
    EngramReceived,
    EngramUnpinned,
)
from stigmergy.knowledge.engrams.keys import Keys, hash_keys, name_keys, normalise_key, query_keys
from stigmergy.knowledge.engrams.likeness import alike, twin_key
from stigmergy.knowledge.engrams.ports import EVERYTHING, EngramReads, Stored, Traits, kind_key
from stigmergy.knowledge.engrams.recall import DEFAULT_K, DEPTH, MAX_K, Sight, pointer_names, posted_keys, recall
from stigmergy.knowledge.engrams.rules import (
    CheckedEngram,
    print_duration,
    stamp,
    validate,
    validate_whole,
)
from stigmergy.knowledge.engrams.schemas import schema_bytes, schema_names, validator
from stigmergy.knowledge.engrams.sentences import count_sentences
from stigmergy.knowledge.engrams.values import (
    DEFAULTS,
    KINDS,
    Defaults,
    Engram,
    Kind,
    Provenance,
    Source,
    is_contradiction,
    less_export,
)

__all__ = [
    "DEFAULTS",
    "DEFAULT_K",
    "DEPTH",
    "EVERYTHING",
    "KINDS",
    "MAX_K",
    "CheckedEngram",
    "Defaults",
    "Engram",
    "EngramConfirmed",
    "EngramDelivered",
    "EngramForgotten",
    "EngramPinned",
    "EngramPromoted",
    "EngramPut",
    "EngramReads",
    "EngramReceived",
    "EngramUnpinned",
    "Keys",
    "Kind",
    "Provenance",
    "Sight",
    "Source",
    "Stored",
    "Traits",
    "alike",
    "count_sentences",
    "hash_keys",
    "is_contradiction",
    "kind_key",
    "less_export",
    "name_keys",
    "normalise_key",
    "pointer_names",
    "posted_keys",
    "print_duration",
    "query_keys",
    "recall",
    "schema_bytes",
    "schema_names",
    "stamp",
    "twin_key",
    "validate",
    "validate_whole",
    "validator",
]
