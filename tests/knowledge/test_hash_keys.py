"""Hash keys: docs/hash-keys.md, its test vectors, and the same keys from every Python.  # EB-12"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engrambus.knowledge.engrams.keys
from engrambus.knowledge.engrams import hash_keys, query_keys, requested_keys
from engrambus.knowledge.engrams.keys import KEY_FORMAT, name_keys, normalise_key
from tests.harness.examples import examples

from . import literal_keys

VECTORS: dict[str, Any] = json.loads(literal_keys.VECTORS.read_text("utf-8"))
DOCUMENT = Path(__file__).parents[2] / "docs" / "hash-keys.md"
SHA = "a" * 40
REF = f"repo:services/gateway/vendor_client.py#L280-L360@{SHA}"

# Pieces on which implementations differ: joiners, case, quotes, digits, sentence ends, many scripts.
PIECES = st.sampled_from(
    [
        *"-./:_ ',!?;+%@#\t\n\x001vsSAé½ﬁ予ーกัΣςİǅẞႠ🚀\u0338\u200d\ufe0f\u00ad\u2028\ud800",
        *("--", "..", "//", "::", "__", "'s ", "’s", ", ", ". ", "42", ",000", "v1", "e\u0301", "H\u0331", "服务"),
        *("URLs", "HTTPServer", "vendor", "Client", "budgets", "classes", "the", "e.g", "is", "py", "md"),
        *("use", "one", "other", "her", "ing", "ed", "ation", "ly", "re-", "_000", "aliases"),
    ]
)
TEXTS = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join))


def test_there_are_at_least_forty_vectors_of_todays_format() -> None:
    assert len(VECTORS["engrams"]) >= 40
    assert VECTORS["format"] == KEY_FORMAT
    assert f"This page defines **format {KEY_FORMAT}**" in DOCUMENT.read_text("utf-8")


@pytest.mark.parametrize("case", VECTORS["engrams"], ids=lambda case: repr(case["claim"][:30]))
def test_engram_vectors(case: dict[str, Any]) -> None:
    keys = hash_keys(case["claim"], case.get("refs", ()), case.get("tags", ()), case.get("given", ()))
    assert list(keys.public) == case["public"]
    assert list(keys.extra) == case["more"]


@pytest.mark.parametrize("case", VECTORS["questions"], ids=lambda case: repr(case["text"][:30]))
def test_question_vectors(case: dict[str, Any]) -> None:
    assert list(query_keys(case["text"])) == case["keys"]


@pytest.mark.parametrize("case", VECTORS["given"], ids=lambda case: repr(case["text"][:30]))
def test_vectors_of_keys_written_by_people(case: dict[str, Any]) -> None:
    assert normalise_key(case["text"]) == case["key"]


def test_the_literal_implementation_gives_the_vectors() -> None:
    for case in VECTORS["engrams"]:
        keys = literal_keys.engram_keys(
            case["claim"], case.get("refs", []), case.get("tags", []), case.get("given", [])
        )
        assert keys == (case["public"], case["more"])


@given(
    claim=TEXTS,
    tags=st.lists(TEXTS, max_size=3),
    own_keys=st.lists(TEXTS, max_size=3),
    names=st.lists(TEXTS.map(lambda text: f"sam:{text.encode('utf-8', 'replace').decode()}@1"), max_size=2),
)
@settings(max_examples=examples(150), deadline=None)
def test_the_product_and_the_literal_implementation_agree(
    claim: str, tags: list[str], own_keys: list[str], names: list[str]
) -> None:
    keys = hash_keys(claim, names, tags, own_keys)
    assert (list(keys.public), list(keys.extra)) == literal_keys.engram_keys(claim, names, tags, own_keys)
    assert list(query_keys(claim)) == literal_keys.question_keys(claim)
    assert normalise_key(claim) == literal_keys.given_key(claim)


@given(claim=TEXTS, tags=st.lists(TEXTS, max_size=3), own_keys=st.lists(TEXTS, max_size=3))
@settings(max_examples=examples(150), deadline=None)
def test_keys_are_few_short_printable_and_distinct(claim: str, tags: list[str], own_keys: list[str]) -> None:
    keys = hash_keys(claim, [REF], tags, own_keys)
    assert len(keys.public) <= 32
    all_keys = keys.public + keys.extra
    assert len(set(all_keys)) == len(all_keys)
    for key in all_keys:
        assert 1 <= len(key) <= 80
        assert key.encode()
        assert not any(c.isspace() or c < " " or c in "\"'`“”‘’«»" or "\x7f" <= c <= "\x9f" for c in key)
    assert not any("+" in key for key in keys.extra)


@given(claim=TEXTS)
@settings(max_examples=examples(150), deadline=None)
def test_normalising_a_key_changes_nothing(claim: str) -> None:
    keys = hash_keys(claim, [REF])
    for key in keys.public + keys.extra:
        assert normalise_key(key) == key


@given(claim=TEXTS)
@settings(deadline=None)
def test_a_question_that_repeats_a_claim_shares_all_its_words(claim: str) -> None:
    keys = hash_keys(claim)
    assert {key for key in query_keys(claim) if "+" not in key} <= {*keys.public, *keys.extra}


def test_every_word_of_a_long_claim_is_a_key() -> None:
    claim = " ".join(f"word{number}" for number in range(90))
    keys = hash_keys(claim, [REF], ["service:gateway"])
    assert {f"word{number}" for number in range(90)} <= {*keys.public, *keys.extra}
    assert len(keys.public) == 32


def test_order_of_the_public_keys() -> None:
    keys = hash_keys("HTTPServer retries", [REF], ["service:gateway"], ["Rate Limits"]).public
    assert keys[:5] == ("rate+limit", "service:gateway", "httpserver", "vendor_client.py", "vendor_client")
    assert keys[5:8] == ("http", "server", "retri")
    assert keys.index("http+server") < keys.index("http+server+retri")


@pytest.mark.parametrize(
    ("claim", "question"),
    [
        *(
            (claim, question)
            for claim in ("vendor_client", "vendorClient", "VendorClient", "vendor-client", "self.vendor_client.call")
            for question in ("vendor_client", "VendorClient", "vendor-client", "vendorclient", "vendor client")
        ),
        *((claim, question) for claim in ("vendorclient",) for question in ("VendorClient", "vendor-client")),
        *((claim, question) for claim in ("re-index",) for question in ("reindex", "re index", "re-index")),
        *((claim, question) for claim in ("reindex", "reindexing") for question in ("reindexed", "re-index")),
        *((claim, question) for claim in ("1,000", "1_000", "1000") for question in ("1,000", "1_000", "1000")),
        ("utf-8", "UTF8"),
        ("e-mails", "email"),
        ("read-only", "readonly"),
    ],
)
def test_spellings_of_a_name_find_each_other(claim: str, question: str) -> None:
    keys = hash_keys(claim)
    assert {*keys.public, *keys.extra} & set(query_keys(question))


@pytest.mark.parametrize("key", ["vendor-client", "VendorClient", "vendor_client", "vendorclient", "vendorclients"])
def test_a_requested_name_is_found_in_every_spelling(key: str) -> None:
    for claim in ("vendor-client", "VendorClient", "vendor_client", "vendorclient"):
        assert set(hash_keys(claim).public) & set(requested_keys(key))


@given(text=TEXTS)
@settings(deadline=None)
def test_a_requested_key_is_looked_up_as_it_is_stored(text: str) -> None:
    keys, key = requested_keys(text), normalise_key(text)
    assert keys[:1] == (() if key is None else (key,))
    assert all(normalise_key(name) == name for name in keys)


def test_three_spellings_of_a_name_share_its_words() -> None:
    snake, camel, kebab = (set(query_keys(name)) for name in ("vendor_client", "vendorClient", "vendor-client"))
    assert {"vendor", "client", "vendor+client"} <= snake & camel & kebab


def test_groups_of_digits_are_a_number_only_where_they_are_grouped_as_one() -> None:
    assert query_keys("12_345_678") == ("12345678",)
    assert "2024001" not in query_keys("2024_001")
    assert "12" not in query_keys("1_2")


def test_names_of_pointer_targets() -> None:
    digest = "sha256:" + "c" * 64
    assert name_keys(
        [
            REF,
            REF,
            f"diff:src/Makefile@{SHA}..{SHA}",
            f"artifact:docs/SPEC.md#sec=Rules@{SHA}",
            f"artifact:{digest}",
            "sam:decision:publish-domain@2026-01-08",
            f"test:tests/test_ids.py::test_sorts@{digest}",
            f"url:https://example.com/a/page.html@{digest}",
        ]
    ) == ("vendor_client.py", "makefil", "spec.md", "decision:publish-domain", "test_ids.py", "page.html")


@pytest.mark.parametrize("ref", ["", ":", "repo:", "repo:@", "nothing", "url:@", "test:@", "%zz", "artifact:#@"])
def test_a_malformed_ref_has_no_keys(ref: str) -> None:
    assert hash_keys("", [ref]) == ((), ())
    assert name_keys([ref]) == ()


def test_hostile_long_texts_have_few_keys() -> None:
    for text in ("a.py." * 40_000, "A" * 200_000, "'" * 200_000, "aB" * 100_000, ":a" * 100_000, "1,000" * 40_000):
        assert len(query_keys(text)) <= 32


PROGRAM = """
import hashlib, json, sys, types
root = sys.argv[1]
for name, folder in (("engrambus", ""), ("engrambus.knowledge", "/knowledge"),
                     ("engrambus.knowledge.engrams", "/knowledge/engrams")):
    package = types.ModuleType(name)
    package.__path__ = [root + folder]
    sys.modules[name] = package
