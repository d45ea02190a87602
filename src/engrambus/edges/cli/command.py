"""A command: its own options, those it shares with all, its example, and its refusals turned into exit 1."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.session import EVERYWHERE, Session, everywhere
from engrambus.edges.cli.table import Entry

if TYPE_CHECKING:
    from engrambus.errors import EngramBusError


BROKEN_PIPE = 141
"""What a shell reports for a process that a closed pipe has ended."""


class Argument(click.Argument):
    """A text given by position; one that may be left out is all the words there are."""

    def __init__(
        self, name: str, called: str | None, about: str, *, required: bool, type: click.ParamType[Any] | None = None
    ) -> None:
        shown = called or name.upper()
        super().__init__(
            [name],
            type=type,
            nargs=1 if required else -1,
            metavar=shown if required else f"[{shown}]",
            callback=None if required else lambda ctx, argument, words: " ".join(words) or None,
        )
        self.about = about


class Command(click.Command):
    """One command of `engrambus`; its callback gets the session and what was given."""

    def __init__(
        self, name: str, entry: Entry, parameters: list[click.Parameter], act: Callable[[Session, dict[str, Any]], None]
    ) -> None:
        super().__init__(
            name,
            params=[*parameters, *everywhere()],
            help=entry.summary,
            epilog=f"Example:  {entry.example}",
            short_help=entry.summary,
        )
        self._act = act

    def invoke(self, ctx: click.Context) -> None:
        """Carry the command out."""
        from engrambus.errors import EngramBusError

        session = Session(**{name: ctx.params.pop(name) for name in EVERYWHERE})
        ctx.color = False if session.settings.no_color else None
        try:
            self._act(session, ctx.params)
        except click.UsageError as problem:
            problem.ctx = problem.ctx or ctx
            raise
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            _hush()
            ctx.exit(BROKEN_PIPE)
        except Exception as problem:
            session.refuse(problem if isinstance(problem, EngramBusError) else _trouble(problem))
            ctx.exit(1)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Its own options, then those every command takes."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "On every command": []}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, Argument):
                sections["Arguments"].append((parameter.human_readable_name, parameter.about))
            elif (record := parameter.get_help_record(ctx)) is not None:
                shared = parameter.name in EVERYWHERE or parameter.name == "help"
                sections["On every command" if shared else "Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The example as it is, never folded."""
        formatter.write(f"\n{self.epilog}\n")


def _hush() -> None:
    """Whoever read our output has gone: let nothing more be written to it, not even on the way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _trouble(problem: Exception) -> EngramBusError:
    """What was not foreseen, in one line: the machine's refusals as it words them, our own faults with their place."""
    from engrambus.errors import Internal

    if isinstance(problem, OSError):
        where = f": {problem.filename}" if problem.filename else ""
        return Internal(f"{problem.strerror or problem}{where}")
    from traceback import extract_tb

    *_, last = extract_tb(problem.__traceback__)
    return Internal(
        f"{type(problem).__name__}: {problem}", hint=f"A fault of ours, at {last.filename}, line {last.lineno}."
    )
