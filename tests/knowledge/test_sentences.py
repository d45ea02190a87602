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


JOINED = [
    ("One is one.Two is two.Three is three.Four is four.", 4),
    ("It fails.The cache is old.", 2),
    ("The cache is stale.Retries are lost.", 2),
    ("It works!Then it fails.", 2),
    ("Why?Because it must.", 2),
    ("(It fails.)The cache is old.", 2),
    ("It is read by src/a.py.The next one is skipped.", 2),
    ("It needs Python 3.11.It's tested on 3.13.", 2),
    ("The keys can be omitted.A checker accepts that.", 2),
    ("It fails.The lock is held.We wait.They don't.", 4),
]
"""Sentences whose space was left out, with their number."""

NAMES = [
    "models.User is frozen, and foo.Bar is not.",
    "The class models.User is frozen, so views.Index has to copy it.",
    "It is clear that models.User is slow because thread.Thread has a lock.",
    "The lookup uses gorm.First to read a row and typing.Any is its type.",
    "`Vec.The` and `It.Is` are names; `is a.The b` is code.",
    "See https://example.org/a.The and docs/README.md#The.",
    "Call asyncio.Queue.put or System.Out when it is full.",
    "Versions 1.2.3 and v2.0.The-rc1 are refused, e.g.The first.",
    "x?Yes:No is a condition, a!=B is not, and what?Ever= is a query.",
    "The U.S.The region is U.K.It.",
    "config.Timeout is read by net.Dialer, not by http.Client.",
    "`reserve()` in ledger.Ledger.Reserve is called by gateway.Client.Do with ctx.Done.",
]
"""Texts of one sentence, full of names with dots."""

CLAIMS = [
    "VendorClient.reserveBudget retries twice. The ledger.Entry is written first. See services/ledger/reservation.py.",
    "`Session.call` opens the project for every call; decode.to_request runs before. In Python 3.11 it takes 20 ms.",
    "The parser in src/parser.py trusts its input, i.e. parse() never raises. core.Errors has no case for it.",
    "tokio::spawn is used instead of std.Thread. Rust 1.75.0 is needed. e.g. cargo +nightly test fails.",
    "GET /engram/query?q=a.B returns 422. The field is q. HTTP.Status is set by guard.Guard.",
    "os.path.join is wrong on Windows. pathlib.Path is right. Both are used in build.Tool.",
    "The U.S. region is us-east-1. It serves api.Example.com and cdn.Example.com. Failover is manual.",
    "An Error.New is made in errors.Wrap. Its Unwrap is nil if cause.Error is nil. Callers must check.",
]
"""Claims of two or three sentences, as agents write them about code: none may be refused."""


def test_a_sentence_needs_no_space_after_it_where_the_words_show_its_end() -> None:  # EB-02
    assert [(text, count_sentences(text)) for text, _ in JOINED] == JOINED


def test_names_with_dots_end_no_sentence() -> None:  # EB-02
    assert [(text, count_sentences(text)) for text in NAMES] == [(text, 1) for text in NAMES]


@pytest.mark.parametrize("claim", CLAIMS)
def test_claims_about_code_are_not_split_at_their_names(claim: str) -> None:  # EB-02
    assert 2 <= count_sentences(claim) <= 3


@pytest.mark.parametrize(("text", "count"), TABLE)
def test_sentences_are_counted(text: str, count: int) -> None:
    assert count_sentences(text) == count


@given(st.text(alphabet=".!?…。 aA1)\"'eg", max_size=200))
def test_a_text_has_at_most_one_sentence_more_than_terminators(text: str) -> None:
    assert count_sentences(text) <= sum(text.count(end) for end in ".!?…。") + 1


@pytest.mark.parametrize(
    ("part", "per_part", "constant"),
    [(".", 0, 0), (". ", 0, 0), ("a.", 0, 1), ("a. ", 1, 0), (").", 0, 0), ("is b.Bb is c", 1, 1)],
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
