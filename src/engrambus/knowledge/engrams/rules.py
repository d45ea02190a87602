"""Validating an engram: the published schema first, then the rules no schema can express.

A refusal names one field, its limit and the value used; of several errors, the first in the schema's order is given.
Nothing here reads a clock, a store or a repository.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from engrambus.core import canonical_id, parse_duration, print_duration
from engrambus.errors import (
    BadText,
    ClaimEmpty,
    ClaimTooManySentences,
    FieldType,
    FieldValue,
    IdInvalid,
    ProvenanceStamped,
    TtlInvalid,
    TtlTooLong,
)
from engrambus.evidence.pointers import Pointer, check_pointer
from engrambus.knowledge.engrams.refusals import MAX_VALUE_CHARS, first_refusal
from engrambus.knowledge.engrams.schemas import validator
from engrambus.knowledge.engrams.sentences import count_sentences
from engrambus.knowledge.engrams.values import (
    DEFAULTS,
    MAX_CLAIM_SENTENCES,
    MAX_SHOWN_ID_CHARS,
    MAX_USED,
    CheckedEngram,
    Defaults,
    Engram,
    Provenance,
)

MAX_EMBEDDING_REF_CHARS = 300
MAX_ID_CHARS = 36

# The schema requires an id and a provenance, which the gateway stamps later; these stand in for them.
_PLACEHOLDER_ID = "0" * 26
_PLACEHOLDER_PROVENANCE = {"created_at": "1970-01-01T00:00:00Z", "created_by": "-", "source": "agent"}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_BREAK = re.compile("\\s*[\t-\r\x85\u2028\u2029]\\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIXED_LENGTH = re.compile(r"P(?=.)(?:[0-9]+W)?(?:[0-9]+D)?(?:T(?=.)(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+S)?)?")
_NOT_ZERO = frozenset("123456789")


def validate(draft: Mapping[str, Any], *, max_ttl_us: int, defaults: Defaults | None = None) -> CheckedEngram:
    """Check an engram as its author sent it, with the given defaults or those of its kind filled in.

    `max_ttl_us` is the project's limit. A default above it is lowered: only a ttl the author wrote is refused.
    """
    engram = _as_object(draft)
    if "provenance" in engram:
        raise ProvenanceStamped(field="provenance", hint="Leave it out.")
    kind = engram.get("kind")
    defaults = defaults or DEFAULTS.get(kind if isinstance(kind, str) else "", DEFAULTS["fact"])
    engram.setdefault("confidence", defaults.confidence)
    engram.setdefault("scope", defaults.scope)
    if "ttl" not in engram:
        engram["ttl"] = defaults.ttl if parse_duration(defaults.ttl) <= max_ttl_us else print_duration(max_ttl_us)
    used = read_used(engram.pop("used", None))  # no fields of the published schema
    replaces = _read_replaces(engram.pop("replaces", None))
    has_id = "id" in engram
    if not has_id:
        engram["id"] = _PLACEHOLDER_ID
    engram["provenance"] = _PLACEHOLDER_PROVENANCE
    if not _is_valid(engram):
        raise first_refusal(validator(), engram)
    checked = _checked(engram, max_ttl_us, engram["id"] if has_id else None)
    return msgspec.structs.replace(checked, used=used, replaces=replaces) if used or replaces else checked


def _read_replaces(value: Any) -> str | None:
    """Return the id of the engram that is replaced, as it was sent."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise FieldType("`replaces` is not an engram's id.", field="replaces", limit="string")
    if not 0 < len(value) <= MAX_ID_CHARS:
        raise FieldValue("This is no engram's id.", field="replaces", limit=MAX_ID_CHARS, used=len(value))
    return value


def read_used(value: Any, field: str = "used") -> tuple[str, ...]:
    """Return the ids in a field that names used engrams; a single id counts as a list of one."""
    if value is None:
        return ()
    ids = [value] if isinstance(value, str) else value
    if not isinstance(ids, list | tuple):
        raise FieldType(f"{field} is not a list of engram ids.", field=field, limit="array")
    if len(ids) > MAX_USED:
        raise FieldValue(
            f"{field} names more than {MAX_USED} engrams.",
            field=field,
            limit=MAX_USED,
            used=len(ids),
            hint="Name those that the conclusion depends on.",
        )
    for position, engram_id in enumerate(ids):
        if not isinstance(engram_id, str):
            raise FieldType("An engram's id is a text.", field=f"{field}[{position}]", limit="string")
        if not 0 < len(engram_id) <= MAX_SHOWN_ID_CHARS:
            raise FieldValue(
                "This is no engram's id.", field=f"{field}[{position}]", limit=MAX_SHOWN_ID_CHARS, used=len(engram_id)
            )
    return tuple(ids)


