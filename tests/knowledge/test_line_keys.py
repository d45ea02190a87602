"""The words of pointed lines as keys: split like the names of a claim, bounded for hostile input.  # EB-12"""

from __future__ import annotations

import random
from itertools import repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.knowledge.engrams import hash_keys, query_keys
from engrambus.knowledge.engrams.keys import normalise_key
from engrambus.knowledge.engrams.line_words import MAX_CHARS_READ, MAX_LINE_KEYS, line_keys

FUNCTION = '''
def reserve_budget(self, caller: VendorClient, amount_us: int) -> None:
    """Reserve the caller's budget; it isn't re-indexed before 2 retries of 1500 ms."""
    if self._accounts[caller.name].left_us < amount_us:  # don't overdraw
        raise BudgetExceeded("budget", used=0xdeadbeef)
'''


def test_words_and_joined_names_in_order_of_first_appearance() -> None:
    assert line_keys([FUNCTION], ())[:12] == (
        "def", "reserv", "budget", "reservebudget", "self", "caller", "vendor", "client", "vendorcli", "amount",
        "amountu", "int",
    )  # fmt: skip


@pytest.mark.parametrize(
    "question",
    [
        *("reserve_budget", "reserveBudget", "ReserveBudget", "reservebudget", "reserve budget", "reserved"),
        *("vendorclient", "vendor_client", "reindex", "retry", "1500", "overdraw", "accounts", "BudgetExceeded"),
    ],
)
def test_a_question_finds_the_lines(question: str) -> None:
    assert set(query_keys(question)) & set(line_keys([FUNCTION], ()))


def test_what_finds_nothing_is_left_out() -> None:
    keys = line_keys([FUNCTION, "x" * 41, "ab" * 21 + "_" + "c", "the, of and 7 8 9"], ())
    assert not set(keys) & {"the", "of", "it", "isn", "t", "dont", "don", "2", "7", "8", "9", "s", ""}
    assert not any("+" in key or "." in key or ":" in key for key in keys)
    assert max(map(len, keys)) <= 40


def test_known_keys_are_left_out() -> None:
    claim = hash_keys("Reserve the budget of a caller")
    keys = line_keys([FUNCTION], claim.public)
    assert keys
    assert not set(keys) & set(claim.public)
    assert set(keys) | (set(line_keys([FUNCTION], ())) & set(claim.public)) == set(line_keys([FUNCTION], ()))


def test_several_texts_are_read_in_order_and_each_key_once() -> None:
    assert line_keys(["beta alpha", "alpha gamma", "", "beta"], ()) == ("beta", "alpha", "gamma")


def test_at_most_the_limit() -> None:
    text = " ".join(f"word{number}" for number in range(1000))
    assert line_keys([text], ()) == tuple(f"word{number}" for number in range(MAX_LINE_KEYS))
    assert line_keys([text], ("word0",), 3) == ("word1", "word2", "word3")
    assert line_keys(["vendor_client"], (), 2) == ("vendor", "client")
    assert line_keys([text], (), 0) == ()


def test_only_the_first_characters_are_read() -> None:
    assert line_keys([" " * MAX_CHARS_READ + "late"], ()) == ()
    assert line_keys([" " * (MAX_CHARS_READ // 2), " " * (MAX_CHARS_READ // 2), "late"], ()) == ()
    assert line_keys([" " * (MAX_CHARS_READ - 10) + "early", "late"], ()) == ("earli", "late")


def test_hostile_lines_have_few_keys() -> None:
    rng = random.Random(18)
    binary = rng.randbytes(1_000_000).decode("latin-1")
    minified = "".join(rng.choices("abcdefgh=();,.{}[]_-'$0129", k=1_000_000))
    mixed = "".join(chr(rng.randrange(0x80, 0x2FFFF)) for _ in range(100_000))
    lines = [binary, minified, mixed, "x" * 1_000_000, "a-" * 500_000, "a'" * 500_000, "_" * 1_000_000, "\x00" * 90_000]
    for text in lines:
        keys = line_keys([text], ())
        assert len(keys) <= MAX_LINE_KEYS
        assert all(key.encode() and not any(c.isspace() or c < " " for c in key) for key in keys)


def test_an_endless_sequence_of_texts_is_not_read_to_its_end() -> None:
    assert line_keys(repeat(""), ()) == ()


@given(text=st.text(max_size=80))
@settings(max_examples=300, deadline=None)
def test_each_key_is_one_that_a_person_may_ask_for(text: str) -> None:
    for key in line_keys([text], ()):
        assert normalise_key(key) == key
        assert len(key) <= 80
