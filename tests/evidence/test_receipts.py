"""Receipts: named by what they say, and found again by what went into them. # YT-08 # YT-09"""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus import Bus
from engrambus.core import MICROS_PER_DOLLAR
from engrambus.evidence.receipts import Artifact, Cost, Receipt, in_toto_statement, new_receipt, receipt_id
from engrambus.gateway import LOCAL_ADMIN
from engrambus.space.work import input_hash
from tests.projects import make_gateway, make_repository, make_settings

ONES, TWOS, THREES = ("sha256:" + digit * 64 for digit in "123")
SAID: dict[str, Any] = {
    "yool": "agent.lint.ruff.v1",
    "tuple_id": ONES,
    "started_at": "2026-05-19T17:30:00Z",
    "ended_at": "2026-05-19T17:30:01Z",
}
REPORT = Artifact(kind="junit", path="überprüft/junit.xml", sha=THREES, size=3)


def by_definition(receipt: Receipt) -> str:
    """The id of a receipt, computed by nothing of ours: sha256 over JSON with its keys sorted, without `id`."""
    said = msgspec.to_builtins(receipt)
    del said["id"]
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("usd", [0.0, 1e-6, 3.75e-5, 9.9e-5, 1e-4, 0.1, 1.0, 12345.678901])
def test_a_receipt_has_the_id_that_anybody_can_compute(usd: float) -> None:
    """However little it cost: small numbers are printed in more than one way."""
    for cost in (Cost(usd=usd, tokens_in=7, wall_ms=12), Cost(usd=0.25, disk_mb=usd)):
        receipt = new_receipt(**SAID, exit=1, step=0, artifacts=(REPORT,), cost=cost, error="naïve")
        assert receipt.id == by_definition(receipt)
        read = msgspec.json.decode(msgspec.json.encode(receipt), type=Receipt)
        assert receipt_id(read) == receipt.id


@given(st.integers(0, 10**12), st.floats(0, 1e9))
def test_whatever_it_cost_a_receipt_has_the_id_that_anybody_can_compute(micros: int, disk_mb: float) -> None:
    receipt = new_receipt(**SAID, exit=0, cost=Cost(usd=micros / MICROS_PER_DOLLAR, disk_mb=disk_mb))
    assert receipt.id == by_definition(receipt)


@pytest.mark.parametrize(
    "other",
    [
        {"exit": 1},
        {"stdout_sha": THREES},
        {"stderr_sha": THREES},
        {"artifacts": ()},
        {"artifacts": (msgspec.structs.replace(REPORT, sha=ONES),)},
        {"artifacts": (msgspec.structs.replace(REPORT, path="junit.xml"),)},
        {"artifacts": (REPORT, REPORT)},
        {"yool": "agent.lint.ruff.v2"},
    ],
)
def test_results_are_equal_only_when_all_that_came_out_is(other: dict[str, Any]) -> None:
    said: dict[str, Any] = {**SAID, "exit": 0, "stdout_sha": ONES, "stderr_sha": TWOS, "artifacts": (REPORT,)}
    one = new_receipt(**said)
    assert new_receipt(**{**said, "tuple_id": TWOS, "ended_at": "2026-05-19T17:30:09Z"}).result_sha == one.result_sha
    assert new_receipt(**{**said, **other}).result_sha != one.result_sha


def test_a_statement_names_everything_that_was_produced() -> None:
    said = in_toto_statement(new_receipt(**SAID, exit=0, stdout_sha=ONES, stderr_sha=TWOS, artifacts=(REPORT,)))
    named = [(each["name"], each["digest"]) for each in said["subject"]]
    assert named == [
        ("stdout", {"sha256": "1" * 64}),
        ("stderr", {"sha256": "2" * 64}),
        ("überprüft/junit.xml", {"sha256": "3" * 64}),
    ]


@pytest.mark.parametrize(
    ("yool", "args", "shas", "more", "expected"),
    [
        (
            "agent.sum.numbers.v1",
            {"b": 2, "a": 1},
            [],
            {},
            "f839094b631159db7638ffc35722a248515fd410d458d61be7058af6752b43ec",
        ),
        (
            "agent.greet.v1",
            {"name": "Zürich 🐜", "a": [1, 2.5, None]},
            [],
            {},
            "7c4935bc4146146ae17b6d8112397b68fb1cad03df7ac7655ef757c566ac12c1",
        ),
        (
            "agent.lint.ruff.v2",
            {},
            [ONES, TWOS],
            {},
            "565d1baac84212e88701ca77c6e9491188ee64b6743f7deaa72eefac6b61456f",
        ),
        (
            "agent.lint.ruff.v2",
            {},
            [TWOS, ONES],
            {},
            "565d1baac84212e88701ca77c6e9491188ee64b6743f7deaa72eefac6b61456f",
        ),
        (
            "agent.lint.ruff.v2",
            {},
            [],
            {"env": {"B": "2", "A": "1"}, "salt": "s"},
            "9f49dabe8400a564b052f992698a20121580f525de00bdc4465f36e1201f50cf",
        ),
        (
            "agent.lint.ruff.v2",
            {},
            [],
            {"salt": "s"},
            "5e22ebb204c2adf6df63677ca5dfe579bc1340a3d58969fb6c931e40c5b72f51",
        ),
    ],
    ids=["args", "unicode", "files", "files in another order", "environment and salt", "salt"],
)
def test_the_input_is_hashed_by_the_published_formula(
    yool: str, args: dict[str, Any], shas: list[str], more: dict[str, Any], expected: str
) -> None:
    r"""What is hashed, computed once with sha256sum.

    agent.sum.numbers.v1{"a": 1, "b": 2}
    agent.greet.v1{"a": [1, 2.5, null], "name": "Z\u00fcrich \ud83d\udc1c"}
    agent.lint.ruff.v2{}sha256:111…sha256:222…
    agent.lint.ruff.v2{}{"env":{"A":"1","B":"2"},"salt":"s"}
    agent.lint.ruff.v2{}{"salt":"s"}
    """
    assert input_hash(yool, args, shas, **more) == expected


REPORTED = '<testsuite><testcase classname="t" name="a"/></testsuite>'


@pytest.mark.parametrize("damage", ["gone", "other"])
def test_a_receipt_is_not_sound_when_a_body_it_names_is_not(tmp_path: Path, damage: str) -> None:
    repository = make_repository(tmp_path / "repo")
    with closing(make_gateway(repository.path, make_settings(tmp_path / "home"))) as gateway:
        bus = Bus(gateway, LOCAL_ADMIN)
        one = bus.record_tests(REPORTED).receipt_id
        told = bus.receipt_verify(one)
        assert (told.id, told.sound, told.id_matches) == (one, True, True)
        (sha,) = (each.sha for each in told.bodies if each.name.endswith(".xml"))
        body = repository.path / ".catalog/cas" / sha[7:9] / sha[9:]
        body.unlink()
        if damage == "other":
            body.write_text(REPORTED.replace('"a"', '"b"'))
        told = bus.receipt_verify(one)
        assert (told.sound, told.id_matches) == (False, True)
        assert [each.sha for each in told.bodies if not each.intact] == [sha]
