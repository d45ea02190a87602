"""The detector of inline code, measured on real text. # EB-07"""

from __future__ import annotations

import pytest

from engrambus.knowledge.messages import count_code
from tests.code.measure import corpus, measure
from tests.code.written import written


def test_the_corpus_is_large_enough() -> None:
    snippets, prose = corpus()
    assert len(snippets) >= 2_000
    assert len(prose) >= 2_000
    assert len({snippet.kind for snippet in snippets}) >= 12


@pytest.mark.parametrize("name", ["tuning", "held_out"])
def test_written_texts_reach_the_targets(name: str) -> None:
    code, prose = written(f"{name}_code"), written(f"{name}_prose")
    missed = [sample.text for sample in code if not count_code(sample.text)]
    accused = [sample.text for sample in prose if count_code(sample.text)]
    assert len(code) >= 150, "a set this small proves little"
    assert len(prose) >= 120
    assert len(missed) <= len(code) * 0.03, missed
    assert len(accused) <= len(prose) * 0.03, accused


def test_the_held_out_half_reaches_the_targets() -> None:
    held_out = measure(held_out=True)
    assert held_out.recall >= 0.97
    assert held_out.false_positives <= 0.01
