"""What is removed from a contribution before it is stored: the secrets that an audit found in clear."""  # SC-06

from __future__ import annotations

import string
from random import Random

import pytest

from tests.cortex.conftest import Team

ALPHABET = string.ascii_letters + string.digits
DRAWN = 12


def drawn(chars: int, run: str = "") -> list[str]:
    """Return keys of this many characters after their prefix, each with a run of characters somewhere in it."""
    chance = Random(chars)
    keys = []
    for _ in range(DRAWN):
        key = "".join(chance.choices(ALPHABET, k=chars))
        place = chance.randrange(chars - len(run) + 1)
        keys.append("sk" + "-" + key[:place] + run + key[place + len(run) :])
    return keys


@pytest.mark.parametrize("chars", [16, 24, 31])
def test_short_keys_are_removed(team: Team, chars: int) -> None:
    keys = drawn(chars)
    stored = [team.contribute(f"The key {key} was found.").content for key in keys]
    # Characters that happen to look like words are taken for words: docs/secrets.md.
    assert sum(key in content for key, content in zip(keys, stored, strict=True)) <= DRAWN // 6


@pytest.mark.parametrize("run", ["1234567", "abcdefg", "aaaaaaa"])
def test_a_run_inside_a_key_does_not_make_it_a_placeholder(team: Team, run: str) -> None:
    keys = drawn(48, run)
    assert not any(key in team.contribute(f"The key {key} was found.").content for key in keys)


@pytest.mark.parametrize("kind", ["RSA", "OPENSSH"])
def test_the_first_line_of_a_private_key_is_removed_alone(team: Team, kind: str) -> None:
    header = f"-----BEGIN {kind} PRIVATE KEY-----"
    sent = team.contribute(f"The file begins with {header} and was deleted.")
    assert header not in sent.content
    assert sent.security.redacted


def test_the_policy_sets_from_where_on_a_string_is_random(team: Team) -> None:  # SC-09
    text = "The value " + "".join(Random(3).choices(ALPHABET, k=40)) + " appeared in a log."
    assert team.contribute(text).security.redacted
    team.client.call("apply_policy", policy={"secrets": {"min_entropy_bits": 5.9}})
    assert team.contribute(text + " Twice.").content == text + " Twice."
