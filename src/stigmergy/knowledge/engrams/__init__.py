"""Engrams: one small claim each, anchored to pointers."""

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
    "Kind",
    "Provenance",
    "Source",
    "count_sentences",
    "less_export",
    "print_duration",
    "schema_bytes",
    "schema_names",
    "stamp",
    "validate",
    "validate_whole",
    "validator",
]
