"""The published schemas, in both families.  # EB-01"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.knowledge.engrams import schema_bytes, schema_names, schemas
from engrambus.knowledge.engrams.schemas import ENGRAM, LESS_ENGRAM, validator

DRAFT = "https://json-schema.org/draft/2020-12/schema"
KINDS = ["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"]
REQUIRED = ["id", "kind", "claim", "pointers", "confidence", "ttl", "scope", "provenance"]

ENGRAM_AS_PUBLISHED: dict[str, Any] = {
    "$schema": DRAFT,
    "$id": "verdict://schemas/engram.v0.1.json",
    "type": "object",
    "required": REQUIRED,
    "properties": {
        "id": {"type": "string", "description": "ULID/UUID"},
        "kind": {"type": "string", "enum": KINDS},
        "claim": {"type": "string", "maxLength": 500},
        "pointers": {
            "type": "array",
            "minItems": 1,
            "maxItems": 12,
            "items": {"$ref": "verdict://schemas/pointer.v0.1.json"},
        },
        "confidence": {"type": "number", "minimum": 0.0, "maximum": 1.0},
        "ttl": {"type": "string", "description": "ISO-8601 duration, e.g. PT6H, P7D"},
        "scope": {"type": "string", "enum": ["run", "project", "org", "global"]},
        "tags": {"type": "array", "maxItems": 12, "items": {"type": "string", "maxLength": 40}},
        "hash_keys": {"type": "array", "maxItems": 32, "items": {"type": "string", "maxLength": 80}},
        "embedding_ref": {"type": "string", "description": "Optional pointer to embedding storage/id"},
        "provenance": {
            "type": "object",
            "required": ["created_at", "created_by", "source"],
            "properties": {
                "created_at": {"type": "string", "format": "date-time"},
                "created_by": {"type": "string", "description": "agent_id"},
                "source": {"type": "string", "enum": ["rag", "sam", "agent", "tool"]},
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
POINTER_AS_PUBLISHED: dict[str, Any] = {
    "$schema": DRAFT,
    "$id": "verdict://schemas/pointer.v0.1.json",
    "type": "object",
    "required": ["type", "ref"],
    "properties": {
        "type": {"type": "string", "enum": ["repo", "artifact", "sam", "url", "test", "diff"]},
        "ref": {"type": "string", "maxLength": 300},
        "digest": {"type": "string", "description": "Optional content hash for integrity"},
        "span": {"type": "string", "description": "Optional Lx-Ly or section id", "maxLength": 80},
    },
    "additionalProperties": False,
}
LESS_ENGRAM_AS_PUBLISHED: dict[str, Any] = {
    "$schema": DRAFT,
    "$id": "verdict://skills/less/schemas/engram.v0.1.json",
    "type": "object",
    "required": REQUIRED,
    "properties": {
        "id": {"type": "string"},
        "kind": {"type": "string", "enum": KINDS},
        "claim": {"type": "string", "maxLength": 500},
        "pointers": {
            "type": "array",
            "minItems": 1,
            "maxItems": 12,
            "items": {"$ref": "verdict://skills/less/schemas/pointer.v0.1.json"},
        },
        "confidence": {"type": "number", "minimum": 0.0, "maximum": 1.0},
        "ttl": {"type": "string", "description": "ISO-8601 duration (PT6H, P7D, etc.)"},
        "scope": {"type": "string", "enum": ["run", "project", "org", "global"]},
        "tags": {"type": "array", "maxItems": 12, "items": {"type": "string", "maxLength": 40}},
        "hash_keys": {"type": "array", "maxItems": 32, "items": {"type": "string", "maxLength": 80}},
        "provenance": {
            "type": "object",
            "required": ["created_at", "created_by", "source"],
            "properties": {
                "created_at": {"type": "string", "format": "date-time"},
                "created_by": {"type": "string"},
                "source": {"type": "string", "enum": ["rag", "sam", "agent", "tool"]},
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
LESS_POINTER_AS_PUBLISHED: dict[str, Any] = {
    "$schema": DRAFT,
    "$id": "verdict://skills/less/schemas/pointer.v0.1.json",
    "type": "object",
    "required": ["type", "ref"],
    "properties": {
        "type": {"type": "string", "enum": ["repo", "artifact", "sam", "diff", "url", "test"]},
        "ref": {"type": "string", "maxLength": 300},
        "span": {"type": "string", "maxLength": 80},
        "digest": {"type": "string"},
    },
    "additionalProperties": False,
}
PUBLISHED = {
    "engram.v0.1.json": ENGRAM_AS_PUBLISHED,
    "pointer.v0.1.json": POINTER_AS_PUBLISHED,
    "less/engram.v0.1.json": LESS_ENGRAM_AS_PUBLISHED,
    "less/pointer.v0.1.json": LESS_POINTER_AS_PUBLISHED,
}

GOOD: dict[str, Any] = {
    "id": "01JH000000000000000000000A",
    "kind": "risk",
    "claim": "The gateway reserves budget twice.",
    "pointers": [{"type": "repo", "ref": "repo:a.py@" + "a" * 40}],
    "confidence": 0.7,
    "ttl": "P7D",
    "scope": "project",
    "provenance": {"created_at": "2026-01-08T09:30:00Z", "created_by": "run/agent", "source": "agent"},
}


def test_four_schemas_are_published() -> None:
    assert schema_names() == tuple(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_schema_is_as_published_including_the_order(name: str) -> None:
    assert json.dumps(json.loads(schema_bytes(name))) == json.dumps(PUBLISHED[name])


@pytest.mark.parametrize("name", ["", "engram.json", "../values.py", "/etc/passwd", "schemas/__init__.py"])
def test_other_files_cannot_be_read(name: str) -> None:
    with pytest.raises(KeyError):
        schema_bytes(name)


@pytest.mark.parametrize("name", [ENGRAM, LESS_ENGRAM])
@pytest.mark.parametrize(
    "change",
    [
        {"surprise": 1},
        {"pointers": []},
        {"pointers": [{"type": "repo", "ref": "x", "extra": 1}]},
        {"pointers": [{"type": "ftp", "ref": "x"}]},
        {"claim": "x" * 501},
        {"confidence": 1.1},
        {"scope": "world"},
        {"tags": ["x"] * 13},
        {"provenance": {**GOOD["provenance"], "created_at": "yesterday"}},
        {"provenance": {**GOOD["provenance"], "content_digest": "sha256:…"}},
    ],
)
def test_both_families_check_references_formats_and_unknown_properties(name: str, change: dict[str, Any]) -> None:
    assert validator(name).is_valid(GOOD)
    assert not validator(name).is_valid({**GOOD, **change})


def test_references_out_of_the_package_are_not_followed() -> None:
    with pytest.raises(LookupError):
        schemas._retrieve("https://json-schema.org/draft/2020-12/schema")


def test_only_one_family_has_embeddings() -> None:
    assert validator(ENGRAM).is_valid({**GOOD, "embedding_ref": "e:1"})
    assert not validator(LESS_ENGRAM).is_valid({**GOOD, "embedding_ref": "e:1"})


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.floats(0, 1),
    st.text(max_size=5),
    st.lists(st.text(max_size=3), max_size=3),
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(["run", "P1D", "repo", "x" * 501, "x" * 41]),
)


@given(st.dictionaries(st.sampled_from([*REQUIRED, "tags", "hash_keys", "other"]), VALUES))
@settings(deadline=None)
def test_the_two_families_agree_on_everything_else(change: dict[str, Any]) -> None:
    engram = {**GOOD, **change}
    assert validator(ENGRAM).is_valid(engram) == validator(LESS_ENGRAM).is_valid(engram)


def test_the_validator_is_imported_on_first_use() -> None:
    code = "import sys, engrambus.knowledge.engrams; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
