"""Exit status and streams of every command: an answer on stdout, or a problem on stderr, never both."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from engrambus.edges.cli.table import COMMANDS
from tests.cli.runner import CommandResult, Shell

ENDLESS = {"up", "mcp", "worker", "hook"}
"""Commands that serve or wait; `hook` answers its client in the client's own form."""
CATALOG_FILES = {"catalog build", "catalog lint", "catalog diff"}
NEED_NO_PROJECT = {"init", "demo", "doctor", "install", "uninstall", "keys import", "migrate", *CATALOG_FILES}
ENDED = [words for words in COMMANDS if words not in ENDLESS]


def objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text that has nothing else, one on each line."""
    rows = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(row, dict) for row in rows)
    return rows


def example_words(words: str) -> list[str]:
    """Return the example of a command's help, as a shell would split it."""
    return shlex.split(COMMANDS[words].example.partition(" | ")[0])[1:]


def check_streams(result: CommandResult) -> None:
    """Check that a command printed one answer to stdout, or one problem to stderr."""
    problems = [row for row in objects(result.err) if "code" in row and "mode" not in row]
    if result.out:
        assert result.code in (0, 1), result
        assert len(objects(result.out)) == 1
        assert problems == []
    elif result.code:
        assert len(problems) == 1
        assert (problems[0]["code"] == "USAGE") == (result.code == 2)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_wrong_command_line_is_a_problem_of_its_own(bare_shell: Shell, words: str) -> None:
    for order in ([*words.split(), "--no-such-option", "--json"], ["--json", *words.split(), "--no-such-option"]):
        result = bare_shell.run(*order)
        assert (result.code, result.out) == (2, "")
        (problem,) = objects(result.err)
        assert (problem["code"], problem["type"]) == ("USAGE", "urn:engrambus:usage")
        assert "--no-such-option" in problem["detail"]
        assert problem["hint"] == f"See: engrambus {words} --help"


@pytest.mark.parametrize("words", ENDED)
def test_without_a_project_every_command_is_refused_on_stderr(bare_shell: Shell, words: str) -> None:
    result = bare_shell.run(*example_words(words), "--json")
    check_streams(result)
    if words not in NEED_NO_PROJECT and result.code != 2:  # 2: the file of the example does not exist
        assert result.problem["code"] == "PROJECT_NOT_FOUND"


@pytest.mark.parametrize("words", [words for words in ENDED if words not in ("demo", "install", "uninstall")])
def test_in_a_project_every_command_answers_on_stdout_or_is_refused_on_stderr(shell: Shell, words: str) -> None:
    check_streams(shell.run(*example_words(words), "--json"))


def test_a_negative_answer_is_on_stdout_and_exits_with_1(shell: Shell) -> None:
    (shell.path / "long.yaml").write_text("ROLE: tool\nTASK_STATUS: done\nOUTPUT:\n  summary: " + "word " * 2000)
    result = shell.run("message", "long.yaml", "--dry-run", "--json")
    assert (result.code, result.err, result.json["ok"]) == (1, "", False)
    assert [problem["code"] for problem in result.json["problems"]] == ["BUDGET_EXCEEDED"]


def test_warnings_and_notes_are_objects_too(shell: Shell) -> None:
    (shell.path / "src" / "parser.py").write_text("changed on disk\n" * 30)
    result = shell.ok("put", "The parser trusts its input.", "--at", "src/parser.py:10-12", "--json")
    assert [list(row) for row in objects(result.err)] == [["warning"]]
    assert result.json["claim"] == "The parser trusts its input."
