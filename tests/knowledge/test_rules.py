"""Validation of engrams, and the refusal of each broken rule.  # EB-01 EB-02"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.core import SECOND_US, print_duration, read_json
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import Pointer, RepoAddress
from engrambus.knowledge.engrams import (
    DEFAULTS,
    KINDS,
    CheckedEngram,
    Engram,
    Provenance,
    hash_keys,
    less_export,
    stamp,
    validate,
)
from engrambus.knowledge.engrams.schemas import LESS_ENGRAM, validator
from tests.harness.examples import examples

SHA = "a" * 40
DAY_US = 86_400 * SECOND_US
YEAR_US = 365 * DAY_US
POINTER = {"type": "repo", "ref": f"repo:services/gateway/vendor_client.py#L280-L360@{SHA}"}
DRAFT: dict[str, Any] = {"kind": "risk", "claim": "The gateway reserves budget twice.", "pointers": [POINTER]}
PROVENANCE = Provenance(created_at="2026-01-08T09:30:00Z", created_by="run/agent", source="agent")
PROVENANCE_JSON = msgspec.to_builtins(PROVENANCE)
ULID = "01JH000000000000000000000A"


def accepted(**changes: Any) -> CheckedEngram:
    return validate({**DRAFT, **changes}, max_ttl_us=YEAR_US)


def refused(**changes: Any) -> EngramBusError:
    with pytest.raises(EngramBusError) as caught:
        accepted(**changes)
    json.dumps(caught.value.problem(), allow_nan=False)
    return caught.value


def refused_without(*fields: str) -> EngramBusError:
    with pytest.raises(EngramBusError) as caught:
        validate({field: value for field, value in DRAFT.items() if field not in fields}, max_ttl_us=YEAR_US)
    return caught.value


class TestAccepted:
    def test_only_the_required_fields(self) -> None:
        checked = accepted()
        assert checked.claim == DRAFT["claim"]
        assert checked.pointers == (Pointer(**POINTER),)
        assert checked.addresses == (
            RepoAddress(path="services/gateway/vendor_client.py", revision=SHA, lines=(280, 360)),
        )
        assert (checked.confidence, checked.ttl, checked.scope) == (0.6, "P30D", "project")
        assert checked.lifetime_us == 30 * DAY_US
        assert (checked.tags, checked.hash_keys, checked.embedding_ref, checked.id) == ((), (), None, None)

    def test_every_field_an_author_can_send(self) -> None:
        checked = accepted(
            confidence=1,
            ttl="PT6H",
            scope="run",
            tags=["service:gateway"],
            hash_keys=["own"],
            embedding_ref="e:1",
            id=ULID,
        )
        assert checked.confidence == 1.0
        assert type(checked.confidence) is float
        assert (checked.ttl, checked.lifetime_us, checked.scope) == ("PT6H", 6 * 3600 * SECOND_US, "run")
        assert (checked.tags, checked.hash_keys) == (("service:gateway",), ("own",))
        assert (checked.embedding_ref, checked.id) == ("e:1", ULID)

    def test_the_draft_is_not_modified(self) -> None:
        draft = {**DRAFT, "pointers": [dict(POINTER)]}
        validate(draft, max_ttl_us=YEAR_US)
        assert draft == {**DRAFT, "pointers": [POINTER]}

    @pytest.mark.parametrize("kind", KINDS)
    def test_each_kind_has_defaults(self, kind: str) -> None:
        checked = accepted(kind=kind)
        defaults = DEFAULTS[kind]
        assert (checked.ttl, checked.confidence, checked.scope) == (defaults.ttl, defaults.confidence, defaults.scope)

    def test_defaults_exist_for_exactly_the_published_kinds(self) -> None:
        assert tuple(DEFAULTS) == KINDS

    def test_a_default_ttl_is_lowered_to_the_limit_and_a_written_one_is_refused(self) -> None:
        checked = validate({**DRAFT, "kind": "decision"}, max_ttl_us=7 * DAY_US)
        assert (checked.ttl, checked.lifetime_us) == ("P7D", 7 * DAY_US)
        with pytest.raises(EngramBusError) as caught:
            validate({**DRAFT, "ttl": "P8D"}, max_ttl_us=7 * DAY_US)
        assert caught.value.code == "TTL_TOO_LONG"

    def test_pointers_are_made_canonical(self) -> None:
        checked = accepted(pointers=[{"type": "repo", "ref": f"repo:a%2Eb.py@{SHA}", "span": "L1-L2"}])
        assert checked.pointers == (Pointer(type="repo", ref=f"repo:a.b.py#L1-L2@{SHA}"),)

    def test_a_confidence_of_negative_zero_becomes_zero(self) -> None:
        assert math.copysign(1, accepted(confidence=-0.0).confidence) == 1

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("claim", "x" * 500),
            ("claim", "日" * 500),
            ("claim", "One. Two. Three."),
            ("tags", ["t" * 40] * 12),
            ("hash_keys", ["k" * 80] * 32),
            ("confidence", 0),
            ("confidence", 1),
            ("ttl", "P365D"),
            ("embedding_ref", "e" * 300),
            ("id", "123e4567-e89b-12d3-a456-426614174000"),
        ],
    )
    def test_a_value_at_its_limit_is_accepted_unchanged(self, field: str, value: Any) -> None:
        assert getattr(accepted(**{field: value}), field) == (tuple(value) if isinstance(value, list) else value)

    def test_twelve_pointers_are_accepted(self) -> None:
        checked = accepted(pointers=[POINTER] * 12)
        assert len(checked.pointers) == len(checked.addresses) == 12


class TestRefused:
    """Each refusal has its own code and names the field, the limit and the value used."""

    @pytest.mark.parametrize(
        ("changes", "code", "field", "limit", "used"),
        [
            ({"pointers": []}, "NO_POINTER", "pointers", 1, 0),
            ({"pointers": [POINTER] * 13}, "TOO_MANY_POINTERS", "pointers", 12, 13),
            ({"claim": ""}, "CLAIM_EMPTY", "claim", None, None),
            ({"claim": " \u00a0 "}, "CLAIM_EMPTY", "claim", None, None),
            ({"claim": "\u200b\u2060"}, "CLAIM_EMPTY", "claim", None, None),
            ({"claim": "x" * 501}, "CLAIM_TOO_LONG", "claim", 500, 501),
            ({"claim": "One. Two. Three. Four."}, "CLAIM_TOO_MANY_SENTENCES", "claim", 3, 4),
            ({"claim": 5}, "FIELD_TYPE", "claim", "string", None),
            ({"claim": None}, "FIELD_TYPE", "claim", "string", None),
            ({"claim": "a\x1bb"}, "FIELD_VALUE", "claim", None, None),
            ({"claim": "\n\t"}, "CLAIM_EMPTY", "claim", None, None),
            ({"claim": "a\x1b[31mb"}, "FIELD_VALUE", "claim", None, None),
            ({"claim": "a\ud800b"}, "BAD_TEXT", "claim", None, None),
            ({"tags": ["ok", "a\x00b"]}, "FIELD_VALUE", "tags[1]", None, None),
            ({"tags": [" "]}, "FIELD_VALUE", "tags[0]", None, None),
            ({"tags": ["a", "b", "c", "t" * 41]}, "FIELD_VALUE", "tags[3]", 40, 41),
            ({"tags": ["t"] * 13}, "FIELD_VALUE", "tags", 12, 13),
            ({"tags": "t"}, "FIELD_TYPE", "tags", "array", None),
            ({"tags": [5]}, "FIELD_TYPE", "tags[0]", "string", None),
            ({"hash_keys": ["k" * 81]}, "FIELD_VALUE", "hash_keys[0]", 80, 81),
            ({"hash_keys": ["k"] * 33}, "FIELD_VALUE", "hash_keys", 32, 33),
            ({"kind": 5}, "FIELD_TYPE", "kind", "string", None),
            ({"kind": []}, "FIELD_TYPE", "kind", "string", None),
            ({"kind": "rumour"}, "FIELD_VALUE", "kind", ", ".join(KINDS), "rumour"),
            ({"scope": "world"}, "FIELD_VALUE", "scope", "run, project, org, global", "world"),
            ({"surprise": 1}, "FIELD_UNKNOWN", "surprise", None, None),
            ({"confidence": 1.01}, "CONFIDENCE_RANGE", "confidence", "0 to 1", 1.01),
            ({"confidence": -0.01}, "CONFIDENCE_RANGE", "confidence", "0 to 1", -0.01),
            ({"confidence": math.nan}, "CONFIDENCE_RANGE", "confidence", "0 to 1", "nan"),
            ({"confidence": math.inf}, "CONFIDENCE_RANGE", "confidence", "0 to 1", "inf"),
            ({"confidence": True}, "CONFIDENCE_RANGE", "confidence", "0 to 1", "true"),
            ({"confidence": 10**5000}, "CONFIDENCE_RANGE", "confidence", "0 to 1", "an integer beyond 2^53"),
            ({"confidence": "high"}, "FIELD_TYPE", "confidence", "number", None),
            ({"confidence": None}, "FIELD_TYPE", "confidence", "number", None),
            ({"ttl": "P1M"}, "TTL_INVALID", "ttl", "P365D", "P1M"),
            ({"ttl": "P1Y"}, "TTL_INVALID", "ttl", "P365D", "P1Y"),
            ({"ttl": "-P1D"}, "TTL_INVALID", "ttl", "P365D", "-P1D"),
            ({"ttl": "P0D"}, "TTL_INVALID", "ttl", "P365D", "P0D"),
            ({"ttl": "7 days"}, "TTL_INVALID", "ttl", "P365D", "7 days"),
            ({"ttl": ""}, "TTL_INVALID", "ttl", "P365D", ""),
            ({"ttl": "P"}, "TTL_INVALID", "ttl", "P365D", "P"),
            ({"ttl": "P366D"}, "TTL_TOO_LONG", "ttl", "P365D", "P366D"),
            ({"ttl": "P99999999D"}, "TTL_TOO_LONG", "ttl", "P365D", "P99999999D"),
            ({"ttl": "P" + "9" * 100 + "W"}, "TTL_TOO_LONG", "ttl", "P365D", "P" + "9" * 79),
            ({"ttl": 7}, "FIELD_TYPE", "ttl", "string", None),
            ({"id": "1"}, "ID_INVALID", "id", None, None),
            ({"id": "8" + ULID[1:]}, "ID_INVALID", "id", None, None),
            ({"id": "123E4567E89B12D3A456426614174000"}, "ID_INVALID", "id", None, None),
            ({"id": None}, "FIELD_TYPE", "id", "string", None),
            ({"embedding_ref": "e" * 301}, "FIELD_VALUE", "embedding_ref", 300, 301),
            ({"embedding_ref": "a\nb"}, "FIELD_VALUE", "embedding_ref", None, None),
            ({"embedding_ref": ""}, "FIELD_VALUE", "embedding_ref", None, None),
            ({"provenance": PROVENANCE_JSON}, "PROVENANCE_STAMPED", "provenance", None, None),
            ({"provenance": None}, "PROVENANCE_STAMPED", "provenance", None, None),
        ],
        ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
    )
    def test_an_invalid_field(
        self, changes: dict[str, Any], code: str, field: str, limit: object, used: object
    ) -> None:
        problem = refused(**changes)
        assert (problem.code, problem.field, problem.limit, problem.used) == (code, field, limit, used)
        assert problem.status == 422

    @pytest.mark.parametrize(
        ("pointer", "code", "part"),
        [
            ({"type": "repo", "ref": "repo:a.py"}, "POINTER_NOT_PINNED", ".ref"),
            ({"type": "repo", "ref": "repo:a.py@main"}, "POINTER_REVISION", ".ref"),
            ({"type": "repo", "ref": "repo:a.py@abc1234"}, "POINTER_REVISION", ".ref"),
            ({"type": "repo", "ref": "not a pointer"}, "POINTER_SYNTAX", ".ref"),
            ({"type": "repo", "ref": f"repo:../a.py@{SHA}"}, "POINTER_PATH", ".ref"),
            ({"type": "repo", "ref": f"repo:a.py#L9-L2@{SHA}"}, "POINTER_SPAN", ".ref"),
            ({"type": "artifact", "ref": f"repo:a.py@{SHA}"}, "POINTER_DISAGREES", ".type"),
            ({"type": "repo", "ref": f"repo:a.py#L1@{SHA}", "span": "L2"}, "POINTER_DISAGREES", ".span"),
            ({"type": "repo", "ref": "r" * 301}, "POINTER_TOO_LONG", ".ref"),
            ({"type": "repo", "ref": f"repo:a.py@{SHA}", "span": "L" * 81}, "POINTER_TOO_LONG", ".span"),
            ({"type": "repo", "ref": f"repo:a.py@{SHA}", "digest": "abc"}, "POINTER_SYNTAX", ".digest"),
            ({"type": "ftp", "ref": "x"}, "FIELD_VALUE", ".type"),
            ({"type": "repo"}, "FIELD_MISSING", ".ref"),
            ({"ref": "x"}, "FIELD_MISSING", ".type"),
            ({**POINTER, "line": 3}, "FIELD_UNKNOWN", ".line"),
            ({**POINTER, "digest": None}, "FIELD_TYPE", ".digest"),
            ("repo:a.py", "FIELD_TYPE", ""),
        ],
    )
    def test_an_invalid_pointer(self, pointer: Any, code: str, part: str) -> None:
        problem = refused(pointers=[POINTER, POINTER, pointer])
        assert (problem.code, problem.field) == (code, f"pointers[2]{part}")

    def test_missing_fields(self) -> None:
        for field, code in (("kind", "FIELD_MISSING"), ("claim", "FIELD_MISSING"), ("pointers", "NO_POINTER")):
            problem = refused_without(field)
            assert (problem.code, problem.field) == (code, field)

    @pytest.mark.parametrize("value", [None, [], "engram", 5, [DRAFT]])
    def test_a_value_that_is_no_object(self, value: Any) -> None:
        with pytest.raises(EngramBusError) as caught:
            validate(value, max_ttl_us=YEAR_US)
        assert caught.value.code == "FIELD_TYPE"

    @pytest.mark.parametrize("value", [b"x", {1, 2}, object(), {5: 1}, {"\ud800": 1}])
    def test_a_value_that_is_no_json(self, value: Any) -> None:
        for field in ("claim", "tags", "pointers", "confidence", "surprise"):
            assert refused(**{field: value}).status == 422

    def test_the_first_refusal_does_not_depend_on_the_order_of_fields(self) -> None:
        wrong = {**DRAFT, "claim": "x" * 501, "confidence": 7, "scope": "world", "surprise": 1}
        codes = set()
        for order in (list(wrong), list(reversed(wrong)), sorted(wrong)):
            with pytest.raises(EngramBusError) as caught:
                validate({field: wrong[field] for field in order}, max_ttl_us=YEAR_US)
            codes.add(caught.value.code)
        assert codes == {"CLAIM_TOO_LONG"}

    def test_nor_on_the_order_inside_a_pointer(self) -> None:
        pointer = {"span": "L" * 81, "ref": "r" * 301, "type": "ftp", "b": 1, "a": 1}
        for order in (list(pointer), list(reversed(pointer)), sorted(pointer)):
            assert refused(pointers=[{field: pointer[field] for field in order}]).field == "pointers[0].type"

    def test_a_long_unknown_name_is_not_repeated_in_full(self) -> None:
        assert len(str(refused(**{"x" * 1000: 1}).field)) == 80


class TestEngram:
    def engram(self, **changes: Any) -> Engram:
        checked = accepted(**changes)
        keys = hash_keys(checked.claim, [pointer.ref for pointer in checked.pointers], checked.tags, checked.hash_keys)
        return stamp(checked, id=ULID, provenance=PROVENANCE, hash_keys=keys.public)

    @pytest.mark.parametrize("changes", [{}, {"tags": ["a"], "embedding_ref": "e:1", "confidence": 1}])
    def test_its_json_follows_the_published_schema_and_can_be_read_back(self, changes: dict[str, Any]) -> None:
        engram = self.engram(**changes)
        encoded = msgspec.json.encode(engram)
        assert validator().is_valid(json.loads(encoded))
        assert msgspec.json.decode(encoded, type=Engram) == engram

    def test_empty_optional_fields_are_omitted(self) -> None:
        fields = json.loads(msgspec.json.encode(self.engram()))
        assert list(fields) == [
            *("id", "kind", "claim", "pointers", "confidence", "ttl", "scope", "hash_keys", "provenance")
        ]
        assert list(fields["pointers"][0]) == ["type", "ref"]

    def test_less_exports_have_no_embedding(self) -> None:
        engram = self.engram(embedding_ref="e:1")
        assert not validator(LESS_ENGRAM).is_valid(json.loads(msgspec.json.encode(engram)))
        answer = less_export(msgspec.to_builtins({"engrams": [engram]}))
        assert all(validator(LESS_ENGRAM).is_valid(exported) for exported in answer["engrams"])
        plain = json.loads(msgspec.json.encode(self.engram()))
        assert less_export(plain) == plain

    def test_stamped_pointers_replace_the_pointers_of_the_draft(self) -> None:
        resolved = Pointer(**POINTER, digest="sha256:" + "0" * 64)
        stamped = stamp(
            accepted(),
            id=ULID,
            provenance=PROVENANCE,
            hash_keys=(),
            pointers=[resolved],
        )
        assert stamped.pointers == (resolved,)

    def test_an_engram_is_immutable(self) -> None:
        with pytest.raises(AttributeError):
            self.engram().claim = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("microseconds", "text"), [(DAY_US, "P1D"), (YEAR_US, "P365D"), (SECOND_US, "PT1S"), (90_000_001, "PT1M30.000001S"),
     (DAY_US + 1_500_000, "P1DT1.5S"), (5400 * SECOND_US, "PT1H30M")]
)  # fmt: skip
def test_printed_durations_can_be_read_back(microseconds: int, text: str) -> None:
    assert print_duration(microseconds) == text
    assert accepted(ttl=text).lifetime_us == microseconds


@pytest.mark.parametrize(
    ("written", "stored"),
    [("PT6H", "PT6H"), ("P1W1D", "P1W1D"), ("PT1.5H", "PT1H30M"), ("P0.5D", "PT12H"), ("PT1,5H", "PT1H30M"),
     ("PT1,5S", "PT1.5S"), ("P1DT0.25H", "P1DT15M")],
)  # fmt: skip
def test_a_ttl_with_a_fraction_is_stored_in_whole_units(written: str, stored: str) -> None:  # EB-01
    checked = accepted(ttl=written)
    assert (checked.ttl, accepted(ttl=stored).lifetime_us) == (stored, checked.lifetime_us)


@pytest.mark.parametrize("claim", ["One\ntwo.", "One\r\n  two.", "One\ttwo.\n", "\u2028One \x85 two."])
def test_line_breaks_of_a_claim_become_spaces(claim: str) -> None:  # EB-02
    assert accepted(claim=claim).claim == "One two."


def test_ids_are_stored_in_their_canonical_case() -> None:  # EB-01
    uuid = "123e4567-e89b-12d3-a456-426614174000"
    assert accepted(id=uuid.upper()).id == uuid
    assert accepted(id=ULID.lower()).id == ULID


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [*DRAFT, "id", "confidence", "ttl", "scope", "provenance", "tags", "hash_keys", "embedding_ref", "at"]
)


@given(JSON)
@settings(max_examples=examples(100), deadline=None)
def test_json_that_is_no_engram_is_refused_with_a_status_and_a_reason(value: Any) -> None:
    with pytest.raises(EngramBusError) as caught:
        validate(value, max_ttl_us=YEAR_US)
    assert caught.value.status == 422
    is_no_object = caught.value.code == "FIELD_TYPE" and (caught.value.field, caught.value.limit) == (None, "object")
    assert is_no_object == (not isinstance(value, dict))
    assert json.loads(json.dumps(caught.value.problem(), allow_nan=False))["code"] == caught.value.code


@given(st.dictionaries(FIELDS, JSON | st.text(max_size=30) | st.lists(st.text(max_size=50)), min_size=1))
@settings(max_examples=examples(250), deadline=None)
def test_any_value_in_any_field_is_accepted_or_refused_in_json(changes: dict[str, Any]) -> None:
    outcome = _outcome({**DRAFT, **changes})
    if isinstance(outcome, EngramBusError):
        assert json.loads(json.dumps(outcome.problem(), allow_nan=False))["code"] == outcome.code
    else:
        assert outcome.claim.split() == {**DRAFT, **changes}["claim"].split(), "breaks of lines are spaces"


def _outcome(draft: dict[str, Any]) -> CheckedEngram | EngramBusError:
    try:
        return validate(draft, max_ttl_us=YEAR_US)
    except EngramBusError as problem:
        return problem


@given(
    st.lists(st.dictionaries(st.sampled_from(["type", "ref", "digest", "span", "x"]), st.text() | JSON), max_size=14)
)
@settings(max_examples=examples(120), deadline=None)
def test_random_pointers_are_refused_by_position(pointers: list[Any]) -> None:
    assert str(refused(pointers=pointers).field).startswith("pointers")


@given(claim=st.text(max_size=520), tags=st.lists(st.text(max_size=42), max_size=3))
@settings(max_examples=examples(120), deadline=None)
def test_an_accepted_engram_can_be_stored_and_read_back(claim: str, tags: list[str]) -> None:
    try:
        checked = accepted(claim=claim, tags=tags)
    except EngramBusError:
        return
    engram = stamp(checked, id=ULID, provenance=PROVENANCE, hash_keys=hash_keys(claim, (), tags).public)
    assert msgspec.convert(read_json(msgspec.json.encode(engram)), type=Engram) == engram
    assert engram.claim.split() == claim.split()
