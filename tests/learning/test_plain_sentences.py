"""Sentences that say nothing alone are not learned: commands, questions, fragments, references, routine (BX-09)."""

from __future__ import annotations

import pytest

from engrambus.knowledge.learning.plain_sentences import is_trivial, leans_back, reasons_first, says_little
from engrambus.knowledge.learning.quoting import quote
from tests.learning.test_sources import message, texts_of


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("`trustme-cli -i example.org www.example.org`, assuming that you want to connect to it.", "code"),
        ("`pip install -e .` `pip freeze` `tox -e py`", "code"),
        ("trustme-cli -i example.org www.example.org", "code"),
        ("Found something that you would like to change?", "question"),
        ("Some possibly useful tips for narrowing down potential issues...", "fragment"),
        ("The following settings are read in this order:", "fragment"),
        ("warning The cache is not shared between threads.", "fragment"),
        ("[ ] I have added a test for this change.", "fragment"),
        ("(This does not apply to typos!)", "fragment"),
        ("Two errors kept the page from loading: 1.", "fragment"),
        ("`FAIL Required test coverage of 100% not reached.", "fragment"),
        ("Decided.", "fragment"),
        ("This fixes issue #1767.", "reference"),
        ("For more information, see https://pre-commit.ci.", "reference"),
        ("Part 7 must be started before part 8.", ""),
        ("`mitmproxy` requires a file that holds the key.", ""),
        ("Warnings are errors in the test suite.", ""),
        ("キャッシュは共有されません。", ""),
    ],
)  # fmt: skip
def test_a_sentence_must_say_something_alone(sentence: str, reason: str) -> None:  # BX-09
    assert says_little(sentence) == reason


@pytest.mark.parametrize(
    "text",
    ["fix for digest testcase", "Fix line-too-long linting error", "Address review comments", "docs: tweak wording"],
)
def test_notes_of_routine_are_trivial(text: str) -> None:  # BX-09
    assert is_trivial(text)
    assert message(text) is None
    assert not is_trivial("Fix the digest, because a server may send it twice")


def test_steps_of_a_squashed_commit_are_left_out() -> None:  # BX-09
    draft = message(
        "Close idle connections (#12)\r\n\r\n* wip\r\n\r\n* use mocker instead of mock\r\n\r\n"
        "* Close them after a minute, because a proxy drops connections that are older than that\r\n\r\n* tests\r\n"
    )
    assert draft is not None
    assert quote(draft).claim == (
        "Close idle connections. Close them after a minute, because a proxy drops connections that are older than that."
    )


def test_the_template_of_a_pull_request_is_left_out() -> None:  # BX-09
    draft = message(
        "[PR #7/0a1b2c3 backport][3.1] Keep the order of headers (#8) (#9)\n\n<!-- Thank you for your contribution!\n"
        "Please say why it is needed because we want to know. -->\nServers compare the first one, so that a changed "
        "order breaks them.\n\n## Checklist\n\n- [x] I think the code is good\n  * Please keep the order\n"
    )
    assert draft is not None
    claim = "Keep the order of headers. Servers compare the first one, so that a changed order breaks them."
    assert quote(draft).claim == claim


def test_a_reason_keeps_the_sentence_that_it_refers_to() -> None:  # BX-09
    sentences = ("The pool was rewritten.", "Readers share it.", "This means that one of them may wait.", "See below.")
    assert leans_back(sentences[2])
    assert reasons_first(sentences)[:2] == sentences[1:3]
    assert reasons_first(sentences[:2]) == sentences[:2]


def test_an_item_that_names_a_thing_is_no_rule() -> None:  # BX-09
    text = "# Bugs\n\n- Installed dependencies and versions (`pip freeze`)\n- Never report a secret in public\n"
    assert texts_of("CONTRIBUTING.md", text) == ["Never report a secret in public"]


@pytest.mark.parametrize("opening", ["!!! warning", "> [!WARNING]\n>", ":::{warning}", ".. warning::\n"])
def test_the_mark_of_an_admonition_is_not_quoted(opening: str) -> None:  # BX-09
    text = f"# Cache\n\n{opening}\n    The cache must never be shared, because a lock is missing.\n"
    assert texts_of("docs/cache.md", text) == ["The cache must never be shared, because a lock is missing."]


def test_our_own_sentences_and_titles_may_consist_of_names() -> None:  # BX-09
    assert texts_of("pyproject.toml", '[project]\nrequires-python = ">=3.11"\n') == [
        "pyproject.toml requires Python >=3.11."
    ]
    assert texts_of("CODEOWNERS", "/docs/ @writers\n/src/ @acme/core\n") == [
        "Owner of /docs/: @writers.",
        "Owner of /src/: @acme/core.",
    ]
    assert texts_of("CHANGELOG.md", "# Changes\n\n## 2.0\n\n- Rename `Client.dispatch()` to `Client.send()`.\n") == [
        "2.0: Rename `Client.dispatch()` to `Client.send()`."
    ]
