"""Contradictions from the command line: UC2 on a real repository, from the specification to the merge gate."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.runner import Shell
from tests.projects import commit_files, git

SPEC = """# Specification

## Pricing

The free plan has 3 seats.

## Security

Sessions end after 20 minutes without activity.
"""
CODE = 'SEATS = {"free": 3}\n\n\nSESSION_MINUTES = 20\n'
CHANGED = 'SEATS = {"free": 5}\n\n\nSESSION_MINUTES = 20\n'


def _json(shell: Shell, *words: str) -> Any:
    return json.loads(shell.ok(*words, "--json").out)


def test_a_contradiction_between_specification_and_code_gates_the_merge(shell: Shell) -> None:  # EB-24 EB-30
    commit_files(shell.path, {"docs/SPEC.md": SPEC, "src/plans.py": CODE})
    shell.ok("agent", "add", "lead", "--role", "architect")
    for name in ("reader", "hunter"):
        shell.ok("--as", "lead", "agent", "add", name, "--role", "programmer")
    spec = _json(
        shell,
        *("--as", "reader", "put", "The free plan has 3 seats.", "--kind", "constraint", "--at", "docs/SPEC.md:5-5"),
    )
    git(shell.path, "checkout", "-q", "-b", "more-seats")
    commit_files(shell.path, {"src/plans.py": CHANGED})

    # The hunter reads the branch and says what the code does. Nothing is overwritten; it is told what it contradicts.
    found = shell.ok(
        *("--as", "hunter", "put", "The free plan has 5 seats.", "--kind", "fact", "--at", "src/plans.py:1-1", "--json")
    )
    notice = json.loads(found.err)
    assert (notice["code"], notice["used"]) == ("CLAIM_CONTRADICTS", spec["id"])
    code = json.loads(found.out)
    (row,) = _json(shell, "contradiction", "list")["contradictions"]
    assert (row["newer"]["id"], row["older"]["id"]) == (code["id"], spec["id"])
    assert "The free plan has 3 seats." in shell.ok("contradiction", "list").out

    # One risk points at both sources, and stops the merge.
    (risk,) = _json(shell, "query", "--kind", "risk")["engrams"]
    assert [pointer["ref"].partition("#")[0] for pointer in risk["pointers"]] == [
        "repo:src/plans.py",
        "repo:docs/SPEC.md",
    ]
    assert risk["tags"] == ["conflict/unverified"]
    assert "contradictions" in shell.ok("stats").out
    gate = shell.run("gate", "--base", "main")
    assert (gate.code, risk["id"][:13] in gate.out) == (1, True)

    # Neither author decides; the parent of both does, and the specification holds.
    decision = ("contradiction", "decide", row["contradiction_id"], "--keep", "old", "--reason", "Sales sold 3 seats.")
    refused = shell.run("--as", "hunter", *decision, "--json")
    assert refused.problem["code"] == "ROLE_FORBIDDEN"
    assert "decided: old" in shell.ok("--as", "lead", *decision).out
    assert shell.ok("contradiction", "list").out == "No contradiction waits for a decision.\n"
    assert _json(shell, "show", code["id"])["about"][code["id"]]["replaced_by"] == spec["id"]
    assert [engram["id"] for engram in _json(shell, "query", "free", "seats")["engrams"]] == [spec["id"]]
    passed = shell.run("gate", "--base", "main")
    assert (passed.code, risk["id"] in passed.out) == (0, False)


def test_the_newer_claim_may_hold(shell: Shell) -> None:  # EB-24 BX-11
    commit_files(shell.path, {"docs/SPEC.md": SPEC, "src/plans.py": CODE})
    put = ("put", "--kind", "decision", "--at")
    old = _json(shell, *put, "docs/SPEC.md:9-9", "Sessions end after 20 minutes without activity.")
    new = _json(shell, *put, "src/plans.py:4-4", "Sessions end after 30 minutes without activity.")
    (row,) = _json(shell, "contradiction", "list")["contradictions"]
    shell.ok("contradiction", "decide", row["contradiction_id"], "--keep", "new", "--reason", "The law changed.")
    shown = shell.ok("show", old["id"]).out
    assert f"replaced by  {new['id'][:13]}" in shown
    past = _json(shell, "query", "sessions", "--as-of", old["provenance"]["created_at"])
    assert [engram["id"] for engram in past["engrams"]] == [old["id"]]
    assert _json(shell, "contradiction", "list", "--all")["contradictions"][0]["reason"] == "The law changed."
