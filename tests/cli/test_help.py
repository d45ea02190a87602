"""Help comes from a table; the table says what the operations say."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from engrambus import __version__
from engrambus.edges.cli.build import SPELT
from engrambus.edges.cli.hooks import HOOKS, PLAIN
from engrambus.edges.cli.root import engrambus
from engrambus.edges.cli.show import SHOW
from engrambus.edges.cli.table import COMMANDS, GROUPS
from engrambus.operations import OPERATIONS

DECLARED = {operation.command.words: operation for operation in OPERATIONS.values() if operation.command}


def test_the_table_repeats_what_the_operations_say() -> None:
    listed = {words: entry.summary for words, entry in COMMANDS.items() if words in DECLARED}
    assert listed == {words: operation.summary for words, operation in DECLARED.items()}
    assert {operation.name for operation in DECLARED.values()} == set(SHOW)
    plain = {words: entry.made_of for words, entry in COMMANDS.items() if ":" not in entry.made_of}
    assert plain.items() <= {words: operation.name for words, operation in DECLARED.items()}.items()
    assert {words.split()[0] for words in COMMANDS if " " in words} == set(GROUPS)


def test_the_top_shows_every_command_and_group() -> None:
    said = CliRunner().invoke(engrambus, ["--help"]).output
    for words in COMMANDS:
        assert f"\n  {words.split()[0]} " in said


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_explains_itself_with_an_example(words: str) -> None:
    done = CliRunner().invoke(engrambus, [*words.split(), "--help"], prog_name="engrambus")
    assert done.exit_code == 0
    assert COMMANDS[words].example in done.output
    assert f"engrambus {words}" in COMMANDS[words].example
    options = done.output.partition("\nOptions:")[2].partition("\nOn every command:")[0]
    for line in options.splitlines():
        assert line.startswith(("   ", "  -")) or not line, "what is given by position is explained under Arguments"
    for option in ("--json", "--as NAME", "--run RUN", "--project"):
        assert option in done.output


@pytest.mark.parametrize("words", [words for words in DECLARED if ":" not in COMMANDS[words].made_of])
def test_every_field_that_fits_a_command_line_is_offered(words: str) -> None:
    said = CliRunner().invoke(engrambus, [*words.split(), "--help"], prog_name="engrambus").output
    operation = DECLARED[words]
    assert operation.command is not None
    for name in operation.request.__struct_fields__:
        # Objects: one is stamped by the gateway, one is read from its file, one has options of its own for its parts.
        if name in ("provenance", "policy") or (words, name) == ("inherit", "scope"):
            continue
        single = SPELT.get(name) or "--" + name.replace("_", "-")
        called = HOOKS.get(words, PLAIN).called or (name.upper(), "")
        offered = called[0] if name in operation.command.arguments else single
        assert offered in said or single.removesuffix("s") in said


@pytest.mark.parametrize("words", ["install", "uninstall"])
def test_the_clients_are_listed(words: str) -> None:
    assert (
        "\n  CLIENT  claude-code, codex, cursor, vscode, gemini\n"
        in CliRunner().invoke(engrambus, [words, "--help"]).output
    )
    missing = CliRunner().invoke(engrambus, [words])
    assert (missing.exit_code, "Missing argument 'CLIENT'" in missing.output) == (2, True)


def test_version() -> None:
    assert CliRunner().invoke(engrambus, ["--version"]).output == f"engrambus {__version__}\n"
