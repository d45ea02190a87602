"""A command: its own options, those it shares with all others, its example, and errors turned into exit status 1."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from inspect import getdoc
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engrambus.edges.cli.session import SHARED, Session, shared_options

if TYPE_CHECKING:
    from engrambus.errors import EngramBusError
    from engrambus.gateway import Operation
    from engrambus.gateway.declare import Section

Values = dict[str, Any]
"""The arguments and options that were given, by the name of their field."""

BROKEN_PIPE = 141
"""What a shell reports for a process that a closed pipe has ended."""


class Override(NamedTuple):
    """The difference between a command and a plain call of its operation."""

    run: Callable[[Session, Operation[Any, Any], Values], None]
    parameters: tuple[click.Parameter, ...] = ()
    """What it takes besides the operation's fields."""
    with_fields: bool = True
    """False if it takes its own parameters only."""
    optional_arguments: bool = False
    """True if the arguments given by position may be left out."""
    argument_help: Mapping[str, tuple[str, str]] = MappingProxyType({})
    """Name and help of an argument by its field, where people give something else: `{"text": ("FILE", "…")}`."""


def override(
    *parameters: click.Parameter,
    with_fields: bool = True,
    optional_arguments: bool = False,
    argument_help: dict[str, tuple[str, str]] | None = None,
) -> Callable[[Callable[[Session, Operation[Any, Any], Values], None]], Override]:
    """Make a function an override, for an operation to name in `Command(override="module:function")`."""
    return lambda run: Override(run, parameters, with_fields, optional_arguments, argument_help or {})


class LocalCommand(NamedTuple):
    """A command that is not one operation: it works on this machine's files, or starts a server."""

    words: str
    section: Section
    example: str
    run: Callable[[Session, Values], None]
    parameters: tuple[click.Parameter, ...]
    rank: int

    def build(self) -> CliCommand:
        """Return the command for click."""
        name = self.words.rpartition(" ")[2]
        return CliCommand(name, getdoc(self.run) or "", self.example, list(self.parameters), self.run)


def local_command(
    words: str, *parameters: click.Parameter, section: Section, example: str, rank: int = 50
) -> Callable[[Callable[[Session, Values], None]], LocalCommand]:
    """Declare a function as a command without an operation; its docstring is the help text.

    Run `tools/generate.py` afterwards: it writes the table that help is printed from.
    """
    return lambda run: LocalCommand(words, section, example, run, parameters, rank)


class Argument(click.Argument):
    """A text given by position; one that may be left out is all the words there are, and `many` is a list of them."""

    def __init__(
        self,
        name: str,
        metavar: str | None,
        help: str,
        *,
        required: bool,
        many: bool = False,
        type: click.ParamType[Any] | None = None,
    ) -> None:
        shown = (metavar or name.upper()) + "..." * many
        joined = not required and not many
        # An optional text takes all remaining words, so that `engrambus query refund approval` needs no quotes.
        super().__init__(
            [name],
            type=type,
            nargs=-1 if many or joined else 1,
            required=required,
            metavar=shown if required else f"[{shown}]",
            callback=(lambda ctx, argument, words: " ".join(words) or None) if joined else None,
        )
        self.help_text = help


class CliCommand(click.Command):
    """One command of `engrambus`; its function gets the session and the values that were given."""

    def __init__(
        self,
        name: str,
        help: str,
        example: str,
        parameters: list[click.Parameter],
        run: Callable[[Session, Values], None],
    ) -> None:
        super().__init__(
            name,
            params=[*parameters, *shared_options()],
            help=help,
            epilog=f"Example:  {example}",
        )
        self._run = run

    def invoke(self, ctx: click.Context) -> None:
        """Run the command; print an error and exit with status 1 if it fails."""
        from engrambus.errors import EngramBusError

        session = Session(**{name: ctx.params.pop(name) for name in SHARED})
        session.option_names = {
            parameter.name: parameter.opts[0]
            if isinstance(parameter, click.Option)
            else re.split(r"[^A-Z_]", parameter.human_readable_name.lstrip("["))[0]
            for parameter in self.params
            if parameter.name and parameter.name not in SHARED
        }
        # click decides by the terminal; NO_COLOR must win over it.
        ctx.color = False if session.environment_settings.no_color else None
        try:
            # Options that were not given are left out, so that the defaults of the request apply.
            self._run(session, {name: value for name, value in ctx.params.items() if value not in (None, ())})
        except click.UsageError as problem:
            problem.ctx = problem.ctx or ctx
            raise
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise  # main() prints these and sets their exit status
        except BrokenPipeError:  # `engrambus query | head` is not a failure
            _silence_stdout()
            ctx.exit(BROKEN_PIPE)
        except Exception as problem:
            session.print_error(problem if isinstance(problem, EngramBusError) else _internal_error(problem))
            ctx.exit(1)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then those every command takes."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "On every command": []}
        for parameter in self.get_params(ctx):
            # click has no help for arguments; most of ours need it more than the options do.
            if isinstance(parameter, Argument):
                sections["Arguments"].append((parameter.human_readable_name, parameter.help_text))
            elif (record := parameter.get_help_record(ctx)) is not None:
                shared = parameter.name in SHARED or parameter.name == "help"
                sections["On every command" if shared else "Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example on one line, so that it can be copied."""
        formatter.write(f"\n{self.epilog}\n")


def _silence_stdout() -> None:
    """Send further output nowhere: the reader has closed the pipe, and the interpreter still flushes on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _internal_error(problem: Exception) -> EngramBusError:
    """Return an unexpected exception as a one-line error: the system's own words, or the place of our bug."""
    from engrambus.core.disk_errors import disk_problem
    from engrambus.errors import Internal

    trouble = disk_problem(problem)
    if trouble is not None:
        return trouble
    if isinstance(problem, OSError):
        where = f": {problem.filename}" if problem.filename else ""
        return Internal(f"{problem.strerror or problem}{where}")
    from traceback import extract_tb

    *_, last = extract_tb(problem.__traceback__)
    return Internal(
        f"{type(problem).__name__}: {problem}",
        hint=f"This is a bug in Engram Bus, at {last.filename}, line {last.lineno}.",
    )
