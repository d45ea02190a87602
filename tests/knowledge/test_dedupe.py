"""Repeated claims, and claims that only look repeated."""  # EB-21

from __future__ import annotations

from pathlib import Path

import pytest

from engrambus.core import print_time
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.engrams import Engram, Provenance, hash_keys, twin_key
from engrambus.knowledge.engrams.dedupe import is_repeat

REF = "sam:note:anything@2026-01-01"

SAME = [
    ("The parser trusts its input.", "The parser trusts the input."),
    ("The parser trusts its input.", "the parser trusts its input"),
    ("The gateway drops the lease after a timeout.", "The gateway drops leases after a timeout."),
    ("The ledger doesn't lock its rows.", "The ledger doesn\u2019t lock the rows."),
    (
        "The index is rebuilt from the journal whenever it is missing.",
        "The index is quickly rebuilt from the journal whenever it is missing.",
    ),
    ("The gateway never retries the call.", "The gateway doesn't retry the call."),
    ("日本語の主張です。", "日本語の主張です。"),
]
DIFFERENT = [
    (
        "The response cache is enabled by default in the production cluster for every read request of tenants.",
        "The response cache is disabled by default in the production cluster for every read request of tenants.",
    ),
    ("The gateway client retries the ledger server.", "The ledger server retries the gateway client."),
    (
        "The lock is taken before the journal is synced and the index is committed to disk by writers.",
        "The lock is taken after the journal is synced and the index is committed to disk by writers.",
    ),
    (
        "Callers must hold the write lock while the index of the journal is rebuilt by another worker process.",
        "Callers may hold the write lock while the index of the journal is rebuilt by another worker process.",
    ),
    (
        "The nightly job of the ledger deletes rows that were archived by the billing service of the region.",
        "The nightly job of the ledger only deletes rows that were archived by the billing service of the region.",
    ),
    ("Writers of the journal hold the lock.", "Writers of the journal always hold the lock."),
    ("Writers of the journal hold the lock.", "Writers of the journal perhaps hold the lock."),
    ("Reading the store is faster than writing the journal.", "Writing the journal is faster than reading the store."),
    ("The parser trusts its input.", "The parser never trusts its input."),
    ("The call is retried 3 times.", "The call is retried 5 times."),
    ("The call is retried.", "The call is retried v2."),
    ("The parser trusts its input.", "The parser trusts its input and the lexer does so in every mode."),
    ("日本語の主張です。", "日本語の主張ではない。"),
]


SHA, OTHER_SHA = "a" * 40, "b" * 40
CLAIM = "The parser trusts its input."


def written_pairs() -> dict[str, list[tuple[str, str]]]:
    """Return the pairs of `duplicate_pairs.txt`: the same claim twice, and two claims that are nearly the same."""
    text = Path(__file__).with_name("duplicate_pairs.txt").read_text(encoding="utf-8")
    sections = [section.partition("\n") for section in text.removeprefix("=== ").split("\n=== ")]
    return {
        name: [(first, second) for first, second in (pair.split("\n") for pair in body.strip().split("\n\n"))]
        for name, _, body in sections
    }


def engram(claim: str, *refs: str) -> Engram:
    """Return an engram with this claim and these pointers, or one fixed pointer."""
    return Engram(
        id="01KDVP9R000000000000000000",
        kind="fact",
        claim=claim,
        pointers=tuple(Pointer(type="repo" if "repo" in ref else "sam", ref=ref) for ref in refs or (REF,)),
        confidence=0.8,
        ttl="P90D",
        scope="project",
        hash_keys=hash_keys(claim, [REF]).public,
        provenance=Provenance(created_at=print_time(0), created_by="run/admin", source="agent"),
    )


def confirms(claim: str, earlier_claim: str) -> bool:
    """True if putting the claim would confirm the earlier one."""
    return repeats(engram(claim), engram(earlier_claim))


def repeats(repeat: Engram, earlier: Engram) -> bool:
    return twin_key(repeat) == twin_key(earlier) and is_repeat(repeat, earlier)


def test_written_duplicates_and_near_misses_are_told_apart() -> None:
    pairs = written_pairs()
    assert min(map(len, pairs.values())) >= 50
    assert [pair for pair in pairs["different"] if confirms(*pair)] == []
    missed = [pair for pair in pairs["same"] if not confirms(*pair)]
    assert len(missed) <= len(pairs["same"]) // 10, missed


@pytest.mark.parametrize(
    ("refs", "others", "expected"),
    [
        (["repo:a.py#L1-L9@" + SHA], ["repo:a.py#L5-L20@" + SHA], True),
        (["repo:a.py#L1-L9@" + SHA], ["repo:a.py#L5-L20@" + OTHER_SHA], True),
        (["repo:a.py#L1-L9@" + SHA], ["repo:a.py@" + SHA], True),
        (["repo:a.py#L1-L9@" + SHA], ["repo:a.py#L10-L20@" + SHA], False),
        (["repo:a.py#L1-L9@" + SHA], ["repo:b.py#L1-L9@" + SHA], False),
        (["repo:a.py#L1-L9@" + SHA], ["repo:a.py#L1-L9@" + SHA, "repo:b.py#L1-L2@" + SHA], False),
        (["repo:a.py#L1-L9@" + SHA, "repo:a.py#L30-L40@" + SHA], ["repo:a.py#L5-L6@" + SHA], False),
        (["sam:note:x@v1"], ["sam:note:x@v2"], False),
    ],
)
def test_the_same_claim_confirms_over_overlapping_lines_of_a_file(
    refs: list[str], others: list[str], expected: bool
) -> None:
    first, second = engram(CLAIM, *refs), engram(CLAIM, *others)
    assert repeats(first, second) is expected
    assert repeats(second, first) is expected


@pytest.mark.parametrize(("first", "second"), SAME)
def test_nearly_the_same_words_repeat_a_claim(first: str, second: str) -> None:
    assert confirms(second, first)
    assert confirms(first, second)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_a_reversed_limited_or_replaced_word_makes_another_claim(first: str, second: str) -> None:
    assert not confirms(second, first)
    assert not confirms(first, second)
