"""Generated names: two short words that can be told apart, copied and corrected."""  # EB-31

from __future__ import annotations

import os
from itertools import combinations

import pytest

from engrambus.policy.identity import check_name
from engrambus.policy.names import ADJECTIVES, NOUNS, generate_name, similar_names
from engrambus.policy.secrets import check_no_secrets


def edits(one: str, other: str) -> int:
    """Count the insertions, deletions, replacements and swaps of neighbours that turn one word into the other."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            steps = [rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (letter != wanted)]
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                steps.append(rows[i - 2][j - 2] + 1)
            row.append(min(steps))
        rows.append(row)
    return rows[-1][-1]


@pytest.mark.parametrize(("words", "least"), [(ADJECTIVES, 128), (NOUNS, 256)])
def test_the_words_are_short_plain_and_many(words: tuple[str, ...], least: int) -> None:
    assert len(set(words)) == len(words) >= least
    assert all(word.isascii() and word.isalpha() and word.islower() and 3 <= len(word) <= 7 for word in words)


@pytest.mark.parametrize("words", [ADJECTIVES, NOUNS])
def test_one_typing_error_does_not_turn_a_word_into_another(words: tuple[str, ...]) -> None:
    assert [pair for pair in combinations(words, 2) if edits(*pair) < 2] == []


def test_no_name_looks_like_a_secret() -> None:
    names = [f"{adjective}-{noun}" for adjective in ADJECTIVES[::5] for noun in NOUNS]
    check_no_secrets([{"as": name, "text": f"token: {name}, 01KDVP9R000000000000000000/{name}"} for name in names])
    assert [check_name(name) for name in names] == names


def test_a_generated_name_is_not_used_yet() -> None:
    used: set[str] = set()
    for _ in range(500):
        used.add(generate_name(used.__contains__, os.urandom))
    assert len(used) == 500


def test_a_used_name_gets_another_word_and_then_a_number() -> None:
    def zeros(size: int) -> bytes:
        return bytes(size)

    used: set[str] = set()
    for _ in range(4):
        used.add(generate_name(used.__contains__, zeros))
    first, noun = ADJECTIVES[0], NOUNS[0]
    three = f"{first}-{first}-{noun}"
    assert used == {f"{first}-{noun}", three, f"{three}-2", f"{three}-3"}


def test_similar_names_begin_with_the_most_similar() -> None:
    names = ["amber-fox", "amber-wolf", "misty-otter"]
    assert similar_names("amber-fx", names)[0] == "amber-fox"
    assert similar_names("ambre-fox", names)[0] == "amber-fox"
    assert similar_names("fox-amber-something", names) == []
    assert similar_names("", names) == []
