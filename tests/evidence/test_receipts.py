"""Receipts: ids computed from their content, and inputs hashed for the cache. # YT-08 # YT-09"""

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
FIELDS: dict[str, Any] = {
    "yool": "agent.lint.ruff.v1",
    "tuple_id": ONES,
    "started_at": "2026-05-19T17:30:00Z",
    "ended_at": "2026-05-19T17:30:01Z",
}
REPORT = Artifact(kind="junit", path="überprüft/junit.xml", sha=THREES, size=3)


def by_definition(receipt: Receipt) -> str:
    """Compute a receipt's id without the product: sha256 over JSON with sorted keys, without `id`."""
    fields = msgspec.to_builtins(receipt)
    del fields["id"]
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("usd", [0.0, 1e-6, 3.75e-5, 9.9e-5, 1e-4, 0.1, 1.0, 12345.678901])
def test_the_id_of_a_receipt_with_small_costs_follows_the_definition(usd: float) -> None:
    # JSON libraries print small numbers in more than one way.
    for cost in (Cost(usd=usd, tokens_in=7, wall_ms=12), Cost(usd=0.25, disk_mb=usd)):
        receipt = new_receipt(**FIELDS, exit=1, step=0, artifacts=(REPORT,), cost=cost, error="naïve")
        assert receipt.id == by_definition(receipt)
        read = msgspec.json.decode(msgspec.json.encode(receipt), type=Receipt)
        assert receipt_id(read) == receipt.id


@given(st.integers(0, 10**12), st.floats(0, 1e9))
def test_the_id_of_a_receipt_with_any_cost_follows_the_definition(micros: int, disk_mb: float) -> None:
    receipt = new_receipt(**FIELDS, exit=0, cost=Cost(usd=micros / MICROS_PER_DOLLAR, disk_mb=disk_mb))
    assert receipt.id == by_definition(receipt)


@pytest.mark.parametrize(
    "changes",
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
def test_the_result_hash_covers_every_output(changes: dict[str, Any]) -> None:
    fields: dict[str, Any] = {**FIELDS, "exit": 0, "stdout_sha": ONES, "stderr_sha": TWOS, "artifacts": (REPORT,)}
    receipt = new_receipt(**fields)
    later = new_receipt(**{**fields, "tuple_id": TWOS, "ended_at": "2026-05-19T17:30:09Z"})
    assert later.result_sha == receipt.result_sha
    assert new_receipt(**{**fields, **changes}).result_sha != receipt.result_sha


def test_a_statement_names_every_output() -> None:
    statement = in_toto_statement(new_receipt(**FIELDS, exit=0, stdout_sha=ONES, stderr_sha=TWOS, artifacts=(REPORT,)))
    subjects = [(subject["name"], subject["digest"]) for subject in statement["subject"]]
    assert subjects == [
        ("stdout", {"sha256": "1" * 64}),
        ("stderr", {"sha256": "2" * 64}),
        ("überprüft/junit.xml", {"sha256": "3" * 64}),
    ]


@pytest.mark.parametrize(
    ("yool", "args", "shas", "options", "expected"),
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
    yool: str, args: dict[str, Any], shas: list[str], options: dict[str, Any], expected: str
) -> None:
    r"""Compare with the hashes of these texts, computed once with sha256sum.

    agent.sum.numbers.v1{"a": 1, "b": 2}
    agent.greet.v1{"a": [1, 2.5, null], "name": "Z\u00fcrich \ud83d\udc1c"}
    agent.lint.ruff.v2{}sha256:111…sha256:222…
    agent.lint.ruff.v2{}{"env":{"A":"1","B":"2"},"salt":"s"}
    agent.lint.ruff.v2{}{"salt":"s"}
    """
    assert input_hash(yool, args, shas, **options) == expected


JUNIT_REPORT = '<testsuite><testcase classname="t" name="a"/></testsuite>'


@pytest.mark.parametrize("damage", ["deleted", "changed"])
def test_a_receipt_with_a_damaged_body_is_not_sound(tmp_path: Path, damage: str) -> None:
    repository = make_repository(tmp_path / "repo")
    with closing(make_gateway(repository.path, make_settings(tmp_path / "home"))) as gateway:
        bus = Bus(gateway, LOCAL_ADMIN)
        recorded_id = bus.record_tests(JUNIT_REPORT).receipt_id
        verified = bus.receipt_verify(recorded_id)
        assert (verified.id, verified.sound, verified.id_matches) == (recorded_id, True, True)
        (sha,) = (state.sha for state in verified.bodies if state.name.endswith(".xml"))
        body = repository.path / ".catalog/cas" / sha[7:9] / sha[9:]
        body.unlink()
        if damage == "changed":
            body.write_text(JUNIT_REPORT.replace('"a"', '"b"'))
        verified = bus.receipt_verify(recorded_id)
        assert (verified.sound, verified.id_matches) == (False, True)
        assert [state.sha for state in verified.bodies if not state.intact] == [sha]
