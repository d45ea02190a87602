"""Patterns of reserved paths: one spelling, and exactly when two of them name a file in common. # BX-14"""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import ReservationPath
from engrambus.policy.reservations.patterns import MAX_DEPTH, MAX_PATH_CHARS, overlaps, read_path_pattern

NAMES = ("a", "b", "aa", "ab", "ba", "bb")
PATHS = ["/".join(names) for depth in range(1, 5) for names in product(NAMES, repeat=depth)]
"""Every path of up to four names, which are long enough for a file that two of the patterns below have in common."""
patterns = st.lists(st.sampled_from(("a", "b", "*", "a*", "*b", "?", "?b", "**")), min_size=1, max_size=3).map("/".join)


def matcher(pattern: str) -> re.Pattern[str]:
    """Return the paths of a pattern as an expression, each of its names with a slash behind it."""
    names = {"**": "(?:[^/]+/)*", "*": "[^/]+/", "?": "[^/]/"}
    parts = (names.get(name) or name.replace("*", "[^/]*").replace("?", "[^/]") + "/" for name in pattern.split("/"))
    return re.compile("".join(parts))


@given(patterns, patterns)
def test_two_patterns_overlap_exactly_if_a_path_fits_both(first: str, second: str) -> None:
    fitting = [path for path in PATHS if matcher(first).fullmatch(path + "/")]
    assert overlaps(first, second) is any(matcher(second).fullmatch(path + "/") for path in fitting)
    assert overlaps(second, first) is overlaps(first, second)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("src/billing/**", "src/billing/refunds.py", True),
        ("src/billing/**", "src/billing", True),
        ("src/billing/**", "src/billing2/refunds.py", False),
        ("src/*.py", "src/deep/a.py", False),
        ("**/*.sql", "db/2024/init.sql", True),
        ("**/*.sql", "src/a.py", False),
        ("SRC/A.py", "src/a.py", True),
        ("app/[id]/page.tsx", "app/[id]/page.tsx", True),
        ("app/[id]/page.tsx", "app/i/page.tsx", False),
        ("test_*_ok*.p?", "test_refund_is_ok_now.py", True),
        ("test_*_ok*.p?", "test_ok.py", False),
        ("a*ba", "aba", True),
        ("ab*ba", "aba", False),
        ("a*b.c", "a?b.d", False),
    ],
)
def test_patterns_as_people_write_them(first: str, second: str, expected: bool) -> None:
    assert overlaps(first, second) is overlaps(second, first) is expected


def test_a_path_has_one_spelling() -> None:
    def spell(text: str) -> str:
        return read_path_pattern(text, lambda path: path == "src/billing")

    assert {spell(text) for text in ("src/billing", "./src//billing/", "src/./billing/**", "src/billing/**/**")} == {
        "src/billing/**"
    }
    assert spell("src/a.py/") == "src/a.py"
    assert spell("caf\u0065\u0301.md") == "caf\u00e9.md"
    assert spell(".") == spell("./") == "**"
    for bad in (
        "",
        " ",
        "/abs",
        "..",
        "a/../../b",
        "a\x00b",
        "a\nb",
        "x" * (MAX_PATH_CHARS + 1),
        "a/" * (MAX_DEPTH + 1),
    ):
        with pytest.raises(ReservationPath):
            spell(bad)
