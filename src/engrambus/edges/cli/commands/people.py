"""Commands about people and tokens that print only a part of an answer, or add where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Values, override
from engrambus.edges.cli.screen import safe
from engrambus.edges.cli.session import Session
from engrambus.gateway import Operation

if TYPE_CHECKING:
    from engrambus.operations.people import WhoamiAnswer


@override(click.Option(["--token-only", "token_only"], is_flag=True, help="Print nothing but the token, for scripts."))
def with_token(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Call an operation that answers with a token; with `--token-only`, print just that."""
    if not values.pop("token_only", False):
        session.call_and_print(operation, values)
        return
    if session.json:
        raise click.UsageError("--token-only prints no JSON.")
    click.echo(session.call(operation, values).token)


@override(with_fields=False)
def whoami(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Show the caller, and which server or folder the calls go to."""
    from engrambus.edges.cli.show.people import whoami as lines

    where = session.settings.url or "the project's files on this machine"

    def render(answer: WhoamiAnswer) -> Iterator[str]:
        yield from lines(answer)
        yield f"  server   {safe(where)}"

    session.print(session.call(operation, values), render)
