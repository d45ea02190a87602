"""The token estimate: its rules, and its distance from real tokenizers."""  # EB-33

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import MAX_BYTES_PER_TOKEN, estimate_tokens

texts = st.text() | st.text(alphabet="aZ0 .\n{é日😀")


def test_nothing_costs_nothing() -> None:
    assert estimate_tokens("") == estimate_tokens(b"") == 0


@given(texts, texts)
def test_appending_never_lowers_the_estimate(text: str, addition: str) -> None:
    assert estimate_tokens(text + addition) >= estimate_tokens(text)


@given(texts)
def test_a_text_and_its_bytes_cost_the_same(text: str) -> None:
    assert estimate_tokens(text) == estimate_tokens(text.encode())


@given(st.binary(max_size=3000))
def test_any_bytes_have_an_estimate_between_two_bounds(data: bytes) -> None:
    assert len(data) <= estimate_tokens(data) * MAX_BYTES_PER_TOKEN
    assert estimate_tokens(data) <= 6 * len(data) + 3


@pytest.mark.parametrize("length", [511, 512, 513, 1024, 5000])
def test_long_texts_are_summed_whole(length: int) -> None:
    tokens = estimate_tokens("é" * length)
    assert estimate_tokens("é" * 2 * length) == pytest.approx(2 * tokens, abs=4)


def test_the_estimate_is_at_or_above_real_tokenizers(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("splintr")
    from tests.tokens.measure import measures
    from tests.tokens.table import table

    with capsys.disabled():
        print(f"\n{table()}")
    ratios = [measure.ratio for measure in measures()]
    lowest = min(measures(), key=lambda measure: measure.ratio)
    assert lowest.ratio >= 0.95, lowest.case
    assert sum(ratio >= 1 for ratio in ratios) >= 0.99 * len(ratios)
    assert sum(ratios) / len(ratios) <= 1.20
