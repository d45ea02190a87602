"""Lines for people: who works on a project, and as whom the caller does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.edges.cli.screen import dim, safe, table

if TYPE_CHECKING:
    from engrambus.operations.people import PeopleAnswer, PersonAnswer, RemovedPerson, WhoamiAnswer


def person(answer: PersonAnswer) -> Iterator[str]:
    rights = "administers the project" if answer.admin else "works on the project"
    yield f"{click.style(safe(answer.name), bold=True)} {rights} over a server, after: engrambus login URL"
    yield dim(f"The token to log in with, good until {safe(answer.expires_at)} and shown only now:")
    yield ""
    yield safe(answer.token)


def people(answer: PeopleAnswer) -> Iterator[str]:
    if answer.people:
        rows = [[row.name, "yes" if row.admin else "-", str(row.tokens)] for row in answer.people]
        yield from table(["NAME", "ADMIN", "TOKENS"], rows)
    else:
        yield "Nobody yet: engrambus person add NAME"


def removed(answer: RemovedPerson) -> Iterator[str]:
    yield f"Removed {safe(answer.name)}: every token has ended."


def whoami(answer: WhoamiAnswer) -> Iterator[str]:
    yield f"{click.style(safe(answer.name), bold=True)} ({safe(answer.role)})"
    yield f"  project  {safe(answer.project)}"
    yield f"  run      {safe(answer.run_id)}"
    if answer.expires_at is not None:
        yield f"  token    good until {safe(answer.expires_at)}"
