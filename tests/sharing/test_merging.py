"""A set of events says the same in any order, and a reader takes whatever bytes are in a file."""  # BX-13

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import ExportTooLarge
from engrambus.knowledge.sharing import MAX_FILES, ExportedFiles, added_lines, merge_events
from engrambus.knowledge.sharing.events import SharedEvent, read_event
from engrambus.policy import SigningKey
from tests.sharing.test_import import NOW_US, event

KEYS = [SigningKey(bytes([number]) * 32) for number in range(3)]
IDS = [f"01KDVP9R00FQREJGN00000000{number}" for number in range(4)]


@st.composite
def events(draw: st.DrawFn) -> SharedEvent:
    """Return an event of one of three authors about one of four engrams."""
    name = draw(st.sampled_from(["put", "put", "replaced", "withdrawn", "pinned", "unpinned", "confirmed"]))
    fields: dict[str, object] = {"at": f"2026-01-0{draw(st.integers(1, 9))}T00:00:00Z"}
    if name == "put":
        fields["claim"] = f"The mirror is number {draw(st.integers(1, 3))}."
        fields["replaces"] = tuple(draw(st.lists(st.sampled_from(IDS), max_size=2)))
    if name == "replaced":
        fields["other"] = draw(st.sampled_from(IDS))
    if name == "confirmed":
        fields["expires"] = f"209{draw(st.integers(0, 9))}-01-01T00:00:00Z"
    return event(name, draw(st.sampled_from(IDS)), draw(st.sampled_from(KEYS)), **fields)


@given(st.lists(events(), max_size=24), st.integers(), st.sets(st.integers(0, 2)))
def test_neither_order_nor_repetition_changes_what_a_set_of_events_says(
    shared: list[SharedEvent], seed: int, known: set[int]
) -> None:
    names = {KEYS[number].public: f"Key {number}" for number in known}
    expected = merge_events(shared, names)
    other = [*shared, *shared[: len(shared) // 2]]
    random.Random(seed).shuffle(other)
    merged = merge_events(other, names)
    assert merged.circles == expected.circles
    assert sorted(map(repr, merged.engrams)) == sorted(map(repr, expected.engrams))
    assert len({(engram.id, engram.key) for engram in merged.engrams}) == len(merged.engrams)
    for engram in merged.engrams:
        own = [item for item in shared if item.id == engram.id and item.key in {engram.key, *names}]
        assert engram.withdrawn is any(item.event == "withdrawn" and item.key == engram.key for item in own)
        assert not engram.replaced_by or any(item.other == engram.replaced_by for item in own)


@given(st.lists(st.lists(events(), max_size=8), max_size=4), st.integers())
def test_merging_files_is_the_union_of_their_lines(branches: list[list[SharedEvent]], seed: int) -> None:
    lines = [[item.line() for item in branch] for branch in branches]
    order = list(lines)
    random.Random(seed).shuffle(order)
    one = other = b""
    for added in lines:
        after = added_lines(one, added)
        assert after.startswith(one), "what is in a file is never rewritten"
        one = after
    for added in order:
        other = added_lines(other, added)
    assert set(one.splitlines()) == set(other.splitlines()) == {line for branch in lines for line in branch}
    assert added_lines(one, [line for branch in lines for line in branch]) == one


@given(st.binary(max_size=300), events())
def test_any_bytes_in_a_file_cost_no_event_beside_them(junk: bytes, item: SharedEvent) -> None:
    read = ExportedFiles(NOW_US + 10**15)
    read.take(f"{item.id}.jsonl", junk + b"\n" + item.line() + b"\n" + junk)
    assert read.events == [item]


@given(events(), st.data())
def test_no_changed_byte_of_a_line_is_accepted(item: SharedEvent, data: st.DataObject) -> None:
    line = bytearray(item.line())
    position = data.draw(st.integers(0, len(line) - 1))
    line[position] ^= data.draw(st.integers(1, 127))
    read = ExportedFiles(NOW_US + 10**15)
    read.take(f"{item.id}.jsonl", bytes(line))
    assert read.events == []


def test_the_line_of_an_event_is_the_line_that_was_read() -> None:
    line = event().line()
    assert read_event(line).line() == line


def test_too_many_files_are_refused_as_a_whole() -> None:
    read = ExportedFiles(NOW_US)
    read.files = MAX_FILES
    with pytest.raises(ExportTooLarge):
        read.take(f"{IDS[0]}.jsonl", b"")
