"""The tree of commands: help is printed from the generated table, and a command is built when it is called."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.table import COMMANDS
from engrambus.version import __version__

if TYPE_CHECKING:
    from engrambus.edges.cli.command import LocalCommand

INTERRUPTED = 130
"""What a shell reports for a process that Ctrl-C has ended."""
JSON_FLAG = "--json"

SECTIONS = {
    "start": "Start",
    "knowledge": "Knowledge: claims (engrams) and the lines that prove them (pointers)",
    "work": "Work: tasks (tuples) that wait in queues (lanes) for workers",
    "team": "Team: agents, what they send each other and what they may read",
    "maintenance": "Maintenance",
}
"""The titles of the sections of the help, in their order."""

GROUPS = {
    "artifact": "Store new text that claims and messages can point at.",
    "batch": "Spawn trees of up to a billion tasks, of which only what workers reach takes up room.",
    "receipt": "Show, check and add receipts: records of executed steps.",
    "catalog": "Build and search the catalog of yools: named functions that the steps of tasks run.",
    "limit": "Limit how many tasks run at once or start within a time, and list what is limited and paused.",
    "task": "Tasks that agents and people do themselves: add, claim, finish and block them.",
    "runs": "List runs that have tasks: how many are done, cached, given up or unfinished, and their cost.",
    "run": "Start, end and list runs: pieces of work, each with a goal and its agents.",
    "token": "List the tokens that are live, and revoke them.",
    "agent": "Add agents to the run, remove them, give them tokens, and see what they may still read.",
    "person": "Add colleagues who work on the project over a server, give them tokens, and remove them.",
    "promotion": "Decide which engrams other projects see: requests of agents that wait for an admin.",
    "grant": "Let a child agent read more than its budget allows, or ask your parent for that.",
    "reservation": "List, check and release what agents have reserved: files that others keep out of.",
    "schedule": "Put tasks at certain times: by a cron expression, at an interval or once.",
    "memory": "Search memory files, and record what the team should remember.",
    "review": "Accept or reject what agents contribute to the team's memory.",
    "contradiction": "Decide which of two contradictory claims holds.",
    "session": "List the browsers that are signed in to the page, and sign them out.",
    "policy": "Apply the project's limits and permissions.",
    "keys": "Back up the project's keys, and list the public keys of those who share engrams with it.",
}
"""The help of each first word that several commands share."""

DEFAULT_WORDS = {"runs": "list"}
"""The command of a group that runs when no other word follows: `runs` is `runs list`."""

_ABOUT = """\
Shared knowledge and shared work for a team of AI agents in one repository.

Agents do not paste files to each other. They record engrams: short claims with pointers to the lines that prove them.
An agent that needs the lines follows the pointer. Work is handed over as tasks that workers run and record.

