"""`engrambus check`: what became of the evidence of every engram."""  # BX-01

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engrambus.operations.evidence_check import DEFAULT_PAGE
from tests.cli.runner import Shell
from tests.projects import commit_files, git


@pytest.fixture
def ids(shell: Shell) -> dict[str, str]:
    """Four engrams: the lines of three have changed, moved and gone since."""
    places = {"changed": "src/parser.py:10-12", "moved": "src/parser.py:28-30", "gone": "src/parser.py:2"}
    places["same"] = "docs/design.md:1"
    ids = {
        state: shell.ok("put", f"The claim called {state} is here.", "--at", place, "--json").json["id"]
        for state, place in places.items()
    }
    text = (shell.path / "src/parser.py").read_text("utf-8")
    text = text.replace("line 11 of", "line eleven of").replace("line 2 of", "the second line of")
    commit_files(shell.path, {"src/parser.py": f"# New\n{text}"})
    return ids


def test_the_worst_come_first_with_counts_and_what_to_do(shell: Shell, ids: dict[str, str]) -> None:
    out = shell.ok("check").out
    assert out.index("called gone") < out.index("called changed") < out.index("called moved")
    assert "called same" not in out
    assert "4 engrams compared with the files on disk: 1 gone, 1 changed, 1 moved, 1 same." in out
    assert "engrambus confirm ID --at" in out
    assert all(ids[state][:13] in out for state in ("gone", "changed", "moved"))


def test_json_has_the_shape_of_a_query(shell: Shell, ids: dict[str, str]) -> None:
    answer = shell.ok("check", "--json").json
    assert [engram["id"] for engram in answer["engrams"]] == [ids["gone"], ids["changed"], ids["moved"]]
    evidence = {state: answer["about"][ids[state]]["evidence"] for state in ("gone", "changed", "moved")}
    assert evidence["gone"] == {"state": "gone"}
    assert evidence["moved"] == {"state": "moved", "now": "src/parser.py:29-31"}
    assert evidence["changed"]["state"] == "changed"
    assert evidence["changed"]["now"] == "src/parser.py:11-13"
    assert 0.6 < evidence["changed"]["share"] < 0.7
    assert answer["counts"] == {"gone": 1, "changed": 1, "moved": 1, "same": 1}
    everything = shell.ok("check", "--all", "--json").json
    assert {engram["id"] for engram in everything["engrams"]} == set(ids.values()) == set(everything["about"])
    assert everything["about"][ids["same"]]["evidence"] == {"state": "same"}


def test_any_revision_can_be_compared_with(shell: Shell, ids: dict[str, str]) -> None:
    assert shell.ok("check", "--against", "HEAD~1", "--json").json["counts"] == {"same": 4}
    head = git(shell.path, "rev-parse", "HEAD")
    for revision in ("HEAD", "main", head[:9], head):
        answer = shell.ok("check", "--against", revision, "--json").json
        assert (answer["against"], answer["counts"]["gone"]) == (head, 1)


def test_filters(shell: Shell, ids: dict[str, str]) -> None:
    assert shell.ok("check", "--path", "docs", "--json").json["counts"] == {"same": 1}
    assert shell.ok("check", "--kind", "risk", "--json").json["engrams"] == []
    assert "no engrams to compare" in shell.ok("check", "--kind", "risk").out


def test_pages_are_put_together(shell: Shell, ids: dict[str, str]) -> None:
    lines = [
        json.dumps({"claim": f"The design has part {number}.", "at": [f"docs/design.md:{number % 11 + 1}"]})
        for number in range(DEFAULT_PAGE + 20)
    ]
    assert shell.run("put", "--file", "-", stdin="\n".join(lines)).code == 0
    answer = shell.ok("check", "--json").json
    assert answer["counts"] == {"gone": 1, "changed": 1, "moved": 1, "same": DEFAULT_PAGE + 21}
    assert [engram["id"] for engram in answer["engrams"]] == [ids["gone"], ids["changed"], ids["moved"]]
    assert "cursor" not in answer


@pytest.mark.parametrize("revision", ["nowhere", "--all", "HEAD~99", "0" * 40, "main:src/parser.py"])
def test_an_unknown_revision_is_refused(shell: Shell, ids: dict[str, str], revision: str) -> None:
    result = shell.run("check", "--against", revision, "--json")
    assert result.code in (1, 2), result
    if result.code == 1:
        assert result.problem["code"] in ("REVISION_NOT_FOUND", "POINTER_REVISION")
        assert result.problem["field"] == "against"


def test_a_repository_without_a_commit(shell: Shell) -> None:
    git(shell.path, "update-ref", "-d", "HEAD")
    assert "no engrams to compare" in shell.ok("check").out
    assert shell.run("check", "--against", "HEAD", "--json").problem["code"] == "REVISION_NOT_FOUND"


def test_a_project_without_git(tmp_path: Path, bare_shell: Shell) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    assert bare_shell.run("init", folder=folder).code == 0
    assert "no engrams to compare" in bare_shell.ok("check", folder=folder).out
    refused = bare_shell.run("check", "--against", "HEAD", "--json", folder=folder)
    assert refused.problem["code"] == "NO_REPOSITORY"


def test_the_former_use_says_what_to_do(shell: Shell) -> None:
    result = shell.run("check", "report.yaml")
    assert result.code == 2
    assert "engrambus message report.yaml --dry-run" in result.err
