"""Splitting long texts into claims: nothing lost, in order, as few as possible, cut where a reader would."""  # EB-13

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import parse_duration
from engrambus.knowledge.engrams import count_sentences, find_speaker, split_claim, validate

MAX_CHARS, MAX_SENTENCES = 500, 3
POINTER = {"type": "repo", "ref": "repo:src/parser.py#L1-L2@" + "0" * 40}
MONTH_US = parse_duration("P30D")

words = st.one_of(
    st.text(alphabet="abcdefgXYZ`('\"", min_size=1, max_size=14),
    st.sampled_from(
        ["e.g.", "It", "is", "was", "3.", "a.py:10-20", "https://a.example/x.The", "cache.The", "no.", "…"]
    ),
    st.text(alphabet="漢字仮名交じり文，、", min_size=1, max_size=40),
    st.text(alphabet="é\u0301👩\u200d🚀👍🏽नमस्ते", min_size=1, max_size=12),
    st.integers(1, 1300).map(lambda length: "x" * length),
)
ends = st.sampled_from(["", "", "", ",", ";", ".", ".", "!", "?", "。", "...", '."', "：", ":"])
gaps = st.sampled_from([" ", " ", " ", "", "\n", "\n\n", "\t", "   ", "\u2028", "\u00a0", " " * 600])
texts = st.lists(st.tuples(words, ends, gaps), max_size=120).map(lambda parts: "".join(map("".join, parts)))
speakers = st.sampled_from(["", "", "Ada: ", "user: ", "Dr. Ada Lovelace: ", "李明：", "St. John: ", "Note:\n"])


def squeezed(text: str) -> str:
    """Return a text without white space."""
    return "".join(text.split())


def put_check(claim: str) -> str:
    """Check a claim as a put does; return it as it is stored."""
    return validate({"kind": "fact", "claim": claim, "pointers": [POINTER]}, max_ttl_us=MONTH_US).claim


@given(st.builds(str.__add__, speakers, texts))
def test_nothing_is_lost_and_every_piece_can_be_put(text: str) -> None:
    pieces = split_claim(text)
    speaker = find_speaker(" ".join(text.split()))
    own_words = [pieces[0], *(piece.removeprefix(speaker) for piece in pieces[1:])] if pieces else []
    assert squeezed("".join(own_words)) == squeezed(text)
    for piece in pieces:
        assert len(piece) <= MAX_CHARS
        assert squeezed(put_check(piece)) == squeezed(piece)
        assert split_claim(piece) == [piece]


@given(texts)
def test_a_text_that_fits_is_left_as_it_is(text: str) -> None:
    if text.strip() and len(text) <= MAX_CHARS and count_sentences(text) <= MAX_SENTENCES:
        assert split_claim(text) == [text]


@given(st.lists(st.integers(6, 400), min_size=1, max_size=40))
def test_sentences_are_packed_into_as_few_pieces_as_possible(lengths: list[int]) -> None:
    sentences = ["A" + "b" * (length - 2) + "." for length in lengths]
    pieces = split_claim(" ".join(sentences))
    assert " ".join(pieces) == " ".join(sentences), "cut between sentences only"
    fewest = [0] + [len(lengths)] * len(lengths)  # for the first n sentences
    for end in range(1, len(lengths) + 1):
        for start in range(max(0, end - MAX_SENTENCES), end):
            if len(" ".join(sentences[start:end])) <= MAX_CHARS:
                fewest[end] = min(fewest[end], fewest[start] + 1)
    assert len(pieces) == fewest[-1]


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000", " " * 600])
def test_a_blank_text_has_no_pieces(text: str) -> None:
    assert split_claim(text) == []


def test_a_long_sentence_is_cut_after_a_clause_or_between_words() -> None:
    clause = "the ledger is written " * 18 + "at night,"
    first, second = split_claim(f"It is so that {clause} and {'the copies follow ' * 20}in the morning.")
    assert first.endswith("at night,")
    assert second.startswith("and the copies")
    pieces = split_claim("word " * 300)
    assert [len(piece) for piece in pieces] == [499, 499, 499]
    assert {word for piece in pieces for word in piece.split()} == {"word"}


def test_a_list_without_full_stops_is_cut_at_its_lines() -> None:
    items = [f"- entry {n:02} of the long list of things to do" for n in range(20)]
    pieces = split_claim("\n".join(items))
    assert " ".join(pieces) == " ".join(items)
    assert len(pieces) == 2
    assert pieces[1].startswith("- entry")


def test_only_a_word_that_is_too_long_is_cut() -> None:
    assert [len(piece) for piece in split_claim("x" * 1001)] == [500, 500, 1]
    assert split_claim("y" * 499 + " " + "z" * 499) == ["y" * 499, "z" * 499]
    assert [len(piece) for piece in split_claim("ab " + "x" * 900)] == [500, 403]


def test_text_without_spaces_is_cut_at_its_own_marks() -> None:
    sentence = "記憶は共有される。"
    pieces = split_claim(sentence * 7)
    assert pieces == [sentence * 3, sentence * 3, sentence]
    clauses = "長い文は読点で切られ、" * 60
    first, second = split_claim(clauses)
    assert first.endswith("、")
    assert first + second == clauses
    assert [len(piece) for piece in split_claim("漢" * 1200)] == [500, 500, 200]


def test_a_letter_stays_with_its_marks() -> None:
    for letter in ("e\u0301", "👩\u200d🚀", "👍🏽", "क\u094d"):
        for shift in range(3):
            for piece in split_claim("x" * shift + letter * 400):
                assert piece.lstrip("x").startswith(letter)
                assert piece.endswith(letter)


@pytest.mark.parametrize("name", ["Ada", "user", "agent-1", "Ada Lovelace", "Dr. Ada Lovelace", "R2 D2", "李明"])
def test_a_speaker_is_named_in_every_piece(name: str) -> None:
    text = f"{name}: " + " ".join(f"I said sentence {n}." for n in range(10))
    pieces = split_claim(text)
    assert len(pieces) == 4
    assert all(piece.startswith(f"{name}: I said") for piece in pieces)


@pytest.mark.parametrize(
    "opening",
    ["These are the rules: ", "12:30 is noon ", "https://example.org/a ", "A" * 41 + ": ", "One. Two. Three: ", ": "],
)
def test_other_openings_are_no_speakers(opening: str) -> None:
    assert find_speaker(opening) == ""


def test_a_long_word_of_a_speaker_is_not_left_by_its_name() -> None:
    first, *others = split_claim("Ada: " + "x" * 600)
    assert len(first) == 500
    assert others == ["Ada: " + "x" * 105]


def test_a_hostile_text_takes_time_in_proportion_to_its_length() -> None:
    for unit in ("a ", "a. ", "a, ", "`. The ", "x.The ", "\u0301", "。", "Ada: ", "Is is.Is is."):
        text = unit * (100_000 // len(unit))
        pieces = split_claim(text)
        assert squeezed("".join(piece.removeprefix("Ada: ") for piece in pieces)).count("a") <= 100_000
        assert max(map(len, pieces)) <= MAX_CHARS