Commands work on the project around the current folder, or on the server that it is logged in to (engrambus login). Set
ENGRAMBUS_URL to use another server, and ENGRAMBUS_TOKEN to act as the agent the token was made for; without a token you
are the admin of this machine's files.
"""


class CommandGroup(click.Group):
    """The commands that begin with the same words; the root is the group of no words."""

    def __init__(self, words: str, help: str) -> None:
        super().__init__(words.rpartition(" ")[2] or "engrambus", help=help, short_help=help, no_args_is_help=True)
        self._words = words

    def main(  # type: ignore[override]  # click overloads it by `standalone_mode`
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **options: Any
    ) -> int:
        """Run a command and return its exit status: 0 done, 1 refused, 2 if the command line is wrong."""
        words = list(sys.argv[1:] if args is None else args)
        try:
            result = super().main(words, standalone_mode=False, **options)
            code = result if isinstance(result, int) else 0
        except click.Abort:
            code = INTERRUPTED
        except click.ClickException as problem:
            _print_usage_error(problem, as_json=JSON_FLAG in words)
            code = problem.exit_code
        if standalone_mode:
            sys.exit(code)
        return code

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, after moving shared options from before the command to behind it."""
        return super().parse_args(ctx, _options_after_command(self._with_default_word(ctx, args)))

    def _with_default_word(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command of the group first, unless a command is named or help is wanted."""
        default = DEFAULT_WORDS.get(self._words)
        names_word = bool(args) and not args[0].startswith("-")
        if default is None or names_word or {"--help", *self.list_commands(ctx)} & set(args):
            return args
        return [default, *args]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the next word of every command of the group, in the order of the table."""
        return list(dict.fromkeys(word for _, word, _ in self._rows()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command or group of that name, built now."""
        words = f"{self._words} {cmd_name}".strip()
        # decision 39: built only when it is called, so that help loads no operation
        if words in GROUPS:
            return CommandGroup(words, GROUPS[words])
        return _build(COMMANDS[words].source) if words in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; suggest similar names if there is no such command."""
        if args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            from difflib import get_close_matches  # only a mistake pays for loading it

            similar = get_close_matches(args[0], self.list_commands(ctx))
            suggestion = f" Did you mean {' or '.join(repr(name) for name in similar)}?" if similar else ""
            raise click.UsageError(f"There is no command {args[0]!r}.{suggestion}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their sections; a group of commands is one line."""
        # The table is sorted by section and rank, so the order of insertion is the order of the help.
        sections: dict[str, dict[str, str]] = {}
        for section, word, summary in self._rows():
            sections.setdefault(section, {}).setdefault(word, summary)
        for section, rows in sections.items():
            with formatter.section(SECTIONS[section] if not self._words else "Commands"):
                formatter.write_dl(list(rows.items()))

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield section, next word and help of every command of the group."""
        prefix = f"{self._words} " if self._words else ""
        for words, entry in COMMANDS.items():
            if words.startswith(prefix):
                word, _, deeper = words.removeprefix(prefix).partition(" ")
                yield entry.section, word, GROUPS[word] if deeper else entry.summary


def _print_usage_error(problem: click.ClickException, *, as_json: bool) -> None:
    """Print what is wrong with a command line to stderr, as click does or as a problem object."""
    from engrambus.policy.secrets import hide_secrets

    message = hide_secrets(problem.format_message())
    if not as_json:
        if message != problem.format_message():
            problem = click.UsageError(message, getattr(problem, "ctx", None))
        problem.show()
        return
    import msgspec

    from engrambus.edges.cli.screen import json_line
    from engrambus.errors import Usage

    parameter = getattr(problem, "param", None)
    context = getattr(problem, "ctx", None)
    usage = Usage(
        message,
        field=parameter.opts[0] if isinstance(parameter, click.Option) else None,
        hint=f"See: {context.command_path} --help" if context is not None else None,
    )
    click.echo(json_line(msgspec.json.encode(usage.problem())), err=True)


def _build(source: str) -> click.Command:
    """Return the command that `module:function` declares, or that of the operation with that name."""
    module, _, name = source.rpartition(":")
    if module:
        from importlib import import_module

        declared: LocalCommand = getattr(import_module(f"engrambus.edges.cli.commands.{module}"), name)
        return declared.build()
    from engrambus.edges.cli.build import build_command

    return build_command(name)


def _options_after_command(args: list[str]) -> list[str]:
    """Move shared options behind the command word: `--as ada inbox` becomes `inbox --as ada`."""
    if not args or not args[0].startswith("--"):
        return args
    from engrambus.edges.cli.session import shared_options

    takes_value = {
        name: not option.is_flag
        for option in shared_options()
        if isinstance(option, click.Option)
        for name in option.opts
    }
    moved, remaining = list[str](), list(args)
    while remaining and remaining[0].partition("=")[0] in takes_value:
        name = remaining[0]
        length = 2 if takes_value[name.partition("=")[0]] and "=" not in name else 1
        moved, remaining = moved + remaining[:length], remaining[length:]
    if moved and not remaining:
        raise click.UsageError(f"{moved[0]} goes with a command: engrambus inbox {moved[0]} …")
    if remaining[:1] == ["--help"]:  # the help of a group, which takes no other options
        return remaining
    # Directly behind the word: if that is a group, it moves them on; at the end they could follow a "--".
    return [*remaining[:1], *moved, *remaining[1:]]


engrambus = click.version_option(__version__, message="engrambus %(version)s")(CommandGroup("", _ABOUT))
