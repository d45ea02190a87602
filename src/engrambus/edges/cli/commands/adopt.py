"""`engrambus adopt`: what to do with journals that were not written with this machine's key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.screen import safe, safe_line
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.core.journal import ForeignJournal

MAX_PINS_SHOWN = 20


@local_command(
    "adopt",
    click.Option(["--own", "own"], is_flag=True, help="The journals are yours: you wrote them on this machine."),
    click.Option(["--yes", "agreed"], is_flag=True, help="Do it without asking."),
    section="maintenance",
    example="engrambus adopt --own",
    rank=45,
)
def adopt(session: Session, values: Values) -> None:
    """Take over journals that were not written with this machine's key.

    With --own you vouch for everything in them, as after an upgrade from a version that had no such key.
    """
    session.require_admin("adopt")
    if not values["own"]:
        raise click.UsageError("Say what these journals are: --own if you wrote them on this machine.")
    _adopt_own(session, agreed=bool(values["agreed"]))


def _adopt_own(session: Session, *, agreed: bool) -> None:
    """Continue the project's journals with this machine's key, after showing what a person vouches for."""
    from engrambus.app import find_foreign_journals, own_project

    foreign = find_foreign_journals(session.folder, session.settings)
    if foreign and not agreed:
        for line in (line for journal in foreign for line in _describe(journal)):
            session.note(line)
        # On stderr, so that --json prints nothing but the answer to stdout.
        if not click.confirm("Did you write all of this on this machine?", err=True):
            click.get_current_context().exit(1)
    if foreign:
        own_project(session.folder, session.settings)
    answer = {"adopted": [{"journal": str(journal.journal), "commits": journal.commits} for journal in foreign]}
    ours = ["The journals are yours already: there is nothing to adopt."]
    session.print(answer, lambda _: [line for journal in foreign for line in _outcome(journal)] or ours)


def _describe(journal: ForeignJournal) -> Iterator[str]:
    from engrambus.core import print_time

    times = f", from {print_time(journal.first_us)} to {print_time(journal.last_us)}" if journal.commits else ""
    yield f"{safe(str(journal.journal))}: {journal.commits:,} commits{times}"
    if journal.kind == "tuples":
        yield "  Workers will run the tasks that wait in it, and reuse its results."
    if journal.pinned:
        yield f"  {len(journal.pinned)} pinned engrams, which every agent's brief shows first:"
        yield from (f"    {safe_line(claim)}" for claim in journal.pinned[:MAX_PINS_SHOWN])
        if len(journal.pinned) > MAX_PINS_SHOWN:
            yield f"    and {len(journal.pinned) - MAX_PINS_SHOWN} more"


def _outcome(journal: ForeignJournal) -> Iterator[str]:
    yield f"{safe(journal.journal.name)}: its {journal.commits:,} commits are yours now."
