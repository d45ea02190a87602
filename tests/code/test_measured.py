"""The detector of inline code, measured on real text. # EB-07"""

from __future__ import annotations

from tests.code.measure import corpus, measure


def test_the_corpus_is_large_enough() -> None:
    snippets, prose = corpus()
    assert len(snippets) >= 2_000
    assert len(prose) >= 2_000
    assert len({snippet.kind for snippet in snippets}) >= 12


def test_the_held_out_half_reaches_the_targets() -> None:
    held_out = measure(held_out=True)
    assert held_out.recall >= 0.97
    assert held_out.false_positives <= 0.01