def stamp(
    checked: CheckedEngram,
    *,
    id: str,
    provenance: Provenance,
    hash_keys: Sequence[str],
    pointers: Sequence[Pointer] | None = None,
) -> Engram:
    """Return the engram to store: the checked fields and those only the gateway knows."""
    return Engram(
        id=id,
        kind=checked.kind,
        claim=checked.claim,
        pointers=checked.pointers if pointers is None else tuple(pointers),
        confidence=checked.confidence,
        ttl=checked.ttl,
        scope=checked.scope,
        tags=checked.tags,
        hash_keys=tuple(hash_keys),
        embedding_ref=checked.embedding_ref,
        provenance=provenance,
    )


def _as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise FieldType("An engram is a JSON object.", limit="object")
    return dict(value)


def _is_valid(engram: dict[str, Any]) -> bool:
    try:
        return validator().is_valid(engram)
    except ValueError:  # not JSON at all; `first_refusal` finds the reason
        return False


def _checked(engram: dict[str, Any], max_ttl_us: int, own_id: str | None) -> CheckedEngram:
    """Check the rules no schema can express, for an engram that follows the schema."""
    claim = _on_one_line(engram["claim"])
    _check_claim(claim)
    pointers = []
    addresses = []
    for position, draft in enumerate(engram["pointers"]):
        pointer, address = check_pointer(Pointer(**draft), f"pointers[{position}]")
        pointers.append(pointer)
        addresses.append(address)
    engram_id = None if own_id is None else canonical_id(own_id)
    if own_id is not None and engram_id is None:
        raise IdInvalid(field="id", hint="Write a ULID or a UUID, or leave it out.")
    embedding_ref = engram.get("embedding_ref")
    if embedding_ref is not None:
        _check_text(embedding_ref, "embedding_ref", max_chars=MAX_EMBEDDING_REF_CHARS)
    lifetime_us = _lifetime_us(engram["ttl"], max_ttl_us)
    return CheckedEngram(
        kind=engram["kind"],
        claim=claim,
        pointers=tuple(pointers),
        addresses=tuple(addresses),
        confidence=float(engram["confidence"]) + 0.0,  # no negative zero
        # Not every reader takes a fraction of an hour or a decimal comma.
        ttl=engram["ttl"] if engram["ttl"].isalnum() else print_duration(lifetime_us),
        lifetime_us=lifetime_us,
        scope=engram["scope"],
        tags=_texts(engram, "tags"),
        hash_keys=_texts(engram, "hash_keys"),
        embedding_ref=embedding_ref,
        id=engram_id,
    )


def _on_one_line(claim: str) -> str:
    """Return a claim with line breaks and tabs as spaces: the schema allows them, and a claim is shown on one line."""
    if claim.isprintable():
        return claim
    return _BREAK.sub(" ", claim).strip()


def _check_claim(claim: str) -> None:
    if not claim.isprintable():  # one fast check; only a claim that fails it is searched
        _check_characters(claim, "claim")
    if not claim or claim.isspace() or not (claim.isascii() or any(map(_is_visible, claim))):
        raise ClaimEmpty(field="claim")
    sentences = count_sentences(claim)
    if sentences > MAX_CLAIM_SENTENCES:
        raise ClaimTooManySentences(field="claim", limit=MAX_CLAIM_SENTENCES, used=sentences)


def _texts(engram: dict[str, Any], field: str) -> tuple[str, ...]:
    texts = engram.get(field)
    if not texts:
        return ()
    for position, text in enumerate(texts):
        if not text.isprintable() or not text or text.isspace():
            _check_text(text, f"{field}[{position}]")
    return tuple(texts)


def _check_text(text: str, field: str, max_chars: int | None = None) -> None:
    if max_chars is not None and len(text) > max_chars:
        raise FieldValue(f"{field} is too long.", field=field, limit=max_chars, used=len(text))
    _check_characters(text, field)
    if not any(map(_is_visible, text)):
        raise FieldValue(f"{field} is empty.", field=field)


def _check_characters(text: str, field: str) -> None:
    if _SURROGATE.search(text):
        raise BadText("A text contains half of a surrogate pair.", field=field)
    match = _CONTROL.search(text)
    if match:
        raise FieldValue(
            f"{field} contains the control character U+{ord(match.group()):04X} at {match.start()}.",
            field=field,
            hint="Write one line of plain text.",
        )


def _is_visible(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character) != "Cf"


def _lifetime_us(ttl: str, max_ttl_us: int) -> int:
    try:
        lifetime_us = parse_duration(ttl)
    except TtlInvalid as problem:
        limit = print_duration(max_ttl_us)
        if _FIXED_LENGTH.fullmatch(ttl) and not _NOT_ZERO.isdisjoint(ttl):
            # It is well formed, but larger than the parser can represent.
            raise TtlTooLong(field="ttl", limit=limit, used=ttl[:MAX_VALUE_CHARS]) from None
        raise TtlInvalid(problem.detail, field="ttl", limit=limit, used=problem.used, hint=problem.hint) from None
    if lifetime_us > max_ttl_us:
        raise TtlTooLong(field="ttl", limit=print_duration(max_ttl_us), used=ttl)
    return lifetime_us
