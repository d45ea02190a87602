"""Putting a whole file: all of it, or all before the first line that is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import Desk


def line(number: int, **other: Any) -> str:
    """One engram on one line."""
    return json.dumps({"claim": f"Claim number {number}.", "at": [f"src/parser.py:{number % 30 + 1}"], **other})


def write(desk: Desk, lines: list[str]) -> Path:
    """A file of lines."""
    path = desk.path / "engrams.jsonl"
    path.write_text("".join(f"{each}\n" for each in lines))
    return path


def count(desk: Desk) -> int:
    """How many engrams there are."""
    return int(desk.ok("stats", "--json").json["counts"]["engrams"])


def pinned(desk: Desk, number: int, **other: Any) -> str:
    """One engram with its pointer written out."""
    ref = f"repo:src/parser.py#L{number % 30 + 1}-L30@{desk.repository.sha}"
    return json.dumps({"claim": f"Claim number {number}.", "pointers": [{"type": "repo", "ref": ref}], **other})


def test_a_file_goes_in_whole_in_batches(desk: Desk) -> None:
    before = desk.ok("stats", "--json").json["counts"]["commits"]
    write(desk, [pinned(desk, number) for number in range(1100)])
    said = desk.ok("put", "--file", "engrams.jsonl")
    assert said.out.startswith("1,100 engrams are on the bus.")
    assert said.err == ""
    counts = desk.ok("stats", "--json").json["counts"]
    assert counts["engrams"] == 1100
    assert counts["commits"] - before == 3


def test_standard_input_will_do(desk: Desk) -> None:
    text = f"{line(1)}\n\n{line(2)}"
    assert desk.run("put", "--file", "-", "--json", given=text).json == {"stored": 2}
    assert desk.run("put", "--file", "-", "--json", given="").json == {"stored": 0}


BAD = {
    "not JSON": ("{", "BAD_JSON", None),
    "a key twice": ('{"claim":"a","claim":"b"}', "DUPLICATE_KEY", "claim"),
    "a number too large": ('{"claim":"a","confidence":1e999}', "NUMBER_RANGE", None),
    "not an object": ("[]", "FIELD_TYPE", None),
    "an unknown field": ('{"claim":"a","colour":"red"}', "FIELD_UNKNOWN", "colour"),
    "a wrong kind": ('{"claim":"a","kind":"guess"}', "FIELD_VALUE", "kind"),
    "no pointer": ('{"claim":"A claim."}', "NO_POINTER", "pointers"),
    "an absent file": ('{"claim":"A claim.","at":["absent.py:1"]}', "FILE_NOT_FOUND", "at[0]"),
    "far too long": ('{"claim":"%s"}' % ("x" * 70_000), "BODY_TOO_LARGE", None),
}


@pytest.mark.parametrize(("bad", "code", "field"), BAD.values(), ids=BAD.keys())
def test_the_first_bad_line_stops_it_with_all_before_it_stored(
    desk: Desk, bad: str, code: str, field: str | None
) -> None:
    lines = [line(number) for number in range(7)]
    write(desk, [*lines[:5], bad, *lines[5:]])
    problem = desk.run("put", "--file", "engrams.jsonl", "--json").problem
    assert problem["code"] == code
    assert problem.get("field") == field
    assert problem["line"] == 6
    assert "line 1," not in problem.get("detail", "")
    assert "5 engrams are on the bus." in problem["hint"]
    assert problem["hint"].endswith("Go on with: engrambus put --file engrams.jsonl --from-line 6")
    assert count(desk) == 5
    write(desk, [*lines[:5], line(99), *lines[5:]])
    assert desk.ok("put", "--file", "engrams.jsonl", "--from-line", "6", "--json").json == {"stored": 3}
    assert count(desk) == 8


def test_an_id_that_is_taken_is_found_by_its_line(desk: Desk) -> None:
    mine = "01K7Z3V5QX0000000000000000"
    write(desk, [line(1, id=mine), line(2), line(3, id=mine)])
    problem = desk.run("put", "--file", "engrams.jsonl", "--json").problem
    assert (problem["code"], problem["field"]) == ("ID_TAKEN", "id")
    assert problem["line"] == 3
    assert count(desk) == 2


def test_only_a_file_is_read(desk: Desk) -> None:
    os.mkfifo(desk.path / "pipe")
    for name in ("pipe", "src", "/dev/null"):
        problem = desk.run("put", "--file", name, "--json").problem
        assert (problem["code"], problem["field"]) == ("INPUT_NOT_A_FILE", "file")
    assert desk.run("put", "--file", "absent").code == 2


def test_a_file_put_twice_is_there_once_and_a_byte_order_mark_is_no_part_of_it(desk: Desk) -> None:
    path = write(desk, [line(number) for number in range(5)])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    for _ in range(2):
        assert desk.ok("put", "--file", str(path), "--json").json == {"stored": 5}
        assert count(desk) == 5
