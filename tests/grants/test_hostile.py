"""Forged and malformed tokens are refused."""  # EB-11

from __future__ import annotations

import base64
from typing import Any

import pytest
from biscuit_auth import Biscuit, BiscuitBuilder, BlockBuilder, KeyPair
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import BY_CODE, GrantForeign, GrantForged, GrantRefusal, GrantTooDeep, GrantTooLong
from engrambus.policy.grants import MAX_BUDGET_TOKEN_CHARS, GrantKey, attenuate
from engrambus.policy.grants.keys import split
from engrambus.policy.grants.tokens import read_token
from tests.grants.samples import KEY, LINEAGES, SHA, address, make_token, refusal_code, verify

CHAIN = attenuate(attenuate(make_token(), uses=2), cap_tokens=200)


def raw(token: str) -> bytes:
    return base64.urlsafe_b64decode(split(token)[1])


def with_raw(data: bytes) -> str:
    return f"grant1.{KEY.name}.{base64.urlsafe_b64encode(data).decode()}"


def appended(token: str, source: str, values: dict[str, Any] | None = None) -> str:
    """The token with arbitrary Datalog appended, as any holder can sign it."""
    biscuit = Biscuit.from_base64(split(token)[1], KEY.public)
    return f"grant1.{KEY.name}.{biscuit.append(BlockBuilder(source, values)).to_base64()}"


def signed(source: str, values: dict[str, Any] | None = None) -> str:
    """Arbitrary Datalog signed by the gateway's key."""
    return f"grant1.{KEY.name}.{BiscuitBuilder(source, values).build(KEY.private).to_base64()}"


@pytest.mark.parametrize("bit", [0x01, 0x20, 0x80])
def test_no_byte_can_be_changed(bit: int) -> None:
    data = raw(CHAIN)
    assert refusal_code(with_raw(data)) is None
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= bit
        with pytest.raises(GrantForged):
            verify(with_raw(bytes(changed)))


def test_no_character_can_be_changed() -> None:
    for index, character in enumerate(CHAIN):
        replacement = "A" if character != "A" else "B"
        with pytest.raises((GrantForged, GrantForeign)):
            verify(CHAIN[:index] + replacement + CHAIN[index + 1 :])


@given(st.data())
def test_no_bytes_can_be_cut_moved_or_added(data: st.DataObject) -> None:
    original = raw(CHAIN)
    start = data.draw(st.integers(0, len(original)))
    end = data.draw(st.integers(start, len(original)))
    changed = original[:start] + data.draw(st.binary(max_size=40)) + original[end:]
    if changed != original:
        with pytest.raises(GrantRefusal):
            verify(with_raw(changed))


@given(st.one_of(st.text(), st.binary().map(with_raw), st.text(st.sampled_from("grant1.AZ_-=")).map("grant1.".__add__)))
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(GrantRefusal):
        verify(text)
    with pytest.raises(GrantRefusal):
        attenuate(text, uses=1)


def test_another_spelling_of_the_same_token_is_refused() -> None:
    for variant in (
        f"{CHAIN}=",
        f"{CHAIN}\n",
        f" {CHAIN}",
        CHAIN.replace("grant1", "GRANT1"),
        with_raw(raw(CHAIN) + b"\x28\x00"),
    ):
        with pytest.raises(GrantForged):
            verify(variant)


def test_a_block_cannot_be_removed_or_moved_to_another_grant() -> None:
    token = make_token(cap_tokens=10)
    narrow = attenuate(token, cap_tokens=1)
    wide = make_token(cap_tokens=10)
    for first, second in ((narrow, token), (narrow, wide), (wide, narrow)):
        start, end = raw(first), raw(second)
        for cut in range(0, min(len(start), len(end)), 7):
            with pytest.raises(GrantRefusal):
                verify(with_raw(start[:cut] + end[cut:]), tokens=5, lineage=LINEAGES["tester"])


def test_a_token_signed_by_another_key_is_refused() -> None:
    mallory = GrantKey(bytes(31) + b"\x01")
    forged = make_token(key=mallory)
    with pytest.raises(GrantForeign):
        verify(forged)
    with pytest.raises(GrantForged):
        verify(forged.replace(mallory.name, KEY.name))


