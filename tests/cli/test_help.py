"""Help is printed from a generated table, and explains every command."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from engrambus import __version__
from engrambus.edges.cli.build import find_override
from engrambus.edges.cli.root import GROUPS, engrambus
from engrambus.edges.cli.show import renderer
from engrambus.edges.cli.table import COMMANDS
from engrambus.gateway import Operation
from engrambus.operations import OPERATIONS

DECLARED = {operation.command.words: operation for operation in OPERATIONS.values() if operation.command}


def test_every_group_of_commands_has_a_help_text() -> None:
    assert {words.split()[0] for words in COMMANDS if " " in words} == set(GROUPS)


@pytest.mark.parametrize("operation", DECLARED.values(), ids=DECLARED)
def test_the_renderer_and_the_override_an_operation_names_exist(operation: Operation[Any, Any]) -> None:
    assert callable(renderer(operation))
    assert callable(find_override(operation).run)


def test_the_top_shows_every_command_and_group() -> None:
    text = CliRunner().invoke(engrambus, ["--help"]).output
    for words in COMMANDS:
        assert f"\n  {words.split()[0]} " in text


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_explains_itself_with_an_example(words: str) -> None:
    done = CliRunner().invoke(engrambus, [*words.split(), "--help"], prog_name="engrambus")
    assert done.exit_code == 0
    assert COMMANDS[words].example in done.output
    assert f"engrambus {words}" in COMMANDS[words].example
    options = done.output.partition("\nOptions:")[2].partition("\nOn every command:")[0]
    for line in options.splitlines():
        assert line.startswith(("   ", "  -")) or not line, "what is given by position is explained under Arguments"
    for option in ("--json", "--as NAME", "--run, --run-id RUN", "--project"):
        assert option in done.output


@pytest.mark.parametrize("words", [words for words in DECLARED if find_override(DECLARED[words]).with_fields])
def test_every_field_that_fits_a_command_line_is_offered(words: str) -> None:
    text = CliRunner().invoke(engrambus, [*words.split(), "--help"], prog_name="engrambus").output
    operation = DECLARED[words]
    assert operation.command is not None
    for name in operation.request.__struct_fields__:
        # Objects: one is stamped by the gateway, one is read from its file, one has options of its own for its parts.
        if name in ("provenance", "policy") or (words, name) == ("inherit", "scope"):
            continue
        option = operation.command.option_names.get(name) or "--" + name.replace("_", "-")
        names = operation.command.option_names
        argument, _ = find_override(operation).argument_help.get(name, (names.get(name, name.upper()), ""))
        offered = argument if name in operation.command.arguments else option
        assert offered in text or option.removesuffix("s") in text


@pytest.mark.parametrize("words", ["install", "uninstall"])
def test_the_clients_are_listed(words: str) -> None:
    assert (
        "\n  CLIENT  The coding agent: claude-code, codex, cursor, vscode, gemini\n"
        in CliRunner().invoke(engrambus, [words, "--help"]).output
    )
    missing = CliRunner().invoke(engrambus, [words])
    assert (missing.exit_code, "Missing argument 'CLIENT'" in missing.output) == (2, True)


def test_version() -> None:
    assert CliRunner().invoke(engrambus, ["--version"]).output == f"engrambus {__version__}\n"
