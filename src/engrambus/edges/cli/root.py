"""The tree of commands: help from the table, each command built when it is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.edges.cli.table import COMMANDS
from engrambus.version import __version__

if TYPE_CHECKING:
    from engrambus.edges.cli.command import LocalCommand

SECTIONS = {
    "start": "Start",
    "knowledge": "Knowledge: claims (engrams) and the lines that prove them (pointers)",
    "work": "Work: tasks (tuples) that wait in queues (lanes) for workers",
    "team": "Team: agents, what they send each other and what they may read",
    "maintenance": "Maintenance",
}
"""The titles of the help's sections, in their order."""

GROUPS = {
    "receipt": "Show, check and add receipts: records of executed steps.",
    "catalog": "Build and search the catalog of yools: named functions that the steps of tasks run.",
    "run": "Start, end and list runs: pieces of work, each with a goal and its agents.",
    "agent": "Add agents to the run, give them tokens, and see what they may still read.",
    "grant": "Let a child agent read more than its budget allows, or ask your parent for that.",
    "memory": "Search memory files, and record what the team should remember.",
    "review": "Accept or reject what agents contribute to the team's memory.",
    "policy": "Apply the project's limits and permissions.",
}
"""The help of each first word that several commands share."""

_ABOUT = """\
Shared knowledge and shared work for a team of AI agents in one repository.

Agents do not paste files to each other. They record engrams: short claims with pointers to the lines that prove them.
An agent that needs the lines follows the pointer. Work is handed over as tasks that workers run and record.

Commands work on the project around the current folder. Set ENGRAMBUS_URL to use a server instead, and
ENGRAMBUS_TOKEN to act as the agent the token was made for; without a token you are the admin of this machine's files.
"""


class Tree(click.Group):
    """The commands that begin with some words."""

    def __init__(self, words: str, help: str) -> None:
        super().__init__(words.rpartition(" ")[2] or "engrambus", help=help, short_help=help, no_args_is_help=True)
        self._words = words

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, once options that every command takes stand where the command looks for them."""
        return super().parse_args(ctx, _after_the_command(args))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The next word of every command, in the table's order."""
        return list(dict.fromkeys(word for _, word, _ in self._entries()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, built now."""
        words = f"{self._words} {cmd_name}".strip()
        if words in GROUPS:
            return Tree(words, GROUPS[words])
        if words not in COMMANDS:
            return None
        return _build(COMMANDS[words].source)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest names when there is no such command."""
        if args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx))
            asked = f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
            raise click.UsageError(f"There is no command {args[0]!r}.{asked}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands under their sections, a group as one line."""
        sections: dict[str, dict[str, str]] = {}
        for section, word, summary in self._entries():
            sections.setdefault(section, {}).setdefault(word, summary)
        for section, rows in sections.items():
            with formatter.section(SECTIONS[section] if not self._words else "Commands"):
                formatter.write_dl(list(rows.items()))

    def _entries(self) -> Iterator[tuple[str, str, str]]:
        for words, entry in COMMANDS.items():
            rest = words.removeprefix(f"{self._words} ") if self._words else words
            if self._words and rest == words:
                continue
            word, _, more = rest.partition(" ")
            yield entry.section, word, GROUPS[word] if more else entry.summary


def _build(source: str) -> click.Command:
    """Return the command that `module:function` declares, or that of the operation with that name."""
    module, _, name = source.rpartition(":")
    if module:
        from importlib import import_module

        declared: LocalCommand = getattr(import_module(f"engrambus.edges.cli.commands.{module}"), name)
        return declared.build()
    from engrambus.edges.cli.build import build_command

    return build_command(name)


def _after_the_command(args: list[str]) -> list[str]:
    """`--as ada inbox` as `inbox --as ada`."""
    if not args or not args[0].startswith("--"):
        return args
    from engrambus.edges.cli.session import everywhere

    takes_value = {each.opts[0]: not each.is_flag for each in everywhere() if isinstance(each, click.Option)}
    moved, rest = list[str](), list(args)
    while rest and rest[0].partition("=")[0] in takes_value:
        name = rest[0]
        length = 2 if takes_value[name.partition("=")[0]] and "=" not in name else 1
        moved, rest = moved + rest[:length], rest[length:]
    if moved and not rest:
        raise click.UsageError(f"{moved[0]} goes with a command: engrambus inbox {moved[0]} …")
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *moved, *rest[end:]]


engrambus = click.version_option(__version__, message="engrambus %(version)s")(Tree("", _ABOUT))
