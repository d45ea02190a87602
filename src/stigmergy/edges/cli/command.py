"""A command: its own options, those it shares with all, its example, and its refusals turned into exit 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from stigmergy.edges.cli.session import EVERYWHERE, Session, everywhere
from stigmergy.edges.cli.table import Entry


class Command(click.Command):
    """One command of `stig`; its callback gets the session and what was given."""

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
        from stigmergy.errors import StigmergyError

        session = Session(**{name: ctx.params.pop(name) for name in EVERYWHERE})
        try:
            self._act(session, ctx.params)
        except (StigmergyError, OSError) as problem:
            if isinstance(problem, BrokenPipeError):
                raise
            session.refuse(problem if isinstance(problem, StigmergyError) else _trouble(problem))
            ctx.exit(1)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Its own options, then those every command takes."""
        own, shared = [], []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                (shared if parameter.name in EVERYWHERE else own).append(record)
        if own:
            with formatter.section("Options"):
                formatter.write_dl(own)
        with formatter.section("On every command"):
            formatter.write_dl(shared)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The example as it is, never folded."""
        formatter.write(f"\n{self.epilog}\n")


def _trouble(problem: OSError) -> Any:
    from stigmergy.errors import Internal

    where = f" ({problem.filename})" if problem.filename else ""
    return Internal(f"{problem.strerror or problem}{where}.")
