"""Bearer tokens and the key they are signed with."""

from __future__ import annotations

import os
import stat
import string
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import SECOND_US
from engrambus.errors import FormatUnknown, TokenExpired, TokenInvalid
from engrambus.policy import TokenClaims, TokenKey

PROJECT = "01KDVP9R00STGMERGYTEST0000"
KEY = TokenKey(bytes(range(32)))
CLAIMS = TokenClaims(
    agent="ada",
    role="programmer",
    parent="mia",
    project=PROJECT,
    run="01KDVP9R000000000000000000",
    expires_us=100 * SECOND_US,
)
TOKEN = KEY.sign(CLAIMS)


def test_a_token_contains_its_claims() -> None:
    assert KEY.check(TOKEN, project=PROJECT, now_us=0) == CLAIMS
    assert TOKEN.startswith("engrambus1.")
    assert KEY.sign(CLAIMS) == TOKEN


def test_a_token_expires_exactly_at_its_time() -> None:
    KEY.check(TOKEN, project=PROJECT, now_us=100 * SECOND_US - 1)
    for now in (100 * SECOND_US, 100 * SECOND_US + 1, 1 << 60):
        with pytest.raises(TokenExpired):
            KEY.check(TOKEN, project=PROJECT, now_us=now)


def test_no_character_of_a_token_can_be_changed() -> None:
    for position, character in enumerate(TOKEN):
        for replacement in set(string.ascii_letters + string.digits + "-_.= \x00é") - {character}:
            forged = TOKEN[:position] + replacement + TOKEN[position + 1 :]
            with pytest.raises(TokenInvalid):
                KEY.check(forged, project=PROJECT, now_us=0)


def test_no_character_of_a_token_can_be_removed_or_added() -> None:
    for position in range(len(TOKEN)):
        with pytest.raises(TokenInvalid):
            KEY.check(TOKEN[:position], project=PROJECT, now_us=0)
        with pytest.raises(TokenInvalid):
            KEY.check(TOKEN[:position] + TOKEN[position + 1 :], project=PROJECT, now_us=0)
    for forged in (TOKEN + "=", TOKEN + "A", " " + TOKEN, TOKEN + "\n", TOKEN + ".", TOKEN * 2):
        with pytest.raises(TokenInvalid):
            KEY.check(forged, project=PROJECT, now_us=0)


def test_a_token_of_another_project_or_key_is_invalid() -> None:
    with pytest.raises(TokenInvalid):
        KEY.check(TOKEN, project="01KDVP9R000000000000000000", now_us=0)
    with pytest.raises(TokenInvalid):
        TokenKey(bytes(32)).check(TOKEN, project=PROJECT, now_us=0)


def test_an_expired_token_of_another_key_is_invalid_and_not_expired() -> None:
    """The expiry of a token is only reported if its signature is valid."""
    with pytest.raises(TokenInvalid):
        TokenKey(bytes(32)).check(TOKEN, project=PROJECT, now_us=1 << 60)


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda data: "engrambus1." + data.hex() + "." + data.hex()))
def test_any_other_text_is_invalid(text: str) -> None:
    with pytest.raises(TokenInvalid):
        KEY.check(text, project=PROJECT, now_us=0)


def test_a_huge_token_is_refused_by_its_length() -> None:
    with pytest.raises(TokenInvalid):
        KEY.check("engrambus1." + "A" * 10_000_000, project=PROJECT, now_us=0)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_its_owner_can_read_the_key(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "state" / "engrambus" / PROJECT
    previous = os.umask(umask)
    try:
        key = TokenKey.load(folder)
    finally:
        os.umask(previous)
    assert stat.S_IMODE((folder / "token.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len((folder / "token.key").read_bytes()) == 32
    assert TokenKey.load(folder).check(key.sign(CLAIMS), project=PROJECT, now_us=0) == CLAIMS


def test_concurrent_first_uses_get_the_same_key(tmp_path: Path) -> None:
    for number in range(20):
        folder = tmp_path / str(number)
        ready = threading.Barrier(8)
        tokens: list[str] = []

        def make(folder: Path = folder, ready: threading.Barrier = ready, tokens: list[str] = tokens) -> None:
            ready.wait()
            tokens.append(TokenKey.load(folder).sign(CLAIMS))

        threads = [threading.Thread(target=make) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(tokens) == 8
        assert len(set(tokens)) == 1
        assert [entry.name for entry in folder.iterdir()] == ["token.key"]


def test_two_projects_have_different_keys(tmp_path: Path) -> None:
    first, second = TokenKey.load(tmp_path / "first"), TokenKey.load(tmp_path / "second")
    with pytest.raises(TokenInvalid):
        second.check(first.sign(CLAIMS), project=PROJECT, now_us=0)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_key_is_refused_and_not_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token.key").write_bytes(content)
    with pytest.raises(FormatUnknown, match="32 bytes"):
        TokenKey.load(tmp_path)
    assert (tmp_path / "token.key").read_bytes() == content
