"""A few sentences that stand for a longer text: its own words, within the limits of a claim."""  # EB-18

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.engrams import count_sentences, split_sentences
from engrambus.knowledge.messages import count_code, describe_found, extract_statement
from engrambus.policy.secrets import find_secrets

CODE = "def refund(order):\n    if order.paid:\n        raise ValueError(order)\n    return bank.send(order)\n"
PIECES = (
    "The refund is sent again.",
    "Why? Nobody knows.",
    "# A heading",
    "- an item without a stop",
    "1. Open the file.",
    "| a | b |",
    "```python\n" + CODE + "```",
    CODE,
    "It runs e.g. at 3.11 p.m. every day",
    "> quoted words",
    "word " * 150,
    "Der Vorgang läuft… weiter。",
    "The key is AKIA" + "Q3EGRVVQ7Y2PXH4M.",
)
texts = st.one_of(
    st.text(), st.lists(st.sampled_from(PIECES)).map("\n\n".join), st.lists(st.sampled_from(PIECES)).map(" ".join)
)


@given(texts, st.integers(60, 600), st.integers(1, 3))
def test_an_extract_keeps_its_limits(text: str, max_chars: int, max_sentences: int) -> None:
    extract = extract_statement(text, max_chars=max_chars, max_sentences=max_sentences)
    assert len(extract) <= max_chars
    assert count_sentences(extract) <= max_sentences
    assert not count_code(extract)
    assert not find_secrets(extract)


@given(texts)
def test_an_extract_says_nothing_of_its_own(text: str) -> None:
    words = [word.strip(".:…") for word in extract_statement(text).split()]
    assert [word for word in words if word not in text] == []


@given(texts)
def test_a_description_is_a_claim(text: str) -> None:
    claim = describe_found(text, "src/refunds.py, lines 1 to 4,")
    assert 0 < len(claim) <= 500
    assert 1 <= count_sentences(claim) <= 3
    assert not count_code(claim)
    assert not find_secrets(claim)


@given(texts)
def test_sentences_are_parts_of_the_text(text: str) -> None:
    sentences = list(split_sentences(text))
    assert len(sentences) == count_sentences(text)
    start = 0
    for sentence in sentences:
        start = text.index(sentence, start) + len(sentence)


@pytest.mark.parametrize(
    ("text", "extract"),
    [
        ("Done.", "Done."),
        ("No stop at the end", "No stop at the end"),
        ("One. Two. Three. Four.", "One. Two. Three."),
        ("and so on. The parser trusts\nits input. It is small.", "The parser trusts its input. It is small."),
        ("## Summary\n\n- reads each line\n- writes nothing", "Summary: reads each line. writes nothing."),
        (
            f"I propose this:\n\n```python\n{CODE}```\n\nIt refuses paid orders.",
            "I propose this: It refuses paid orders.",
        ),
        (CODE, ""),
        ("", ""),
    ],
)
def test_the_first_sentences_are_taken(text: str, extract: str) -> None:
    assert extract_statement(text) == extract


def test_a_sentence_that_is_too_long_is_cut_at_a_word() -> None:
    extract = extract_statement("again and " * 100)
    assert 480 < len(extract) <= 500
    assert extract.endswith(("again…", "and…"))


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("export const fetchUser = async (id) => {\n  return api.get(id);\n};\n", "fetchUser"),
        ("func (r *Repo) Save(x int) error {\n\treturn nil\n}\n", "Save"),
        ("pub(crate) async fn poll(self) -> Poll {\n    self.inner.poll()\n}\n", "poll"),
        ("CREATE TABLE IF NOT EXISTS mail (\n  run TEXT NOT NULL,\n  position INTEGER PRIMARY KEY\n);\n", "mail"),
        ("class A(Base):\n    x = 1\n\n    def b(self):\n        return self.x\n", "A, b"),
    ],
)
def test_code_is_described_by_what_it_defines(code: str, names: str) -> None:
    assert describe_found(code, "a.x") == f"a.x defines {names}."