@pytest.mark.parametrize(
    "source",
    [
        "uses(1000); uses(2)",
        "project(1)",
        "check if true",
        'check if lineage("dev") or true',
        'check if lineage("dev") trusting previous',
        'check all lineage($x), $x == "dev"',
        'reject if lineage("dev")',
        "tokens(0); check if tokens($tokens), $tokens <= 5",
        "uses($x) <- now($x)",
        "check if now($at), $at <= 5",
        "check if tokens($tokens), $tokens < 5",
        "check if tokens($n), $n <= 5",
        "check if tokens($tokens), $tokens <= -1",
        "check if tokens($tokens), $tokens <= 99999999999999999",
        "check if tokens($tokens), $tokens <= 5; uses(1); check if tokens($tokens), $tokens <= 6",
        "check if code($chars), $chars <= 5; check if tokens($tokens), $tokens <= 5",
        'check if pointer("nonsense")',
        'check if pointer("repo:src/x.py")',
        f'check if prefix("repo:src/x.py@{SHA}")',
        f'check if pointer("repo:src/%78.py@{SHA}")',
        f'check if pointer("repo:src/x.py#L1@{SHA}")',
        'check if "aaaaaaaa".matches("((((a{100}){100}){100}){2})+b")',
        'grant("01K0000000000000000000GNT2", "p", "r", "lead", hex:00)',
    ],
)
def test_a_block_with_any_other_statement_is_refused(source: str) -> None:
    token = appended(make_token(), source)
    with pytest.raises(GrantForged):
        verify(token)


def test_a_string_that_looks_like_datalog_narrows_as_the_datalog_would() -> None:
    """Biscuit prints strings unescaped, so a holder can write a block that reads as another; that only restricts it."""
    disguised = appended(
        make_token(), "check if lineage({x})", {"x": 'dev");\ncheck if tokens($tokens), $tokens <= 5;\n//'}
    )
    with pytest.raises(GrantForged):
        verify(disguised)
    canonical = appended(make_token(), "check if lineage({x})", {"x": 'dev");\ncheck if pointer("repo:x@' + SHA})
    assert len(read_token(KEY, canonical).blocks) == 2
    with pytest.raises(BY_CODE["GRANT_WRONG_POINTER"]):
        verify(canonical)


def test_a_block_signed_by_a_third_party_is_refused() -> None:
    third_party = KeyPair()
    biscuit = Biscuit.from_base64(split(make_token())[1], KEY.public)
    block = biscuit.third_party_request().create_block(third_party.private_key, BlockBuilder("uses(1)"))
    token = f"grant1.{KEY.name}.{biscuit.append_third_party(third_party.public_key, block).to_base64()}"
    with pytest.raises(GrantForged):
        verify(token)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "uses(1)",
        'grant("a", "b", "c", "d", hex:00); uses(1)',
        'grant("a", "b", "c", "d", hex:ff); uses(1); check if project("b"), run("c"); check if lineage("dev"); '
        f'check if pointer("repo:x@{SHA}"); check if now($at), $at < 9; check if tokens($tokens), $tokens <= 9; '
        "check if code($chars), $chars <= 0",
        'grant("a", "b", "c", "d", hex:00); uses(1); check if project("x"), run("c"); check if lineage("dev"); '
        f'check if pointer("repo:x@{SHA}"); check if now($at), $at < 9; check if tokens($tokens), $tokens <= 9; '
        "check if code($chars), $chars <= 0",
        'grant("a", "b", "c", "d", hex:00); uses(1); check if project("b"), run("c")',
    ],
)
def test_other_data_signed_by_the_key_is_not_a_grant(source: str) -> None:
    with pytest.raises(GrantForged):
        verify(signed(source))


class LengthOnly(str):
    """A text that allows no access but to its length."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"{name} was read")


class TestOversizedTokens:
    def test_the_length_is_checked_first(self) -> None:
        for oversized in (LengthOnly("grant1." + "A" * 10_000_000), LengthOnly("é" * 10_000_000)):
            with pytest.raises(GrantTooLong) as error:
                verify(oversized)
            assert (error.value.limit, error.value.used) == (MAX_BUDGET_TOKEN_CHARS, len(oversized))
            assert len(str(error.value.problem())) < 1000

    def test_as_many_blocks_as_the_length_allows_are_refused(self) -> None:
        biscuit = Biscuit.from_base64(split(make_token())[1], KEY.public)
        token = ""
        while len(longer := f"grant1.{KEY.name}.{biscuit.to_base64()}") <= MAX_BUDGET_TOKEN_CHARS:
            token, biscuit = longer, biscuit.append(BlockBuilder(""))
        with pytest.raises(GrantTooDeep) as error:
            verify(token)
        assert error.value.limit == 8
        with pytest.raises(GrantTooDeep):
            attenuate(token, uses=1)
        with pytest.raises(GrantTooLong):
            verify(longer)

    def test_narrowing_stops_before_a_token_grows_too_long(self) -> None:
        path = "文" * 150
        token = make_token(pointer=f"repo:{path}@{SHA}", intended_use="文" * 500)
        narrower = [f"repo:{path}#L{line}-L9@{SHA}" for line in range(1, 9)]
        while len(token) < 7000:
            token = attenuate(token, pointer=narrower.pop(0), max_blocks=99)
        with pytest.raises(GrantTooLong):
            attenuate(token, pointer=narrower[0], max_blocks=99)
        assert refusal_code(token, pointer=address(f"repo:{path}#L9@{SHA}"), max_blocks=99) is None

    def test_a_block_full_of_facts_is_refused(self) -> None:
        with pytest.raises(GrantRefusal):
            verify(appended(make_token(), "".join(f"uses({number});" for number in range(400))))
