"""Canonical JSON, digests, ids, durations, tokens, the clock."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import (
    SECOND_US,
    ProjectClock,
    SystemClock,
    canonical,
    canonical_id,
    digest,
    digest_of,
    is_digest,
    is_hex,
    is_ulid,
    new_ulid,
    parse_duration,
    parse_time,
    print_dollars,
    print_time,
)
from engrambus.core.canonical_json import MAX_DEPTH, MAX_INTEGER, canonical_reference
from engrambus.errors import BadText, FieldType, NumberRange, TooDeep, TtlInvalid
from engrambus.testing import ManualClock, SeededRandomness

texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-MAX_INTEGER, MAX_INTEGER) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


@given(values)
def test_canonical_json_follows_the_definition(value: Any) -> None:
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert canonical(value) == canonical_reference(value) == expected


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0, "$0"),
        (0.1, "$0.10"),
        (0.12, "$0.12"),
        (0.001, "$0.001"),
        (0.000001, "$0.000001"),
        (1, "$1"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money_is_printed_as_people_write_it(usd: float, text: str) -> None:
    assert print_dollars(usd) == text


@given(values)
def test_canonical_json_reads_back_as_the_same_value(value: Any) -> None:
    assert canonical(json.loads(canonical(value))) == canonical(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_printed_as_python_prints_it(value: float) -> None:
    assert canonical([value]) == f"[{value!r}]".encode()


@pytest.mark.parametrize("value", [0.1, 1e16, 1e-7, 1.5e300, -0.0, 5e-324, 123456789.125, 1e22, 100.0])
def test_floats_at_the_edges(value: float) -> None:
    assert canonical(value) == canonical_reference(value) == repr(value).encode()


@pytest.mark.parametrize(
    ("value", "refusal"),
    [
        (float("nan"), NumberRange),
        (float("inf"), NumberRange),
        (MAX_INTEGER + 1, NumberRange),
        (-MAX_INTEGER - 1, NumberRange),
        ("\ud800", BadText),
        ({"\udfff": 1}, BadText),
        ({1: 2}, FieldType),
        ({None: 2}, FieldType),
        ({1, 2}, FieldType),
        (b"bytes", FieldType),
        (object(), FieldType),
    ],
)
def test_values_without_a_canonical_form_are_refused(value: Any, refusal: type[Exception]) -> None:
    for wrapped, field in ((value, None), ({"a": [0, value]}, "a[1]")):
        for encode in (canonical, canonical_reference):
            with pytest.raises(refusal) as caught:
                encode(wrapped)
            assert getattr(caught.value, "field", None) == field


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}, lambda value: (value,)])
@pytest.mark.parametrize("inner", [[], {}, (), [1.5], {"ü": 1}])
def test_values_nested_deeper_than_the_limit_are_refused(wrap: Callable[[Any], Any], inner: Any) -> None:
    value = inner  # BX-03
    for _ in range(7):
        value = wrap(value)
    assert canonical(value, max_depth=8) == canonical_reference(value)
    for _ in range(2):
        value = wrap(value)
        with pytest.raises(TooDeep) as caught:
            canonical(value, max_depth=8)
        assert (caught.value.limit, bool(caught.value.field)) == (8, True)


@pytest.mark.parametrize("depth", [MAX_DEPTH, 990, 5000, 100_000])
def test_endless_nesting_is_refused(depth: int) -> None:
    value: list[Any] = []  # BX-03
    for _ in range(depth):
        value = [value]
    for encode in (canonical, canonical_reference):
        with pytest.raises(TooDeep):
            encode(value)


def test_two_to_the_fifty_third_is_the_largest_integer() -> None:
    assert canonical([MAX_INTEGER, -MAX_INTEGER]) == b"[9007199254740992,-9007199254740992]"


@given(st.binary())
def test_a_digest_is_a_prefixed_sha256(content: bytes) -> None:
    assert digest(content) == "sha256:" + hashlib.sha256(content).hexdigest()
    assert is_digest(digest(content))


def test_a_values_digest_is_that_of_its_canonical_form() -> None:
    assert digest_of({"b": 1, "a": [True, None]}) == digest(b'{"a":[true,null],"b":1}')
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})


@pytest.mark.parametrize(
    "text",
    ["", "sha256:", "sha256:" + "a" * 63, "sha256:" + "A" * 64, "sha1:" + "a" * 64, "a" * 64, "sha256:" + "g" * 64],
)
def test_other_texts_are_no_digests(text: str) -> None:
    assert not is_digest(text)


def test_hex_has_one_of_the_given_lengths() -> None:
    assert is_hex("ab12", 4)
    assert is_hex("ab12", 2, 4)
    assert not is_hex("ab12", 2)
    assert not is_hex("AB12", 4)
    assert not is_hex("٣٣٣٣", 4)


@given(st.integers(0, (1 << 48) * 1000 - 1), st.integers(0, (1 << 48) * 1000 - 1))
def test_ulids_sort_by_time(first_us: int, second_us: int) -> None:
    first, second = new_ulid(first_us), new_ulid(second_us)
    assert is_ulid(first)
    assert len(first) == 26
    if first_us // 1000 < second_us // 1000:
        assert first < second


def test_ulids_match_the_specification() -> None:
    assert new_ulid(0, bytes) == "0" * 26
    assert new_ulid(1_469_918_176_385_000, bytes) == "01ARYZ6S410000000000000000"
    assert new_ulid(((1 << 48) - 1) * 1000, lambda count: b"\xff" * count) == "7" + "Z" * 25


def test_ulids_are_the_same_with_the_same_randomness() -> None:
    first, second = SeededRandomness(4), SeededRandomness(4)
    assert [new_ulid(5, first) for _ in range(10)] == [new_ulid(5, second) for _ in range(10)]
    assert len({new_ulid(5) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "text", ["", "0" * 25, "0" * 27, "8" + "0" * 25, "I" * 26, "l" * 26, "01arz3ndektsv4rrffq69g5fav", "٠" * 26]
)
def test_other_texts_are_no_ulids(text: str) -> None:
    assert not is_ulid(text)


def test_ids_have_one_canonical_form() -> None:
    uuid, ulid = "0b5e1c1e-9f0a-4c59-8a2e-2a7c5a1e9d10", "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    for canonical_form in (uuid, ulid):
        assert canonical_id(canonical_form) == canonical_form
        assert canonical_id(canonical_form.swapcase()) == canonical_form
    for text in ("", "0b5e1c1e9f0a4c598a2e2a7c5a1e9d10", "-" * 36, "g" * 36, "8" + "0" * 25, "ı" * 26, "٠" * 26):
        assert canonical_id(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT1S", 1), ("PT1M", 60), ("PT6H", 21_600), ("P1D", 86_400), ("P7D", 604_800), ("P2W", 1_209_600),
        ("P1DT12H", 129_600), ("PT0.5S", 0.5), ("PT0.000001S", 0.000001), ("P365D", 31_536_000), ("P1W1D", 691_200),
        ("PT1.5H", 5400), ("P0.5D", 43_200), ("PT1,5H", 5400), ("P1.5D", 129_600), ("PT0.1M", 6), ("P0.5W", 302_400),
        ("PT1H0.5M", 3630), ("PT0.3333H", 1199.88), ("PT90M", 5400), ("P0DT1S", 1),
        ("PT1H30M15.25S", 5415.25), ("P0Y1D", 86_400),
    ],
)  # fmt: skip
def test_durations_have_a_fixed_length(text: str, seconds: float) -> None:
    assert parse_duration(text) == round(seconds * SECOND_US)


@pytest.mark.parametrize(
    "text",
    [
        "", "P", "PT", "1D", "P1M", "P1Y", "P1Y1D", "-P1D", "+P1D", "P-1D", "PT0S", "P0D", "pt1s", "P1d",
        "P1.5DT1H", "PT1.5H1M", "PT1.H", "PT.5H", "PT1.5.5H", "P0.5Y", "P0.5M", "P1.5M", "PT0.3333333333H",
        " PT1S", "PT1S ", "PT1S\n", "P1DT", "PT1S1M", "P1D1D", "PT1,5S1", "PT0.0000001S", "P٣D", "PT" + "1" * 50 + "S",
        "P99999999999999999999D", "PTS", "6h", "1 day", "P1D\x00", "\ud800",
    ],
)  # fmt: skip
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(TtlInvalid) as caught:
        parse_duration(text, "max_ttl")
    assert caught.value.field == "max_ttl"


@given(st.text(max_size=50))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    with contextlib.suppress(TtlInvalid):
        assert parse_duration(text) > 0


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_times_are_printed_and_parsed(moment: datetime) -> None:
    text = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert print_time(parse_time(text)) == text


def test_times_need_an_offset() -> None:
    assert parse_time("2026-01-08T10:30:00+01:00") == parse_time("2026-01-08T09:30:00Z")
    with pytest.raises(ValueError, match="offset"):
        parse_time("2026-01-08T09:30:00")


def test_project_time_goes_on_until_the_wall_clock_has_caught_up() -> None:  # YT-06
    wall = ManualClock(1000 * SECOND_US)
    clock = ProjectClock(wall)
    assert clock.read_time(900 * SECOND_US, None).now_us == 1000 * SECOND_US
    assert (
        clock.read_time(1010 * SECOND_US, None).now_us == 1010 * SECOND_US
    )  # another process, whose clock is ahead, has committed
    times = []
    for _ in range(30):
        wall.advance(seconds=1)
        times.append(clock.read_time(1010 * SECOND_US, None).now_us / SECOND_US)
    assert times[:4] == [1010.5, 1011, 1011.5, 1012]
    assert times == sorted(times)
    assert times[-11:] == list(range(1020, 1031))
    wall.advance(seconds=-100)
    assert clock.read_time(1030 * SECOND_US, None).now_us == 1030 * SECOND_US
    wall.advance(seconds=4)
    assert clock.read_time(1031 * SECOND_US, None).now_us == 1032 * SECOND_US
    assert clock.read_time(1040 * SECOND_US, None).now_us == 1040 * SECOND_US
    wall.advance(seconds=2)
    assert clock.read_time(1040 * SECOND_US, None).now_us == 1041 * SECOND_US


@given(st.lists(st.tuples(st.integers(-50, 50), st.booleans()), max_size=30))
def test_project_time_never_goes_back_nor_runs_too_fast(turns: list[tuple[int, bool]]) -> None:
    wall = ManualClock(1000 * SECOND_US)
    clock, last = ProjectClock(wall), 1000 * SECOND_US
    for seconds, commits in turns:
        wall_us, project_us = wall.now(), clock.read_time(last, None).now_us
        wall.advance(seconds=seconds)
        now = clock.read_time(last, None).now_us
        assert now >= project_us or seconds < 0
        assert now <= max(wall.now(), project_us + max(0, wall.now() - wall_us))
        assert now >= max(wall.now(), last)
        last = now if commits else last


def test_a_manual_clock_shows_the_time_it_is_set_to() -> None:
    clock = ManualClock(10)
    clock.advance(seconds=1, microseconds=-5)
    assert clock.now() == SECOND_US + 5
    clock.advance(seconds=-1)
    assert clock.now() == 5
    clock.set(7)
    assert clock.now() == 7
    assert SystemClock().now() > parse_time("2024-01-01T00:00:00Z")
