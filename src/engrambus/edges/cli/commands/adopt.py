"""`engrambus adopt`: what to do with journals that were not written with this machine's key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engrambus.edges.cli.command import Argument, Values, local_command
from engrambus.edges.cli.screen import safe, safe_line
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.core.journal import ForeignJournal

MAX_PINS_SHOWN = 20


@local_command(
    "adopt",
    Argument("path", None, "A journal somewhere else, or its folder; by default the project's own", required=False),
    click.Option(["--discard", "discard"], is_flag=True, help="Set the foreign files aside and take nothing on."),
    click.Option(["--dry-run", "dry_run"], is_flag=True, help="Only show what is in there."),
    click.Option(["--own", "own"], is_flag=True, help="The journals are yours: you wrote them on this machine."),
    click.Option(["--yes", "agreed"], is_flag=True, help="With --own: do it without asking."),
    section="maintenance",
    example="engrambus adopt --dry-run",
    rank=45,
)
def adopt(session: Session, values: Values) -> None:
    """Take on the knowledge of a journal that was not written with this machine's key, as untrusted.

    The foreign files are set aside under .catalog/foreign, your own journal begins, and every engram is marked
    untrusted: no brief shows it until you confirm it. PATH names a journal somewhere else, or its folder. With
    --own you vouch for everything in the project's journals, as after an upgrade from a version without that key.
    """
    session.require_admin("adopt")
    if values["own"]:
        if values.get("path") is not None or values["discard"] or values["dry_run"]:
            raise click.UsageError("--own takes the project's journals as they are, and nothing else with it.")
        _adopt_own(session, agreed=bool(values.get("agreed")))
        return
    from engrambus.edges.cli.commands.adopt_knowledge import adopt_knowledge, show_adopted

    path = Path(values["path"]) if values.get("path") is not None else None
    if path is not None and values["discard"]:
        raise click.UsageError("--discard is for the project's own folder; what PATH names stays where it is.")
    answer = adopt_knowledge(session, path, discard=values["discard"], dry_run=values["dry_run"])
    session.print(answer, show_adopted)


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
