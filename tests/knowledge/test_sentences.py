"""Counting the sentences of a claim.  # EB-02"""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.engrams import count_sentences

TABLE = [
    ("", 0),
    ("   ", 0),
    ("...", 0),
    ("?!", 0),
    ("One", 1),
    ("One.", 1),
    ("One. Two", 2),
    ("One. Two. Three.", 3),
    ("One. Two. Three. Four.", 4),
    ("one. two. three. four", 4),
    ("Python 3.11 runs a.py and core.ids.new_ulid in src/x.py.", 1),
    ("Version v1.2.3 is out. Use it.", 2),
    ("It costs 0.5. It was 1.5.", 2),
    ("Files, e.g. a.py, i.e. all of them, vs. none, cf. the spec.", 1),
    ("e.g. Files", 1),
    ("Retries, timeouts, etc. are counted.", 1),
    ("Retries, timeouts, etc. They are counted.", 2),
    ("Meet at 5 p.m. for it.", 1),
    ("Meet at 5 p.m. Then go.", 2),
    ("The U.S. region fails.", 1),
    ("See no. 5 and fig. 3.", 1),
    ("The answer is no. We stop.", 2),
    ("It takes 20 ms. Then it stops.", 2),
    ("It takes 5 min. Then it stops.", 2),
    ("J. Smith wrote it.", 1),
    ("So did I. Then we left.", 2),
    ("1. Open the file.", 1),
    ("1. Open it. 2. Close it.", 2),
    ("It fails in 3. Then it works.", 2),
    ("Wait ... then go.", 1),
    ("Wait... Then go.", 2),
    ("Wait… then go…", 1),
    ("Wait… Then go…", 2),
    ("Really?! Yes.", 2),
    ("Why? Because! Stop.", 3),
    ("x != y and a?b", 1),
    ('"Why?" it asked.', 1),
    ('"Why?" It asked.', 2),
    ("(It fails.) It works.", 2),
    ('He said "stop." Then he left.', 2),
    ("The . operator and .env", 1),
    ("`a.b`. Then c.", 2),
    ("予算は二回。再試行！本当？はい", 4),
    ("予算は二回。再試行！", 2),
    ("「失敗。」再試行", 2),
    ("बजट दो बार। गेटवे। तीन।", 3),
    ("هل هو؟ نعم. لا.", 3),
    ("Trailing space. ", 1),
    ("Closing marks only. )\"'", 1),
    ("a.b.c.d.e.f.g", 1),
    ("gateway; ledger: three - parts, one sentence", 1),
]


@pytest.mark.parametrize(("text", "count"), TABLE)
def test_sentences_are_counted(text: str, count: int) -> None:
    assert count_sentences(text) == count


@given(st.text(alphabet=".!?…。 aA1)\"'eg", max_size=200))
def test_a_text_has_at_most_one_sentence_more_than_terminators(text: str) -> None:
    assert count_sentences(text) <= sum(text.count(end) for end in ".!?…。") + 1


@pytest.mark.parametrize(
    ("part", "per_part", "constant"), [(".", 0, 0), (". ", 0, 0), ("a.", 0, 1), ("a. ", 1, 0), (").", 0, 0)]
)
def test_counting_takes_time_in_proportion_to_the_text(part: str, per_part: int, constant: int) -> None:
    def fastest_s(repeats: int) -> float:
        durations = []
        for _ in range(3):
            start = time.process_time()
            assert count_sentences(part * repeats) == per_part * repeats + constant
            durations.append(time.process_time() - start)
        return min(durations)

    short_s, long_s = fastest_s(20_000), fastest_s(160_000)
    assert long_s < 24 * max(short_s, 0.001)  # eight times the text; in quadratic time it would take 64 times as long
