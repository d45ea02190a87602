"""Engrams: one small claim each, anchored to pointers."""

from stigmergy.knowledge.engrams.keys import Keys, hash_keys, name_keys, normalise_key, query_keys
from stigmergy.knowledge.engrams.rules import (
    CheckedEngram,
    EngramDraft,
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
    less_export,
)

__all__ = [
    "DEFAULTS",
    "KINDS",
    "CheckedEngram",
    "Defaults",
    "Engram",
    "EngramDraft",
    "Keys",
    "Kind",
    "Provenance",
    "Source",
    "count_sentences",
    "hash_keys",
    "less_export",
    "name_keys",
    "normalise_key",
    "print_duration",
    "query_keys",
    "schema_bytes",
    "schema_names",
    "stamp",
    "validate",
    "validate_whole",
    "validator",
]