from engrambus.knowledge.engrams.keys import hash_keys, normalise_key, query_keys
from tests.harness.examples import examples
vectors = json.load(open(sys.argv[2], encoding="utf-8"))
for case in vectors["engrams"]:
    keys = hash_keys(case["claim"], case.get("refs", ()), case.get("tags", ()), case.get("given", ()))
    assert [list(keys.public), list(keys.extra)] == [case["public"], case["more"]], case["claim"]
for case in vectors["questions"]:
    assert list(query_keys(case["text"])) == case["keys"], case["text"]
checksum = hashlib.sha256()
for first, last in ((0x0, 0x3400), (0xa000, 0xac00), (0xd7a0, 0xd900), (0xf8f0, 0x11000), (0x1d000, 0x1f800)):
    for code in range(first, last):
        key = normalise_key("x" + chr(code) + "\\u0301 " + chr(code) + "Y")
        checksum.update(f"{code} {key} ".encode())
print(checksum.hexdigest())
"""


def _checksum_of_keys(python: str, seed: str) -> str:
    root = Path(engrambus.knowledge.engrams.keys.__file__).parents[2]
    done = subprocess.run(
        [python, "-c", PROGRAM, str(root), str(literal_keys.VECTORS)],
        env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _other_pythons() -> list[str]:
    versions = Path.home() / ".pyenv" / "versions"
    return sorted(str(path) for minor in (12, 13, 14) for path in versions.glob(f"3.{minor}.*/bin/python"))


@pytest.fixture(scope="module")
def expected_checksum() -> str:
    return _checksum_of_keys(sys.executable, "0")


@pytest.mark.parametrize("python", [sys.executable, *_other_pythons()])
def test_the_same_keys_from_every_python_and_hash_seed(python: str, expected_checksum: str) -> None:
    assert _checksum_of_keys(python, "1") == expected_checksum
