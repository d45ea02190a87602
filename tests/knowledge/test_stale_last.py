"""Engrams with stale evidence come last in an answer."""  # BX-01

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.engrams import stale_last


@given(flags=st.lists(st.booleans(), max_size=60))
def test_stale_items_come_last_and_nothing_else_changes(flags: list[bool]) -> None:
    items = list(enumerate(flags))
    expected = [*(item for item in items if not item[1]), *(item for item in items if item[1])]
    assert stale_last(items, lambda item: item[1]) == expected
