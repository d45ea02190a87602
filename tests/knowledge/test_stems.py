"""Stems: Porter's algorithm, compared with the one of SQLite's full-text search.  # EB-12"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engrambus.knowledge.engrams import query_keys
from engrambus.knowledge.engrams.stems import porter, stem
from tests.harness.examples import examples

from . import literal_stem

ROOT = Path(__file__).parents[2]
ENDINGS = """s ss sses ies eed ed ing y ational tional enci anci izer bli abli alli entli eli ousli ization ation ator
    alism iveness fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al ance ence er ic able
    ible ant ement ment ent ion sion tion ou ism ate iti ous ive ize e l ll at bl iz tt""".split()  # noqa: SIM905
WORDS = st.one_of(
    st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=70),
    st.builds(
        lambda start, endings: start + "".join(endings),
        st.text("abeioytslrwxz", min_size=1, max_size=6),
        st.lists(st.sampled_from(ENDINGS), max_size=3),
    ),
)


@pytest.fixture(scope="module")
def sqlite_stem() -> Callable[[str], str]:
    tokenizer = apsw.Connection(":memory:").fts5_tokenizer("porter", ["ascii"])

    def stemmed(word: str) -> str:
        (found,) = tokenizer(
            word.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
        )
        assert isinstance(found, str)
        return found

    return stemmed


def _differs_in_sqlite(word: str) -> bool:
    """True for the words that no language has, on which SQLite departs from the paper.

    It takes no ending off that is the whole word, and takes `yy` for a double consonant.
    """
    return "yy" in word or re.fullmatch("(?:ies|sses|eed)s?", word) is not None


def _vocabulary() -> list[str]:
    files = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *(path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")),
    ]
    words: set[str] = set()
    for file in files:
        words.update(re.findall("[a-z]+", file.read_text("utf-8", "replace").lower()))
    return sorted(words)


def test_every_word_of_this_repository_has_the_stem_that_sqlite_gives_it(sqlite_stem: Callable[[str], str]) -> None:
    words = [word for word in _vocabulary() if not _differs_in_sqlite(word)]
    assert len(words) > 8000
    assert [word for word in words if porter(word) != sqlite_stem(word)] == []
    assert [word for word in words if porter(word) != literal_stem.porter(word)] == []


@given(word=WORDS)
@example(word="y")
@example(word="yes")
@example(word="sky")
@settings(max_examples=examples(500), deadline=None)
def test_any_word_has_the_stem_that_sqlite_gives_it(word: str, sqlite_stem: Callable[[str], str]) -> None:
    assert _differs_in_sqlite(word) or porter(word) == sqlite_stem(word)
    assert porter(word) == literal_stem.porter(word)


@given(word=WORDS)
@settings(max_examples=examples(250), deadline=None)
def test_a_stem_is_its_own_stem(word: str) -> None:
    assert stem(stem(word)) == stem(word) == literal_stem.stem(word)
    assert 1 <= len(stem(word)) <= len(word)


@pytest.mark.parametrize(
    "family",
    [
        "budget budgets", "class classes", "retry retries retried retrying", "index indexes indexed indexing",
        "match matches matched matching", "cache caches cached caching", "hash hashes hashed hashing",
        "status statuses", "alias aliases", "deploy deploys deployed deploying deployment deployments",
        "connect connected connecting connection connections connective", "reserve reserves reserved reserving",
        "technology technological", "possible possibly", "summary summaries summarise", "use uses used using",
        "one ones", "agree agrees agreed",
    ],
)  # fmt: skip
def test_the_forms_of_a_word_share_one_key(family: str) -> None:
    assert len({query_keys(word) for word in family.split()}) == 1
    assert query_keys(family.split()[0])


@pytest.mark.parametrize("words", ["universe version", "status state", "import improve", "test text", "port part"])
def test_different_words_do_not_share_a_key(words: str) -> None:
    first, second = words.split()
    assert query_keys(first) != query_keys(second)


def test_stop_words_and_their_plurals_have_no_key_but_words_with_such_a_stem_do() -> None:
    assert query_keys("us on own other others yours theirs owns") == ()
    assert query_keys("use one owned")[:3] == ("use", "one", "owne")


def test_data_is_not_stemmed() -> None:
    assert stem("ab" * 32 + "s") == "ab" * 32 + "s"
    assert stem("ab" * 31 + "s") == "ab" * 31
