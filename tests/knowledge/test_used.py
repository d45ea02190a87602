"""The engrams that something is said to be based on."""  # EB-35

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import EngramBusError, FieldType, FieldValue
from engrambus.knowledge.engrams import MAX_USED, VisibleStore, find_used, read_used, validate
from engrambus.policy import LimitChecks
from tests.knowledge.plain_view import stored_engram, view_of

LIMIT_US = 10**15


@pytest.mark.parametrize(
    ("value", "error", "field"),
    [
        (3, FieldType, "used"),
        ({"id": "x"}, FieldType, "used"),
        (["a", 3], FieldType, "used[1]"),
        (["a", ""], FieldValue, "used[1]"),
        (["a" * 121], FieldValue, "used[0]"),
        (["a"] * 13, FieldValue, "used"),
    ],
)
def test_a_list_that_names_no_engrams_is_refused_with_its_field(value: object, error: type, field: str) -> None:
    with pytest.raises(error) as refusal:
        read_used(value)
    assert isinstance(refusal.value, EngramBusError)
    assert refusal.value.field == field


@given(st.lists(st.text(min_size=1, max_size=36), max_size=MAX_USED))
def test_every_list_of_up_to_twelve_texts_is_read_as_it_is(ids: list[str]) -> None:
    assert read_used(ids) == tuple(ids)
    draft = {"kind": "decision", "claim": "It holds.", "pointers": [{"type": "sam", "ref": "sam:a:b@1"}], "used": ids}
    assert validate(draft, max_ttl_us=LIMIT_US).used == tuple(ids)


def test_one_id_counts_as_a_list_and_nothing_as_none() -> None:
    assert read_used("01K7Z3V5QX0000000000000000") == ("01K7Z3V5QX0000000000000000",)
    assert read_used(None) == ()


@pytest.mark.parametrize("resolved", [True, False])
def test_who_uses_an_engram_without_evidence_is_told(resolved: bool) -> None:
    stored = stored_engram()
    if not resolved:
        (pointer,) = stored.engram.pointers
        pointers = (msgspec.structs.replace(pointer, digest=None),)
        stored = msgspec.structs.replace(stored, engram=msgspec.structs.replace(stored.engram, pointers=pointers))
    limits = LimitChecks({}, "programmer")
    stores = [VisibleStore(view_of(stored), (stored.space,))]
    assert find_used(stores, [stored.engram.id[:16], stored.engram.id], limits) == (stored.engram.id,)
    told = [(notice.code, notice.field, notice.used) for notice in limits.warnings]
    assert told == ([] if resolved else [("USED_UNRESOLVED", "used[0]", stored.engram.id)])
