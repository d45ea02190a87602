"""`put --file`: every engram of a file, or all before the first line that is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import Shell


def line(number: int, **fields: Any) -> str:
    """Return one engram as a line of JSON."""
    return json.dumps({"claim": f"Claim number {number}.", "at": [f"src/parser.py:{number % 30 + 1}"], **fields})


def write(shell: Shell, lines: list[str]) -> Path:
    """Write a file of lines."""
    path = shell.path / "engrams.jsonl"
    path.write_text("".join(f"{text}\n" for text in lines))
    return path


def count(shell: Shell) -> int:
    """Return the number of stored engrams."""
    return int(shell.ok("stats", "--json").json["counts"]["engrams"])


def with_full_ref(shell: Shell, number: int) -> str:
    """Return one engram as a line of JSON, with a full pointer."""
    ref = f"repo:src/parser.py#L{number % 30 + 1}-L30@{shell.repository.sha}"
    return json.dumps({"claim": f"Claim number {number}.", "pointers": [{"type": "repo", "ref": ref}]})


def test_a_file_is_put_in_batches(shell: Shell) -> None:
    commits_before = shell.ok("stats", "--json").json["counts"]["commits"]
    write(shell, [with_full_ref(shell, number) for number in range(1100)])
    result = shell.ok("put", "--file", "engrams.jsonl")
    assert result.out.startswith("1,100 engrams are on the bus.")
    assert result.err == ""
    counts = shell.ok("stats", "--json").json["counts"]
    assert counts["engrams"] == 1100
    assert counts["commits"] - commits_before == 3


def test_standard_input_is_read_like_a_file(shell: Shell) -> None:
    text = f"{line(1)}\n\n{line(2)}"
    assert shell.run("put", "--file", "-", "--json", stdin=text).json == {"stored": 2}
    assert shell.run("put", "--file", "-", "--json", stdin="").json == {"stored": 0}


BAD = {
    "not JSON": ("{", "BAD_JSON", None),
    "a key twice": ('{"claim":"a","claim":"b"}', "DUPLICATE_KEY", "claim"),
    "a number too large": ('{"claim":"a","confidence":1e999}', "NUMBER_RANGE", "confidence"),
    "not an object": ("[]", "FIELD_TYPE", None),
    "an unknown field": ('{"claim":"a","colour":"red"}', "FIELD_UNKNOWN", "colour"),
    "a wrong kind": ('{"claim":"a","kind":"guess"}', "FIELD_VALUE", "kind"),
    "no pointer": ('{"claim":"A claim."}', "NO_POINTER", "pointers"),
    "an absent file": ('{"claim":"A claim.","at":["absent.py:1"]}', "FILE_NOT_FOUND", "at[0]"),
    "far too long": ('{"claim":"%s"}' % ("x" * 70_000), "BODY_TOO_LARGE", None),
}


@pytest.mark.parametrize(("bad", "code", "field"), BAD.values(), ids=BAD.keys())
def test_the_first_bad_line_stops_it_after_storing_the_lines_before(
    shell: Shell, bad: str, code: str, field: str | None
) -> None:
    lines = [line(number) for number in range(7)]
    write(shell, [*lines[:5], bad, *lines[5:]])
    problem = shell.run("put", "--file", "engrams.jsonl", "--json").problem
    assert problem["code"] == code
    assert problem.get("field") == field
    assert problem["line"] == 6
    assert "line 1," not in problem.get("detail", "")
    assert "5 engrams are on the bus." in problem["hint"]
    assert problem["hint"].endswith("Go on with: engrambus put --file engrams.jsonl --from-line 6")
    assert count(shell) == 5
    write(shell, [*lines[:5], line(99), *lines[5:]])
    assert shell.ok("put", "--file", "engrams.jsonl", "--from-line", "6", "--json").json == {"stored": 3}
    assert count(shell) == 8


def test_the_error_for_a_taken_id_names_its_line(shell: Shell) -> None:
    engram_id = "01K7Z3V5QX0000000000000000"
    write(shell, [line(1, id=engram_id), line(2), line(3, id=engram_id)])
    problem = shell.run("put", "--file", "engrams.jsonl", "--json").problem
    assert (problem["code"], problem["field"]) == ("ID_TAKEN", "id")
    assert problem["line"] == 3
    assert count(shell) == 2


def test_only_a_regular_file_is_read(shell: Shell) -> None:
    os.mkfifo(shell.path / "pipe")
    for name in ("pipe", "src", "/dev/null"):
        problem = shell.run("put", "--file", name, "--json").problem
        assert (problem["code"], problem["field"]) == ("INPUT_NOT_A_FILE", "file")
    assert shell.run("put", "--file", "absent").code == 2


def test_a_file_put_twice_is_stored_once_and_a_byte_order_mark_is_ignored(shell: Shell) -> None:
    path = write(shell, [line(number) for number in range(5)])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    for _ in range(2):
        assert shell.ok("put", "--file", str(path), "--json").json == {"stored": 5}
        assert count(shell) == 5


LONG = " ".join(f"The {word} is kept in the ledger of {word}s." for word in ("cat", "dog", "owl", "fox", "elk"))


def test_long_claims_are_split_and_counted(shell: Shell) -> None:
    write(shell, [line(1), line(2, claim=LONG, kind="risk"), line(3, claim=f"Ada: {'so ' * 300}it is.")])
    result = shell.ok("put", "--file", "engrams.jsonl")
    assert result.out.startswith("5 engrams are on the bus. 2 claims were too long for one and split into several.")
    rows = [row["engram"] for row in shell.ok("feed", "--k", "10", "--json").json["rows"]][::-1]
    claims = [row["claim"] for row in rows]
    assert claims[0] == "Claim number 1."
    assert " ".join(claims[1:3]) == LONG
    assert {row["kind"] for row in rows[1:3]} == {"risk"}
    assert [claim[:8] for claim in claims[3:]] == ["Ada: so ", "Ada: so "]
    assert shell.ok("put", "--file", "engrams.jsonl", "--json").json == {"stored": 5, "split": 2}
    assert count(shell) == 5, "its pieces are confirmed like any repeated claim"


def test_the_pieces_of_a_line_are_stored_in_one_commit(shell: Shell) -> None:
    long = " ".join(f"Sentence {number} stands here." for number in range(12))
    commits_before = shell.ok("stats", "--json").json["counts"]["commits"]
    write(shell, [*(with_full_ref(shell, number) for number in range(498)), line(1, claim=long), line(600)])
    assert shell.ok("put", "--file", "engrams.jsonl", "--json").json == {"stored": 503, "split": 1}
    counts = shell.ok("stats", "--json").json["counts"]
    assert counts["engrams"] == 503
    assert counts["commits"] - commits_before == 2


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"id": "01K7Z3V5QX0000000000000000"}, "FIELD_VALUE", "id"),
        ({"embedding_ref": "store:1"}, "FIELD_VALUE", "embedding_ref"),
        ({"claim": "It is so. " * 1501}, "FIELD_VALUE", "claim"),
        ({"claim": " " * 600}, "CLAIM_EMPTY", "claim"),
        ({"at": ["absent.py:1"]}, "FILE_NOT_FOUND", "at[0]"),
        ({"replaces": "01K7Z3V5QX0000000000000000"}, "ENGRAM_NOT_FOUND", "replaces"),
    ],
)
def test_a_long_claim_that_is_refused_names_its_line_and_leaves_no_piece(
    shell: Shell, fields: dict[str, Any], code: str, field: str
) -> None:
    write(shell, [line(1), line(2, **{"claim": LONG, **fields}), line(3)])
    problem = shell.run("put", "--file", "engrams.jsonl", "--json").problem
    assert (problem["code"], problem["field"], problem["line"]) == (code, field, 2)
    assert count(shell) == 1


def test_one_long_text_is_put_at_the_command_line(shell: Shell) -> None:
    given = shell.run("put", LONG, "--at", "src/parser.py:1-2", "--split")
    assert given.code == 0
    ids, claims = given.out.splitlines()[::2], given.out.splitlines()[1::2]
    assert " ".join(claims) == LONG
    assert [shell.ok("show", one, "--json").json["engrams"][0]["claim"] for one in ids] == claims
    words = ("put", "-", "--split", "--at", "src/parser.py:1-2", "--json")
    assert [part["id"][:13] for part in shell.run(*words, stdin=f"{LONG}\n").json["parts"]] == ids
    assert shell.run("put", LONG, "--at", "src/parser.py:1-2", "--json").problem["code"] == "CLAIM_TOO_MANY_SENTENCES"
    for more in (["--id", "01K7Z3V5QX0000000000000000"], ["--file", "engrams.jsonl"]):
        assert shell.run("put", LONG, "--split", *more).code == 2
    assert shell.run(*words, stdin=" ").problem["code"] == "CLAIM_EMPTY"
    assert shell.run(*words, stdin="x" * 100_001).problem["limit"] == 100_000
    assert shell.run(*words, stdin="x " * 5_000_000).problem["code"] == "BODY_TOO_LARGE"
