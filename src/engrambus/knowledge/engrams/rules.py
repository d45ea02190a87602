"""What makes an engram acceptable: the published schema first, then what no schema can say.

A refusal names one field, the limit it broke and by how much; the first one found in the schema's own order is given.
Nothing here reads a clock, a store or a repository.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from engrambus.core import SECOND, is_ulid, is_uuid, parse_duration, parse_time
from engrambus.errors import (
    BadText,
    ClaimEmpty,
    ClaimTooManySentences,
    FieldType,
    FieldValue,
    IdInvalid,
    ProvenanceStamped,
    TimeInvalid,
    TtlInvalid,
    TtlTooLong,
)
from engrambus.evidence.pointers import Pointer, check_pointer
from engrambus.knowledge.engrams.refusals import MAX_SHOWN, first_refusal
from engrambus.knowledge.engrams.schemas import validator
from engrambus.knowledge.engrams.sentences import count_sentences
from engrambus.knowledge.engrams.values import DEFAULTS, CheckedEngram, Engram, Provenance

MAX_SENTENCES = 3
MAX_EMBEDDING_REF = 300
MAX_CREATED_BY = 200
DAY = 86_400 * SECOND

_PLACEHOLDER_ID = "0" * 26
_PLACEHOLDER_PROVENANCE = {"created_at": "1970-01-01T00:00:00Z", "created_by": "-", "source": "agent"}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIXED_LENGTH = re.compile(
    r"P(?=.)(?:[0-9]+W)?(?:[0-9]+D)?(?:T(?=.)(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?)?"
)
_NOT_ZERO = frozenset("123456789")
_RFC_3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})")


def validate(draft: Mapping[str, Any], *, max_ttl: int) -> CheckedEngram:
    """Check what an author sent, defaults by kind filled in; `max_ttl` is the project's ceiling in microseconds.

    A default that lies above the ceiling is lowered to it: only what an author wrote is refused.
    """
    whole = _object(draft)
    if "provenance" in whole:
        raise ProvenanceStamped(field="provenance", hint="Leave it out.")
    kind = whole.get("kind")
    defaults = DEFAULTS.get(kind if isinstance(kind, str) else "", DEFAULTS["fact"])
    whole.setdefault("confidence", defaults.confidence)
    whole.setdefault("scope", defaults.scope)
    if "ttl" not in whole:
        whole["ttl"] = defaults.ttl if parse_duration(defaults.ttl) <= max_ttl else print_duration(max_ttl)
    has_id = "id" in whole
    if not has_id:
        whole["id"] = _PLACEHOLDER_ID
    whole["provenance"] = _PLACEHOLDER_PROVENANCE
    if not _is_valid(whole):
        raise first_refusal(validator(), whole)
    return _checked(whole, max_ttl, whole["id"] if has_id else None)


def validate_whole(engram: Mapping[str, Any], *, max_ttl: int | None = None) -> CheckedEngram:
    """Check an engram that already has its id and provenance; without a ceiling any fixed ttl will do."""
    whole = _object(engram)
    if not _is_valid(whole):
        raise first_refusal(validator(), whole)
    provenance = Provenance(**whole["provenance"])
    created_at = _moment(provenance.created_at)
    _check_text(provenance.created_by, "provenance.created_by", longest=MAX_CREATED_BY)
    checked = _checked(whole, max_ttl, whole["id"])
    return msgspec.structs.replace(checked, provenance=provenance, created_at=created_at)


def stamp(
    checked: CheckedEngram,
    *,
    id: str,
    provenance: Provenance,
    hash_keys: Sequence[str],
    pointers: Sequence[Pointer] | None = None,
) -> Engram:
    """The engram that goes on the bus: what was checked, and what only the gateway knows."""
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


def print_duration(microseconds: int) -> str:
    """A duration in whole days when it is one, in seconds otherwise."""
    days, rest = divmod(microseconds, DAY)
    if days and not rest:
        return f"P{days}D"
    seconds, fraction = divmod(microseconds, SECOND)
    return f"PT{seconds}.{fraction:06}S" if fraction else f"PT{seconds}S"


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise FieldType("An engram is a JSON object.", limit="object")
    return dict(value)


def _is_valid(whole: dict[str, Any]) -> bool:
    try:
        return validator().is_valid(whole)
    except ValueError:  # not JSON at all; `first_refusal` says what
        return False


def _checked(whole: dict[str, Any], max_ttl: int | None, own_id: str | None) -> CheckedEngram:
    """The rules no schema can say, for an engram that follows the schema."""
    claim = whole["claim"]
    _check_claim(claim)
    pointers = []
    addresses = []
    for position, sent in enumerate(whole["pointers"]):
        pointer, address = check_pointer(Pointer(**sent), f"pointers[{position}]")
        pointers.append(pointer)
        addresses.append(address)
    if own_id is not None and not (is_ulid(own_id) or is_uuid(own_id)):
        raise IdInvalid(field="id", hint="A ULID in upper case or a UUID in lower case; or leave it out.")
    embedding_ref = whole.get("embedding_ref")
    if embedding_ref is not None:
        _check_text(embedding_ref, "embedding_ref", longest=MAX_EMBEDDING_REF)
    return CheckedEngram(
        kind=whole["kind"],
        claim=claim,
        pointers=tuple(pointers),
        addresses=tuple(addresses),
        confidence=float(whole["confidence"]) + 0.0,  # no negative zero
        ttl=whole["ttl"],
        lifetime=_lifetime(whole["ttl"], max_ttl),
        scope=whole["scope"],
        tags=_texts(whole, "tags"),
        hash_keys=_texts(whole, "hash_keys"),
        embedding_ref=embedding_ref,
        id=own_id,
    )


def _check_claim(claim: str) -> None:
    if not claim.isprintable():
        _check_characters(claim, "claim")
    if not claim or claim.isspace() or not (claim.isascii() or any(map(_is_visible, claim))):
        raise ClaimEmpty(field="claim")
    sentences = count_sentences(claim)
    if sentences > MAX_SENTENCES:
        raise ClaimTooManySentences(field="claim", limit=MAX_SENTENCES, used=sentences)


def _texts(whole: dict[str, Any], field: str) -> tuple[str, ...]:
    texts = whole.get(field)
    if not texts:
        return ()
    for position, text in enumerate(texts):
        if not text.isprintable() or not text or text.isspace():
            _check_text(text, f"{field}[{position}]")
    return tuple(texts)


def _check_text(text: str, field: str, longest: int | None = None) -> None:
    if longest is not None and len(text) > longest:
        raise FieldValue(f"{field} is too long.", field=field, limit=longest, used=len(text))
    _check_characters(text, field)
    if not any(map(_is_visible, text)):
        raise FieldValue(f"{field} is empty.", field=field)


def _check_characters(text: str, field: str) -> None:
    if _SURROGATE.search(text):
        raise BadText("A text holds half of a surrogate pair.", field=field)
    found = _CONTROL.search(text)
    if found:
        raise FieldValue(
            f"{field} holds the control character U+{ord(found.group()):04X} at {found.start()}.",
            field=field,
            hint="Write one line of plain text.",
        )


def _is_visible(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character) != "Cf"


def _lifetime(ttl: str, max_ttl: int | None) -> int:
    try:
        lifetime = parse_duration(ttl)
    except TtlInvalid as problem:
        limit = None if max_ttl is None else print_duration(max_ttl)
        if _FIXED_LENGTH.fullmatch(ttl) and not _NOT_ZERO.isdisjoint(ttl):
            # Well formed, and more than the parser can count.
            raise TtlTooLong(field="ttl", limit=limit, used=ttl[:MAX_SHOWN]) from None
        raise TtlInvalid(problem.detail, field="ttl", limit=limit, used=problem.used, hint=problem.hint) from None
    if max_ttl is not None and lifetime > max_ttl:
        raise TtlTooLong(field="ttl", limit=print_duration(max_ttl), used=ttl)
    return lifetime


def _moment(text: str) -> int:
    try:
        if _RFC_3339.fullmatch(text.upper()):
            return parse_time(text.upper())
    except (ValueError, OverflowError):
        pass
    raise TimeInvalid(field="provenance.created_at", used=text[:40], hint="Write it like 2026-01-08T09:30:00Z.")
